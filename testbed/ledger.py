#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints a ledger (the JSON file of a run in the emulator) as a readable table.

Reads the file named on the command line, else standard input; writes to standard output only. The
schema is in README.md, "Ledger".
"""

import argparse
import json
import sys

SCHEMA = 1


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


def tally_lines(tally, indent):
    """Lines for the run's total or for one region."""
    total = sum(counts["count"] for counts in tally["exits"].values())
    if total:
        yield from table(list(exit_rows(tally)), indent)
    yield f"{indent}exits: {total}"
    root, nonroot, nmi, pmi = (tally[key] for key in ("root", "nonroot", "nmi", "pmi"))
    yield (
        f"{indent}root mode: {root['instructions']} instructions, {root['vmread']} VMREAD, "
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
    yield from tally_lines(ledger, "")
    scheduled = ledger["scheduled_nmis"]
    if scheduled["fired"] or scheduled["missed"]:
        yield f"scheduled NMIs: {scheduled['fired']} came, {scheduled['missed']} were too late"
    for name, region in sorted(ledger["regions"].items(), key=lambda item: int(item[0])):
        state = ", still open" if region["open"] else ""
        yield ""
        yield f"region {name}, marked {region['begins']} times{state}"
        yield from tally_lines(region, "  ")


def main():
    """Reads one ledger and prints it."""
    parser = argparse.ArgumentParser(description="print a ledger as a readable table")
    parser.add_argument("file", nargs="?", help="the ledger; standard input without it")
    arguments = parser.parse_args()
    name = arguments.file or "standard input"
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
    try:
        print("\n".join(lines))
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    main()
