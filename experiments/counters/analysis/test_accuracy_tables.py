# SPDX-License-Identifier: BSD-2-Clause
# test_accuracy_tables.py: errors are relative to native; counts over CPUIDs. All figures are made
# up to test arithmetic.

from bench import test_report
from experiments.counters.analysis import accuracy_tables


def row(table, label, **more):
    return ", ".join(test_report.row_of(table, label, **more))


def made():
    return test_report.emulator().machine()


def test_accuracy_is_relative_to_native():
    table = accuracy_tables.long_table(made())
    assert row(table, "branches") == "1,000, not run, not run, +2 %, +2 %"
    assert row(table, "to what it must be") == "0, -, -, +20, +20"
    short = accuracy_tables.short_table(made())
    assert row(short, "branches") == "-, not run, not run, 2 %, 2 %"


def test_small_counts_have_differences_and_no_errors():
    maker = test_report.Maker()
    for name, count in (("native", 4), ("msr", 5)):
        maker.add(name, "accuracy", "loop.llc_misses", "count", count)
    machine = maker.machine()
    assert test_report.row_of(accuracy_tables.long_table(machine), "llc_misses")[3] == "+1"
    assert accuracy_tables.errors(machine) == {}


def test_memory_anywhere_is_an_event_of_its_own():
    maker = test_report.Maker()
    for item in "sort.llc_misses sort_any.llc_misses sort.llc_misses.t1 sort_any.branches".split():
        maker.add("native", "accuracy", item, "count", 1000)
        maker.add("msr", "accuracy", item, "count", 1500 if "any" in item else 1001)
    kinds = "llc_misses; branches; llc_misses, threads; llc_misses, memory anywhere"
    assert "; ".join(accuracy_tables.errors(maker.machine())) == kinds


def test_regions_of_accuracy_are_no_counts():
    labels = [row.label for row in accuracy_tables.long_table(made()).rows]
    assert labels == ["loop", "branches", "to what it must be"]
    reads = accuracy_tables.reads_table(made())
    assert row(reads, "RDPMC, user space") == "12, not run, not run, 12, 12"


def test_modes():
    maker = test_report.emulator()
    for name, count in (("native", 500), ("kvm", 500), ("msr+nmi", 400)):
        maker.add(name, "accuracy", "exits", "all_modes", count)
    table = accuracy_tables.modes_table(maker.machine())
    assert row(table, table.rows[0].label, names=("native", "msr+nmi")) == "500, 400"
