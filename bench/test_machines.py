# SPDX-License-Identifier: BSD-2-Clause
# test_machines.py: which results the report takes for one machine's; and that it has a page for
# results that are all zero, and for ablations with few and with all exits. All figures are made up.
import unittest

from bench import figures, formulas, plots, report, tables
from bench.test_report import Maker, emulator, row_of


def of_column(name, cpu="made up", **environment):
    maker = Maker("metal", cpu)
    maker.made["environment"].update(environment)
    for other, column in maker.made["columns"].items():
        if other != name:
            column.update(status="not run", why="made up", detail="")
    maker.add(name, "msr", "rdpmc", "time", 100, "cycles", min=90, p95=110)
    return maker.made


class ByMachine(unittest.TestCase):
    def test_columns_of_one_machine_are_merged(self):
        machines, notes = report.by_machine([of_column("native"), of_column("msr")])
        self.assertEqual((len(machines), notes, machines[0].number), (1, [], 0))

    def test_two_machines_with_one_processor_are_kept_apart(self):
        machines, notes = report.by_machine(
            [of_column("native"), of_column("native"), of_column("msr"), of_column("msr", "other")]
        )
        self.assertEqual([machine.number for machine in machines], [1, 2, 0])
        self.assertEqual(len(notes), 1)
        self.assertIn("column native is in both", notes[0])
        self.assertEqual(report.name_of(machines[1]), "metal: made up, set 2")
        page = report.html_of(machines, notes)
        self.assertIn("column native is in both", page)
        self.assertIn("metal: made up, set 2", page)

    def test_other_versions_are_kept_apart(self):
        second = of_column("msr")
        second["tool"]["version"] = "v2"
        for other, word in (
            (second, "tool.version"),
            (of_column("msr", kernel="7"), "environment.kernel"),
        ):
            machines, notes = report.by_machine([of_column("native", kernel="6"), other])
            self.assertEqual(len(machines), 2)
            self.assertIn(word, notes[0])


class Emulated(unittest.TestCase):
    def test_all_zero(self):
        maker = emulator()
        for entry in maker.made["measurements"]:
            entry["value"] = 0
        try:
            self.assertIn("</html>", report.html_of([maker.machine()]))
        except plots.NoPlots as trouble:
            self.skipTest(str(trouble))
        self.assertIn("Table 4.7", report.text_of([maker.machine()]))

    def test_emulated_time_has_no_ratios(self):
        maker = emulator()
        for name in ("native", "msr"):
            maker.region(name, "nginx", "plain", 0, 1000)
            maker.add(name, "nginx", "plain", "rate", 500)
            maker.add(name, "nginx", "plain", "requests", 800)
        table = tables.make(maker.machine(), "t46")
        self.assertEqual([row.label for row in table.rows].count("x native"), 1)
        self.assertEqual(row_of(table, "requests per second")[0], "500")
        self.assertIn("below 2.0 %", " ".join(table.reading))

    def test_dr7_is_said_where_it_counts(self):
        machine = emulator().machine()
        self.assertIn(formulas.DR7, tables.make(machine, "t42-a1").reading)
        self.assertNotIn(formulas.DR7, tables.make(machine, "t42-a1k").reading)

    def test_ablation_of_every_exit(self):
        def headings():
            table = tables.make(maker.machine(), "ablation")
            return [row.label for row in table.rows if row.kind == "group"]

        maker = emulator()
        self.assertEqual(headings(), ["CPUID"])
        for item in ("vmcall", "inl", "outl", "cpuid_blocked"):
            maker.region("msr+nmi", "ablation", f"{item}@all", 100, 1, 1, 5, 1)
        self.assertEqual(headings(), ["CPUID", "VMCALL", "INL", "OUTL", "CPUID in NMI"])
        plotted = [heading for heading, rows in figures.ablation_groups(maker.machine()) if rows]
        self.assertEqual(plotted, ["CPUID", "CPUID in NMI"])
