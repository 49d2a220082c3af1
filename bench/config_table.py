# SPDX-License-Identifier: BSD-2-Clause
# config_table.py: columns in other configurations than the tables': the thesis's trapped local
# APIC, and mitigations against speculative execution on both sides. Exact counts of the emulator.
import columns
from cells import Cell, Table, number
from measurements import ALL
from tables import BASE, PERIODS

PMIS = 1000
# Experiment, item, metric, head of the column, which has the item's label.
FIGURES = tuple(
    (item.experiment, item.name, metric, head.format(item.label))
    for experiment, metric, head in (
        ("exit", "root_instructions", "{}: root instr."),
        ("exit", "root_listed", "{}: MSRs by areas"),
        ("msr", "instructions", "{}: instr."),
        ("a1", "instructions", "A.1, {}: instr."),
    )
    for item in ALL.items_in("config", experiment)
    if item.name != BASE
)
LAST = PERIODS[-1]


def value(machine, row, experiment, item, metric):
    """Of a configuration, or of a column as the tables have it."""
    if row.name in columns.COLUMNS:
        return machine.value(row.name, experiment, item, metric)
    return machine.value(row.on, "config", f"{experiment}.{item}@{row.name}", metric)


def per_pmi(machine, row, metric):
    found = [value(machine, row, "a1", item, metric) for item in (LAST, BASE)]
    return None if None in found else (found[0] - found[1]) / PMIS


def cells_of(table, machine, row):
    found = [value(machine, row, *figure[:3]) for figure in FIGURES]
    found += [per_pmi(machine, row, metric) for metric in ("exits", "instructions")]
    column, experiment, item = (
        (row.name, *FIGURES[0][:2])
        if row.name in columns.COLUMNS
        else (row.on, "config", f"{FIGURES[0][0]}.{FIGURES[0][1]}@{row.name}")
    )
    return [
        (
            table.missing(machine.why(column, experiment, item))
            if known is None
            else Cell(number(known))
        )
        for known in found
    ]


def config_table(machine):
    heads = [figure[3] for figure in FIGURES] + ["exits per PMI", "instr. per PMI"]
    table = Table(
        "config", "Other configurations", "exact counts", heads, [("emulator", len(heads))]
    )
    for place in dict.fromkeys(row.on for row in columns.CONFIGS.values()):
        table.group(place)
        table.add("as in the tables", cells_of(table, machine, columns.COLUMNS[place]))
        for row in columns.CONFIGS.values():
            if row.on == place:
                table.add(row.title, cells_of(table, machine, row))
    table.reading.append(
        "In all other tables root mode's mitigations against speculative execution are off on both "
        "sides, PMUvisor's and the host kernel's of KVM, and Linux's own are alike in all columns. "
        "In the rows mitigations=auto they are as each takes them by itself for this processor "
        "model; "
        "they are not the same measures. apic=trap is the thesis's configuration: the local APIC's "
        "page exits, so that each PMI's write of LVTPC does. KVM virtualizes the APIC as it does "
        "by default; "
        "with enable_apicv=0 it does not."
    )
    table.reading.append(
        f"\"{columns.CONFIGS['naive'].title}\" switches by software: every register that counting "
        f"needs "
        "is saved at each exit, loaded with the host's, and back at the entry. It hangs on the way "
        "in of "
        "stats=cycles, which reads the TSC too: the row before has that alone. The thesis argues "
        "against "
        "the VMCS's automatic MSR areas: in the row of these the processor does the same by "
        "itself, three "
        "accesses to each register for an exit and its entry; root mode copies one value. All "
        "columns have their own lists' accesses. Nobody counts in root mode here, so all of that "
        "is for "
        "nothing; with passthrough a PMI has no exit, and does not pay it."
    )
    return table
