# SPDX-License-Identifier: BSD-2-Clause
# tools_page.py: writes the page TOOLS.md of what make tools has kept, once the table is whole.
# Usage: python3 -m experiments.counters.analysis.tools_page
import pathlib
import sys

from experiments.counters.analysis import tools_results
from experiments.counters.tests import tools, tools_table

PAGE = pathlib.Path(__file__).parents[1] / "TOOLS.md"
NOT_RUN = "not run"
HEAD = """<!-- SPDX-License-Identifier: BSD-2-Clause -->
# Tools that people use, in every column

Debian's packages, unchanged, in the emulator: each tool's cases natively and in each column, and
their output beside native's. `make tools` runs them and writes this page.
[The rows](guest/tools/tools.ini) have the versions and the cases. The files in `build/tools/` have
all exits, the PMIs and the first lines that differ.

"Same": every line that a case prints is native's, but for what the tool's row names with a reason.
"Exits": those for work on the PMU, while the cases ran: accesses to its registers, RDPMC, PMIs that
exited. What a case waits for, and what it reads otherwise, exits as ever. A tool that fails
natively as well is the same. Columns that are neither native nor PMUvisor's default run fewer
cases, where all would take hours. KVM's guest has what this project's small launcher gives it
(programs/kvm): a processor, memory and a console, no platform of QEMU's. What a tool misses there
that is no counter may be the launcher's doing.

"""


def row_of(texts):
    return f"| {' | '.join(text.replace('|', '&#124;') for text in texts)} |\n"


def table(heads, rows):
    return row_of(heads) + "|" + "---|" * len(heads) + "\n" + "".join(map(row_of, rows))


def overview(rows, found, titles):
    """The one table."""
    used = [
        name for name in titles if any(name in tools.columns_of(tool) for tool in rows.values())
    ]
    return table(
        ["tool", *(titles[name] for name in used)],
        [
            [
                tool.get("title"),
                *(cell_text(tool, name, found.get(row, {}).get(name)) for name in used),
            ]
            for row, tool in rows.items()
        ],
    )


def cell_text(tool, column, one):
    if one is None:
        return NOT_RUN if column in tools.columns_of(tool) else "-"
    if column == tools.NATIVE:
        return f"{one['good']} of {one['cases']} end well"
    part = f"{one['cases']} of {len(tool.cases)} cases: " if one["cases"] < len(tool.cases) else ""
    return part + tools_results.short(one)


def notices(rows, found, titles):
    """What the user of a tool notices, where tools.ini has a sentence."""
    seen = {}
    for row, tool in rows.items():
        for name, one in found.get(row, {}).items():
            if said := tools_results.noticed(tool, name, one):
                seen.setdefault((tool.get("title"), said), []).append(titles[name])
    return table(
        ["tool", "columns", "what its user notices"],
        [[tool, "; ".join(names), said] for (tool, said), names in seen.items()],
    )


def page(rows, found):
    titles = tools.titles()
    return f"{HEAD}{overview(rows, found, titles)}\n{notices(rows, found, titles)}"


def main():
    rows, found = tools_table.read(), tools_results.kept()
    missing = [
        f"{row} {name}"
        for row, tool in rows.items()
        for name in tools.columns_of(tool)
        if name not in found.get(row, {})
    ]
    if missing:
        sys.exit(f"no TOOLS.md: make tools has not run {missing[0]}, and {len(missing) - 1} more")
    PAGE.write_text(page(rows, found), encoding="ascii")


if __name__ == "__main__":
    main()
