# SPDX-License-Identifier: BSD-2-Clause
# differences.py: writes the tables of docs/guest.md that say where a guest's kernel log, and what
# Linux makes of the machine, differ from the native ones: the lists that tests/e2e/test_kernels.py
# judges them by. Usage: python3 -m docs.differences
import os

HERE = os.path.dirname(os.path.abspath(__file__))

from tests.e2e.kernels import DIFFERENCES, SEEN, SUITES

PAGE = "guest.md"
BEGIN = "<!-- Made by docs/differences.py from tests/e2e/kernels.py: edit that. -->\n\n"
BIT_BEGIN = (
    "<!-- The bit's, made by docs/differences.py from tests/e2e/kernels.py: edit that. -->\n\n"
)
END = "\n<!-- End of what is made. -->\n"


def table(differences=DIFFERENCES, suites=None):
    suites = suites or SUITES
    lines = ["| what | why | kernels |", "|---|---|---|"]
    for row in differences:
        of = "all" if len(row.suites) == len(suites) else ", ".join(map(suites.get, row.suites))
        lines.append(f"| {row.what} | {row.why} | {of} |")
    return "\n".join(lines) + "\n"


def bit_table():
    """What the hypervisor bit changes."""
    return table([row for row in SEEN + DIFFERENCES if row.bit])


def page(text):
    """The page with the tables of now."""
    for begin, made in ((BIT_BEGIN, bit_table()), (BEGIN, table())):
        before, rest = text.split(begin)
        text = before + begin + made + END + rest.split(END, 1)[1]
    return text


def main():
    name = os.path.join(HERE, PAGE)
    with open(name, encoding="utf-8") as file:
        text = page(file.read())
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
