# SPDX-License-Identifier: BSD-2-Clause
# memory_paper.py: arithmetic on the published figures of published.SCHMIDT: what a traced write and
# an instruction took there, and what its figures say of each other. Touches nothing.
from dataclasses import dataclass

from experiments.memory.analysis.schmidt_published import SCHMIDT


def instructions(u, rounds):
    """Of the paper's loop: 5 around it and 5 a turn (section 5.1)."""
    return rounds * (5 + 5 * u)


def share(t, u):
    """Traced writes of all instructions; the paper's traced%, as a fraction."""
    return t / (5 + 5 * u)


@dataclass(frozen=True)
class Table:
    """Table 5.2, as seconds for one instruction and one write."""

    native: float  # seconds for an instruction
    kvm_write: float  # seconds that a traced write adds
    qsimu: float  # seconds for an instruction under QSimu, writes and hooks included


def table_5_2(paper=SCHMIDT):
    row = paper["table_5_2"]
    count = instructions(row["u"], paper["rounds"])
    writes = row["t"] * paper["rounds"]
    return Table(row["native"] / count, (row["KVM"] - row["native"]) / writes, row["QSimu"] / count)


def break_even(instruction, slow_instruction, write):
    """The fraction of writes at which both take the same: one pays `slow_instruction` for each
    instruction, the other `instruction`, and `write` more for each write."""
    return (slow_instruction - instruction) / write


def formula_break_even(paper=SCHMIDT):
    """By section 5.4's formula: CPI of both the same."""
    write = 2 * (paper["exit"] + paper["entry"] + paper["outside"])
    return (paper["cpi_qsimu"] - paper["cpi"]) / (write - paper["cpi"])


def findings(paper=SCHMIDT):
    """(what the text has, what its own figures give), each as a sentence's half."""
    row, figure, table = paper["table_5_2"], paper["figure_5_1"], table_5_2(paper)
    whole = instructions(figure["u"], paper["rounds"])
    by_table = break_even(table.native, table.qsimu, table.kvm_write)
    by_figure = break_even(
        table.native, table.native * figure["QSimu"] / figure["KVM"], table.kvm_write
    )
    slowdown = row["slowdowns"]
    yield (
        "a traced write: 1094 + 2424 = 3,518 cycles (section 5.4)",
        f"Table 5.2: {table.kvm_write * 1e6:.3f} us, {table.kvm_write * paper['hertz']:,.0f} "
        f"cycles at {paper['hertz'] / 1e9} GHz",
    )
    yield (
        f"break-even at {figure['break_even_percent']} % of writes (Figure 5.1)",
        f"Table 5.2: {100 * by_table:.2f} %; with the figure's 2 and 86 s for t = 0: "
        f"{100 * by_figure:.2f} %; section 5.4's formula: "
        f"{100 * formula_break_even(paper):.1f} %",
    )
    yield (
        f"u = {figure['u']:,}, {paper['rounds']:,} rounds in {figure['KVM']} s (Figure 5.1)",
        f"that is {whole / figure['KVM']:.1e} instructions a second; at Table 5.2's "
        f"{1 / table.native:.1e} it were {whole * table.native:,.0f} s, so there were some "
        f"{round(figure['KVM'] / table.native / (whole / paper['rounds']), -4):,.0f} rounds",
    )
    yield (
        f"an instruction takes {paper['cpi']} cycles (section 5.4)",
        f"Table 5.2's loop: {table.native * paper['hertz']:.2f} cycles at "
        f"{paper['hertz'] / 1e9} GHz",
    )
    yield (
        f"CPI {paper['cpi_kvm']:.1f} under KVM (section 5.4): slowdown "
        f"{paper['cpi_kvm'] / paper['cpi']:.0f}",
        f"Table 5.2: {row['KVM'] / row['native']:.0f}",
    )
    yield (
        f"slowdowns {slowdown['QSimu']} and {slowdown['KVM']} in one column (Table 5.2)",
        f"{row['QSimu']} / {row['native']} = {row['QSimu'] / row['native']:.0f}, but "
        f"({row['KVM']} - {row['native']}) / {row['native']} = "
        f"{(row['KVM'] - row['native']) / row['native']:.1f}: slowdown there, overhead here; "
        f"the text has {paper['text_slowdown']}, the other overhead",
    )
