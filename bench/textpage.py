# SPDX-License-Identifier: BSD-2-Clause
# textpage.py: tables as text for a console, at most 132 columns wide. One that is wider goes on
# below.
import textwrap

WIDTH = 132
GAPS = ("  ", " ")  # the second where the first makes the table too wide
INDENT = "  "
HYPHENS = {"Passthrough": "Pass- through"}


def cell_text(cell):
    return cell.text + (f"[{cell.note}]" if cell.note else "")


def label_text(row):
    return (INDENT if row.kind == "sub" else "") + row.label


def head_words(head):
    return [part for word in head.split() for part in HYPHENS.get(word, word).split()]


def head_lines(heads, columns):
    """The lines above the columns of these widths: a head takes as many as it needs."""
    found = [
        textwrap.wrap(" ".join(head_words(head)), width) for head, width in zip(heads, columns)
    ]
    most = max(map(len, found), default=0)
    return zip(*([""] * (most - len(lines)) + lines for lines in found))


def widths_of(table):
    rows = [row for row in table.rows if row.kind != "group"]
    label = max([len(label_text(row)) for row in rows] + [0])
    columns = []
    for at, head in enumerate(table.heads):
        texts = [cell_text(row.cells[at]) for row in rows]
        columns.append(max([len(text) for text in [*head_words(head), *texts]] + [1]))
    return label, columns


def parts_of(table, label, columns):
    """The gap, and the places of the columns that stand beside each other: all, where they fit;
    else each group begins anew."""
    every = table.shown()
    for gap in GAPS:
        if (
            max(
                label + sum(columns[at] + len(gap) for at in every),
                len(group_line(table, label, columns, gap, every)),
            )
            <= WIDTH
        ):
            return gap, [every]
    parts, at = [], 0
    for _, span in table.groups:
        room = 0
        for place in [one for one in every if at <= one < at + span]:
            room -= len(gap) + columns[place]
            if room < 0:
                parts.append([])
                room = WIDTH - label - len(gap) - columns[place]
            parts[-1].append(place)
        at += span
    return gap, parts


def group_line(table, label, columns, gap, part):
    """The last group may be longer than its columns."""
    line, at = " " * label, 0
    for text, span in table.groups:
        width = sum(len(gap) + columns[place] for place in part if at <= place < at + span)
        line += (gap + text).ljust(width) if width else ""
        at += span
    return line.rstrip()


def part_lines(table, label, columns, gap, part):
    out = [group_line(table, label, columns, gap, part)]
    widths = [columns[at] for at in part]
    for texts in head_lines([table.heads[at] for at in part], widths):
        line = "".join(gap + text.rjust(width) for text, width in zip(texts, widths))
        out.append((" " * label + line).rstrip())
    out.append("-" * (label + sum(len(gap) + columns[at] for at in part)))
    for row in table.rows:
        line = row.label
        if row.kind != "group":
            line = label_text(row).ljust(label) + "".join(
                gap + cell_text(row.cells[at]).rjust(columns[at]) for at in part
            )
        out.append(line.rstrip())
    return out


def lines_of(table):
    out = [table.title, "=" * len(table.title)] if table.title else []
    for text in table.reading:
        out += textwrap.wrap(text, WIDTH)
    out += [table.command] if table.command else []
    why = table.not_run()
    if why is not None:
        return [*out, *textwrap.wrap(f"Not run: {why}." if why else "Not run.", WIDTH)]
    if not table.rows:
        return out
    label, columns = widths_of(table)
    gap, parts = parts_of(table, label, columns)
    for part in parts:
        out += part_lines(table, label, columns, gap, part)
    for text in table.absent():
        out += textwrap.wrap(text, WIDTH)
    for at, note in table.noted():
        out += textwrap.wrap(
            f"[{at}] {note}", WIDTH, subsequent_indent="    ", break_on_hyphens=False
        )
    return out


def paragraph(text):
    return textwrap.wrap(text, WIDTH)
