#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# cases.py: makes the file /tool/cases for the guest, of one row of tools.ini and those in its boot:
# a case a line, its row, its name and the command. A file that would stay the same is left as it
# is, so that other words of the table make no image anew. Usage: cases.py FILE ROW
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests"))

import tools_table  # noqa: E402


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
