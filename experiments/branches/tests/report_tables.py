# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import NONE, Cell, number, percent
from experiments.branches.analysis import chen_published as published
from experiments.branches.tests import test_branchtrace as branches
from experiments.branches.tests import test_branchusb as branchusb
from experiments.branches.tests.branchtrace import tell_fuzz
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
        prices = (branches.price_of(done, region) for region in (branches.PRICED, branches.PERF))
        table.add(entry, [Cell(number(round(one))) for one in prices])


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


def add_deductions(table, told, digits):
    """A row for each target, and the average beside the published one. `told`: by entry."""
    for rows in zip(*told.values()):
        cells = [Cell(percent(one.deduction, digits)) for one in rows]
        table.add(rows[0].row["target"], cells)
    averages = [sum(one.deduction for one in found) / len(found) for found in told.values()]
    theirs = Cell(f"{published.AVERAGE} %", "published")
    table.add("average", [*(Cell(percent(one, digits)) for one in averages), theirs])


def of_fuzzing(table, lab, _machine):
    add_deductions(table, {one: tell_fuzz(branches.fuzzed(lab, one)) for one in POLICIES}, 2)
    for driver, (_, _, printed) in published.TABLE_4_8.items():
        theirs = Cell(f"{printed} %", "published")
        table.add(f"theirs: {driver}", [*[Cell(NONE)] * len(POLICIES), theirs])


def of_drivers(table, lab, _machine):
    told = {one: tell_fuzz(branches.driven(lab, one), "branchdrivers") for one in ENTRIES}
    add_deductions(table, told, 1)


def of_usb(table, lab, _machine):
    told = {one: branchusb.tell(branchusb.usb(lab, one)) for one in ENTRIES}

    def add(label, value, theirs):
        found = [value(told[one], *ways) for ways in branchusb.PAIRS for one in ENTRIES]
        table.add(label, [*(Cell(percent(share, 1)) for share in found), theirs])

    for name in branchusb.TARGETS:
        printed = published.TABLE_4_8.get(name, [None])[-1]
        theirs = Cell(f"{printed} %", "published") if printed else Cell(NONE)
        add(name, lambda told, *ways: branchusb.deduction(told[name], *ways), theirs)
    add("average", branchusb.average, Cell(f"{published.AVERAGE} %", "published"))
