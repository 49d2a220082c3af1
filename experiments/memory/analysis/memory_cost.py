# SPDX-License-Identifier: BSD-2-Clause
# memory_cost.py: what a traced write costs: memtrace=writes, the same without its records
# (tests/mutants/stepped_memory.c), the paper's own algorithm on the same hypervisor
# (tests/mutants/naive_memory.c), a translator, and the paper's published figures. From
# what `make e2e T=memory_cost/` has left in a folder (memory-cost-COLUMN.console and .json) and, if
# it is there, translate/measure.py (memory-translate.json).
# Usage:
#   python3 -m experiments.memory.analysis.memory_cost [--plot OUT.svg] [DIR]   default: build/e2e
import argparse
import json
import os
import pathlib
import re
import sys

from bench import estimate, plots, predict, textpage
from bench.cells import Cell, Table, number, percent
from experiments.memory.analysis import memory_paper
from experiments.memory.analysis.schmidt_published import SCHMIDT
from testbed.machine import path

PREFIX = "memory-cost-"
TRANSLATE = "memory-translate.json"
COLUMNS = {
    "ours": "memtrace=writes",
    "exits": "memtrace_step=exits",
    "bare": "no record",
    "naive": "naive",
}
MUTANTS = {"bare": "stepped_memory", "naive": "naive_memory"}
OPTIONS = {"exits": "memtrace_step=exits"}
CURVES = ("ours", "naive")
REGION = 1900  # tests/kernel/test_memory_cost.c
# The jobs of a boot in their order, each with a region of its own: word, t, u, rounds.
U, ROUNDS, STEPS = 10000, 10, (0, 25, 50, 75, 100)
JOBS = (
    ("none", 48, 100, 100),
    ("elsewhere", 48, 100, 100),
    ("writes", 48, 100, 100),
    *(("writes", t, U, ROUNDS) for t in STEPS),
    ("fill", 1, 512, 10),
    ("fill-traced", 1, 512, 10),
)
# Of a boot with memtrace=all: loads alone, then 48 of 100 are stores.
READS = (
    ("none", 0, 100, 100),
    ("reads", 0, 100, 100),
    ("none", 48, 100, 100),
    ("all", 48, 100, 100),
)
LOADS_ALONE, LOADS, MIXED_ALONE, MIXED = range(len(READS))
NONE, ELSEWHERE, WRITES, STEP, FILL, FILL_TRACED = 0, 1, 2, 3, 3 + len(STEPS), 4 + len(STEPS)
NS = 1e9


def words(jobs=JOBS):
    """The test kernel's jobs, for its command line. Their T counts from 1."""
    return [
        f"memory-cost:{word}:{t + 1}:{u}:{rounds}:{n}"
        for n, (word, t, u, rounds) in enumerate(jobs)
    ]


def counts_of(region):
    """Of a region of the ledger, by the names that estimate.of_root() has."""
    return {
        "exits": sum(entry["count"] for entry in region["exits"].values()),
        "guest": region["nonroot"]["instructions"],
        **region["root"],
    }


def read(folder, column, jobs=JOBS):
    """What the jobs of a boot counted, each a dictionary; None: there was no such boot."""
    try:
        with open(os.path.join(folder, f"{PREFIX}{column}.json"), encoding="utf-8") as source:
            regions = json.load(source)["regions"]
    except OSError:
        return None
    return [counts_of(regions[str(REGION + n)]) for n in range(len(jobs))]


def records(console):
    """Of each job, in the order of the jobs."""
    return [int(n) for n in re.findall(r"^# memory-cost .* records=(\d+) ", console, re.MULTILINE)]


def per_write(jobs, traced, base, writes):
    """What each of `writes` added, by name."""
    return {name: (jobs[traced][name] - jobs[base].get(name, 0)) / writes for name in jobs[traced]}


def writes_of(n):
    return JOBS[n][1] * JOBS[n][3]


def write_costs(jobs):
    return per_write(jobs, WRITES, NONE, writes_of(WRITES))


