# SPDX-License-Identifier: BSD-2-Clause
# exact.py: the records of a run against the emulator's own list of it (the knob flow_log): each
# change of table, each interrupt and each HLT, one by one and in order. What the guest does
# between two events has no part in this: where these agree, the time line's borders are exact.
import dataclasses

from experiments.flow.analysis.exit_reasons import CR_ACCESS, HLT
from experiments.flow.analysis.identity import Identity
from experiments.flow.analysis.trace_source import load
from experiments.flow.analysis.walk import vector


@dataclasses.dataclass
class Exact:
    """What was compared, of all processors. `faults` says where they differ, each in one line."""

    changes: int = 0  # of CR3's table
    interrupts: int = 0  # given to the guest
    halts: int = 0
    behind: list = dataclasses.field(default_factory=list)  # ticks from a load's record to the load
    faults: list = dataclasses.field(default_factory=list)


def compare(source, events):
    """Takes what trace_source.load() takes, with trace=flow on in the whole of it, and the events
    of the run: each with tsc, processor, kind (cr3, hlt, interrupt) and value (the new CR3, the
    vector). A processor has the same number in both. Gives an Exact."""
    source = load(source)
    identity = Identity(source.processors)
    lists = {number: [] for number in source.processors}
    for event in events:
        found = source.processors.get(event.processor)
        # What the first record showed was before it, and after the last one nothing is recorded.
        if found and found[0].tsc < event.tsc <= found[-1].tsc:
            lists[event.processor].append(event)
    result = Exact()
    for number, found in source.processors.items():
        compare_processor(result, number, found, lists[number], identity)
    return result


def compare_processor(result, number, records, events, identity):
    first = [(record.tsc, identity.key(record.cr3)) for record in records[:1]]
    # What another record shows of a change is no record of it.
    ours = table_changes(
        first
        + [
            (record.tsc, identity.key(record.cr3))
            for record in records[1:]
            if record.reason == CR_ACCESS
        ]
    )
    true = table_changes(
        first + [(event.tsc, identity.key(event.value)) for event in events if event.kind == "cr3"]
    )
    result.changes += same(result, number, "change to table", true, ours)
    result.behind += [exact - record for (exact, _), (record, _) in zip(true, ours)]
    result.interrupts += same(
        result,
        number,
        "interrupt",
        [(event.tsc, event.value & 0xFF) for event in events if event.kind == "interrupt"],
        [(record.tsc, vector(record)) for record in records[1:] if vector(record)],
    )
    result.halts += same(
        result,
        number,
        "HLT",
        [(event.tsc, 0) for event in events if event.kind == "hlt"],
        [(record.tsc, 0) for record in records[1:] if record.reason == HLT],
    )


def table_changes(tables):
    """Takes [(tick, key)]; gives those with another key than the one before."""
    return [two for one, two in zip(tables, tables[1:]) if one[1] != two[1]]


def same(result, number, what, true, ours):
    """Takes two lists of (tick, value); notes the first difference. Gives how many are the same
    from the start on."""
    for place, (one, other) in enumerate(zip(true, ours)):
        if one[1] != other[1]:
            result.faults.append(
                f"processor {number}, {what} number {place}: {one[1]:#x} at "
                f"{one[0]}, recorded {other[1]:#x} at {other[0]}"
            )
            return place
    if len(true) != len(ours):
        result.faults.append(f"processor {number}: {len(true)} times {what}, recorded {len(ours)}")
    return min(len(true), len(ours))
