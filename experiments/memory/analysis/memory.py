# SPDX-License-Identifier: BSD-2-Clause
# memory.py: the memory accesses of a trace that PMUvisor made with memtrace= (trace_ring.h,
# struct trace_memory). Three frames, which records.py reads, are one record; the operand's size
# comes from the recorded code (operand.py). What is damaged, cut off or not known is counted, not
# guessed.
import collections
import dataclasses
import struct

from experiments.memory.analysis import operand, xstate
from experiments.shared.analysis import records

FRAMES = 3
MEMTRACE_READS, MEMTRACE_DEVICES = 2, 4
FIRST = struct.Struct("<QQQII")  # tsc, rip, cr3 and reason, detail, bytes
SECOND = struct.Struct("<QQQ8s")  # gla, gpa, retired and reason, value's first bytes
THIRD = struct.Struct("<15sBQ8s")  # code, how many of it, xstate and reason, value's others
MEMORY, MORE = 0xF0, 0xFF  # TRACE_REASON_*
READ, WRITE, WALK, EVENT, CHUNK, INEXACT, XSTATE, DEVICE = (1 << bit for bit in range(8))
ACCESSED, DIRTY = 1 << 5, 1 << 6  # of a page table's entry
PAGE = 4096
VALUE_BYTES = 16
MASK48 = (1 << 48) - 1
KINDS = ("instruction", "walk", "event", "chunk", "xstate", "page", "sample")


class Access(
    collections.namedtuple(
        "Access",
        ("processor tsc retired cr3 rip gla gpa kind flags bytes value code text detail pieces"),
    )
):
    """One access. `bytes` 0: the size is not known. `value`: bytes of memory after the access, of
    its first 16, in the first page; of a device's none. `gla` of a walk is the address that was
    translated; what was written is at `gpa`. `pieces`: [(offset from gla, bytes)] where they are
    several, else ()."""

    __slots__ = ()

    @property
    def read(self):
        return bool(self.flags & READ)

    @property
    def write(self):
        return bool(self.flags & WRITE)

    @property
    def number(self):
        """The first 8 bytes of the value as a number."""
        return int.from_bytes(self.value[:8], "little")

    @property
    def direction(self):
        return ("", "R", "W", "RW")[self.flags & (READ | WRITE)]


@dataclasses.dataclass
class Accesses:
    """What was read. `processors`: number -> [Access] in order."""

    tsc_khz: int = 0
    processors: dict = dataclasses.field(default_factory=dict)
    gaps: dict = dataclasses.field(default_factory=dict)  # number -> {index: lost before it}
    unknown: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    joined: int = 0  # page walks' updates that two records had
    complaints: list = dataclasses.field(default_factory=list)
    counter: int = 0  # TRACE_COUNTER_*
    unread: int = 0  # pages whose reads were not seen

    @property
    def lost(self):
        """How many are missing, of all processors."""
        return sum(sum(gaps.values()) for gaps in self.gaps.values())

    def ordered(self):
        """Gives all of them by TSC."""
        if len(self.processors) == 1:
            return next(iter(self.processors.values()))
        return sorted(
            (access for found in self.processors.values() for access in found),
            key=lambda access: access.tsc,
        )


def frame(data, at):
    """A frame as records.read() hands it out: its bytes."""
    return data[at : at + records.RECORD.size]


def read(path, xcr0=None):
    """Takes the path of a trace file or of memory with rings. `xcr0`: the guest's, which XSAVE
    needs (None: the file's, if it has it). Gives Accesses. Raises records.BadRecords,
    operand.NoDecoder or OSError."""
    return from_frames(records.read(path, frame), xcr0)


def from_frames(trace, xcr0=None):
    """Takes the Trace of records.read(path, frame); gives Accesses. Raises BadRecords where it has
    records and none of memory."""
    found = Accesses(
        tsc_khz=trace.tsc_khz,
        complaints=list(trace.complaints),
        counter=trace.counter,
        unread=trace.unread,
    )
    xcr0 = xcr0 if xcr0 is not None else trace.xcr0 or None
    others = collections.Counter()
    for processor, frames in trace.processors.items():
        accesses = found.processors.setdefault(processor, [])
        for number, lost in whole(frames, trace.gaps.get(processor, {}), others):
            if lost:
                gaps = found.gaps.setdefault(processor, {})
                gaps[len(accesses)] = gaps.get(len(accesses), 0) + lost
            if number is None:
                continue
            access = unpack(
                processor,
                frames[number : number + FRAMES],
                found.unknown,
                xcr0,
                trace.memory == MEMTRACE_READS,
            )
            if access is None:
                continue
            if accesses and not lost and is_one_update(accesses[-1], access):
                accesses[-1] = access._replace(tsc=accesses[-1].tsc)
                found.joined += 1
            else:
                accesses.append(access)
    if others and not any(found.processors.values()):
        raise records.BadRecords(
            "found records of exits alone, wanted those of memory; it is a file "
            "for experiments/flow/analysis/analyse.py"
        )
    if others:
        found.complaints.append(
            f"{sum(others.values())} frames are records of exits; they are left " "out"
        )
    return found


