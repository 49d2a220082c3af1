# SPDX-License-Identifier: BSD-2-Clause
# test_report.py: the report from test data. All figures of measurements in this file are made up to
# test arithmetic and rendering; none was measured. The page is made by the program itself.
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

from bench import (
    added,
    cells,
    facts,
    formulas,
    predict,
    published,
    report,
    results,
    summary,
    tables,
    textpage,
)
from bench.cells import Machine
from bench.measurements import ALL

# The columns of the test data, by name: others may be there, at any place, and have none.
MACHINES = ("native", "kvm", "intercept", "msr", "msr+nmi")
PEERS = ("kvm-new", "kvm-mediated")
NO_KVM = "made up: Linux does not run there"
THESIS = ("t41", "t43", "t44", "t45", "t46", "t47")
COUNTED = ("t41", "t42-a1", "t42-a1k", "t43", "t45", "pmi", "switch", "ablation")


class Maker:
    """Test data: columns with figures whose ratios are easy to check."""

    def __init__(self, kind="emulator", cpu="made-up processor"):
        self.made = results.empty(kind, "test", why="made up: not asked for")
        self.made["environment"]["cpu"] = cpu
        for name in results.COLUMNS:
            self.made["columns"][name] = {"status": "ok", "why": "", "detail": "test data"}

    def add(self, column, experiment, item, metric, value, unit="count", **more):
        exact = self.made["environment"]["kind"] == "emulator"
        self.made["measurements"].append(
            {
                "column": column,
                "experiment": experiment,
                "item": item,
                "metric": metric,
                "unit": unit,
                "value": value,
                "exact": exact,
                "n": 1,
                **more,
            }
        )
        return self

    def region(self, column, experiment, item, root, nonroot, exits=0, reads=0, writes=0, wrmsr=0):
        for metric, value in (
            ("instructions", root + nonroot),
            ("root_instructions", root),
            ("nonroot_instructions", nonroot),
        ):
            self.add(column, experiment, item, metric, value, "instructions")
        for metric, value in (
            ("exits", exits),
            ("vmread", reads),
            ("vmwrite", writes),
            ("root_rdmsr", 0),
            ("root_wrmsr", wrmsr),
        ):
            self.add(column, experiment, item, metric, value)
        return self

    def machine(self):
        return Machine(results.validate(self.made))


def emulator():
    maker = Maker()
    for item in ALL.names("msr"):
        for name in ("kvm", "kvm-new"):
            maker.region(name, "msr", item, 999, 1, 1, 6, 4, 2)
        maker.region("kvm-mediated", "msr", item, 0, 1)
        maker.region("intercept", "msr", item, 199, 1, 1, 5, 1, 1)
        for name in ("native", "msr", "msr+nmi"):
            maker.region(name, "msr", item, 0, 1)
    for item in ALL.names("exit"):
        for name in ("kvm", "kvm-new", "kvm-mediated"):
            maker.region(name, "exit", item, 1200, 1, 1, 6, 4)
        for name in ("intercept", "msr", "msr+nmi"):
            maker.region(name, "exit", item, 100, 1, 1, 5, 1)
    maker.made["skipped"].append(
        {
            "column": "native",
            "experiment": "exit",
            "item": "vmcall",
            "why": "made up: no hypervisor",
        }
    )
    per_pmi = {
        "native": (0, 50),
        "kvm": (4000, 50),
        "kvm-new": (4000, 50),
        "kvm-mediated": (2000, 50),
        "intercept": (500, 50),
        "msr": (100, 50),
        "msr+nmi": (1, 50),
    }
    for experiment, without in (("a1k", ()), ("a1", ("kvm",))):
        for item in formulas.PERIODS:
            pmis = published.TABLE_4_2_PMIS[item]
            for name, (root, guest) in per_pmi.items():
                if name in without:
                    continue
                exits = 3 if name == "intercept" else 7
                maker.region(
                    name,
                    experiment,
                    item,
                    30 + root * pmis,
                    1000 + guest * pmis,
                    exits * pmis if name.startswith(("kvm", "intercept")) else 0,
                )
                maker.add(name, experiment, item, "pmis", pmis)
                if name == "intercept":
                    maker.add(name, experiment, item, "exits:RDMSR", 2 * pmis)
                    maker.add(name, experiment, item, "exits:WRMSR", pmis)
    maker.made["skipped"].append(
        {"column": "kvm", "experiment": "a1", "item": "m100", "why": NO_KVM}
    )
    for name, profiled in (("native", 1010), ("msr+nmi", 1012), ("msr", 1050)):
        maker.add(name, "profile", "plain", "instructions", 1000, "instructions")
        maker.add(name, "profile", "profiled", "instructions", profiled, "instructions")
        maker.add(name, "profile", "profiled", "samples", 10)
        for share in published.TABLE_4_4:
            maker.add(
                name, "profile", f"share_{share}", "share", 30.5 if name == "msr" else 30, "percent"
            )
        maker.add(name, "accuracy", "loop.branches", "count", 1000 if name == "native" else 1020)
        maker.add(name, "accuracy", "loop.branches", "expected", 1000)
        maker.region(name, "accuracy", "one_rdpmc", 0, 12)
        maker.region(name, "accuracy", "loop", 0, 5000)
    for variant, cost in (("compiled_out", 90), ("none", 95), ("all", 100)):
        maker.region("msr+nmi", "ablation", f"cpuid@{variant}", cost, 1, 1, 5, 1)
    return maker


