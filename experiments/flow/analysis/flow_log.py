# SPDX-License-Identifier: BSD-2-Clause
# flow_log.py: reads the emulator's exact list of loads of CR3, sleep, interrupts, exits and entries
# (the knob `flow_log`; emulator/README.md): the truth that a flow trace is scored
# by.
import collections
import struct

MAGIC = b"PMUflow2"
RECORD = struct.Struct("<QQQQQQBB6x")  # emulator/flow_log.h: struct FlowRecord
# enum FlowKind
KINDS = {
    1: "cr3",
    2: "hlt",
    3: "mwait",
    4: "wake",
    5: "interrupt",
    6: "nmi",
    7: "exit",
    8: "entry",
    9: "offset",
}
AT_ONCE = 4096 * RECORD.size

# kind is one of KINDS' words. value: the new CR3, the vector, the exit reason, the VM-entry
# interruption information, or the offset of the guest's TSC; else 0.
Event = collections.namedtuple("Event", "tsc processor kind value rip cr3 rsp eptp")


class BadFlowLog(Exception):
    """The text says what is wrong with the file."""


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
    """Takes the path of a flow log; gives its events in order, one by one. tsc is in ticks,
    processor the emulator's number. Raises BadFlowLog where it is none or ends within a record,
    OSError where it cannot be read."""
    with open(path, "rb") as source:
        magic = source.read(len(MAGIC))
        if magic != MAGIC:
            raise BadFlowLog(
                f"{path}: found {magic!r} at its start, wanted {MAGIC!r}; was the run "
                "made with the knob flow_log?"
            )
        while data := source.read(AT_ONCE):
            if len(data) % RECORD.size:
                raise BadFlowLog(f"{path}: ends within a record: the run did not end by itself")
            for tsc, rip, rsp, cr3, eptp, value, kind, processor in RECORD.iter_unpack(data):
                if kind not in KINDS:
                    raise BadFlowLog(
                        f"{path}: found an event of kind {kind}, wanted 1 to {max(KINDS)}"
                    )
                yield Event(tsc, processor, KINDS[kind], value, rip, cr3, rsp, eptp)
