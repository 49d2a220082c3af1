# SPDX-License-Identifier: BSD-2-Clause
# code_lines.py: counts the lines of code of all that is linked into pmuvisor.efi, by folder. Blank
# lines and comments do not count.
# Usage: python3 -m tests.static.code_lines [ROOT]
import argparse
import os
import re
import sys

from tests.static.rooms import rooms

NOT_LINKED = {"offsets.c"}  # read from the compiler's output
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
