# SPDX-License-Identifier: BSD-2-Clause
# tools_page.py: make tools: runs the tools of guest/tools/tools.ini in all columns, as many boots
# at once as there are processors, and writes the page TOOLS.md and build/tools/results.json, of
# which the report has a table. A boot that is kept (testbed/store.py) is not made again.
# Usage:
#   python3 -m experiments.counters.analysis.tools_page [--only WORD,WORD] [--columns C,C]
#       [--jobs N] [--out FILE]
import argparse
import functools
import html
import os
import signal
import sys
import time

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
EXPERIMENT = os.path.join(TOP, "experiments", "counters")

from experiments.counters.analysis import tools_results
from experiments.counters.tests import tools, tools_table
from testbed.lab import Lab

PAGE = os.path.join(EXPERIMENT, "TOOLS.md")
NOT_RUN = "not run"
SHOWN = 6  # differences of one column that the page shows
HEAD = """<!-- SPDX-License-Identifier: BSD-2-Clause -->
# Tools that people use, in every column

Debian's packages, unchanged, in the emulator: each tool's cases natively and in each column, and
their output beside native's. `make tools` runs them and writes this page
([the rows](guest/tools/tools.ini)).

"Same": every line that a case prints is native's, but for what the tool's section lists. "Exits":
those for work on the PMU, while the cases ran: accesses to its registers, RDPMC, PMIs that exited.
What a case waits for, and what it reads otherwise, exits as ever. A tool that fails natively as
well is the same. Columns that are neither native nor PMUvisor's default run fewer cases, where all
would take hours. KVM's guest has what this project's small launcher gives it (programs/kvm): a
processor, memory and a console, no platform of QEMU's. What a tool misses there that is no counter
may be the launcher's doing.

"""


def row_of(texts):
    return f"| {' | '.join(text.replace('|', '&#124;') for text in texts)} |\n"


def table(heads, rows):
    return row_of(heads) + "|" + "---|" * len(heads) + "\n" + "".join(map(row_of, rows)) + "\n"


def overview(rows, found, titles):
    """The one table."""
    used = [
        name for name in titles if any(name in tools.columns_of(tool) for tool in rows.values())
    ]
    return table(
        ["tool", *(titles[name] for name in used)],
        [
            [
                f"[{tool.get('title')}](#{anchor(tool)})",
                *(cell_text(tool, name, found.get(row, {}).get(name)) for name in used),
            ]
            for row, tool in rows.items()
        ],
    )


def anchor(tool):
    return "".join(
        one for one in tool.get("title").lower().replace(" ", "-") if one.isalnum() or one in "-_"
    )


def cell_text(tool, column, one):
    if column in tool.never:
        return "cannot run, see below"
    if one is None:
        return NOT_RUN if column in tools.columns_of(tool) else "-"
    if column == tools.NATIVE:
        return f"{one['good']} of {one['cases']} end well"
    part = f"{one['cases']} of {len(tool.cases)} cases: " if one["cases"] < len(tool.cases) else ""
    return part + tools_results.short(one)


def quoted(text):
    """A tool's own line in a table's cell."""
    text = html.escape(text.strip()[: tools.SAID_MAX], quote=False)
    return f"<code>{text}</code>" if text else "no line"


def figures(tool, column, one):
    """A row of a tool's own table, after the column's title."""
    if one is None:
        return [NOT_RUN, "", "", "", "", ""]
    native = column == tools.NATIVE
    left = len(tools.cases_in(tool, column)) - one["cases"]
    return [
        tools_results.ran(one) + (f" ({left} {NOT_RUN})" if left > 0 else ""),
        "" if native else tools_results.compared(one),
        f"{one['pmu']:,}",
        f"{one['exits']:,}",
        f"{one['pmis']:,}",
        "" if native else tools_results.noticed(tool, column, one),
    ]


def section(tool, cells, titles):
    """What one tool did."""
    text = f"## {tool.get('title')}\n\n{tool.get('version')}. {tool.get('what')}\n\n"
    text += table(
        [
            "column",
            "cases as natively",
            "lines and counts",
            "exits for the PMU",
            "all exits",
            "PMIs",
            "its user notices",
        ],
        [[titles[name], *figures(tool, name, cells.get(name))] for name in tools.columns_of(tool)],
    )
    for name, sentence in tool.never.items():
        text += f"{titles.get(name, name)}: cannot run. {sentence}\n\n"
    if tool.rules:
        text += "Not compared:\n\n" + table(
            ["what", "expression", "why"],
            [[rule.name, quoted(rule.expression.pattern), rule.reason] for rule in tool.rules],
        )
    shown = [
        [titles[name], case, quoted(native), quoted(other)]
        for name in titles
        if name in cells
        for case, native, other in cells[name]["shown"]
    ]
    if shown:
        text += "Lines that differ, the first of each column:\n\n" + table(
            ["column", "case", "natively", "here"], shown
        )
    if tool.cases:
        text += "Cases: " + "; ".join(f"`{case}`" for case in tool.cases) + ".\n\n"
    return text


