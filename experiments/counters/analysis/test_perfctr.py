# SPDX-License-Identifier: BSD-2-Clause
# test_perfctr.py: the tables of perfctr-xen's section 5, from results that were recorded in the
# emulator (lines of guest/accuracy and guest/real) and from seeded differences.
import unittest

from bench import lines, results, tables, test_report, textpage
from bench.cells import Machine
from experiments.counters.analysis import perfctr_tables

# One boot natively and one under msr+nmi, an excerpt.
RECORDED = {
    "native": """\
bench: experiment=scenarios item=mixed.tsc metric=count unit=count value=12304252
bench: experiment=scenarios item=mixed.instructions metric=count unit=count value=9303965
bench: experiment=scenarios item=mixed.instructions.t1 metric=count unit=count value=9303965
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=overflows unit=count value=300
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=expected unit=count value=300
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=count unit=count value=3002707
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=overflows unit=count value=310
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=expected unit=count value=310
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=count unit=count value=3102797
bench: experiment=real item=gzip.instructions metric=count unit=count value=4736860
bench: experiment=real item=gzip.branches metric=count unit=count value=904821
bench: experiment=real item=gzip.branches metric=period unit=count value=5000
bench: experiment=real item=gzip.branches metric=samples unit=count value=180
bench: experiment=real item=gzip.branches.fn_4290@gzip metric=samples unit=count value=84
bench: experiment=real item=gzip.branches.fn_4290@gzip metric=share unit=percent value=46.6667
bench: experiment=real item=gzip.branches.fn_4710@gzip metric=samples unit=count value=2
bench: experiment=real item=gzip.branches.fn_4710@gzip metric=share unit=percent value=1.11
bench: experiment=real item=glpsol.branches metric=period unit=count value=500
bench: experiment=real item=glpsol.branches metric=samples unit=count value=2391
bench: experiment=real item=glpsol.branches.fn_9e4c0@libglpk.so.40 \
metric=samples unit=count value=97
bench: experiment=real item=glpsol.branches.fn_9e4c0@libglpk.so.40 \
metric=share unit=percent value=4.05
""",
    "msr+nmi": """\
bench: experiment=scenarios item=mixed.tsc metric=count unit=count value=12307577
bench: experiment=scenarios item=mixed.instructions metric=count unit=count value=9303965
bench: experiment=scenarios item=mixed.instructions.t1 metric=count unit=count value=9303965
bench: experiment=scenarios item=mixed.instructions.p1 skip="one processor, wanted two"
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=overflows unit=count value=300
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=expected unit=count value=300
bench: experiment=scenarios item=overflow.branches.of2.t1 metric=count unit=count value=3002707
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=overflows unit=count value=310
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=expected unit=count value=310
bench: experiment=scenarios item=overflow.branches.of2.t2 metric=count unit=count value=3102797
bench: experiment=real item=gzip.instructions metric=count unit=count value=4736793
bench: experiment=real item=gzip.branches metric=count unit=count value=904821
bench: experiment=real item=gzip.branches metric=period unit=count value=5000
bench: experiment=real item=gzip.branches metric=samples unit=count value=180
bench: experiment=real item=gzip.branches.fn_4290@gzip metric=samples unit=count value=84
bench: experiment=real item=gzip.branches.fn_4290@gzip metric=share unit=percent value=46.6667
bench: experiment=real item=glpsol.branches metric=period unit=count value=500
bench: experiment=real item=glpsol.branches metric=samples unit=count value=2391
bench: experiment=real item=glpsol.branches.fn_9e4c0@libglpk.so.40 \
metric=samples unit=count value=97
bench: experiment=real item=glpsol.branches.fn_9e4c0@libglpk.so.40 \
metric=share unit=percent value=4.05
""",
}


def machine(**seeded):
    """seeded: msr+nmi's values, by "ITEM METRIC" with blanks and dots as _."""
    made = results.empty("emulator")
    for column, text in RECORDED.items():
        made["columns"][column] = {"status": "ok", "why": "", "detail": ""}
        for text_line in text.splitlines():
            line = lines.parse_line(text_line.removeprefix(lines.PREFIX))
            if line.skip is not None:
                made["skipped"].append(
                    {
                        "column": column,
                        "experiment": line.experiment,
                        "item": line.item,
                        "why": line.skip,
                    }
                )
                continue
            key = f"{line.item}_{line.metric}".replace(".", "_")
            value = seeded.get(key, line.value) if column == "msr+nmi" else line.value
            made["measurements"].append(
                {
                    "column": column,
                    "experiment": line.experiment,
                    "item": line.item,
                    "metric": line.metric,
                    "unit": line.unit,
                    "value": value,
                    "exact": True,
                    "n": 1,
                }
            )
    return Machine(results.validate(made))


