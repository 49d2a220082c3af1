#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# code_lines.py: counts lines of code by folder: all that is linked into pmuvisor.efi, which has one
# limit. C is counted as clang-format lays it out, so that nothing is gained by dense lines. Blank lines and
# comments count as none.
# Usage: code_lines.py [--max N] [ROOT]
import argparse
import os
import re
import shutil
import subprocess
import sys

from rooms import rooms

STYLE = ("{BasedOnStyle: LLVM, IndentWidth: 4, ColumnLimit: 100, MaxEmptyLinesToKeep: 0, "
         "AllowShortFunctionsOnASingleLine: None, AllowShortIfStatementsOnASingleLine: Never, "
         "AllowShortLoopsOnASingleLine: false, AllowShortBlocksOnASingleLine: Never, "
         "AllowShortCaseLabelsOnASingleLine: false}")
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


def laid_out(text):
    """C without comments, in a layout that does not depend on its author's."""
    done = subprocess.run(["clang-format", f"--style={STYLE}"], input=text, text=True, check=True,
                          stdout=subprocess.PIPE)
    return done.stdout


def code_lines(text, is_nasm):
    text = without_comments(text, is_nasm)
    return sum(1 for line in (text if is_nasm else laid_out(text)).split("\n") if line.strip())


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
    parser.add_argument("--max", type=int, help="more than this is an error")
    arguments = parser.parse_args()
    if not shutil.which("clang-format"):
        print("code_lines.py: found no clang-format, wanted it to lay the code out; run: "
              "testbed/deps.sh check", file=sys.stderr)
        return 1
    total = 0
    for folder in [*rooms(), "include"]:
        files, lines = count_folder(os.path.join(arguments.root, folder))
        if files == 0:
            print(f"code_lines.py: no code in {folder}, wanted some; correct FOLDERS of the "
                  "Makefile", file=sys.stderr)
            return 1
        print(f"{folder:12} {files:3} files {lines:6} lines")
        total += lines
    print(f"{'all':12} {'':9} {total:6} lines" +
          (f", at most {arguments.max}" if arguments.max else ""))
    if arguments.max is not None and total > arguments.max:
        print(f"code_lines.py: found {total} lines of code, wanted at most {arguments.max}; make them "
              "fewer, or in a fork set CODE_LINES_MAX in the Makefile", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
