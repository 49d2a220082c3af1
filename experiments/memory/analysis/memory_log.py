# SPDX-License-Identifier: BSD-2-Clause
# memory_log.py: reads the emulator's exact list of memory accesses (the knob `memory_log`;
# emulator/README.md): the truth that a trace of memory is scored by.
import collections
import struct

from experiments.shared.analysis import emulator_log

MAGIC = b"PMUmemlg"
RECORD = struct.Struct("<QQQQQQIBBBBQ")  # emulator/memory_log.h: struct MemoryRecord
READ, WRITE = 1, 2
# enum MemoryKind
INSTRUCTION, WALK, EVENT, SYSTEM, VMCALL = range(5)
GUEST, ROOT = 0, 1
HYPERCALL_MEMTRACE = 20  # include/hypercall.h
MEMTRACE_OFF, MEMTRACE_PAGES, TRACE_ASK = 0, 5, (1 << 64) - 1

# Of VMCALL lin, phy and value are RAX, RBX and RCX. value: a number, at most 8 bytes.
Entry = collections.namedtuple("Entry", "tsc rip lin phy value cr3 len cpu rw kind mode retired")


def entries(path):
    """Gives the entries of a memory log in order, one by one. Raises what emulator_log.rows()
    does."""
    for fields in emulator_log.rows(path, MAGIC, RECORD):
        yield Entry(*fields)


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
