#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# listing.py: makes a dump for pmuvisor-check --from out of a public listing of CPUID leaves and
# MSRs, as the InstLatX64 collection has them. What is in no listing stays unknown: memory, ACPI
# tables, MTRRs, IA32_FEATURE_CONTROL.
# Usage: listing.py --source TEXT [--cpus N[,N...]] LISTING > DUMP
#   --cpus   logical processors to take; default: all, of which the dump has only differences
import argparse
import re
import sys

# What the image reads.
LEAVES = {0, 1, 7, 0xA, 0xB, 0xD, 0x14, 0x15, 0x16, 0x1A, 0x23} | set(range(0x80000000, 0x80000009))
MSRS = {int(word, 16) for word in "1b 3a 8b bd e2 e4 fe 10a 1a0 277 2ff 345 3f1 982".split()}
MSRS |= {*range(0x200, 0x270), *range(0x480, 0x494)}
CPU = re.compile(r"^------\[ (CPUID|MSR) Registers(?: / Logical CPU #(\d+))? \]")
LEAF = re.compile(
    r"^CPUID ([0-9A-F]{8}): ([0-9A-F]{8})-([0-9A-F]{8})-([0-9A-F]{8})-([0-9A-F]{8})"
    r"(?:.*?\[SL ([0-9A-F]+)\])?"
)
MSR = re.compile(r"^MSR ([0-9A-F]{8}): ([0-9A-F]{4})-([0-9A-F]{4})-([0-9A-F]{4})-([0-9A-F]{4})")


def processors(text):
    """{number: the dump's lines}."""
    found, number = {}, 0
    for line in text.splitlines():
        if match := CPU.match(line):
            number = int(match[2] or 0)
        elif (match := LEAF.match(line)) and int(match[1], 16) in LEAVES:
            leaf = (match[1], f"{int(match[6] or '0', 16):08x}")
            found.setdefault(number, {})[("cpuid", *leaf)] = " ".join(match.group(2, 3, 4, 5))
        elif (match := MSR.match(line)) and int(match[1], 16) in MSRS:
            found.setdefault(number, {})[("msr", match[1])] = "".join(match.group(2, 3, 4, 5))
    return found


def main():
    parser = argparse.ArgumentParser(description="A dump out of a listing.")
    parser.add_argument("--source", required=True)
    parser.add_argument("--cpus")
    parser.add_argument("listing")
    arguments = parser.parse_args()
    with open(arguments.listing, encoding="ascii", errors="replace") as listing:
        found = processors(listing.read())
    if not found:
        print(
            f"listing.py: {arguments.listing}: found no line 'CPUID LEAF: ...', wanted a listing "
            "of CPUID leaves",
            file=sys.stderr,
        )
        return 1
    wanted = [int(word) for word in arguments.cpus.split(",")] if arguments.cpus else sorted(found)
    print("pmuvisor-check dump 1")
    print(f"source {arguments.source}")
    first = found[wanted[0]]
    for number in wanted:
        print(f"cpu {number}")
        for key, value in found[number].items():
            if number == wanted[0] or first.get(key) != value:
                print(" ".join([*key, value]).lower())
    print("end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
