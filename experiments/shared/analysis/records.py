# SPDX-License-Identifier: BSD-2-Clause
# records.py: reads the records of exits that PMUvisor leaves: the file that the guest's
# tool writes (experiments/shared/guest/trace_file.h), or any piece of memory with rings in it
# (experiments/shared/hypervisor/trace_ring.h), which are found by what their first page begins
# with. What is damaged or cut off gives what is whole, and says what is lost.
import collections
import dataclasses
import struct

Record = collections.namedtuple("Record", "tsc rip cr3 reason flags detail root_time")

# A trace that does not say how fast its clock is has one tick a nanosecond, in CTF as well.
TICKS_PER_MS = 1_000_000

PAGE = 4096
RING_MAGIC = b"PMUtrace"
RING = struct.Struct("<8sIIQQIIQ")  # struct trace_ring
RECORD = struct.Struct("<QQQII")  # struct trace_record; its third word holds three fields
VERSION = 1
CAPACITY_MAX = 1 << 32
FILE_MAGIC = b"PMUtrcfl"
RING_MEMORY = struct.Struct("<IIQ")  # the same, after it: what memory's records have besides
FILE = struct.Struct("<8sIIQII24x")  # struct trace_file
FILE_MEMORY = struct.Struct("<IIQQ")  # the same, at its last three words
FILE_MEMORY_AT = 32
TRACE_MEMORY = 3  # a ring's level
WRITING_MEMORY = 6  # records (frames) that may be half written there
CHUNK_MAGIC = b"PMUchunk"
CHUNK = struct.Struct("<8sIIQQ")  # struct trace_chunk


class BadRecords(Exception):
    """The text says what is wrong with the file."""


@dataclasses.dataclass
class Trace:
    """What was read. Times are ticks of the TSC."""

    tsc_khz: int = 0  # 0: not known
    level: int = 0  # TRACE_* of trace_ring.h, the last that was on
    processors: dict = dataclasses.field(default_factory=dict)  # APIC ID -> [Record], in order
    gaps: dict = dataclasses.field(default_factory=dict)  # APIC ID -> {index: lost before it}
    complaints: list = dataclasses.field(default_factory=list)
    # Of memory accesses: MEMTRACE_* (0: not known), TRACE_COUNTER_*, pages whose reads are not
    # seen, XCR0 (0: not known).
    memory: int = 0
    counter: int = 0
    unread: int = 0
    xcr0: int = 0

    @property
    def lost(self):
        """How many records are missing, of all processors."""
        return sum(sum(gaps.values()) for gaps in self.gaps.values())

    def add_loss(self, processor, count):
        """So many records are missing after those that are there."""
        if count:
            gaps = self.gaps.setdefault(processor, {})
            at = len(self.processors.setdefault(processor, []))
            gaps[at] = gaps.get(at, 0) + count


def record(data, at):
    """Gives the record at an offset."""
    tsc, rip, word, detail, root_time = RECORD.unpack_from(data, at)
    return Record(tsc, rip, word & (1 << 48) - 1, word >> 48 & 0xFF, word >> 56, detail, root_time)


def read(path, unpack=record):
    """Takes the path of a trace file, or of memory with rings in it, and what makes a record of
    bytes and an offset. Gives a Trace. Raises BadRecords where nothing in it is one of the two,
    OSError where it cannot be read."""
    with open(path, "rb") as source:
        data = source.read()
    trace = (
        read_file(data, path, unpack)
        if data.startswith(FILE_MAGIC)
        else read_rings(data, path, unpack)
    )
    if unpack is not record:
        return trace
    for processor, found in trace.processors.items():
        backwards = sum(later.tsc < earlier.tsc for earlier, later in zip(found, found[1:]))
        if backwards:
            trace.complaints.append(
                f"processor {processor}: {backwards} records are older than the "
                "one before them; is the TSC the guest's to write?"
            )
    return trace


# ---- the file of the guest's tool ----


def read_file(data, path="?", unpack=record):
    """Takes the bytes of a trace file; gives a Trace. Raises BadRecords."""
    if len(data) < FILE.size:
        raise BadRecords(
            f"{path}: found {len(data)} bytes, wanted a header of {FILE.size}; the run "
            "ended before it was written: record once more"
        )
    _, version, record_bytes, tsc_khz, level, _ = FILE.unpack_from(data)
    if (version, record_bytes) != (VERSION, RECORD.size):
        raise BadRecords(
            f"{path}: found version {version} with records of {record_bytes} bytes, "
            f"wanted {VERSION} and {RECORD.size}; read it by the tools it came with"
        )
    memory, counter, unread, xcr0 = FILE_MEMORY.unpack_from(data, FILE_MEMORY_AT)
    trace = Trace(tsc_khz, level, memory=memory, counter=counter, unread=unread, xcr0=xcr0)
    following = {}  # APIC ID -> the number of the record that comes next
    at = FILE.size
    while at < len(data):
        at = read_chunk(trace, data, at, path, following, unpack)
    return trace


