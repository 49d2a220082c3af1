# SPDX-License-Identifier: BSD-2-Clause
# test_accuracy_tables.py: errors are relative to native; counts over CPUIDs. All figures are made
# up to test arithmetic.
import unittest

from bench import test_report
from experiments.counters.analysis import accuracy_tables


class Accuracy(unittest.TestCase):
    def setUp(self):
        self.machine = test_report.emulator().machine()

    def test_accuracy_is_relative_to_native(self):
        table = accuracy_tables.long_table(self.machine)
        self.assertEqual(
            test_report.row_of(table, "branches"), ["1,000", "not run", "not run", "+2 %", "+2 %"]
        )
        self.assertEqual(
            test_report.row_of(table, "to what it must be"), ["0", "-", "-", "+20", "+20"]
        )
        self.assertEqual(
            test_report.row_of(accuracy_tables.short_table(self.machine), "branches"),
            ["-", "not run", "not run", "2 %", "2 %"],
        )

    def test_small_counts_have_differences_and_no_errors(self):
        maker = test_report.Maker()
        for name, count in (("native", 4), ("msr", 5)):
            maker.add(name, "accuracy", "loop.llc_misses", "count", count)
        machine = maker.machine()
        self.assertEqual(
            test_report.row_of(accuracy_tables.long_table(machine), "llc_misses")[3], "+1"
        )
        self.assertEqual(accuracy_tables.errors(machine), {})

    def test_memory_anywhere_is_an_event_of_its_own(self):
        maker = test_report.Maker()
        for item in (
            "sort.llc_misses",
            "sort_any.llc_misses",
            "sort.llc_misses.t1",
            "sort_any.branches",
        ):
            maker.add("native", "accuracy", item, "count", 1000)
            maker.add("msr", "accuracy", item, "count", 1500 if "any" in item else 1001)
        self.assertEqual(
            list(accuracy_tables.errors(maker.machine())),
            ["llc_misses", "branches", "llc_misses, threads", "llc_misses, memory anywhere"],
        )

    def test_regions_of_accuracy_are_no_counts(self):
        labels = [row.label for row in accuracy_tables.long_table(self.machine).rows]
        self.assertEqual(labels, ["loop", "branches", "to what it must be"])
        self.assertEqual(
            test_report.row_of(accuracy_tables.reads_table(self.machine), "RDPMC, user space"),
            ["12", "not run", "not run", "12", "12"],
        )

    def test_modes(self):
        maker = test_report.emulator()
        for name, count in (("native", 500), ("kvm", 500), ("msr+nmi", 400)):
            maker.add(name, "accuracy", "exits", "all_modes", count)
        table = accuracy_tables.modes_table(maker.machine())
        self.assertEqual(
            test_report.row_of(table, table.rows[0].label, names=("native", "msr+nmi")),
            ["500", "400"],
        )


if __name__ == "__main__":
    unittest.main()
