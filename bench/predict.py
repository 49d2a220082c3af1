# SPDX-License-Identifier: BSD-2-Clause
# predict.py: unit costs in cycles that others have published for Intel processors. Cycles are
# estimated from them and the emulator's exact counts. None is fitted to the thesis's tables.
from dataclasses import dataclass

from bench import published
from bench.cells import Cell, number
from bench.formulas import BASE


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
        "the thesis's Table 4.1, bare metal",
        "mean of four registers; also taken for RDMSR in root mode",
    ),
    UnitCost(
        "wrmsr",
        "a WRMSR of the PMU that does not exit",
        bare("wrmsr"),
        "the thesis's Table 4.1, bare metal",
        "mean of three registers; also taken for WRMSR in root mode",
    ),
)
COST = {cost.key: cost for cost in UNIT_COSTS}


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


def trapped(machine, column, item):
    """The RDMSRs and WRMSRs of Linux's PMIs that exit in a column."""

    def exits(kind, name):
        return machine.value(column, "a1", name, f"exits:{kind.upper()}") or 0

    return {kind: exits(kind, item) - exits(kind, BASE) for kind in ("rdmsr", "wrmsr")}


def costs(table, _machine):
    for cost in UNIT_COSTS:
        figures = ", ".join(
            f"{figure:.2f}" if figure < 1 else number(figure) for figure in cost.figures
        )
        taken = f"{cost.mean:.2f}" if cost.mean < 1 else number(round(cost.mean))
        note = table.note(f"{cost.source} ({cost.remark}).")
        table.add(cost.what, [Cell(figures, "published", note), Cell(taken)])
