# SPDX-License-Identifier: BSD-2-Clause
# predict.py: a model, and nothing more than that: cycles on a Skylake-SP from the emulator's exact
# counts and a few unit costs that others have published, held against the thesis's Tables 4.1 to
# 4.3. No unit cost is fitted to the tables that it is compared with.
from dataclasses import dataclass

from bench import published
from bench.cells import Cell, columns_of, number
from bench.formulas import BASE, PROFILED
from bench.measurements import ALL


@dataclass(frozen=True)
class UnitCost:
    key: str
    what: str
    figures: tuple  # as published, in cycles; of several the model takes the mean
    source: str
    remark: str

    @property
    def mean(self):
        return sum(self.figures) / len(self.figures)


def bare(kind):
    return tuple(
        figures["native"] for item, figures in published.TABLE_4_1.items() if item.startswith(kind)
    )


UNIT_COSTS = (
    UnitCost(
        "transition",
        "VM exit and VM entry, the hardware's part",
        (636, 516),
        "E. Yulyugin, vmlatency, results for Intel Xeon Gold 6140 and Gold 6142M, since 2017, "
        "https://github.com/yulyugin/vmlatency",
        "a guest of one CPUID; no EPT, no MSR lists; ticks of the TSC",
    ),
    UnitCost(
        "vmcs",
        "a VMREAD or VMWRITE",
        (50,),
        "A. Kivity, KVM: VMX: Avoid writing HOST_CR0 every entry, Linux commit "
        "1c11e713576edf33b95669be9c2dc0ff1e0c90d3",
        "what one VMWRITE less (with its read of CR0) saved per exit; processor not named",
    ),
    UnitCost(
        "cpi",
        "any other instruction in root mode or in the guest's kernel",
        (1 / 2.01, 1 / 1.51),
        "J. D. Brouer, Evaluating Generic netstack XDP patches, 2017, "
        "https://prototype-kernel.readthedocs.io/en/latest/blogposts/"
        "xdp25_eval_generic_xdp_tx.html",
        "2.01 and 1.51 instructions per cycle of Linux kernel code on a Skylake, i7-6700K",
    ),
    UnitCost(
        "delivery",
        "an NMI to the guest's kernel, and its IRET",
        (610,),
        "J. Stecklina, Kernel Entry Microbenchmarks, 2019, "
        "https://github.com/blitz/kernel_entry_benchmark",
        "of an interrupt gate, from user mode and back, by INT, with an empty handler; "
        "processor not named",
    ),
    UnitCost(
        "rdmsr",
        "an RDMSR of the PMU that does not exit",
        bare("rdmsr"),
        "the thesis's Table 4.1, bare metal: so those cells are not predicted",
        "mean of four registers; also taken for RDMSR in root mode",
    ),
    UnitCost(
        "wrmsr",
        "a WRMSR of the PMU that does not exit",
        bare("wrmsr"),
        "the thesis's Table 4.1, bare metal: so those cells are not predicted",
        "mean of three registers; also taken for WRMSR in root mode",
    ),
)
COST = {cost.key: cost for cost in UNIT_COSTS}

# What a line of the comparison tests.
MODEL = "model"  # KVM, or bare metal, here and there: an error of the model
DESIGN = "design"  # PMUvisor here, the thesis's KVM there: hypervisors differ as well

READING = (
    "How to read it. Where the column is KVM or bare metal (model), the same kind of software "
    "ran on both sides, and the difference is the model's error. Where it is a policy of "
    "PMUvisor (design), the thesis ran its modified KVM, so the difference is that of two "
    "hypervisors as well, and no error; under msr+nmi the thesis has one exit per PMI (the "
    "guest's write of LVTPC), which PMUvisor has not. The model knows no misses of caches and "
    "TLBs, no loss of speculation around serialising instructions and VM transitions, no MSRs "
    "that a transition itself switches, and takes a write of LVTPC for an ordinary instruction. "
    "In Table 4.2 the guest's part is Linux's native one. The thesis measured KVM of Linux 6.9 "
    "with the mitigations for "
    "speculation that its processor needs (IBRS or retpolines, flushes of buffers and of the L1 "
    "cache at entry); the counts are of the KVM named above, on a modelled processor. Before "
    "those mitigations, in 2017, KVM took {kvm_2017} cycles for a CPUID exit, in the thesis "
    "{kvm_thesis}. The thesis's cycles are ticks of the TSC at 2.2 GHz, while its processor may "
    "have run faster. So a prediction that comes too low is what to expect, and ratios between "
    "columns are worth more than the figures."
)


@dataclass(frozen=True)
class Prediction:
    table: str
    label: str
    column: str
    cycles: float  # mean, lowest and highest of the unit costs
    low: float
    high: float
    theirs: float  # published, in cycles
    tests: str

    @property
    def error(self):
        return (self.cycles / self.theirs - 1) * 100


def cycles_of(counts, pick):
    """Of counts by name; pick(unit cost) says which of its figures is taken."""
    accesses = counts["vmread"] + counts["vmwrite"]
    msrs = counts["rdmsr"] + counts["wrmsr"]
    # VMRESUME is part of the transition.
    rest = counts["instructions"] - accesses - msrs - counts["exits"]
    return (
        counts["exits"] * pick(COST["transition"])
        + accesses * pick(COST["vmcs"])
        + counts["rdmsr"] * pick(COST["rdmsr"])
        + counts["wrmsr"] * pick(COST["wrmsr"])
        + counts.get("deliveries", 0) * pick(COST["delivery"])
        + max(rest, 0) * pick(COST["cpi"])
    )


def picks():
    return (lambda cost: cost.mean, lambda cost: min(cost.figures), lambda cost: max(cost.figures))


