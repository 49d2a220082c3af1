#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints a ledger (the JSON file of a run in the emulator) as a readable table; with --kvm, the
exits that kvm_exits.sh has counted.

Reads the file named on the command line, else standard input; writes to standard output only. The
schema is in README.md, "Ledger".
"""

import argparse
import collections
import functools
import json
import os
import re
import sys

SCHEMA = 1
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "include")
MSR_HEADER = os.path.join(INCLUDE, "msr.h")
VMX_HEADER = os.path.join(INCLUDE, "vmx.h")
# KVM's trace events: of all exits, of those from a guest of its guest, and of those passed on.
KVM_EVENTS = ("kvm_exit", "kvm_nested_vmexit", "kvm_nested_vmexit_inject")
BASIC_REASON = 0xFFFF
# Each counter's is the next one (pmu/pmu_registers.c); of so many the names are said.
NUMBERED = ("IA32_PMC0", "IA32_PERFEVTSEL0", "IA32_FIXED_CTR0")
NUMBERED_COUNT = 4


@functools.lru_cache(None)
def msr_names():
    """{index: name} of the MSRs that the hypervisor's header names."""
    with open(MSR_HEADER, encoding="utf-8") as header:
        found = re.findall(
            r"^#define ((?:IA32|MSR)_\w+) (0x[0-9a-f]+)u?\b", header.read(), re.MULTILINE
        )
    names = {int(index, 16): name for name, index in found}
    for name, index in found:
        for more in range(1, NUMBERED_COUNT if name in NUMBERED else 1):
            names.setdefault(int(index, 16) + more, f"{name[:-1]}{more}")
    return names


def msr_rows(counts):
    """Rows of an exit's MSRs, by count."""
    for index, count in sorted(
        counts.get("msrs", {}).items(), key=lambda item: (-item[1], int(item[0]))
    ):
        name = msr_names().get(int(index), "")
        yield ["", f"  {int(index):#x} {name}".rstrip(), str(count), *[""] * 6]


def average(spread):
    """The mean of a spread, or a dash where nothing was measured."""
    if spread["samples"] == 0:
        return "-"
    return f"{spread['sum'] / spread['samples']:.1f}"


def bounds(spread):
    """Minimum and maximum of a spread as text."""
    if spread["samples"] == 0:
        return ["-", "-"]
    return [str(spread["min"]), str(spread["max"])]