def metal():
    maker = Maker("metal", "made-up metal")
    for at, name in enumerate(MACHINES, 1):
        maker.add(
            name, "msr", "rdmsr_evtsel", "time", 100 * at, "cycles", min=90 * at, p95=120 * at
        )
    return maker


def row_of(table, label, after="", names=MACHINES):
    """The first row with that label: its cells in these columns, then those in none. With `after`,
    one that follows the row of that label."""
    rows = table.rows
    if after:
        rows = rows[[row.label for row in rows].index(after) + 1 :]
    cells_of = next(row.cells for row in rows if row.label == label)
    found = [(head, cell.text) for head, cell in zip(table.heads, cells_of)]
    ours = {head: text for head, text in found if head in results.COLUMNS}
    return [ours[name] for name in names if name in ours] + [
        text for head, text in found if head not in ours
    ]


class Numbers(unittest.TestCase):
    def test_numbers_keep_what_they_say(self):
        for value, text in (
            (0, "0"),
            (1, "1"),
            (1234567, "1,234,567"),
            (0.97, "0.97"),
            (0.00065, "0.00065"),
            (1535.97, "1,536"),
            (112.02, "112"),
            (112.5, "112.5"),
            (-3, "-3"),
        ):
            self.assertEqual(cells.number(value), text)

    def test_ratios_show_what_differs(self):
        for value, base, text in (
            (2, 2, "1x"),
            (1.02, 1, "1.0200x"),
            (3134, 107, "29.3x"),
            (3134, 1, "3,134x"),
            (0, 5, "0x"),
            (1, 1500, "0.00067x"),
            (5, 0, "-"),
            (None, 5, "-"),
            (5, None, "-"),
        ):
            self.assertEqual(cells.ratio(value, base), text)