def predicted(table, label, column, counts, theirs, tests):
    if counts is None:
        return None
    return Prediction(
        table, label, column, *(cycles_of(counts, pick) for pick in picks()), theirs, tests
    )


def root_counts(machine, column, experiment, item):
    """Of root mode alone; None where the run has not all of them."""
    names = {
        "exits": "exits",
        "instructions": "root_instructions",
        "vmread": "vmread",
        "vmwrite": "vmwrite",
        "rdmsr": "root_rdmsr",
        "wrmsr": "root_wrmsr",
    }
    counts = {key: machine.value(column, experiment, item, name) for key, name in names.items()}
    return None if None in counts.values() else counts


def less(counts, base):
    return None if None in (counts, base) else {key: counts[key] - base[key] for key in counts}


def plus(counts, more):
    """Of both; what only one of them has stays."""
    if None in (counts, more):
        return None
    return {key: counts.get(key, 0) + more.get(key, 0) for key in {**counts, **more}}


def tests_of(column):
    return MODEL if column in ("kvm", "native") else DESIGN


def of_operations(machine):
    for table, experiment, theirs in (
        ("4.1", "msr", published.TABLE_4_1),
        ("4.3", "exit", published.TABLE_4_3),
    ):
        for _, item, _, label in ALL.items_in("estimate", experiment):
            for column in columns_of(theirs.get(item, {})):
                figure = theirs[item][column]
                counts = root_counts(machine, column, experiment, item)
                # Bare metal's costs come from the thesis; they are not compared with themselves.
                if column == "native" or counts is None:
                    continue
                if experiment == "msr" and counts["exits"] == 0:
                    # It executes as native does: the thesis's bare-metal cycles of that register.
                    same = float(theirs[item]["native"])
                    yield Prediction(table, label, column, same, same, same, figure, DESIGN)
                else:
                    yield predicted(table, label, column, counts, figure, tests_of(column))


def trapped(machine, column, item):
    """The RDMSRs and WRMSRs of Linux's PMIs that exit in a column."""

    def exits(kind, name):
        return machine.value(column, "a1", name, f"exits:{kind.upper()}") or 0

    return {kind: exits(kind, item) - exits(kind, BASE) for kind in ("rdmsr", "wrmsr")}


def guest_counts(machine, item):
    """What Linux's handling of the PMIs executes outside root mode, as native does it. Its RDMSR
    and WRMSR are those that exit under `intercept`."""
    kernel = [machine.value("native", "a1", name, "nonroot_instructions") for name in (item, BASE)]
    if None in kernel:
        return None
    if machine.value("intercept", "a1", item, "exits") is None:
        return None
    return {
        "exits": 0,
        "instructions": kernel[0] - kernel[1],
        "vmread": 0,
        "vmwrite": 0,
        **trapped(machine, "intercept", item),
        "deliveries": published.TABLE_4_2_PMIS[item],
    }


def of_program(machine):
    """Table 4.2's extra. Where a column has no Linux, the root part is taken from the bench
    kernel's program, whose handler makes the same accesses."""
    for item in PROFILED:
        guest = guest_counts(machine, item)
        base = float(published.TABLE_4_2[BASE]["native"])
        for column in columns_of(published.TABLE_4_2_COLUMNS):
            experiment = "a1" if machine.value(column, "a1", item, "exits") is not None else "a1k"
            root = less(
                root_counts(machine, column, experiment, item),
                root_counts(machine, column, experiment, BASE),
            )
            if None in (root, guest):
                continue
            mine = dict(guest)
            if column == "kvm":
                # Each of the guest's accesses exits, and costs what the root part says.
                mine["instructions"] -= mine["rdmsr"] + mine["wrmsr"]
                mine["rdmsr"] = mine["wrmsr"] = 0
            extra = float(published.TABLE_4_2[item][column]) - base
            theirs = extra / 1e3 * published.THESIS["hertz"]
            pmis = published.TABLE_4_2_PMIS[item]
            yield predicted(
                "4.2", f"{pmis} PMIs", column, plus(root, mine), theirs, tests_of(column)
            )


def predicted_lines(machine):
    if not machine.exact:
        return []
    found = [*of_operations(machine), *of_program(machine)]
    return sorted((line for line in found if line), key=lambda line: line.table)


def predictions(table, machine):
    last = None
    for line in predicted_lines(machine):
        if line.table != last:
            last = line.table
            more = ": extra over M = 200000, the thesis's ms at 2.2 GHz" if last == "4.2" else ""
            table.group(f"Table {last}{more}")
        cells = [
            Cell(line.column),
            Cell(number(round(line.cycles))),
            Cell(f"{line.low:,.0f} to {line.high:,.0f}", "range"),
            Cell(number(round(line.theirs)), "published"),
            Cell(f"{line.error:+.0f} %", "ratio"),
            Cell(line.tests),
        ]
        table.add(line.label, cells)


def costs(table, _machine):
    for cost in UNIT_COSTS:
        figures = ", ".join(
            f"{figure:.2f}" if figure < 1 else number(figure) for figure in cost.figures
        )
        taken = f"{cost.mean:.2f}" if cost.mean < 1 else number(round(cost.mean))
        note = table.note(f"{cost.source}: {cost.remark}.")
        table.add(cost.what, [Cell(figures, "published", note), Cell(taken)])


def reading(lines):
    text = READING.format(
        kvm_2017=number(published.KVM_2017["cycles"]["cpuid"]),
        kvm_thesis=number(published.TABLE_4_3["cpuid"]["kvm"]),
    )
    errors = [line.error for line in lines if line.tests == MODEL]
    if errors:
        text += (
            f" In the {len(errors)} lines that test the model its error is "
            f"{min(errors):+.0f} to {max(errors):+.0f} %."
        )
    return text
