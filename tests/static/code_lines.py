#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# code_lines.py: counts lines of code by folder: all that is linked into the image, which has a
# limit. Density gains nothing: a line without a letter or digit, such as a bracket alone, counts as
# none; a line of several statements as so many. Blank lines and comments count as none.
# Usage: code_lines.py [--max N] [ROOT]
import argparse
import os
import re
import sys

from rooms import rooms

# Literals come first, so that a comment's sign inside one stays; C's line continuations do not
# occur in them here. A character literal is short, else an apostrophe would begin one.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*', re.DOTALL)
NASM_TOKEN = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'|`(?:\\.|[^`\\\n])*`|;[^\n]*')


def is_comment(token):
    return token.startswith(("/*", "//", ";"))


def without_comments(text, is_nasm):
    """The text with comments replaced by their line ends."""
    def shown(match):
        return "\n" * match[0].count("\n") if is_comment(match[0]) else match[0]
    return (NASM_TOKEN if is_nasm else C_TOKEN).sub(shown, text)


def statements(line):
    """The statements that end in this line, at least 1; semicolons of a for's head end none."""
    depth = count = 0
    for char in C_TOKEN.sub('""', line):
        depth += (char == "(") - (char == ")")
        count += char == ";" and depth <= 0
    return max(count, 1)


def code_lines(text, is_nasm):
    return sum(1 if is_nasm else statements(line)
               for line in without_comments(text, is_nasm).split("\n") if re.search(r"\w", line))


def count_folder(folder):
    """The number of files and of code lines directly in a folder."""
    files = lines = 0
    for name in sorted(os.listdir(folder)):
        if name.endswith((".c", ".h", ".asm", ".inc")):
            with open(os.path.join(folder, name), encoding="utf-8") as source:
                lines += code_lines(source.read(), name.endswith((".asm", ".inc")))
            files += 1
    return files, lines


def main():
    parser = argparse.ArgumentParser(description="Counts lines of code.")
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--max", type=int, help="more in the hypervisor than this is an error")
    arguments = parser.parse_args()
    total = 0
    for folder in [*rooms(), "include"]:
        files, lines = count_folder(os.path.join(arguments.root, folder))
        if files == 0:
            print(f"code_lines.py: no code in {folder}, wanted some; correct FOLDERS of the "
                  "Makefile", file=sys.stderr)
            return 1
        print(f"{folder:12} {files:3} files {lines:6} lines")
        total += lines
    print(f"{'all':12} {'':9} {total:6} lines")
    if arguments.max is not None and total > arguments.max:
        print(f"code_lines.py: the hypervisor has {total} lines of code, wanted at most "
              f"{arguments.max}; make it smaller", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