class Tables(unittest.TestCase):
    def setUp(self):
        self.machine = emulator().machine()

    def test_table_4_1_has_ratios_to_native_and_to_kvm(self):
        table = tables.make(self.machine, "t41")
        self.assertEqual(
            row_of(table, "RDMSR EVTSEL"), ["1", "1,000", "200", "1", "1", "107", "3134", "143"]
        )
        # Of an exit's instructions to native's one, beside ratios of cycles, nobody learns
        # anything.
        self.assertNotIn("x native", [row.label for row in table.rows])
        self.assertIn("No ratio to native", " ".join(table.reading))
        self.assertEqual(row_of(table, "x kvm")[:3], ["0.001x", "1x", "0.20x"])
        self.assertEqual(row_of(table, "exits")[:5], ["0", "1", "1", "0", "0"])
        self.assertEqual(row_of(table, "RDMSR EVTSEL", names=PEERS)[:2], ["1,000", "1"])

    def test_published_ratios_are_those_of_the_published_figures(self):
        for item, figures in published.TABLE_4_1.items():
            got = tables.published_ratios(mock.Mock(theirs=["kvm"]), figures, "native")[0].text
            self.assertEqual(got, cells.ratio(figures["kvm"], figures["native"]))

    def test_table_4_2_is_extra_over_base(self):
        table = tables.make(self.machine, "t42-a1k")
        last = "M = 100: 1000 PMIs expected"
        self.assertEqual(
            row_of(table, "extra over base", last)[:5],
            ["50,000", "4,050,000", "550,000", "150,000", "51,000"],
        )
        self.assertEqual(
            row_of(table, "x native", last)[:5], ["1x", "81.0x", "11.0x", "3.00x", "1.0200x"]
        )
        # The thesis's text has these differences, too.
        self.assertEqual(
            row_of(table, "extra over base", last)[5:], ["1.953", "23.981", "10.272", "3.076"]
        )

    def test_linux_base_has_the_hypervisor_bit(self):
        maker = emulator()
        for column, pmis in (("native", 52000), ("msr+nmi", 52051)):
            for item, value in (("m100", pmis), (formulas.BASE, 1000)):
                maker.add(column, "a1_bare", item, "instructions", value, "instructions")
        reading = " ".join(tables.make(maker.machine(), "t42-a1").reading)
        self.assertIn(
            "is 51,000; with hypervisor_bit=off msr+nmi's is 51,051, 1.0010 x that.", reading
        )

    def test_cost_of_a_sample(self):
        self.assertEqual(
            row_of(tables.make(self.machine, "t45"), "instructions per sample")[:5],
            ["1", "not run", "not run", "5", "1.20"],
        )

    def test_missing_cells_say_not_run_and_why(self):
        table = tables.make(self.machine, "t42-a1")
        row = next(row for row in table.rows if row.label == "whole program")
        kvm = row.cells[results.COLUMNS.index("kvm")]
        self.assertEqual((kvm.text, kvm.kind), ("not run", "missing"))
        self.assertEqual(table.notes[kvm.note - 1], NO_KVM)
        self.assertEqual(row_of(tables.make(self.machine, "t43"), "VMCALL")[0], "not run")

    def test_a_column_that_did_not_run_says_why_everywhere(self):
        made = results.empty("emulator", why="made up: no VMX")
        for key in THESIS:
            table = tables.make(Machine(made), key)
            measured = [
                cell.text
                for row in table.rows
                if row.kind == "main"
                for cell in row.cells[: len(results.COLUMNS)]
            ]
            self.assertEqual(set(measured), {"not run"}, table.key)
            self.assertTrue(table.notes)

    def test_overhead_is_in_percent_and_its_difference_in_points(self):
        table = tables.make(self.machine, "t45")
        self.assertEqual(
            row_of(table, "overhead"),
            ["1.00 %", "not run", "not run", "5.00 %", "1.20 %", "7.3 %", "20.3 %", "7.6 %"],
        )
        self.assertEqual(
            row_of(table, "points to native"),
            ["+0.00", "-", "-", "+4.00", "+0.20", "+0.00", "+13.00", "+0.30"],
        )

    def test_exits_are_per_pmi_without_the_base(self):
        table = tables.make(self.machine, "exits-a1")
        self.assertEqual(row_of(table, "all"), ["0", "not run", "3", "0", "0"])
        self.assertEqual(row_of(table, "RDMSR")[2], "2")

    def test_ablation_is_over_the_build_without_the_code(self):
        table = tables.make(self.machine, "ablation")
        self.assertEqual(row_of(table, "none"), ["95", "+5", "5", "1"])
        self.assertEqual(row_of(table, "all"), ["100", "+10", "5", "1"])
        self.assertEqual(row_of(table, "all but mask")[0], "not run")

    def test_events_are_over_the_same_exits_with_nothing_to_do(self):
        maker = emulator()
        for variant, cost, arrived in (("all", 500, 100), ("no_skid", 300, 0)):
            maker.region("msr+nmi", "events", f"sent_again@{variant}", cost, 2, 2, 12, 2)
            maker.add("msr+nmi", "events", f"sent_again@{variant}", "delivered", arrived)
        maker.region("msr+nmi", "ablation", "vmcall@all", 70, 1, 1, 5, 1)
        table = tables.make(maker.machine(), "events")
        self.assertEqual(row_of(table, "all"), ["500", "+330", "12", "2", "100"])
        # The two exits alone are not known there.
        self.assertEqual(row_of(table, "all but skid"), ["300", "-", "12", "2", "0"])
        self.assertEqual(row_of(table, "none")[0], "not run")

    def test_must_hold_knows_good_from_bad(self):
        verdicts = [fact[3] for fact in facts.must_hold(self.machine)]
        self.assertEqual(verdicts, ["holds"] * 6)
        maker = emulator()
        for entry in maker.made["measurements"]:
            if (
                entry["column"] == "msr+nmi"
                and entry["metric"] in ("instructions", "root_instructions")
                and entry["item"] != "plain"
            ):
                entry["value"] = entry["value"] * 1.5 + 100
            if (entry["column"], entry["item"]) == ("msr+nmi", "share_bb"):
                entry["value"] += tables.ENTRIES["fact"]["t44"][2] + 0.1
        verdicts = [fact[3] for fact in facts.must_hold(maker.machine())]
        self.assertEqual(set(verdicts), {"does not hold"})
        nothing = Machine(results.empty("emulator"))
        self.assertEqual({fact[3] for fact in facts.must_hold(nothing)}, {"not measured"})

    def test_tables_fit_a_console(self):
        for machine in (self.machine, metal().machine(), Machine(results.empty("emulator"))):
            made = [
                getattr(part, "what", part)
                for section in added.sections()
                for part in section.parts(machine)
                if isinstance(getattr(part, "what", part), cells.Table)
            ]
            for table in made:
                for line in textpage.lines_of(table):
                    self.assertLessEqual(len(line), textpage.WIDTH, line)


