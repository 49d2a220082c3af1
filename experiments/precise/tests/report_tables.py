# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import NONE, Cell, number, percent
from experiments.precise.analysis import xu_published as published
from experiments.precise.tests import test_pebs as pebs
from testbed.machine import exit_count

ENTRIES = ("native", "msr+nmi")


def of_shares(table, lab, _machine):
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


def of_records(table, lab, _machine):
    same = pebs.same_records(*(pebs.sampled(lab, entry) for entry in ENTRIES), pebs.CASES)
    table.reading.append(f"The addresses are the same, one by one: {same}.")
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


def of_overhead(table, lab, _machine):
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


def of_kvm(table, lab, _machine):
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
