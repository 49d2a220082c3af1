# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from cells import NONE, Cell, Table, number, percent
from machine import exit_count

import test_pebs as pebs
import xu_published as published

ENTRIES = ("native", "msr+nmi")


def of_shares(lab, _machine):
    table = Table(
        "precise-shares",
        "Shares of functions by PEBS",
        "percent",
        [*ENTRIES, "guest", "host"],
        [("emulator", 2), (f"published, {published.SAMPLES} samples", 2)],
        theirs=[0],
        reading=[
            "The same two hot functions, in a program of this project's: theirs is not published. "
            "Theirs has the kernel's functions too, and one of them is in print."
        ],
    )
    found = [
        {
            row["function"]: row["share"]
            for row in pebs.sampled(lab, entry).lines("pebs")
            if "function" in row
        }
        for entry in ENTRIES
    ]
    for name in dict.fromkeys((*published.SHARES, *found[0])):
        ours = [Cell(f"{one[name]} %") if name in one else Cell(NONE) for one in found]
        table.add(
            name,
            ours + [Cell(f"{value} %", "published") for value in published.SHARES.get(name, ())],
        )
    return table


def of_records(lab, _machine):
    table = Table(
        "precise-records",
        "Records of each way to sample, and their PMIs",
        "count",
        [f"{what}, {entry}" for what in ("records", "PMIs") for entry in ENTRIES],
        [("emulator", 4)],
        reading=[
            f"The addresses are the same, one by one: "
            f"{pebs.same_records(*(pebs.sampled(lab, entry) for entry in ENTRIES), pebs.CASES)}."
        ],
    )
    both = [pebs.cases(pebs.sampled(lab, entry)) for entry in ENTRIES]
    for case in both[0]:
        table.add(
            case,
            [
                Cell(number(float(one[case].get(what, 0))))
                for what in ("records", "pmis")
                for one in both
            ],
        )
    return table


def of_overhead(lab, _machine):
    table = Table(
        "precise-overhead",
        "What sampling by PEBS adds",
        "percent",
        [f"{entry}: {what}" for entry in ENTRIES for what in ("more", "exits")],
        [("emulator", 4)],
        reading=[
            "Of the program's instructions, the kernel's included. The letter has no overhead."
        ],
    )
    for text, region in (
        ("PMIs where the buffer fills", pebs.REGION_LARGE),
        ("a PMI for each record, with branches", pebs.REGION_EACH),
    ):
        cells = []
        for entry in ENTRIES:
            boot = pebs.sampled(lab, entry)
            cells += [
                Cell(percent(pebs.overhead(boot, region), 2)),
                Cell(number(exit_count(boot.region(region)))),
            ]
        table.add(text, cells)
    return table


def of_kvm(lab, _machine):
    table = Table(
        "precise-kvm",
        "KVM's own guest PEBS, on a Sapphire Rapids",
        "count",
        ["records", "PMIs", "exits", "root instr.", "records, fixed counter"],
        [("emulator", 5)],
        reading=[
            "perf samples one program twice: by INST_RETIRED on a general counter, and by "
            "instructions:uppp, which takes fixed counter 0. KVM 6.1 and the mediated vPMU offer "
            "their "
            "guest no PEBS there. KVM 7.3 offers it without adaptive PEBS, and so for general "
            "counters "
            "alone: Linux's write for a fixed one is refused. Exits and root mode's instructions "
            "are of "
            "the first run; PMUvisor's exits are CPUIDs."
        ],
    )
    for column in (*ENTRIES, *pebs.KVMS):
        boot = pebs.on_sapphire_rapids(lab, column)
        found = pebs.cases(boot)
        if "br_instr" not in found:
            table.add(column, [table.missing("no PEBS in its guest")] * 5)
            continue
        region = boot.region(pebs.REGION_RECORD)
        table.add(
            column,
            [
                Cell(number(value))
                for value in (
                    int(found["br_instr"]["records"]),
                    int(found["br_instr"]["pmis"]),
                    exit_count(region),
                    region["root"]["instructions"],
                    int(found["loop"]["records"]),
                )
            ],
        )
    return table
