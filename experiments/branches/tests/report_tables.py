# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from cells import NONE, Cell, Table, number, percent

import chen_published as published
import test_branchtrace as branches
import test_pt as pt
from branchtrace import price, tell_fuzz
from machine import exit_count

ENTRIES = ("native", "msr+nmi")
POLICIES = (*ENTRIES, "msr")


def of_lists(lab, _machine):
    table = Table(
        "branches-lists",
        "Complete lists of taken branches",
        "count",
        ["branches", "missing", "invented", "PMIs", "exits"],
        [("emulator", 5)],
        reading=["Six lists against the emulator's own, branch by branch."],
    )
    for entry in ENTRIES:
        done, counts = branches.check_good(lab, entry)
        pmis = sum(int(branches.row(done, region)["pmis"]) for region in branches.GOOD)
        exits = sum(exit_count(done.region(region)) for region in branches.GOOD)
        table.add(
            entry, [Cell(number(value)) for value in (sum(counts.values()), 0, 0, pmis, exits)]
        )
    return table


def of_readout(lab, _machine):
    table = Table(
        "branches-readout",
        "One PMI that reads the branch records",
        "instructions",
        ["by the module", "by perf"],
        [("emulator", 2)],
    )
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
    return table


def of_pt(lab, _machine):
    table = Table(
        "branches-pt",
        "A list of a million branches by Intel PT",
        "each branch",
        ["branches", "bytes", "instructions to record", "to decode", "exits"],
        [("emulator", 5)],
        reading=[
            "perf records and decodes; libipt finds the same list. The exits are the load's own "
            "CPUIDs. "
            "A readout of 32 branch records is a table of its own."
        ],
    )
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
    return table


def of_fuzzing(lab, _machine):
    table = Table(
        "branches-fuzzing",
        "Table 4.8: fuzzing with branch records",
        "percent",
        [*POLICIES, "published"],
        [("emulator, fewer executions", len(POLICIES)), ("", 1)],
        theirs=[0],
        reading=[
            "Theirs: system calls to kernel drivers in three hours, each a new test of Agamotto's. "
            "Ours: parsers in user mode of some 300 instructions an input, so that a readout "
            "weighs more."
        ],
    )
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
    return table


def of_drivers(lab, _machine):
    table = Table(
        "branches-drivers",
        "Table 4.8: system calls to kernel drivers",
        "percent",
        [*ENTRIES, "published"],
        [("emulator, fewer inputs", len(ENTRIES)), ("", 1)],
        theirs=[0],
        reading=[
            "Ours are seven drivers of Debian's kernel that need no device, theirs seven of USB "
            "devices "
            "that Agamotto emulates. Its snapshots of a machine have no part in either figure. "
            "KVM's "
            "guest has a PMU of version 2, which freezes nothing at a PMI: the module refuses it."
        ],
    )
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
    return table
