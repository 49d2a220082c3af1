# SPDX-License-Identifier: BSD-2-Clause
# flow_log.py: reads the emulator's exact list of loads of CR3, sleep, interrupts, exits and entries
# (the knob `flow_log`; emulator/README.md): the truth that a flow trace is scored by.
import collections
import struct

from experiments.shared.analysis import emulator_log

MAGIC = b"PMUflow2"
RECORD = struct.Struct("<QQQQQQBB6x")  # emulator/flow_log.h: struct FlowRecord
# enum FlowKind
KINDS = dict(enumerate("cr3 hlt mwait wake interrupt nmi exit entry offset".split(), 1))

# kind is one of KINDS' words. value: the new CR3, the vector, the exit reason, the VM-entry
# interruption information, or the offset of the guest's TSC; else 0.
Event = collections.namedtuple("Event", "tsc processor kind value rip cr3 rsp eptp")


def table_changes(found, processors, key):
    """Takes events of a run, the processors, and the function from CR3 to a process's key. Gives
    number -> [(tick of the last exit before it, tick)] of the loads of another process's table."""
    tables, exits, ticks = {}, {}, {number: [] for number in processors}
    for event in found:
        if event.kind == "exit":
            exits[event.processor] = event.tsc
        if event.kind != "cr3" or event.processor not in ticks:
            continue
        if tables.get(event.processor) != key(event.value):
            ticks[event.processor].append((exits.get(event.processor, 0), event.tsc))
        tables[event.processor] = key(event.value)
    return ticks


def events(path):
    """Gives the events of a flow log in order, one by one. tsc is in ticks, processor the
    emulator's number. Raises what emulator_log.rows() does."""
    for tsc, rip, rsp, cr3, eptp, value, kind, processor in emulator_log.rows(path, MAGIC, RECORD):
        yield Event(tsc, processor, KINDS[kind], value, rip, cr3, rsp, eptp)