def cycles(costs):
    """An Estimate."""
    return estimate.of_root(costs)


def estimate_text(found, unit=""):
    """With its interval; of nothing that costs cycles without."""
    return predict.text(found, unit) if found.low < found.high else f"{found.low:g}{unit}"


def vmcs(costs):
    return costs["vmread"] + costs["vmwrite"]


def cost_cells(costs):
    found = cycles(costs)
    return [
        Cell(number(round(costs["exits"], 3))),
        Cell(number(round(costs["instructions"], 1))),
        Cell(number(round(vmcs(costs), 2))),
        Cell(estimate_text(found), "range"),
    ]


def read_costs(jobs):
    """What a load takes that is traced, and an access where loads and stores are."""
    _, _, u, rounds = READS[LOADS]
    return per_write(jobs, LOADS, LOADS_ALONE, u * rounds), per_write(
        jobs, MIXED, MIXED_ALONE, u * rounds
    )


def cost_table(boots, reads):
    made = Table(
        "memory",
        "A traced write",
        "count",
        ["exits", "instructions", "VMCS accesses", "cycles"],
        [("root mode, counted in the emulator", 3), ("an estimate, 90 % interval", 1)],
        reading=[
            "The loop of 5 instructions a turn writes t = 48 of u = 100 times, and "
            "its own counts without a trace are taken off. cycles: "
            "bench/predict.py's model of a Skylake-SP, no measurement, with its 90 % interval. "
            "The model has no cost for INVEPT, so naive's are too low."
        ],
    )
    for column, jobs in boots.items():
        made.add(f"{COLUMNS[column]}: a store", cost_cells(write_costs(jobs)))
        if column not in CURVES:  # the rest is as in the first; without a record REP is not seen
            continue
        word = per_write(jobs, FILL_TRACED, FILL, writes_of(FILL))
        elsewhere = per_write(jobs, ELSEWHERE, NONE, writes_of(ELSEWHERE))
        made.add(f"{COLUMNS[column]}: REP STOSQ of a page", cost_cells(word))
        made.add(f"{COLUMNS[column]}: a store to another page", cost_cells(elsewhere))
    for text, costs in zip(
        ("memtrace=reads: a load", "memtrace=all: a load or store"),
        read_costs(reads) if reads else (),
    ):
        made.add(text, cost_cells(costs))
    write = memory_paper.table_5_2().kvm_write * SCHMIDT["hertz"]
    theirs = [Cell("2", "published"), *[Cell("-")] * 2, Cell(f"{write:,.0f}", "published")]
    made.add("the paper's KVM, from its Table 5.2", theirs)
    return made


def slowdown(jobs, n):
    """Instructions of guest and root mode, of those that the guest has without a trace."""
    return (jobs[n]["guest"] + jobs[n]["instructions"]) / memory_paper.instructions(*JOBS[n][2:])


def estimated(costs, part, cpi):
    """The Estimate of a slowdown in cycles, where an instruction takes `cpi`."""
    found = cycles(costs)
    return predict.Estimate(*(1 + part * one / cpi for one in found))


def published(part):
    """Slowdowns by Table 5.2, as lines through 1 and what the table has at t = 48, u = 100. QSimu
    has no figure for t = 0 in that table: its line is flat."""
    table = memory_paper.table_5_2()
    return 1 + part * table.kvm_write / table.native, table.qsimu / table.native


def paper_cpi():
    """Cycles that an instruction of the loop took on the paper's machine."""
    return memory_paper.table_5_2().native * SCHMIDT["hertz"]


def translated(translate, part):
    """Host instructions for one of the guest's, by mode, at this share of writes."""
    return [(host["instruction"] + part * host["write"]) for host in translate["host"].values()]