def page(rows, found):
    titles = tools.titles()
    return (
        HEAD
        + overview(rows, found, titles)
        + "".join(section(tool, found.get(row, {}), titles) for row, tool in rows.items())
    ).rstrip("\n") + "\n"


def cell(tool, column, native, boot):
    """Of one boot, beside {case: Case} of native's (None: it is native's)."""
    found = tools.cases_of(boot, tool)
    base = (
        found
        if native is None
        else {name: native[name] for name in tools.cases_in(tool, column) if name in native}
    )
    wrong = tools.differences(tool, base, found) if native is not None else []
    numbers = [one.part for one in wrong if one.part is not None]
    pmu, every, pmis = tools.exits_of(boot, found)
    return {
        "cases": len(base),
        "ended": sum(case.status >= 0 for case in found.values()),
        "good": sum(case.status == 0 for case in found.values()),
        "alike": sum(
            name in found and found[name].status == case.status for name, case in base.items()
        ),
        "lines": sum(len(tools.said(tool, case.lines)) for case in base.values()),
        "numbers": len(numbers),
        "part": max(numbers, default=0.0),
        "others": len(wrong) - len(numbers),
        "shown": [[one.case, one.native, one.found] for one in wrong[:SHOWN]],
        "pmu": pmu,
        "exits": every,
        "pmis": pmis,
        "end": boot.status,
        "seconds": boot.seconds,
    }


def one_cell(lab, rows, tool, column):
    """Of one boot; broken off and called again until that and native's are there
    (testbed/lab.py)."""
    native, boot = (
        tools.boot_of(lab, tool, name, part_of_boot(rows, tool, name))
        for name in (tools.NATIVE, column)
    )
    if column == tools.NATIVE:
        return cell(tool, column, None, native.wait())
    return cell(tool, column, tools.cases_of(native.wait(), tool), boot.wait())


def part_of_boot(rows, tool, column):
    """What a boot has to run where not all rows in it are wanted; nothing: all."""
    in_boot = tools_table.in_boot(tools_table.read(), tool.host)
    wanted = [row for row in in_boot if row.name in rows]
    return (
        [f"{row.name}/{case}" for row in wanted for case in tools.cases_in(row, column)]
        if len(wanted) < len(in_boot)
        else []
    )


def measure(lab, rows, only):
    """{tool: {column: cell}}; all boots are known before the first is made."""
    wanted = [
        (row, name)
        for row, tool in rows.items()
        for name in tools.columns_of(tool)
        if not only or name in only or name == tools.NATIVE
    ]
    calls = lab.plan(
        [functools.partial(one_cell, lab, rows, rows[row], name) for row, name in wanted]
    )
    found = {row: {} for row in rows}
    for (row, name), call in zip(wanted, calls):
        found[row][name] = call.future.result()
        print(f"{row} {name}: {tools_results.short(found[row][name])}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description="Runs the tools that people use in all columns.")
    parser.add_argument(
        "--only", default="", metavar="WORD,WORD", help="rows that have one of these words"
    )
    parser.add_argument(
        "--columns", default="", metavar="C,C", help="default: all; native's always"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="boots at once; default: the processors"
    )
    parser.add_argument(
        "--out",
        default="",
        metavar="FILE",
        help="default: TOOLS.md, of a part build/tools/TOOLS.md",
    )
    arguments = parser.parse_args()
    began = time.monotonic()
    words = [word for word in arguments.only.split(",") if word]
    rows = {
        name: tool
        for name, tool in tools_table.read().items()
        if not words or any(word in name for word in words)
    }
    # Ended by another program, it ends its boots.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    lab = Lab(os.path.join(TOP, "build", "tools", "boots"), arguments.jobs)
    try:
        found = measure(lab, rows, [name for name in arguments.columns.split(",") if name])
    finally:
        lab.close()
    # A part of it adds to what was there before, and leaves the page to a whole run.
    whole = not words and not arguments.columns
    there = {} if whole else tools_results.kept()
    found = {**there, **{row: {**there.get(row, {}), **cells} for row, cells in found.items()}}
    tools_results.keep(found)
    target = arguments.out or (PAGE if whole else os.path.join(TOP, "build", "tools", "TOOLS.md"))
    with open(target, "w", encoding="ascii") as out:
        out.write(page(tools_table.read(), found))
    print(
        f"{target}: {len(found)} tools, {len(lab.booted)} boots made, "
        f"{(time.monotonic() - began) / 60:.1f} minutes"
    )


if __name__ == "__main__":
    main()
