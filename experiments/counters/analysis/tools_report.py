# SPDX-License-Identifier: BSD-2-Clause
# tools_report.py: the report's table of tools that people use, of what make tools has kept.
from bench import columns
from bench.cells import NONE, Cell, Table
from experiments.counters.analysis import tools_results
from testbed.machine import Skip

SAME = "same"


def cell(table, one):
    if one is None:
        return Cell(NONE, "missing")
    if tools_results.ended_well(one):
        return Cell(
            f"{one['pmu']:,}",
            "value",
            0 if tools_results.compared(one) == SAME else table.note(tools_results.compared(one)),
        )
    return Cell("fails", "missing", table.note(tools_results.ran(one)))


def tools_table(_lab, _machine):
    kept = tools_results.kept()
    if not kept:
        raise Skip("make tools has not run")
    names = [name for name in columns.NAMES if any(name in row for row in kept.values())]
    table = Table(
        "tools",
        "Tools that people use: exits for work on the PMU",
        "count",
        names,
        [("", len(names))],
        reading=[
            "Each tool ran its cases in each column, and printed what it prints natively but for "
            "what a note says (make tools)."
        ],
    )
    for row, found in kept.items():
        table.add(row, [cell(table, found.get(name)) for name in names])
    return table