class WithoutExperiments(unittest.TestCase):
    def test_the_thesis_is_left(self):
        machine = emulator().machine()
        sections = tables.ENTRIES["section"].items()
        own = {key: what for key, what in sections if what["folder"] == "bench"}
        own = {**tables.ENTRIES, "section": own}
        with mock.patch.object(tables, "ENTRIES", own):
            page, text = report.html_of([machine]), report.text_of([machine])
        for made in (page, text):
            self.assertIn("Table 4.7", made)
        keys = [one.key for one in added.sections() if one.what["folder"] != "bench"]
        self.assertFalse([key for key in keys if key in page], keys)


class Units(unittest.TestCase):
    def test_hardware_has_cycles_with_minimum_and_p95(self):
        table = tables.make(metal().machine(), "t41")
        self.assertIn("cycles", table.unit)
        self.assertEqual(row_of(table, "RDMSR EVTSEL")[:5], ["100", "200", "300", "400", "500"])
        self.assertEqual(row_of(table, "minimum")[:5], ["90", "180", "270", "360", "450"])
        self.assertEqual(row_of(table, "95th percentile")[:2], ["120", "240"])

    def test_an_emulators_figures_are_never_cycles(self):
        machine = emulator().machine()
        for key in (*COUNTED, *added.others(machine)):
            table = tables.make(machine, key)
            self.assertNotIn("cycles", table.unit)
            self.assertNotIn("cycles", table.groups[0][0])
            self.assertNotIn("cycles", " ".join(table.heads))
        for _, sentence in summary.results_of(machine):
            ours = sentence.partition("Thesis")[0]
            self.assertNotIn("cycles", ours)

    def test_what_is_published_is_labelled_so(self):
        for table in (
            tables.make(emulator().machine(), "t41"),
            tables.make(metal().machine(), "t43"),
        ):
            self.assertTrue(table.groups[1][0].startswith("published"))

    def test_an_emulator_without_a_ledger_has_its_tsc(self):
        maker = Maker()
        maker.add("native", "exit", "cpuid", "time", 3, "instructions")
        machine = maker.machine()
        self.assertEqual(row_of(tables.make(machine, "t43"), "CPUID")[0], "3")
        sentence = dict(summary.results_of(machine))["4.3, VM exits"]
        self.assertIn("CPUID: 3 native instructions", sentence)


class Model(unittest.TestCase):
    def test_cycles_are_counts_times_unit_costs(self):
        counts = {
            "exits": 2,
            "instructions": 110,
            "vmread": 5,
            "vmwrite": 1,
            "rdmsr": 1,
            "wrmsr": 1,
        }
        costs = {key: cost.mean for key, cost in predict.COST.items()}
        # Of 110 instructions 6 access the VMCS, 2 MSRs, and 2 are entries.
        want = (
            2 * costs["transition"]
            + 6 * costs["vmcs"]
            + costs["rdmsr"]
            + costs["wrmsr"]
            + 100 * costs["cpi"]
        )
        self.assertAlmostEqual(predict.cycles_of(counts, lambda cost: cost.mean), want)

    def test_range_holds_the_prediction(self):
        lines = predict.predicted_lines(emulator().machine())
        self.assertTrue(lines)
        for line in lines:
            self.assertLessEqual(line.low, line.cycles)
            self.assertLessEqual(line.cycles, line.high)
            self.assertAlmostEqual(line.error, 100 * (line.cycles - line.theirs) / line.theirs)

    def test_no_cell_is_compared_with_its_own_source(self):
        lines = predict.predicted_lines(emulator().machine())
        self.assertFalse(
            [line for line in lines if line.table == "4.1" and line.column == "native"]
        )
        self.assertEqual({line.table for line in lines}, {"4.1", "4.2", "4.3"})

    def test_unit_costs_name_their_sources(self):
        for cost in predict.UNIT_COSTS:
            self.assertRegex(cost.source, r"\d{4}|commit|thesis")
            self.assertTrue(cost.figures and cost.remark)

    def test_table_4_2_of_kvm_is_the_guests_part_and_the_roots(self):
        lines = predict.predicted_lines(emulator().machine())
        line = next(
            line
            for line in lines
            if (line.table, line.label, line.column) == ("4.2", "1000 PMIs", "kvm")
        )
        costs = {key: cost.mean for key, cost in predict.COST.items()}
        # Per PMI: 50 instructions of the guest, 3 of them exit; 4000 in root mode with 7 entries.
        want = 1000 * (7 * costs["transition"] + (47 + 4000 - 7) * costs["cpi"] + costs["delivery"])
        self.assertAlmostEqual(line.cycles, want)
        self.assertAlmostEqual(line.theirs, 23.981e-3 * 2.2e9, delta=1)

    def test_hardware_gets_no_prediction(self):
        self.assertEqual(predict.predicted_lines(metal().machine()), [])


