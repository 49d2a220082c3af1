# SPDX-License-Identifier: BSD-2-Clause
# test_peer_costs.py: the table of other hypervisors: an exit that was interrupted is left out, what
# alternates is not; a PMI is divided by the PMIs that came; what no boot has left is no column.
import json
import os
import tempfile
import unittest

from bench.convert import EXECUTED
from experiments.peers.analysis import peer_costs

LINE = (
    "bench: experiment={} item={}{} region={} ops={} metric=time unit=tsc n=1 min=9 median=9 "
    "p95=9\n"
)
VALUE = "bench: experiment=a1 item=m1000 metric=pmis unit=count value={}\n"


def region(root, nonroot, exits=()):
    """`exits`: (name, count, sum, min, max) of each reason."""
    return {
        "begins": 1,
        "open": 0,
        "nonroot": {"instructions": nonroot},
        "executed": dict.fromkeys(("root", "nonroot"), dict.fromkeys(EXECUTED, 0)),
        "nmi": {"root": 0, "nonroot": 0, "injected": 0},
        "root": {
            "instructions": root,
            "vmread": 0,
            "vmwrite": 0,
            "rdmsr": 0,
            "wrmsr": 0,
            "listed": 0,
        },
        "exits": {
            str(number): {
                "name": name,
                "count": count,
                "vmcs_accesses": {"sum": 0},
                "root_instructions": {"samples": count, "sum": total, "min": low, "max": high},
            }
            for number, (name, count, total, low, high) in enumerate(exits)
        },
    }


class Folder(unittest.TestCase):
    """A folder with what boots have left."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def row(self, label, console, regions, column="xen"):
        name = os.path.join(self.folder.name, peer_costs.PREFIX + column)
        with open(f"{name}.console", "w", encoding="ascii") as out:
            out.write(console.replace("\n", "\r\n"))
        with open(f"{name}.json", "w", encoding="ascii") as out:
            json.dump({"regions": regions}, out)
        rows = {row.label: row.cells for row in peer_costs.table(self.folder.name).rows}
        return [cell.text for cell in rows[label]]

    def cpuid(self, total, low, high):
        console = LINE.format("exit", "empty_rax", "", 1, 4) + LINE.format(
            "exit", "cpuid", " base=empty_rax", 2, 4
        )
        return self.row(
            "CPUID",
            console,
            {"1": region(0, 8), "2": region(total, 8, [("CPUID", 4, total, low, high)])},
        )

    def test_interrupted(self):
        self.assertEqual(self.cpuid(3 * 900 + 4000, 900, 4000), ["900", "0", "1"])

    def test_alternating(self):
        self.assertEqual(self.cpuid(2 * 900 + 2 * 1000, 900, 1000), ["950", "0", "1"])

    def test_pmis_that_came(self):
        console = (
            LINE.format("a1", "m200000", "", 1, 1)
            + LINE.format("a1", "m1000", "", 2, 1)
            + VALUE.format(200)
        )
        self.assertEqual(
            self.row(
                "one PMI, Linux (program A.1)",
                console,
                {
                    "1": region(100, 1000),
                    "2": region(1_000_100, 5000, [("WRMSR", 1400, 1_000_000, 700, 800)]),
                },
            ),
            ["5,000", "20", "7"],
        )

    def test_not_measured(self):
        self.cpuid(3600, 900, 900)
        rows = {row.label: row.cells for row in peer_costs.table(self.folder.name).rows}
        self.assertEqual([cell.text for cell in rows["RDPMC"]], ["-", "-", "-"])

    def test_nothing(self):
        self.assertEqual(peer_costs.table(self.folder.name).heads, [])
