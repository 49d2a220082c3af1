#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# differences.py: writes the table of docs/guest.md that says where a guest's kernel log differs
# from the native one: the list that tests/e2e/test_kernels.py judges it by. Usage: differences.py
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(TOP, folder) for folder in ("testbed", "tests/e2e")]
sys.dont_write_bytecode = True

from kernels import DIFFERENCES, SUITES  # noqa: E402

PAGE = "guest.md"
BEGIN = "<!-- Made by docs/differences.py from tests/e2e/kernels.py: edit that. -->\n\n"
END = "\n<!-- End of what is made. -->\n"


def table(differences=DIFFERENCES, suites=None):
    suites = suites or SUITES
    lines = ["| what | why | kernels |", "|---|---|---|"]
    for row in differences:
        of = "all" if len(row.suites) == len(suites) else ", ".join(map(suites.get, row.suites))
        lines.append(f"| {row.what} | {row.why} | {of} |")
    return "\n".join(lines) + "\n"


def page(text):
    """The page with the table of now."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def main():
    name = os.path.join(HERE, PAGE)
    with open(name, encoding="utf-8") as file:
        text = file.read()
    with open(name, "w", encoding="utf-8") as file:
        file.write(page(text))


if __name__ == "__main__":
    main()