def whole(frames, gaps, others):
    """Yields (index of the first frame of a whole record, records lost before it), and at the end
    (None, lost). Frames that belong to none are what is left of lost ones."""
    lost = at = 0  # lost: in frames
    while at < len(frames):
        lost += gaps.get(at, 0)
        reason, index = frames[at][22], frames[at][23]
        if (
            reason == MEMORY
            and not any(gaps.get(at + i) for i in range(1, FRAMES))
            and all(
                at + i < len(frames) and frames[at + i][22] == MORE and frames[at + i][23] == i
                for i in range(1, FRAMES)
            )
        ):
            yield at, -(-lost // FRAMES)
            lost = 0
            at += FRAMES
            continue
        if reason == MEMORY or reason == MORE and index < 128:
            lost += 1
        else:
            others[reason] += 1
        at += 1
    lost += gaps.get(len(frames), 0)
    if lost:
        yield None, -(-lost // FRAMES)


def unpack(processor, frames, unknown, xcr0, reads=False):
    """Takes three frames; gives an Access. What is not known of it is counted in `unknown`.
    `reads`: it is a trace of reads, which has writes as well, because the processor may say no more
    of what reads and writes: None for what does not read."""
    tsc, rip, word, detail, size = FIRST.unpack(frames[0])
    gla, gpa, retired, value = SECOND.unpack(frames[1])
    code, count, state, more = THIRD.unpack(frames[2])
    flags = word >> 56
    code = code[: min(count, operand.CODE_BYTES)]
    kind, text, pieces, why = "instruction", "", (), None
    if flags & (WALK | EVENT | CHUNK):
        kind = "chunk"
        for flag, name in ((WALK, "walk"), (EVENT, "event"), (DEVICE, "page")):
            if flags & flag:
                kind = name
                break
        if kind == "chunk":
            text = operand.decode(code, rip).text
        if flags & INEXACT and kind != "page":
            why = f"{kind}: outside of 64-bit mode"
    else:
        found = operand.decode(code, rip)
        text, why = found.text, found.why
        if found.modifies and flags & WRITE:
            flags |= READ
        size = size or size_by(found, flags)
        if found.family:
            kind = "xstate"
            if flags & WRITE:
                size, gla, gpa, pieces, why = of_area(
                    found.family, gla, gpa, detail, state & MASK48, xcr0
                )
            else:
                why = f"{text.split()[0]}: which part of the area it reads first"
        elif not size and not why:
            why = f"{text.split()[0]}: not its operand"
    if reads and not flags & READ:
        return None
    if why:
        unknown[why] += 1
    known = 0 if flags & DEVICE else min(size, VALUE_BYTES, PAGE - gpa % PAGE)
    return Access(
        processor,
        tsc,
        retired & MASK48,
        word & MASK48,
        rip,
        gla,
        gpa,
        kind,
        flags,
        size,
        (value + more)[:known],
        code,
        text,
        detail,
        pieces,
    )


def size_by(found, flags):
    """Gives the operand's bytes; 0: not known. One that is read and written has one size."""
    if flags & WRITE:
        return found.write
    return found.read


def of_area(family, gla, gpa, mask, state, xcr0):
    """Gives bytes, gla, gpa, pieces and what is not known of an XSAVE area's access."""
    try:
        base = xstate.base_of(family, gla)
        pieces = tuple(xstate.pieces(family, mask, state, xcr0))
    except xstate.NotKnown as error:
        return 0, gla, gpa, (), str(error)
    # The value is that of the first byte that was accessed: the area's own only where it is that.
    start = pieces[0][0]
    return (
        sum(count for _, count in pieces),
        base + start,
        gpa - (gla - base) + start,
        tuple((at - start, count) for at, count in pieces) if len(pieces) > 1 else (),
        None,
    )


def is_one_update(earlier, later):
    """A page walk sets A and D at once; root mode, which sees it come for each, has two records."""
    if not earlier.flags & later.flags & WALK:
        return False
    return (
        (earlier.gpa, earlier.rip, earlier.cr3, earlier.gla // PAGE)
        == (later.gpa, later.rip, later.cr3, later.gla // PAGE)
        and later.number & DIRTY
        and not earlier.number & DIRTY
        and earlier.number | DIRTY == later.number
    )
