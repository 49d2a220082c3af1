# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import NONE, Cell, number, percent
from experiments.branches.analysis import chen_published as published
from experiments.branches.tests import test_branchtrace as branches
from experiments.branches.tests.branchtrace import price, tell_fuzz
from testbed.machine import exit_count
from tests.e2e import test_pt as pt

ENTRIES = ("native", "msr+nmi")
POLICIES = (*ENTRIES, "msr")


def of_lists(table, lab, _machine):
    for entry in ENTRIES:
        done, counts = branches.check_good(lab, entry)
        pmis = sum(int(branches.row(done, region)["pmis"]) for region in branches.GOOD)
        exits = sum(exit_count(done.region(region)) for region in branches.GOOD)
        table.add(
            entry, [Cell(number(value)) for value in (sum(counts.values()), 0, 0, pmis, exits)]
        )


def of_readout(table, lab, _machine):
    for entry in ENTRIES:
        done = branches.lists(lab, entry)
        table.add(
            entry,
            [
                Cell(
                    number(
                        round(
                            price(
                                done,
                                region,
                                branches.UNTRACED,
                                int(branches.row(done, region)["pmis"]),
                            )
                        )
                    )
                )
                for region in (branches.PRICED, branches.PERF)
            ],
        )


def of_pt(table, lab, _machine):
    for entry in ENTRIES:
        done = pt.many(lab, entry)
        count, exits = pt.compare_user(done)
        of = pt.prices(done, "user")
        table.add(
            entry,
            [
                Cell(number(count)),
                Cell(f"{of['bytes']:.2f}"),
                Cell(f"{of['recording']:.2f}"),
                Cell(number(of["decoding"])),
                Cell(number(exits)),
            ],
        )


def of_fuzzing(table, lab, _machine):
    told = {entry: tell_fuzz(branches.fuzzed(lab, entry)) for entry in POLICIES}
    for number_of, one in enumerate(told["native"]):
        table.add(
            one.row["target"],
            [Cell(percent(told[entry][number_of].deduction, 2)) for entry in POLICIES],
        )
    table.add(
        "average",
        [
            Cell(percent(sum(one.deduction for one in found) / len(found), 2))
            for found in told.values()
        ]
        + [Cell(f"{published.AVERAGE} %", "published")],
    )
    for driver, (plain, traced) in published.TABLE_4_8.items():
        table.add(
            f"theirs: {driver}",
            [Cell(NONE)] * len(POLICIES)
            + [Cell(f"{100 * (1 - traced / plain):.1f} %", "published")],
        )


def of_drivers(table, lab, _machine):
    told = {entry: tell_fuzz(branches.driven(lab, entry), "branchdrivers") for entry in ENTRIES}
    for number_of, one in enumerate(told["native"]):
        table.add(
            one.row["target"],
            [Cell(percent(told[entry][number_of].deduction, 1)) for entry in ENTRIES],
        )
    table.add(
        "average",
        [
            Cell(percent(sum(one.deduction for one in found) / len(found), 1))
            for found in told.values()
        ]
        + [Cell(f"{published.AVERAGE} %", "published")],
    )
