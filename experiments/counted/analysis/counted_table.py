# SPDX-License-Identifier: BSD-2-Clause
# counted_table.py: the answer as a table, of the report and of the page: the cells that differ, each with its reason.
import textwrap

from cells import NONE, Cell, Table, signed

import counted
import counted_reasons as reasons

WIDTH = 118  # of the page's lines
BEGIN, END = "<!-- made by counted_kept.py: the table -->", "<!-- the table's end -->"
SHOWN = counted.COLUMNS[1:]


def text_of(cell):
    """An operation's instructions less native's, and its branches where there are any."""
    branches = f" ({signed(float(cell.branches))} branch)" if cell.branches else ""
    return signed(float(cell.instructions)) + branches


def differing(cells):
    """The rows of which some cell is not 0, in the order of the groups."""
    return [row for row in counted.LABELS if any(
        (row, column) in cells and (cells[row, column].instructions or cells[row, column].branches)
        for column in SHOWN)]


def table(cells):
    """For bench/report.py."""
    made = Table("answer-counted", "What do virtual PMUs count?", "instructions per operation, less native's",
                 list(SHOWN), [("emulator", len(SHOWN))], reading=[
                     "Kernel and user mode together. Operations that are not here count everywhere as natively: "
                     + ", ".join(label for row, label in counted.LABELS.items() if row not in differing(cells)) + "."])
    for row in differing(cells):
        line = []
        for column in SHOWN:
            if (row, column) not in cells:
                line.append(Cell(NONE))
                continue
            cell = cells[row, column]
            why = reasons.EXPECTED.get((row, column))
            line.append(Cell(text_of(cell), note=made.note(reasons.REASONS[why[2]]) if why else 0))
        made.add(counted.LABELS[row], line)
    return made


def markdown(cells):
    lines = ["| an operation | " + " | ".join(f"`{column}`" for column in SHOWN) + " | why |",
             "|---" * (len(SHOWN) + 2) + "|"]
    for row in differing(cells):
        why = {reasons.EXPECTED[row, column][2] for column in SHOWN if (row, column) in reasons.EXPECTED}
        lines.append(f"| {counted.LABELS[row]} | " + " | ".join(
            text_of(cells[row, column]) for column in SHOWN) + f" | {', '.join(sorted(why))} |")
    lines.append("")
    for key, reason in reasons.REASONS.items():
        lines += textwrap.wrap(f"- **{key}**: {reason}", WIDTH, subsequent_indent="  ", break_long_words=False,
                               break_on_hyphens=False)
    return "\n".join(lines)


def put(page, cells):
    """The page with the table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{markdown(cells)}\n{END}{after}"