def table(rows, indent):
    """Lines of a table: text on the left of the second column, numbers on the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if column == 1 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        yield indent + "  ".join(cells).rstrip()


def exit_rows(tally):
    """Rows of the exit table, by count."""
    yield ["exit", "reason", "count", "root instr.", "min", "max", "VMCS acc.", "min", "max"]
    exits = sorted(tally["exits"].items(), key=lambda item: (-item[1]["count"], int(item[0])))
    for reason, counts in exits:
        instructions, accesses = counts["root_instructions"], counts["vmcs_accesses"]
        yield [
            reason,
            counts["name"],
            str(counts["count"]),
            average(instructions),
            *bounds(instructions),
            average(accesses),
            *bounds(accesses),
        ]
        yield from msr_rows(counts)


def tally_lines(tally, indent, of, printed, what=""):
    """Lines for the run's total or for one region, `of`; `what` is said of root mode. `printed`:
    whose table there was already, by its rows; none is printed twice."""
    total = sum(counts["count"] for counts in tally["exits"].values())
    rows = list(exit_rows(tally))
    before = printed.setdefault(tuple(map(tuple, rows)), of)
    if total and before == of:
        yield from table(rows, indent)
    yield f"{indent}exits: {total}" + (f", as in {before}" if total and before != of else "")
    root, nonroot, nmi, pmi = (tally[key] for key in ("root", "nonroot", "nmi", "pmi"))
    yield (
        f"{indent}root mode{what}: {root['instructions']} instructions, {root['vmread']} VMREAD, "
        f"{root['vmwrite']} VMWRITE, {root['rdmsr']} RDMSR, {root['wrmsr']} WRMSR, "
        f"{root['cpuid']} CPUID"
    )
    yield (
        f"{indent}non-root mode: {nonroot['instructions']} instructions "
        f"({nonroot['kernel']} kernel, {nonroot['user']} user)"
    )
    yield (
        f"{indent}NMIs: {nmi['nonroot']} in non-root mode, {nmi['root']} in root mode, "
        f"{nmi['exits']} as exits, {nmi['injected']} injected"
    )
    yield (
        f"{indent}PMIs: {pmi['raised']} raised ({pmi['masked']} masked), {pmi['nonroot']} in "
        f"non-root mode, {pmi['root']} in root mode, {pmi['exits']} as exits"
    )


def ledger_lines(ledger):
    """All lines of a ledger."""
    yield f"end of the run: {ledger['end']}, processors: {ledger['cpus']}"
    # Without a hypervisor there is neither.
    printed = {}
    yield from tally_lines(
        ledger,
        "",
        "the whole run",
        printed,
        (
            ", with PMUvisor's start and its report at the end"
            if ledger["root"]["instructions"]
            else ""
        ),
    )
    scheduled = ledger["scheduled_nmis"]
    if scheduled["fired"] or scheduled["missed"]:
        yield f"scheduled NMIs: {scheduled['fired']} came, {scheduled['missed']} were too late"
    for name, region in sorted(ledger["regions"].items(), key=lambda item: int(item[0])):
        state = ", and open to the end of the run" if region["open"] else ""
        yield ""
        yield f"region {name}, marked {region['begins']} times{state}"
        yield from tally_lines(region, "  ", f"region {name}", printed)


def kvm_counts(text):
    """[{basic exit reason: count}] for each of KVM_EVENTS, from histograms of the kernel."""
    found = {}
    for event, histogram in re.findall(r"^event (\w+)\n(.*?)(?=^event |\Z)", text, re.M | re.S):
        if not re.search(r"^ *Dropped: 0$", histogram, re.M):
            raise ValueError(f"the kernel did not count every {event}")
        found[event] = collections.Counter()
        for reason, count in re.findall(r"^{ \w+: +(\d+) } hitcount: +(\d+)$", histogram, re.M):
            found[event][int(reason) & BASIC_REASON] += int(count)
    if set(found) != set(KVM_EVENTS) or not found[KVM_EVENTS[0]]:
        raise ValueError("no exits that kvm_exits.sh has counted")
    return [found[event] for event in KVM_EVENTS]


def kvm_lines(text):
    """All lines of KVM's exits."""
    with open(VMX_HEADER, encoding="utf-8") as header:
        names = re.findall(r"\bX\(([A-Z_]+), (\d+)\)", header.read())
    names = {int(number): name for name, number in names}
    counts = kvm_counts(text)
    rows = [["exit", "reason", "to KVM", "from PMUvisor's guest", "passed on to PMUvisor"]]
    for reason in sorted(set().union(*counts), key=lambda one: (-counts[0][one], one)):
        rows.append([str(reason), names.get(reason, ""), *(str(one[reason]) for one in counts)])
    yield from table(rows, "")
    every, nested, passed = (one.total() for one in counts)
    yield (
        f"exits to KVM: {every}; {nested} came from PMUvisor's guest, the others from firmware, "
        f"GRUB and PMUvisor; KVM passed {passed} exits on to PMUvisor"
    )


def print_lines(lines):
    try:
        print("\n".join(lines))
    except BrokenPipeError:
        pass


def main():
    """Reads one ledger and prints it."""
    parser = argparse.ArgumentParser(description="print a ledger as a readable table")
    parser.add_argument("--kvm", action="store_true", help="the file is from kvm_exits.sh")
    parser.add_argument("file", nargs="?", help="the ledger; standard input without it")
    arguments = parser.parse_args()
    name = arguments.file or "standard input"
    if arguments.kvm:
        try:
            with open(arguments.file or 0, encoding="utf-8") as file:
                print_lines(kvm_lines(file.read()))
        except (OSError, ValueError) as error:
            sys.exit(f"ledger.py: {name}: {error}")
        return
    try:
        if arguments.file:
            with open(arguments.file, encoding="utf-8") as file:
                ledger = json.load(file)
        else:
            ledger = json.load(sys.stdin)
    except (OSError, ValueError) as error:
        sys.exit(f"ledger.py: {name}: {error}")
    if not isinstance(ledger, dict) or ledger.get("schema") != SCHEMA:
        sys.exit(f"ledger.py: {name}: not a ledger of schema {SCHEMA}")
    try:
        lines = list(ledger_lines(ledger))
    except (KeyError, TypeError, AttributeError) as error:
        sys.exit(f"ledger.py: {name}: a ledger of schema {SCHEMA} lacks {error}")
    print_lines(lines)


if __name__ == "__main__":
    main()