def curve_table(boots, translate):
    heads = [COLUMNS[column] for column in boots] * 2
    groups = [("instructions, emulator", len(boots)), ("cycles, estimated", len(boots))]
    if translate:
        heads += ["TCG", "hook", "record"]
        groups.append(("host instructions, QEMU", 3))
    made = Table(
        "curve",
        "Slowdown by the share of writes that are traced",
        "ratio",
        [*heads, "KVM", "QSimu"],
        [*groups, ("published, Table 5.2", 2)],
        reading=[
            f"t of u = {U:,} turns write; last row t = 48, u = 100. Instructions of "
            "guest and root mode for one of the guest without a trace, counted. "
            "cycles: the model's estimate with its 90 % interval, and the "
            f"{paper_cpi():.2f} cycles that an instruction of this loop took on the "
            "paper's machine. Host instructions for one of the guest's, counted "
            "under callgrind. No two of the groups are the same unit."
        ],
    )
    for n in (*range(STEP, STEP + len(STEPS)), WRITES):
        part = memory_paper.share(*JOBS[n][1:3])
        cells = [Cell(f"{slowdown(jobs, n):.3f}") for jobs in boots.values()]
        cells += [
            Cell(estimate_text(estimated(write_costs(jobs), part, paper_cpi())), "range")
            for jobs in boots.values()
        ]
        if translate:
            cells += [Cell(f"{ratio:.2f}") for ratio in translated(translate, part)]
        cells += [Cell(f"{ratio:,.1f}", "published") for ratio in published(part)]
        made.add(f"{JOBS[n][1]} of {JOBS[n][2]:,}: {percent(100 * part, 3)}", cells)
    cells = [Cell("-")] * len(boots)
    cells += [Cell(estimate_text(found, " %"), "range") for _, found in break_evens(boots)]
    cells += [Cell("-")] * 3 if translate else []
    theirs = [Cell(percent(100 * break_even_of_kvm(), 2), "published"), Cell("-")]
    made.add("share at which it is as slow as QSimu", cells + theirs)
    return made


def break_even_of_kvm():
    table = memory_paper.table_5_2()
    return memory_paper.break_even(table.native, table.qsimu, table.kvm_write)


def break_evens(boots):
    """(what, the Estimate of the share of writes at which it takes as long as QSimu, in percent)"""
    table = memory_paper.table_5_2()
    for column, jobs in boots.items():
        found = cycles(write_costs(jobs))
        middle, high, low = (
            100 * memory_paper.break_even(table.native, table.qsimu, one / SCHMIDT["hertz"])
            for one in found
        )
        yield COLUMNS[column], predict.Estimate(middle, low, high)


def break_even_lines(boots, translate):
    yield "Break-even with a translator as slow as the paper's (39 times)"
    for what, found in break_evens(boots):
        yield f"  {what}: {estimate_text(found, ' %')} of instructions (estimate)"
    if translate:
        slow = ticks_of(translate, "tcg hook") / ticks_of(translate, "native")
        yield f"and with one as slow as this QEMU with the empty hook ({slow:.1f} times)"
        for column, jobs in boots.items():
            found = cycles(write_costs(jobs))
            middle, high, low = (100 * (slow - 1) * paper_cpi() / one for one in found)
            share = predict.Estimate(middle, low, high)
            yield f"  {COLUMNS[column]}: {estimate_text(share, ' %')} (estimate)"
    yield "What the paper has, and what its own figures give"
    for text, found in memory_paper.findings():
        yield f"  {text}: {found}"


def ticks_of(translate, mode, t=48):
    """TSC ticks of an instruction where t of 100 turns write."""
    return next(
        loop["ticks"] / loop["instructions"]
        for loop in translate["loops"]
        if (loop["mode"], loop["t"], loop["u"]) == (mode, t, 100)
    )


def translate_lines(translate):
    """Time and instructions of the translator; the least of the runs."""
    yield f"{translate['qemu']} on {translate['processor']}, least of {translate['repeat']} runs"
    for mode in dict.fromkeys(loop["mode"] for loop in translate["loops"]):
        some, none = ticks_of(translate, mode), ticks_of(translate, mode, 0)
        host = translate.get("host", {}).get(mode)
        counted = (
            f"; host instructions: {host['instruction']:.2f} for each of the guest, "
            f"{host['write']:.1f} more for a write"
            if host
            else ""
        )
        yield (
            f"  {mode}: {some:.2f} TSC ticks an instruction with t = 48, {none:.2f} with t = 0; "
            f"{some / ticks_of(translate, 'native'):.1f} times native with t = 48{counted}"
        )


