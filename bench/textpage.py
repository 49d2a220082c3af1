# SPDX-License-Identifier: BSD-2-Clause
# textpage.py: tables as text for a console, at most 132 columns wide.
import textwrap

WIDTH = 132
GAPS = ("  ", " ")           # the second where the first makes the table too wide
INDENT = "  "
HYPHENS = {"Passthrough": "Pass- through", "NMI Passthrough": "NMI Pass- through"}


def cell_text(cell):
    return cell.text + (f"[{cell.note}]" if cell.note else "")


def label_text(row):
    return (INDENT if row.kind == "sub" else "") + row.label


def head_lines(head):
    """A head of more than one word takes two lines where that makes it narrower."""
    words = HYPHENS.get(head, head).split()
    if len(words) < 2:
        return "", head
    return " ".join(words[:-1]), words[-1]


def widths_of(table):
    rows = [row for row in table.rows if row.kind != "group"]
    label = max([len(label_text(row)) for row in rows] + [0])
    columns = []
    for at, head in enumerate(table.heads):
        texts = [cell_text(row.cells[at]) for row in rows]
        columns.append(max(len(text) for text in [*head_lines(head), *texts]))
    return label, columns


def gap_of(label, columns):
    for gap in GAPS:
        if label + sum(columns) + len(gap) * len(columns) <= WIDTH:
            break
    return gap


def group_line(table, label, columns, gap):
    """The last group may be longer than its columns."""
    line, at = " " * label, 0
    for text, span in table.groups:
        width = sum(columns[at:at + span]) + len(gap) * (span - 1)
        line += gap + text.ljust(width)
        at += span
    return line.rstrip()


def lines_of(table):
    out = [table.title, "=" * len(table.title)]
    for text in table.reading:
        out += textwrap.wrap(text, WIDTH)
    if not table.rows:
        return out + ["Not run."]
    label, columns = widths_of(table)
    gap = gap_of(label, columns)
    out.append(group_line(table, label, columns, gap))
    for part in (0, 1):
        line = " " * label + "".join(gap + head_lines(head)[part].rjust(width)
                                     for head, width in zip(table.heads, columns))
        if line.strip():
            out.append(line.rstrip())
    out.append("-" * (label + sum(columns) + len(gap) * len(columns)))
    for row in table.rows:
        if row.kind == "group":
            out.append(row.label)
            continue
        line = label_text(row).ljust(label)
        line += "".join(gap + cell_text(cell).rjust(width)
                        for cell, width in zip(row.cells, columns))
        out.append(line.rstrip())
    for at, note in enumerate(table.notes, 1):
        out += textwrap.wrap(f"[{at}] {note}", WIDTH, subsequent_indent="    ",
                             break_on_hyphens=False)
    return out


def fact_lines(facts):
    out = []
    for what, wanted, found, verdict in facts:
        out += textwrap.wrap(f"{verdict}: {what}: {found}; wanted {wanted}", WIDTH,
                             subsequent_indent=INDENT)
    return out


def paragraph(text):
    return textwrap.wrap(text, WIDTH)
