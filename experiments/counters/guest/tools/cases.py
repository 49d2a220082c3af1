# SPDX-License-Identifier: BSD-2-Clause
# cases.py: makes the file /tool/cases for the guest, of one row of tools.ini and those in its boot:
# a case a line, its row, its name and the command. A file that would stay the same is left as it
# is, so that other words of the table make no image anew.
# Usage:
#   python3 -m experiments.counters.guest.tools.cases FILE ROW
import os
import sys

from experiments.counters.tests import tools_table


def write(path, text):
    if os.path.exists(path):
        with open(path, encoding="ascii") as there:
            if there.read() == text:
                return
    with open(path, "w", encoding="ascii") as out:
        out.write(text)


def main():
    path, name = sys.argv[1:]
    rows = [row for row in tools_table.in_boot(tools_table.read(), name) if not row.get("of")]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(
        path,
        "".join(
            f"{row.name} {case} {command}\n" for row in rows for case, command in row.cases.items()
        ),
    )


if __name__ == "__main__":
    main()
