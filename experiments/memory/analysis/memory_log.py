# SPDX-License-Identifier: BSD-2-Clause
# memory_log.py: reads the emulator's exact list of memory accesses (the knob `memory_log`;
# emulator/README.md): the truth that a trace of memory is scored by.
import collections
import struct

MAGIC = b"PMUmemlg"
RECORD = struct.Struct("<QQQQQQIBBBBQ")  # testbed/instrument/memory_log.h: struct MemoryRecord
AT_ONCE = 16384 * RECORD.size
READ, WRITE = 1, 2
# enum MemoryKind
INSTRUCTION, WALK, EVENT, SYSTEM, VMCALL = range(5)
GUEST, ROOT = 0, 1
HYPERCALL_MEMTRACE = 20  # include/hypercall.h
MEMTRACE_OFF, MEMTRACE_PAGES, TRACE_ASK = 0, 5, (1 << 64) - 1

# Of VMCALL lin, phy and value are RAX, RBX and RCX. value: a number, at most 8 bytes.
Entry = collections.namedtuple("Entry", "tsc rip lin phy value cr3 len cpu rw kind mode retired")


class BadMemoryLog(Exception):
    """The text says what is wrong with the file."""


def entries(path):
    """Takes the path of a memory log; gives its entries in order, one by one. Raises BadMemoryLog
    where it is none or ends within an entry, OSError where it cannot be read."""
    with open(path, "rb") as source:
        magic = source.read(len(MAGIC))
        if magic != MAGIC:
            raise BadMemoryLog(
                f"{path}: found {magic!r} at its start, wanted {MAGIC!r}; was the run "
                "made with the knob memory_log, and did the guest turn it on?"
            )
        while data := source.read(AT_ONCE):
            if len(data) % RECORD.size:
                raise BadMemoryLog(f"{path}: ends within an entry: the run did not end by itself")
            for fields in RECORD.iter_unpack(data):
                entry = Entry(*fields)
                if entry.kind > VMCALL:
                    raise BadMemoryLog(
                        f"{path}: found an entry of kind {entry.kind}, wanted 0 to {VMCALL}"
                    )
                yield entry


class Log:
    """The entries of a file, as often as they are asked for: it may be larger than memory."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        return entries(self.path)


def traced(source):
    """Takes entries; gives {processor: [(mode, [entry])]}: one for each time that
    HYPERCALL_MEMTRACE had tracing on there, with what lies between its exit and that of the next
    such call."""
    found = collections.defaultdict(list)
    open_now = {}
    for entry in source:
        if entry.kind == VMCALL:
            if entry.lin == HYPERCALL_MEMTRACE and entry.phy != TRACE_ASK:
                open_now.pop(entry.cpu, None)
                if MEMTRACE_OFF < entry.phy <= MEMTRACE_PAGES:
                    open_now[entry.cpu] = []
                    found[entry.cpu].append((entry.phy, open_now[entry.cpu]))
        elif entry.cpu in open_now:
            open_now[entry.cpu].append(entry)
    return dict(found)
