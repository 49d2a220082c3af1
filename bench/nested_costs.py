#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# nested_costs.py: the table of what the outer KVM executes for one operation of the innermost
# guest, with PMUvisor in between and as KVM's plain guest, of what boots under KVM in the emulator
# have left (tests/e2e/test_nested_kernel.py makes them): consoles and ledgers nested-costs-COLUMN
# of a folder. Usage: nested_costs.py [DIR]   default: build/e2e
import json
import os
import sys

import convert
import lines
import textpage
from cells import Cell, Row, Table, number

PREFIX = "nested-costs-"
# The column of the plain guest is the boot menu's entry without a hypervisor.
COLUMNS = {"native": "KVM's guest", "intercept": "intercept", "msr": "msr", "msr+nmi": "msr+nmi",
           "apic_trap": "apic=trap"}
A1K_PMIS = 1000
# Label, experiment, item, and the item to subtract with what is left divided by.
ROWS = (("CPUID", "exit", "cpuid", None),
        ("VMCALL", "exit", "vmcall", None),
        ("RDMSR PERFEVTSEL0", "msr", "rdmsr_evtsel", None),
        ("WRMSR PERFEVTSEL0", "msr", "wrmsr_evtsel", None),
        ("RDMSR PMC0", "msr", "rdmsr_pmc", None),
        ("WRMSR PMC0", "msr", "wrmsr_pmc", None),
        ("RDMSR GLOBAL_CTRL", "msr", "rdmsr_ctrl", None),
        ("WRMSR GLOBAL_CTRL", "msr", "wrmsr_ctrl", None),
        ("RDPMC", "msr", "rdpmc", None),
        ("WRMSR or MOV to LVTPC", "pmi", "lvtpc_write", None),
        ("one PMI, the test kernel's", "a1k", "m100", ("m200000", A1K_PMIS)))
METRICS = (("root_instructions", "outer"), ("exits", "exits"), ("nonroot_instructions", "inner"))


def read(folder, column, prefix=PREFIX):
    """The measurements of a column's boot, by (experiment, item), each a dictionary by metric;
    None: there was no such boot."""
    name = os.path.join(folder, prefix + column)
    try:
        with open(f"{name}.console", encoding="utf-8", errors="replace") as source:
            console = source.read().replace("\r", "")
        with open(f"{name}.json", encoding="utf-8") as source:
            ledger = json.load(source)
    except OSError:
        return None
    found, errors = lines.parse(console)
    got = convert.convert(found, ledger, column, "emulator")
    if errors or got.errors or not got.measurements:
        raise ValueError(f"{name}: {(errors + got.errors + ['no measurement'])[0]}")
    out = {}
    for entry in got.measurements:
        out.setdefault((entry["experiment"], entry["item"]), {})[entry["metric"]] = entry["value"]
    return out


def cost(measured, experiment, item, less):
    """{metric: value of one operation}; None: not measured."""
    values = measured.get((experiment, item))
    if values is None or "root_instructions" not in values:
        return None
    if less is None:
        return {metric: values[metric] for metric, _ in METRICS}
    base, count = measured[experiment, less[0]], less[1]
    return {metric: (values[metric] - base[metric]) / count for metric, _ in METRICS}


def table(folder):
    boots = {column: read(folder, column) for column in COLUMNS}
    there = {column: boot for column, boot in boots.items() if boot is not None}
    made = Table("nested", "Under an outer KVM: what one operation of the guest costs", "count",
                 [head for _ in there for _, head in METRICS],
                 [(COLUMNS[column], len(METRICS)) for column in there],
                 reading=["outer: instructions that the outer system executes in VMX root mode, "
                          "its interrupts included; exits: VM exits to it, of the guest and of "
                          "PMUvisor; inner: all others, the guest's and PMUvisor's own. The same "
                          "kernel and QEMU in all columns, one processor. In the emulator; exact."])
    for label, experiment, item, less in ROWS:
        cells = []
        for measured in there.values():
            costs = cost(measured, experiment, item, less)
            for metric, _ in METRICS:
                cells.append(Cell("-", "missing") if costs is None
                             else Cell(number(round(costs[metric], 1))))
        made.rows.append(Row(label, cells))
    return made


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else \
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "e2e")
    made = table(folder)
    if not made.heads:
        sys.exit(f"bench/nested_costs.py: no {PREFIX}* in {folder}; make them: "
                 "make e2e T=nested/costs")
    print("\n".join(textpage.lines_of(made)))


if __name__ == "__main__":
    main()
