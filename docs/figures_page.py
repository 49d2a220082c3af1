#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# figures_page.py: writes the tables that docs/figures.ini has the figures of: docs/figures.md's,
# and those of other pages, whose rows name the page. Usage: figures_page.py
import configparser
import os

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
ENVIRONMENTS = ("emulator", "nested", "metal", "build")


def figures(source=SOURCE):
    """{name: row} in the file's order, with what the file leaves out."""
    found = configparser.ConfigParser(default_section="none", interpolation=None, delimiters=("=",))
    with open(source, encoding="utf-8") as file:
        found.read_file(file)
    return {
        name: {
            "page": OWN,
            "environment": "emulator",
            "command": "make check MORE=1",
            **found[name],
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
