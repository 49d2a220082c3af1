# SPDX-License-Identifier: BSD-2-Clause
# figures_page.py: writes the tables that docs/figures.ini has the figures of: docs/figures.md's,
# and those of other pages, whose rows name the page. Figures of the report come from results/.
# Usage: python3 -m docs.figures_page
import configparser
import os
import re

from bench import results_page, tables
from bench.cells import number, ratio

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "figures.ini")
OWN = "figures.md"
HEADS = {
    OWN: ("what", "figure", "environment", "command", "seen"),
    "nested.md": (
        "an operation of the guest",
        "KVM's plain guest",
        "PMUvisor, `msr+nmi`",
        "PMUvisor, `intercept`",
    ),
}
BEGIN = "<!-- Made by docs/figures_page.py from docs/figures.ini: edit that. -->\n\n"
END = "\n<!-- End of what is made. -->\n"
# {OF | COLUMN}, {OF | COLUMN / COLUMN}
OF_RESULTS = re.compile(r"\{([^|{}]+) \| ([^ {}]+)(?: / ([^ {}]+))?\}")
ENVIRONMENTS = ("emulator", "nested", "metal", "build")


def emulator():
    """The results of the emulator."""
    machines = results_page.load().values()
    return next(one for one in machines if one.environment["kind"] == "emulator")


def filled(text, machine):
    """A figure with the values of these results."""

    def value(found):
        of, column, base = found.groups()
        values = tables.values_of(machine, of)
        if None in (values[column], values[base or column]):
            raise ValueError(f"docs/figures.ini: results/ has no {found[0]}")
        if base:
            return ratio(values[column], values[base]).removesuffix("x")
        return number(values[column])

    return OF_RESULTS.sub(value, text)


def figures(source=SOURCE, machine=None):
    """{name: row} in the file's order, with what the file leaves out."""
    found = configparser.ConfigParser(default_section="none", interpolation=None, delimiters=("=",))
    with open(source, encoding="utf-8") as file:
        found.read_file(file)
    machine = machine or emulator()
    return {
        name: {
            "page": OWN,
            "environment": "emulator",
            "command": "make check MORE=1",
            "date": machine.environment["date"].partition("T")[0],
            **found[name],
            "figure": filled(found[name]["figure"], machine),
        }
        for name in found.sections()
    }


def cells(name, row):
    head = f'<a id="{name}"></a>{row["what"]}'
    if row["page"] != OWN:  # one figure for each of its columns
        return head, *(figure.strip() for figure in row["figure"].split(";"))
    return head, row["figure"], row["environment"], f'`{row["command"]}`', row["date"]


def table(rows, page):
    lines = [HEADS[page], ["---"] * len(HEADS[page])]
    lines += [cells(name, row) for name, row in rows.items() if row["page"] == page]
    return (
        "".join(f"| {' | '.join(line)} |\n" for line in lines)
        .replace("| --- ", "|---")
        .replace("|--- |", "|---|")
    )


def made(page, text, rows):
    """The page's text with the table of now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(rows, page) + END + rest.split(END, 1)[1]


def main():
    rows = figures()
    for page in HEADS:
        name = os.path.join(HERE, page)
        with open(name, encoding="utf-8") as file:
            text = made(page, file.read(), rows)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
