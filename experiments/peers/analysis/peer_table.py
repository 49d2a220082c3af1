# SPDX-License-Identifier: BSD-2-Clause
# peer_table.py: msr+nmi against KVM's mediated vPMU, row by row, each with its ratio and the reason
# for it. What a reason says depends on which of the two is ahead, so that no text contradicts its
# figure. Exact counts of the emulator only.
from dataclasses import dataclass

from bench import plan, pool
from bench.cells import NONE, Cell, OnPage, Row, number, percent, ratio
from bench.formulas import BASE, profile_overhead
from bench.measurements import ALL

OURS, THEIRS, TRAPPING = "msr+nmi", "kvm-mediated", "kvm-new"
LAST = "m100"
PMIS = 1000
# Accesses to counters; branch records are no part of the mediated vPMU.
ACCESSES = [item for item in ALL.items_in("t41") if "lbr" not in item.name]

# The reasons. Facts about KVM are those of the exits that were counted here, and of Linux 7.3's
# sources: arch/x86/kvm/pmu.c, arch/x86/kvm/vmx/pmu_intel.c and vmx.c, arch/x86/events/core.c.
PMI = (
    "The mediated vPMU gives the guest its counters, but not its interrupts: a PMI comes to the "
    "host by a vector of its own, which is one exit, and is injected as an NMI; the handler's "
    "write of LVTPC is the other, because the local APIC is KVM's. Under PMUvisor the processor "
    "itself gives the guest its NMI, and the local APIC is the guest's."
)
PMI_COST = (
    "What those exits cost: at each one that KVM does not answer at once it takes the PMU "
    "over and gives it back before the entry, by RDMSR and WRMSR."
)
COUNTER = "Both pass this register through: the guest executes the instruction and nothing else."
SELECTOR = (
    "KVM lets no event selector pass: it keeps a filter of events. The exit costs its way "
    "to the MSR and back, with the PMU's context in between. PMUvisor has one guest and no "
    "filter."
)
SWITCH = (
    "The guest's Linux stops, saves, loads and starts four counters. Its writes of event "
    "selectors exit under the mediated vPMU; under PMUvisor none of it does."
)
PROGRAM = "Program A.1's 1000 PMIs: what one of them costs, a thousand times."
SAMPLING = "perf record takes one PMI for each sample: what one of them costs, at this density."
SERVER = (
    "nginx and wrk exit for timers and idleness under KVM, whose local APIC and HLT they "
    "are; under PMUvisor the guest has both. What one request executes depends on when "
    "packets come."
)
SAME = (
    "No difference is told (Tables 4.6 and 4.7): a median lies within the other's range, or they "
    "are "
    "less than one batch of requests apart. " + SERVER
)
FEW = f"Fewer than {pool.FEWEST} runs: no difference is told. " + SERVER
EXIT = (
    "At a CPUID exit KVM takes the PMU over and gives it back, because the host may need it{more}. "
    "PMUvisor leaves the counters in place, and the transition itself stops them by "
    "IA32_PERF_GLOBAL_CTRL."
)
MORE = (
    ": {rdmsr} RDMSR and {wrmsr} WRMSR in root mode more than the same KVM without the mediated "
    "vPMU"
)
# Where the figures say otherwise than these: no reason is better than a wrong one.
AHEAD = "KVM is ahead here; the reason that stood here does not hold for that, and is to be found."
EXITS_THERE = "It exits there, and is passed through here."


@dataclass
class Line:
    label: str
    ours: float | None
    theirs: float | None
    trapping: float | None
    reason: str
    cell: tuple = ()  # experiment and item, for the reason where it is missing
    text: object = number
    same: bool = False  # the figures do not repeat, and are not known to differ


def per_pmi(machine, column, metric):
    values = [machine.value(column, "a1", item, metric) for item in (LAST, BASE)]
    return None if None in values else (values[0] - values[1]) / PMIS


