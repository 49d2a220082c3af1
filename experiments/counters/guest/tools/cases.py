#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# cases.py: makes a folder for the guest's /tool of one row of tools.ini: its name, and its cases, one a
# line: the name and the command. A file that would stay the same is left as it is, so that other
# words of the table make no image anew. Usage: cases.py FOLDER ROW
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
    folder, name = sys.argv[1:]
    row = tools_table.read()[name]
    os.makedirs(folder, exist_ok=True)
    write(os.path.join(folder, "name"), f"{name}\n")
    write(os.path.join(folder, "cases"),
          "".join(f"{case} {command}\n" for case, command in row.cases.items()))


if __name__ == "__main__":
    main()