def read_chunk(trace, data, at, path, following, unpack=record):
    """Adds the chunk at an offset. Gives where the next one is. What lies before it and was neither
    read nor counted by the writer was in a damaged chunk: the records' numbers tell."""
    if len(data) - at < CHUNK.size or not data.startswith(CHUNK_MAGIC, at):
        return skip_damage(trace, data, at, path)
    _, processor, count, first, lost = CHUNK.unpack_from(data, at)
    if processor in following:
        missing = first - lost - following[processor]
        if lost > first or missing < 0:
            trace.complaints.append(
                f"{path}: the chunk at byte {at} begins with record {first} behind "
                f"{lost} lost ones, wanted {following[processor]} or later of "
                f"processor {processor}; it is left out"
            )
            return next_chunk(data, at + 1)
        trace.add_loss(processor, missing)
    at += CHUNK.size
    trace.add_loss(processor, lost)
    end = min(at + count * RECORD.size, next_chunk(data, at, RECORD.size))
    whole = (end - at) // RECORD.size
    found = trace.processors.setdefault(processor, [])
    found += (unpack(data, at + i * RECORD.size) for i in range(whole))
    following[processor] = first + whole
    if whole < count and end == len(data):
        trace.complaints.append(
            f"{path}: cut off in the chunk of processor {processor} from record "
            f"{first} on: {count - whole} of {count} records are lost"
        )
        trace.add_loss(processor, count - whole)
        return end
    if whole < count:  # what is lost is told by the next chunk's number
        trace.complaints.append(
            f"{path}: found the next chunk behind {whole} records of processor "
            f"{processor} from {first} on, wanted {count}"
        )
    return end


def next_chunk(data, at, step=1):
    """Gives where the next chunk is, so many bytes or a multiple after `at`, or the end. A record
    of memory may hold the same letters, as a value or as code, but not at a frame's start together
    with a number that has no byte 6."""
    found = data.find(CHUNK_MAGIC, at)
    while found >= 0 and ((found - at) % step or data[found + 22 : found + 23] not in (b"", b"\0")):
        found = data.find(CHUNK_MAGIC, found + 1)
    return found if found >= 0 else len(data)


def skip_damage(trace, data, at, path):
    """To the next chunk. How many records lay between, that one's number tells, if there is one."""
    end = next_chunk(data, at + 1)
    trace.complaints.append(
        f"{path}: found no chunk at byte {at}; {end - at} bytes are lost, up to "
        f"{'the next chunk' if end < len(data) else 'the end'}"
    )
    return end


def packed(trace):
    """Gives the bytes of a Trace's file: a head, and of each processor a chunk for
    each stretch without a loss."""
    out = [
        FILE.pack(
            FILE_MAGIC, VERSION, RECORD.size, trace.tsc_khz, trace.level, len(trace.processors)
        )
    ]
    for number, found in trace.processors.items():
        gaps, gone = trace.gaps.get(number, {}), 0
        starts = sorted({0, *gaps})
        for start, end in zip(starts, [*starts[1:], len(found)]):
            lost = gaps.get(start, 0)
            gone += lost
            out.append(CHUNK.pack(CHUNK_MAGIC, number, end - start, start + gone, lost))
            out += [
                RECORD.pack(
                    each.tsc,
                    each.rip,
                    each.cr3 | each.reason << 48 | each.flags << 56,
                    each.detail,
                    each.root_time,
                )
                for each in found[start:end]
            ]
    return b"".join(out)


# ---- memory with rings ----


def read_rings(data, path="?", unpack=record):
    """Takes bytes of memory, from the start of a page; gives a Trace of the rings in it. Raises
    BadRecords."""
    trace = Trace()
    rings = 0
    at = data.find(RING_MAGIC)
    while at >= 0:
        if at % PAGE == 0 and at + RING.size + RING_MEMORY.size <= len(data):
            rings += read_ring(trace, data, at, path, unpack)
        at = data.find(RING_MAGIC, at + 1)
    if rings == 0:
        raise BadRecords(
            f"{path}: found neither a trace file nor a ring in its pages, wanted one of "
            "them; was it recorded with trace= or memtrace=?"
        )
    return trace


def read_ring(trace, data, at, path, unpack=record):
    """Adds one ring; gives whether it is one. The record that is being written is left out: where
    the ring has wrapped, it is the oldest one's place."""
    _, version, record_bytes, capacity, written, processor, level, tsc_khz = RING.unpack_from(
        data, at
    )
    if (version, record_bytes) != (VERSION, RECORD.size) or not 0 < capacity < CAPACITY_MAX:
        trace.complaints.append(
            f"{path}: the ring at byte {at} has version {version} and {capacity} "
            f"records of {record_bytes} bytes; it is left out"
        )
        return False
    trace.tsc_khz = trace.tsc_khz or tsc_khz
    trace.level = max(trace.level, level)
    memory, counter, unread = RING_MEMORY.unpack_from(data, at + RING.size)
    trace.memory = max(trace.memory, memory)
    trace.counter = max(trace.counter, counter)
    trace.unread = max(trace.unread, unread)
    first = max(0, written - (capacity - (WRITING_MEMORY if level == TRACE_MEMORY else 1)))
    trace.add_loss(processor, first)
    found = trace.processors.setdefault(processor, [])
    start = at + PAGE
    there = (len(data) - start) // RECORD.size  # records of the ring that were not cut off
    cut = 0
    for number in range(first, written):
        if number % capacity < there:
            trace.add_loss(processor, cut)
            cut = 0
            found.append(unpack(data, start + number % capacity * RECORD.size))
        else:
            cut += 1
    trace.add_loss(processor, cut)
    if there < min(capacity, written):
        trace.complaints.append(
            f"{path}: cut off in the ring of processor {processor}: "
            f"{min(capacity, written) - max(there, 0)} records are lost"
        )
    return True