def row_of(table, label, after):
    return tuple(test_report.row_of(table, label, after, names=("native", "msr+nmi"))[:2])


class Perfctr(unittest.TestCase):
    def test_errors_are_relative_to_native(self):
        table = tables.make(machine(), "a-mode")
        self.assertEqual(row_of(table, "one thread", "instructions"), ("9,303,965", "0 %"))
        self.assertEqual(row_of(table, "one thread", "TSC"), ("12,304,252", "+0.027 %"))
        seeded = tables.make(machine(mixed_instructions_count=9397004.65), "a-mode")
        self.assertEqual(row_of(seeded, "one thread", "instructions")[1], "+1 %")

    def test_what_was_not_run_says_why(self):
        table = tables.make(machine(), "a-mode")
        label = "two on two processors (1): thread 1"
        self.assertEqual(row_of(table, label, "instructions")[1], "not run")
        self.assertIn("one processor, wanted two", table.notes)
        self.assertTrue(any("runs one guest" in text for text in table.reading))

    def test_overflows_that_went_elsewhere(self):
        label = "branches, threads: 2"
        table = tables.make(machine(), "i-mode")
        self.assertEqual(
            [cell.text for cell in table.rows[0].cells if cell.text != "not run"], ["610", "610"]
        )
        self.assertEqual(row_of(table, "count", label)[1], "0 %")
        # One signal of the first thread's reached the second: the sum is right, the threads not.
        seeded = tables.make(
            machine(overflow_branches_of2_t1_overflows=299, overflow_branches_of2_t2_overflows=311),
            "i-mode",
        )
        self.assertEqual(seeded.rows[0].cells[results.COLUMNS.index("msr+nmi")].text, "610, 2 off")

    def test_programs(self):
        table = tables.make(machine(), "real")
        self.assertEqual(row_of(table, "branches", "gzip"), ("904,821", "0 %"))
        self.assertEqual(row_of(table, "instructions", "gzip"), ("4,736,860", "-0.00141 %"))

    def test_functions_are_native_s_largest_first(self):
        table = tables.make(machine(), "functions")
        self.assertEqual(
            [row.label for row in table.rows],
            ["gzip: one every 5,000 events", "fn_4290@gzip", "fn_4710@gzip"],
        )
        self.assertEqual(row_of(table, "fn_4290@gzip", table.rows[0].label), ("46.67 %", "1x"))
        # Below the paper's one percent it has no row in the guest's report.
        self.assertEqual(row_of(table, "fn_4710@gzip", table.rows[0].label)[1], "< 1 %")
        seeded = machine(**{"gzip_branches_fn_4290@gzip_samples": 42})
        self.assertEqual(
            row_of(tables.make(seeded, "functions"), "fn_4290@gzip", table.rows[0].label)[1],
            "0.50x",
        )

    def test_the_solver_stands_beside_what_is_published(self):
        table = perfctr_tables.solver_table(machine(), "branches", "PAPI_BR_INS")
        self.assertIn("Table 5", table.title)
        self.assertEqual(row_of(table, "fn_9e4c0@libglpk.so.40", "all samples"), ("97", "1x"))
        published = next(row for row in table.rows if row.label == "primal_iminus")
        self.assertEqual(
            [cell.text for cell in published.cells if cell.kind == "published"],
            ["1.53", "1.47", "1.23", "1.27"],
        )
        self.assertTrue(any("one every 500 " in text for text in table.reading))

    def test_tables_fit_a_console(self):
        for made in (machine(), Machine(results.empty("emulator"))):
            keys = ("a-mode", "i-mode", "real", "functions")
            for table in [tables.make(made, key) for key in keys] + perfctr_tables.solvers(made):
                for line in textpage.lines_of(table):
                    self.assertLessEqual(len(line), textpage.WIDTH, line)


if __name__ == "__main__":
    unittest.main()
