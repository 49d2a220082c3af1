# SPDX-License-Identifier: BSD-2-Clause
# code_lines.py: counts the lines of code of all that is linked into pmuvisor.efi, by folder. Blank
# lines and comments do not count.
# Usage: python3 -m tests.static.code_lines [ROOT]
import argparse
import os
import sys

from bench.environment import without_comments
from tests.static.rooms import rooms

NOT_LINKED = {"offsets.c"}  # read from the compiler's output


def code_lines(text, is_nasm):
    return sum(1 for line in without_comments(text, is_nasm).split("\n") if line.strip())


def count_folder(folder):
    """The number of files and of code lines directly in a folder."""
    files = lines = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith((".c", ".h", ".asm", ".inc")) and name not in NOT_LINKED:
            with open(os.path.join(folder, name), encoding="utf-8") as source:
                lines += code_lines(source.read(), name.endswith((".asm", ".inc")))
            files += 1
    return files, lines


def main():
    parser = argparse.ArgumentParser(description="Counts lines of code.")
    parser.add_argument("root", nargs="?", default=".")
    arguments = parser.parse_args()
    total = 0
    for folder in [*rooms(), "include"]:
        files, lines = count_folder(os.path.join(arguments.root, folder))
        if files == 0:
            print(
                f"code_lines.py: no code in {folder}, wanted some; correct FOLDERS of the "
                "Makefile",
                file=sys.stderr,
            )
            return 1
        print(f"{folder:12} {files:3} files {lines:6} lines")
        total += lines
    print(f"{'all':12} {'':9} {total:6} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
