# SPDX-License-Identifier: BSD-2-Clause
# sights.py: what hosts see of one run. From the emulator's list of it (the knob flow_log), in the
# guest's time, a host with a part of the ways to look has what that part shows: exits of some
# reasons, loads of CR3, samples of CR3 by a timer. Gives the records that it would have, for the
# time line's rules, and how many exits it made. For a machine of one processor.
import collections
import dataclasses

from experiments.flow.analysis import seen_by_host
from experiments.flow.analysis.exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, NUMBERS
from experiments.flow.analysis.identity import KERNEL_HALF, PTI_USER_TABLE
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW, Record, Source

PREEMPTION_TIMER = NUMBERS["PREEMPTION_TIMER"]

# Which exits of the run the host has with their CR3; None: of all reasons.
EXITS = {
    "none": (),
    "HLT": (HLT,),
    "interrupts": (EXTERNAL_INTERRUPT,),
    "HLT, interrupts": (HLT, EXTERNAL_INTERRUPT),
    "KVM's": None,
}
# How it has the loads of CR3: not; each one exits; those exit that are not of the CR3-target
# values, which are the last one's two tables (experiments/shared/hypervisor/cr3.c); or by Processor
# Trace's PIP packets, without an exit.
NO_LOADS, ALL_LOADS, TARGETS, PIP = LOADS = ("none", "exits", "exits but targets", "PT")
HZ = (0, 100, 1_000, 10_000)  # of the VMX-preemption timer, in guest time; 0: there is none
PIP_BYTES = 8  # SDM Vol. 3, "Paging Information (PIP) Packet"
# What a load of CR3 may differ by and not exit: the no-flush bit, and the side of page-table
# isolation.
TARGET_MASK = (1 << 63) - 1 & ~0x1800

# A sample adds nothing where each load is seen.
Subset = collections.namedtuple("Subset", "exits loads hz")
SUBSETS = [
    Subset(exits, loads, hz)
    for exits in EXITS
    for loads in LOADS
    for hz in HZ
    if (loads == NO_LOADS or not hz) and (exits, loads, hz) != ("none", NO_LOADS, 0)
]


@dataclasses.dataclass
class Run:
    """What there is to see. Times are ticks of the guest's TSC."""

    exits: list  # [(reason, [Record])]: an exit by HLT has one more, of its end
    loads: list  # [(tick, CR3)] of all loads
    samples: dict  # of HZ -> [(tick, CR3)]
    tsc_hz: int


def run(events, tsc_hz, start=0, end=1 << 64):
    """Takes the events of seen_by_host.guest_time(), as a list, and a stretch of it; gives the
    Run."""
    events = [event for event in events if start <= event.tsc <= end]
    stays = list(seen_by_host.stays(events))
    exits = [
        (stay.reason, seen_by_host.source([stay, after]).processors[0])
        for stay, after in zip(stays, stays[1:])
    ]
    return Run(
        exits,
        [(event.tsc, event.value) for event in events if event.kind == "cr3"],
        {hz: list(samples(events, tsc_hz // hz)) for hz in HZ if hz},
        tsc_hz,
    )


def samples(events, period):
    """Gives (tick, CR3) each time when so many ticks of the guest's time outside root mode are
    over. The timer goes on after an exit where it was: the exit saves its value."""
    left, since, cr3 = period, None, 0
    for event in events:
        if since is not None:
            while event.tsc - since >= left:
                since, left = since + left, period
                yield since, cr3
            left -= event.tsc - since
        inside = event.kind == "entry" or since is not None and event.kind != "exit"
        since, cr3 = event.tsc if inside else None, event.cr3


def changes(loads, of):
    """Takes [(tick, CR3)]; gives those of which `of` gives something else than of the one
    before."""
    return [
        load
        for before, load in zip([None, *loads], loads)
        if before is None or of(before[1]) != of(load[1])
    ]


def exiting(loads, how):
    """The loads that exit."""
    return {ALL_LOADS: loads, TARGETS: changes(loads, lambda value: value & TARGET_MASK)}.get(
        how, []
    )


def has(subset, reason):
    return EXITS[subset.exits] is None or reason in EXITS[subset.exits]


def sight(tick, cr3, reason):
    """The record of a sample or a load. The list has no RIP for it; with page-table isolation the
    table has the side that RIP would show."""
    return Record(tick, 0 if cr3 & PTI_USER_TABLE else KERNEL_HALF + reason, cr3, reason, 0, 0, 0)


def source(seen, subset, key):
    """Takes a Run, a Subset, and the function from CR3 to a process's key; gives the Source of what
    that host has. With loads it keeps what trace=flow has: loads of another table, HLT, and exits
    that give an interrupt.
    """
    records = [record for reason, found in seen.exits if has(subset, reason) for record in found]
    if subset.loads == NO_LOADS:
        records += [
            sight(tick, cr3, PREEMPTION_TIMER) for tick, cr3 in seen.samples.get(subset.hz, [])
        ]
    else:
        records = [record for record in map(interrupting, records) if tells(record)]
        records += [sight(tick, cr3, CR_ACCESS) for tick, cr3 in changes(seen.loads, key)]
    records.sort(key=lambda record: record.tsc)
    return Source(
        tsc_khz=seen.tsc_hz // 1000,
        processors={0: records},
        level=TRACE_EXITS if subset.loads == NO_LOADS else TRACE_FLOW,
    )


def interrupting(record):
    """KVM has its guest's timer by the VMX-preemption timer, too: that exit gives the guest an
    interrupt."""
    return (
        record._replace(reason=EXTERNAL_INTERRUPT)
        if record.reason == PREEMPTION_TIMER and record.detail
        else record
    )


def tells(record):
    """Whether it says something beside loads: HLT, its end, or an interrupt of the guest's. (At an
    interrupt of the host's own the guest gets none.)"""
    return (
        record.reason == HLT
        or record.reason == EXTERNAL_INTERRUPT
        and (record.detail or not record.root_time)
    )


@dataclasses.dataclass
class Cost:
    """Of one stretch of the run."""

    taken: dict  # reason -> exits that the run took anyway
    made: dict  # reason -> exits that there are because the host looks
    bytes: int  # of PIP packets


def cost(seen, subset, start, end):
    """Takes a Run, a Subset and the stretch; gives the Cost."""

    def inside(found):
        return sum(start <= tick <= end for tick, _ in found)

    taken = collections.Counter(
        reason
        for reason, found in seen.exits
        if has(subset, reason) and start <= found[0].tsc <= end
    )
    made = {
        CR_ACCESS: inside(exiting(seen.loads, subset.loads)),
        PREEMPTION_TIMER: inside(seen.samples.get(subset.hz, [])),
    }
    return Cost(
        dict(sorted(taken.items())),
        {reason: count for reason, count in made.items() if count},
        PIP_BYTES * inside(seen.loads) if subset.loads == PIP else 0,
    )
