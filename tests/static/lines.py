#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# lines.py: counts lines of code, without blank lines and comments, by folder: the hypervisor's own
# (boot mm vmx pmu nmi apic, and guest/ without its folders), which have a limit, and beside them
# the shared lib, console and include.
# Usage: lines.py [--max N] [ROOT]
import argparse
import os
import re
import sys

LIMITED = ["boot", "mm", "vmx", "pmu", "nmi", "apic", "guest"]
BESIDE = ["lib", "console", "include"]
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
    sums = {}
    for kind, folders in (("hypervisor", LIMITED), ("shared", BESIDE)):
        sums[kind] = 0
        for folder in folders:
            files, lines = count_folder(os.path.join(arguments.root, folder))
            if files == 0:
                print(f"lines.py: no code in {folder}, wanted some; correct the list",
                      file=sys.stderr)
                return 1
            print(f"{folder:12} {files:3} files {lines:6} lines")
            sums[kind] += lines
        print(f"{kind:12} {'':9} {sums[kind]:6} lines")
    if arguments.max is not None and sums["hypervisor"] > arguments.max:
        print(f"lines.py: the hypervisor has {sums['hypervisor']} lines of code, wanted at most "
              f"{arguments.max}; make it smaller", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