class Checker(html.parser.HTMLParser):
    """Well-formed: what is opened is closed, in order; nothing comes from elsewhere."""

    VOID = {"meta", "br", "hr", "img", "link", "input"}

    def __init__(self):
        super().__init__()
        self.stack, self.ids, self.links, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if tag == "a" else []
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [dict(attrs)["id"]] if "id" in dict(attrs) else []


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.names = []
        for maker in (emulator(), metal()):
            cls.names.append(os.path.join(cls.folder.name, f"{len(cls.names)}.json"))
            results.save(maker.made, cls.names[-1])
        cls.out = os.path.join(cls.folder.name, "report.html")
        cls.done = cls.run_program("--out", cls.out, *cls.names)
        cls.page = ""
        if cls.done.returncode == 0:
            with open(cls.out, encoding="utf-8") as source:
                cls.page = source.read()

    @staticmethod
    def run_program(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "bench.report", *arguments],
            text=True,
            check=False,
            capture_output=True,
            timeout=21600,
        )

    def setUp(self):
        if not self.page:
            if "python3-matplotlib" in self.done.stderr:
                self.skipTest(self.done.stderr.strip())
            self.fail(self.done.stderr.strip())

    def test_page_is_well_formed_and_self_contained(self):
        checker = Checker()
        checker.feed(self.page)
        checker.close()
        self.assertEqual(checker.stack, [])
        self.assertEqual(len(checker.ids), len(set(checker.ids)))
        for link in checker.links:
            self.assertTrue(link.startswith("https://") or link[1:] in checker.ids, link)
        names = {tag for tag, _ in checker.tags}
        self.assertFalse(names & {"script", "img", "link", "iframe", "object"})
        self.assertNotRegex(self.page, r"@import|url\((?!#)")
        for tag, values in checker.tags:
            if tag == "th":
                self.assertIn("scope", values)

    def test_figures_are_xml_with_title_desc_and_text(self):
        figures = re.findall(r"<svg.*?</svg>", self.page, re.DOTALL)
        self.assertGreaterEqual(len(figures), 6)
        space = "{http://www.w3.org/2000/svg}"
        for figure in figures:
            root = xml.etree.ElementTree.fromstring(figure)
            self.assertTrue(root.find(f"{space}title").text)
            self.assertTrue(root.find(f"{space}desc").text)
            self.assertTrue(root.findall(f".//{space}text"))
            self.assertEqual(root.get("role"), "img")

    def test_machines_are_kept_apart(self):
        self.assertIn('id="m1-tables"', self.page)
        self.assertIn('id="m2-tables"', self.page)
        self.assertIn("made-up metal", self.page)

    def test_text_has_every_table(self):
        done = self.run_program("--text", self.names[0])
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("4.1", "4.2, Linux", "4.2, test kernel", "4.3", "4.4", "4.5", "4.6", "4.7"):
            self.assertIn(f"Table {name}:", done.stdout)

    def test_bad_input_is_one_line(self):
        bad = os.path.join(self.folder.name, "bad.json")
        with open(bad, "w", encoding="utf-8") as out:
            out.write('{"schema": 7}')
        for name in (bad, os.path.join(self.folder.name, "absent.json")):
            done = self.run_program(name)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(name, done.stderr)

    def test_two_runs_of_one_machine_are_merged(self):
        halves = []
        first = ("native", "kvm", *PEERS)
        for at, keep in enumerate((first, set(results.COLUMNS) - set(first))):
            made = emulator().made
            for key in ("measurements", "skipped"):
                made[key] = [entry for entry in made[key] if entry["column"] in keep]
            for name in set(results.COLUMNS) - set(keep):
                made["columns"][name] = {"status": "not run", "why": "made up", "detail": ""}
            halves.append(os.path.join(self.folder.name, f"half{at}.json"))
            results.save(made, halves[-1])
        whole = self.run_program("--text", self.names[0])
        merged = self.run_program("--text", *halves)
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertEqual(merged.stdout, whole.stdout)
