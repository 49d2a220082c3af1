# SPDX-License-Identifier: BSD-2-Clause
# test_nested_costs.py: the table of an outer KVM's costs: from consoles and ledgers, per operation,
# with its bases; what no boot has left is no column, what a boot did not measure is no number.
import json
import os
import tempfile
import unittest

from bench import nested_costs
from bench.test_convert import BASE, ITEM, LEDGER, region

A1K = (
    "bench: experiment=a1k item={} region={} ops=1 metric=time unit=tsc n=1 min=9 median=9 "
    "p95=9\n"
)
PMI = [("Exception or NMI", 1000, 9_000_000, 0)]


class Folder(unittest.TestCase):
    """A folder with what boots have left."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def leave(self, column, console, ledger):
        name = os.path.join(self.folder.name, nested_costs.PREFIX + column)
        with open(f"{name}.console", "w", encoding="ascii") as out:
            out.write(console.replace("\n", "\r\n"))
        with open(f"{name}.json", "w", encoding="ascii") as out:
            json.dump(ledger, out)

    def rows(self):
        table = nested_costs.table(self.folder.name)
        return table, {row.label: [cell.text for cell in row.cells] for row in table.rows}

    def test_per_operation(self):
        self.leave("msr+nmi", BASE + ITEM, LEDGER)
        table, rows = self.rows()
        self.assertEqual([text for text, _ in table.groups], ["msr+nmi"])
        self.assertEqual(rows["CPUID"], ["113", "1", "1"])
        self.assertEqual(rows["RDPMC"], ["-", "-", "-"])

    def test_pmi(self):
        self.leave(
            "native",
            A1K.format("m200000", 7) + A1K.format("m100", 8),
            {
                "regions": {
                    "7": region(root=100, nonroot=50),
                    "8": region(root=9_000_100, nonroot=50, exits=PMI),
                }
            },
        )
        self.assertEqual(self.rows()[1]["one PMI, the test kernel's"], ["9,000", "1", "0"])

    def test_nothing(self):
        self.assertEqual(self.rows()[0].heads, [])

    def test_bad_line(self):
        self.leave("msr", "bench: experiment=exit item=cpuid colour=blue\n", LEDGER)
        with self.assertRaises(ValueError):
            self.rows()