def served(machine, label, item):
    def entries(metric):
        return [machine.entry(name, "nginx", item, metric) for name in (OURS, THEIRS, TRAPPING)]

    found, requests = entries("instructions"), entries("requests")
    apart = False
    if None not in found[:2] + requests[:2]:
        apart = pool.differ(
            *found[:2],
            max(pool.batch(one, count["value"]) for one, count in zip(found[:2], requests)),
        )
    return Line(
        label,
        *(None if one is None else one["value"] for one in found),
        SERVER if apart else FEW if apart is None else SAME,
        ("nginx", item),
        same=not apart,
    )


def access_reason(machine, item):
    """Of an access to an MSR, by who has an exit for it."""
    ours, theirs = (machine.value(name, "msr", item, "exits") for name in (OURS, THEIRS))
    if ours == 0 and theirs:
        return SELECTOR if "evtsel" in item else EXITS_THERE
    return COUNTER if ours == theirs == 0 else AHEAD


def exit_reason(machine):
    """Of a CPUID exit, with what it has more than that of the same KVM without the mediated
    vPMU."""
    made = {
        kind: [machine.value(name, "exit", "cpuid", f"root_{kind}") for name in (THEIRS, TRAPPING)]
        for kind in ("rdmsr", "wrmsr")
    }
    if any(None in both for both in made.values()):
        return EXIT.format(more="")
    return EXIT.format(
        more=MORE.format(**{kind: number(both[0] - both[1]) for kind, both in made.items()})
    )


def lines(machine):
    def of(label, reason, cell, ask=None, text=number):
        def value(name):
            return machine.value(name, *cell[:2], cell[2] if len(cell) > 2 else "instructions")

        return Line(
            label,
            *((ask or value)(name) for name in (OURS, THEIRS, TRAPPING)),
            reason,
            cell[:2],
            text,
        )

    yield of(
        "exits per PMI (Linux)", PMI, ("a1", LAST), lambda name: per_pmi(machine, name, "exits")
    )
    yield of(
        "instructions per PMI (Linux)",
        PMI_COST,
        ("a1", LAST),
        lambda name: per_pmi(machine, name, "instructions"),
    )
    for _, item, _, label in ACCESSES:
        yield of(label, access_reason(machine, item), ("msr", item))
    yield of("context switch, 4 counters: added", SWITCH, ("context_switch", "counted"))
    yield of("A.1, M = 100, whole", PROGRAM, ("a1", LAST))
    yield of(
        "perf record: overhead, ten times as dense as the thesis",
        SAMPLING,
        ("profile", "profiled"),
        lambda name: profile_overhead(machine, name),
        lambda value: percent(value, 2),
    )
    yield served(machine, "nginx, per request", "plain")
    yield served(machine, "nginx under perf record, per request", "profiled")
    yield of(
        "CPUID exit, root instructions",
        exit_reason(machine),
        ("exit", "cpuid", "root_instructions"),
    )


def why_missing(machine, line):
    for name, value in ((OURS, line.ours), (THEIRS, line.theirs)):
        if value is None:
            return machine.why(name, *line.cell)
    return ""


def times(line):
    """msr+nmi's figure over the mediated vPMU's."""
    if line.theirs == 0:
        return "the same" if line.ours == 0 else NONE
    return ratio(line.ours, line.theirs)


def peers(table, machine):
    for line in lines(machine):
        missing = why_missing(machine, line)
        if missing:
            table.rows.append(Row(line.label, [table.missing(missing)] + [Cell(NONE)] * 3))
            continue
        note = table.note(AHEAD if line.theirs < line.ours and not line.same else line.reason)
        table.rows.append(
            Row(
                line.label,
                [
                    Cell(line.text(line.ours)),
                    Cell(line.text(line.theirs)),
                    Cell(times(line), "ratio", note),
                    Cell(NONE if line.trapping is None else line.text(line.trapping)),
                ],
            )
        )


def no_peers(_machine):
    """What the section of the report says elsewhere than in the emulator."""
    return [OnPage(plan.NO_PEERS[0].upper() + plan.NO_PEERS[1:] + ".")]