def plot(boots, translate, out):
    """The curve: slowdown over the share of traced writes, both axes logarithmic."""
    pyplot = plots.library()
    shares = [10 ** (-4 + n / 3) for n in range(10)]
    percents = [100 * part for part in shares]
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 4.2))

    def line(label, style, ratio, **look):
        axes.plot(percents, [ratio(part) for part in shares], style, label=label, **look)

    for (column, jobs), colour in zip(boots.items(), ("#0072B2", "#D55E00")):
        costs = write_costs(jobs)
        without = " without INVEPT" if column == "naive" else ""
        line(
            f"{COLUMNS[column]}, estimated cycles{without}",
            "--" if without else "-",
            lambda part: estimated(costs, part, paper_cpi()).middle,
            color=colour,
        )
        if not without:  # the other's interval is nearly the same
            ends = [estimated(costs, part, paper_cpi()) for part in shares]
            axes.fill_between(
                percents,
                [one.low for one in ends],
                [one.high for one in ends],
                color=colour,
                alpha=0.15,
                linewidth=0,
                label="its 90 % interval",
            )
    line("the paper's KVM (its Table 5.2)", "--", lambda part: published(part)[0], color=plots.INK)
    axes.axhline(published(0)[1], linestyle=":", color=plots.INK, label="the paper's QSimu")
    axes.axvline(
        SCHMIDT["figure_5_1"]["break_even_percent"],
        ymax=0.6,
        color="#8a8a8a",
        linestyle=":",
        label="break-even as the paper has it",
    )
    for place, (mode, style) in enumerate((("tcg hook", "-."), ("tcg record", "-"))):
        if translate:
            line(
                f"QEMU's {mode}, host instructions",
                style,
                lambda part: translated(translate, part)[place + 1],
                color="#8a8a8a",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    axes.set_yticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    axes.minorticks_off()
    axes.tick_params(left=False, bottom=False)
    axes.set_xlabel("traced writes, % of instructions")
    axes.set_ylabel("times native (QEMU: host instructions for one)")
    axes.grid(True, axis="y")
    axes.legend(fontsize=8)
    desc = "; ".join(f"{what}: {estimate_text(found, ' %')}" for what, found in break_evens(boots))
    made = plots.svg_of(
        "memory-cost",
        "Slowdown by the share of writes that are traced",
        f"Break-even with the paper's QSimu: {desc}.",
        figure,
        pyplot,
        alone=True,
    )
    pathlib.Path(out).write_text(made.svg + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot")
    parser.add_argument("folder", nargs="?", default=path("build", "e2e"))
    asked = parser.parse_args()
    boots = {column: jobs for column in COLUMNS if (jobs := read(asked.folder, column))}
    if not boots:
        sys.exit(
            f"memory_cost.py: no {PREFIX}* in {asked.folder}; make them: " "make e2e T=memory_cost/"
        )
    translate = None
    if os.path.exists(os.path.join(asked.folder, TRANSLATE)):
        with open(os.path.join(asked.folder, TRANSLATE), encoding="ascii") as source:
            translate = json.load(source)
    counted = translate if translate and "host" in translate else None
    curves = {column: jobs for column, jobs in boots.items() if column in CURVES}
    reads = read(asked.folder, "all", READS)
    for made in (cost_table(boots, reads), curve_table(curves, counted)):
        print("\n".join(textpage.lines_of(made)), end="\n\n")
    print(
        "\n".join(
            [
                *break_even_lines(curves, translate),
                *(translate_lines(translate) if translate else ()),
            ]
        )
    )
    if asked.plot:
        plot(curves, counted, asked.plot)


if __name__ == "__main__":
    main()
