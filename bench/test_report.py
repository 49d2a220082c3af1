# SPDX-License-Identifier: BSD-2-Clause
# test_report.py: the report from test data. All figures of measurements in this file are made up to
# test arithmetic and rendering; none was measured. The page is made by the program itself.
import re
import subprocess
import sys
import xml.etree.ElementTree
from unittest import mock

import pytest

from bench import (
    added,
    cells,
    columns,
    facts,
    figures,
    formulas,
    leads,
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


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"),
        (1, "1"),
        (1234567, "1,234,567"),
        (0.97, "0.97"),
        (0.00065, "0.00065"),
        (1535.97, "1,536"),
        (112.02, "112"),
        (112.5, "112.5"),
        (-3, "-3"),
    ],
)
def test_numbers_keep_what_they_say(value, text):
    assert cells.number(value) == text


@pytest.mark.parametrize(
    "figure, text, in_us",
    [
        ("488.86 us", "488.86 us", "488.86"),
        ("3.80 ms", "3.80 ms", "3,800"),
        ("24.181", "24.181", "24,181"),
        ("0.034", "0.034", "34"),
        (3134, "3,134", "3,134,000"),
        ("235 (7.9%)", "235 (7.9%)", None),
    ],
)
def test_published_figures_keep_their_digits(figure, text, in_us):
    assert cells.quoted(figure) == text
    assert in_us is None or cells.quoted_in_us(figure) == in_us


def test_a_row_has_one_unit_and_the_same_decimals():
    row = [1234.5, 2e6, 0]
    assert [cells.duration(one, row) for one in row] == ["1.23 us", "2,000.00 us", "0 us"]
    assert [cells.duration(one, [2e9, 5e8]) for one in (2e9, 5e8)] == ["2.00 s", "0.50 s"]
    assert [cells.number(one, [0.1, 3]) for one in (0.1, 3)] == ["0.10", "3.00"]
    assert cells.ratios([10, 20.5, None, 0], 10) == ["1.00x", "2.05x", "-", "0x"]
    assert cells.ratios([1, 3000], 1500) == ["0.0007x", "2.0000x"]


@pytest.mark.parametrize(
    "value, base, text",
    [
        (2, 2, "1x"),
        (1.02, 1, "1.02x"),
        (1.0002, 1, "1.0002x"),
        (3134, 107, "29.3x"),
        (3134, 1, "3,134x"),
        (0, 5, "0x"),
        (1, 1500, "0.00067x"),
        (5, 0, "-"),
        (None, 5, "-"),
        (5, None, "-"),
    ],
)
def test_ratios_show_what_differs(value, base, text):
    assert cells.ratio(value, base) == text


def events():
    """Test data with exits at which the bookkeeping has something to do."""
    maker = emulator()
    for variant, cost, arrived in (("all", 500, 100), ("no_skid", 300, 0)):
        maker.region("msr+nmi", "events", f"sent_again@{variant}", cost, 2, 2, 12, 2)
        maker.add("msr+nmi", "events", f"sent_again@{variant}", "delivered", arrived)
    return maker.region("msr+nmi", "ablation", "vmcall@all", 70, 1, 1, 5, 1)


LAST = "M = 100: 1000 PMIs expected"
SPARSE = "overhead, as dense as the thesis"
DENSE = "overhead, ten times as dense"


@pytest.mark.parametrize(
    "key, label, after, wanted",
    [
        ("t41", "RDMSR EVTSEL", "", "1|1,000|200|1|1|107|3,134|143"),
        ("t43", "x KVM", "", "-|1.000x|0.084x"),
        ("t41", "exits", "", "0|1|1|0|0"),
        # The thesis's text has these differences, too.
        (
            "t42-a1k",
            "extra over base",
            LAST,
            "50,000|4,050,000|550,000|150,000|51,000|1.953|23.981|10.272|3.076",
        ),
        (
            "t42-a1k",
            "x KVM",
            LAST,
            "0.012x|1.000x|0.136x|0.037x|0.013x|0.081x|1.000x|0.428x|0.128x",
        ),
        ("t43", "VMCALL", "", "not run"),
        ("t45", "instructions per sample", "", "1.00|not run|not run|5.00|1.20"),
        ("t45", SPARSE, "", "0.10 %|not run|not run|0.50 %|0.12 %|7.3 %|20.3 %|7.6 %"),
        ("t45", "points to native", SPARSE, "+0.00|-|-|+0.40|+0.02|+0.00|+13.00|+0.30"),
        ("t45", DENSE, "", "1.00 %|not run|not run|5.00 %|1.20 %||"),
        ("t45", "points to native", DENSE, "+0.00|-|-|+4.00|+0.20||"),
        ("exits-a1", "all", "", "0|not run|3|0|0"),
        ("exits-a1", "RDMSR", "", "0|not run|2"),
        ("ablation", "none", "", "95|+5|5|1"),
        ("ablation", "all", "", "100|+10|5|1"),
        ("ablation", "all but mask", "", "not run"),
        ("events", "all", "", "500|+330|12|2|100"),
        # The two exits alone are not known there.
        ("events", "all but skid", "", "300|-|12|2|0"),
        ("events", "none", "", "not run"),
    ],
)
def test_rows(key, label, after, wanted):
    wanted = wanted.split("|")
    assert row_of(tables.make(events().machine(), key), label, after)[: len(wanted)] == wanted


def ratio_rows(table):
    return {row.label: row for row in table.rows if row.label.startswith("x ")}


def test_no_ratio_that_a_note_forbids():
    """Instructions of an exit stand beside no ratio of published cycles, one instruction stands in
    no ratio, native's few instructions in the test kernel are no base, and each level of
    virtualization is a base of its own."""
    table = tables.make(emulator().machine(), "t41")
    assert not ratio_rows(table) and "compare the estimated cycles" in " ".join(table.reading)
    assert row_of(table, "RDMSR EVTSEL", names=PEERS)[:2] == ["1,000", "1"]
    table = tables.make(metal().machine(), "t41")
    assert list(ratio_rows(table)) == ["x native", "x KVM"]
    assert row_of(table, "x KVM") == ["0.50x", "1.00x", "1.50x", "2.00x", "2.50x"] + cells.ratios(
        [published.TABLE_4_1["rdmsr_evtsel"][name] for name in table.theirs], 3134
    )
    table = tables.make(emulator().machine(), "t42-a1k")
    assert list(ratio_rows(table)) == ["x KVM"] and "no ratio to it" in " ".join(table.reading)
    maker = emulator().region("native", "exit", "cpuid", 0, 1)
    rows = [row for row in tables.make(maker.machine(), "t43").rows if row.label == "x KVM"]
    assert len(rows) == len(ALL.items_in("t43")) and rows[0].cells[0].text == "-"
    assert {cell.text for row in rows for cell in row.cells if cell.kind == "published"} == {""}
    nested = metal()
    nested.made["columns"]["kvm"]["detail"] = results.ONE_LEVEL
    table = tables.make(nested.machine(), "t41")
    assert list(ratio_rows(table)) == ["x native"] and formulas.LEVELS in table.reading


def named(maker):
    """With KVMs whose releases are known."""
    maker.made["environment"]["kvm"] = "Linux 6.1.0-56-cloud-amd64, kvm_intel enable_pmu=Y"
    for name in PEERS:
        maker.made["columns"][name]["detail"] = "Linux a1; Linux 7.3.4+deb13-amd64, kvm_intel x=Y"
    return maker


def test_names_for_a_reader():
    """Releases are those of the results; without them a KVM's name has none."""
    machine = named(emulator()).machine()
    heads = {name: columns.head(name, machine) for name in results.COLUMNS}
    wanted = ("native", "KVM, Linux 6.1", "PMUvisor, all intercepted", "PMUvisor, NMIs injected")
    assert tuple(heads[name] for name in MACHINES[:-1]) == wanted
    assert [heads[name] for name in PEERS] == ["KVM, Linux 7.3", "KVM, Linux 7.3, mediated vPMU"]
    assert (heads["thesis"], heads["msr+nmi"]) == ("the thesis's design", "PMUvisor")
    assert len(set(heads.values())) == len(heads)
    assert columns.head("kvm", emulator().machine()) == "KVM"
    bare = metal()
    bare.made["environment"]["kvm"] = "kvm: of Linux 6.12.4-amd64 x=Y; kvm-mediated: of Linux 8.0.1"
    assert columns.head("kvm", bare.machine()) == "KVM, Linux 6.12"
    assert columns.head("kvm-mediated", bare.machine()) == "KVM, Linux 8.0, mediated vPMU"


def test_a_name_stands_in_place_of_a_key():
    machine = named(emulator()).machine()
    assert columns.said("under msr+nmi; column thesis: old", machine) == (
        "under PMUvisor; the thesis's design: old"
    )
    kept = "policy=msr+nmi, `kvm-new`, T=x/msr+nmi, the thesis, an msr, x-kvm-new"
    assert columns.said(kept, machine) == kept
    for label, text in (
        ("msr, NMI", "PMUvisor, NMIs injected, NMI"),
        ("PMIs, msr+nmi", "PMIs, PMUvisor"),
        ("native: more", "native: more"),
        ("kvm", "KVM, Linux 6.1"),
    ):
        assert columns.said_of_label(label, machine) == text


def keys_in(text):
    """Columns' keys that stand in a text as names: not those of options, files or code."""
    return [found[0] for found in columns.KEYS.finditer(re.sub(r"`[^`]*`|\(key [^)]*\)", "", text))]


def test_a_reader_sees_names():
    """No table, sentence or picture has a column's key."""
    machine = named(emulator()).machine()
    table = added.named(tables.make(machine, "t43"), machine)
    assert table.heads[: len(results.COLUMNS)] == [
        columns.head(name, machine) for name in results.COLUMNS
    ]
    assert keys_in(report.text_of([machine])) == []
    assert keys_in("under msr+nmi") == ["msr+nmi"]
    figure = leads.leads(machine)[0].draw("m1-")
    assert "KVM, Linux 7.3, mediated vPMU: " in figure.desc and keys_in(figure.svg) == []


def answered():
    """Test data with all columns of the first screen's answer."""
    maker = named(emulator())
    for item in formulas.PERIODS:
        pmis = published.TABLE_4_2_PMIS[item]
        maker.region("kvm", "a1", item, 30 + 4000 * pmis, 1000)
        maker.region("thesis", "a1", item, 30 + 80 * pmis, 1000)
    return maker


def test_the_answer_is_that_of_the_tables():
    """Its figures are the tables', in one order, with their units."""
    machine = answered().machine()
    sentence, table = leads.answer(machine)
    row = row_of(tables.make(machine, "t42-a1"), "extra over base", LAST, leads.ANSWERED)
    each = [int(text.replace(",", "")) / formulas.PMIS for text in row[: len(leads.ANSWERED)]]
    said = sentence.partition(" takes ")[2].split("; ")
    assert [float(re.search(r"[\d,]+", one)[0].replace(",", "")) for one in said] == each, sentence
    assert re.fullmatch(r"[\d,]+ instructions natively", said[0]), said
    heads = [columns.head(name, machine) for name in leads.ANSWERED]
    rows = [one for one in table.rows if one.label in heads]
    assert [one.label for one in table.rows if one not in rows] == ["KVM, Linux 7.3"]
    assert [one.cells[0].text for one in rows] == [cells.number(one) for one in each]
    assert [one.label for one in rows] == heads
    assert all(head in one for head, one in zip(heads[1:], said[1:]))
    assert "the thesis's design (J.-H. Chen, 2024), which has one VM exit" in sentence
    assert "instructions, counted" in table.heads[0]
    assert all("estimate" in head for head in table.heads[1:])
    for row in table.rows:
        for cell in row.cells[1:]:
            assert re.fullmatch(r"[\d,.]+( %)? \([\d,.]+ to [\d,.]+( %)?\)", cell.text), cell
    assert leads.answer(metal().machine()) == []


def test_the_first_screen_says_how_sure_its_counts_are():
    maker = answered()

    def said(**run):
        maker.made["run"] = {"seconds": 1, "jobs": 1, "processors": 1, "whole": True, **run}
        return " ".join(summary.first(Machine(maker.made))[-2:])

    assert "counted in an emulator, in one run." in said()
    assert "with the same result in two runs." in said(second=3)
    assert "Nobody has measured PMUvisor on hardware." in said()
    assert "make usb BENCH=thesis" in said() and "estimates" in said()
    for entry in maker.made["measurements"]:
        entry["exact"] = False
    assert "counted in an emulator, in one run." in said(second=3)
    base = Machine(maker.made).entry("kvm", "a1", formulas.BASE, "instructions")
    base["again"] = base["value"] + 1
    assert re.search(
        r"counted in an emulator, and a second run agrees within \d+\.\d\d %\.", said(second=3)
    )


def test_the_thesis_designs_are_made_of_kvms_exits():
    """Of KVM's PMI of 4,050 instructions: 50 natively, 1,000 for the NMI, 400 for LVTPC."""
    maker = emulator()
    for item in formulas.PERIODS:
        pmis = published.TABLE_4_2_PMIS[item]
        maker.region("kvm", "a1", item, 30 + 4000 * pmis, 1000 + 50 * pmis, 7 * pmis)
        maker.add("kvm", "a1", item, "pmis", pmis)
        maker.add("kvm", "a1", item, "exits:exception or NMI", 2 * pmis)
        maker.add(
            "kvm", "a1", item, "root_instructions:exception or NMI", 2000 * pmis, "instructions"
        )
    maker.region("kvm", "pmi", "lvtpc_write", 400, 0, 1)
    machine = maker.machine()
    assert formulas.of_kvms_parts(machine) == {"msr": 1450, "thesis": 450}
    found = row_of(tables.make(machine, "t42-a1"), "of KVM's exits, x KVM", "", results.COLUMNS)
    ours = dict(zip(results.COLUMNS, found))
    assert (ours["msr"], ours["thesis"], ours["msr+nmi"]) == ("0.36x", "0.11x", "-")
    assert found[len(results.COLUMNS) :] == ["", "", "0.43x", "0.13x"]
    assert formulas.of_kvms_parts(emulator().machine()) == {}


def test_the_density_of_the_thesis_comes_first():
    """Also in the sentence and the picture."""
    machine = emulator().machine()
    labels = [row.label for row in tables.make(machine, "t45").rows]
    assert labels.index(SPARSE) == 0 < labels.index(DENSE)
    sentence = dict(summary.results_of(machine))["4.5, its overhead"]
    lead = next(one for one in leads.leads(machine) if one.key == "record")
    assert "perf record adds 0.10 % natively" in sentence and "1.00 %" not in sentence
    assert lead.bars["native"].text == "0.10 %" and "as many samples as in the thesis" in lead.axis


def test_a_picture_says_what_it_shows():
    """Title, what the bars are with the unit, the columns' names, the values."""
    machine = named(emulator()).machine()
    for one in leads.leads(machine):
        if one.bars:
            svg = re.sub(r"<(title|desc)\b.*?</\1>", "", one.draw("", alone=True).svg, flags=re.S)
            svg = " ".join(re.sub(r"<[^>]*>", " ", svg).split())
            for text in (one.title, *one.axis.split(), *(bar.text for bar in one.bars.values())):
                assert text in svg, (one.key, text)
            assert re.search("instructions|cycles|ns|%", one.axis)
            assert all(word in svg for bar in one.bars.values() for word in bar.head.split())


def test_published_ratios_are_those_of_the_published_figures():
    for figures in published.TABLE_4_1.values():
        got = tables.published_ratios(mock.Mock(theirs=["kvm"]), figures, "native")[0].text
        assert got == cells.ratio(figures["kvm"], figures["native"])


def test_linux_base_has_the_hypervisor_bit():
    maker = emulator()
    for column, pmis in (("native", 52000), ("msr+nmi", 52051)):
        for item, value in (("m100", pmis), (formulas.BASE, 1000)):
            maker.add(column, "a1_bare", item, "instructions", value, "instructions")
    reading = " ".join(tables.make(maker.machine(), "t42-a1").reading)
    assert "add 51,000 natively and 51,051 under PMUvisor, 1.0010 x as many." in reading


def test_missing_cells_say_why():
    table = tables.make(emulator().machine(), "t42-a1")
    row = next(row for row in table.rows if row.label == "whole program")
    kvm = row.cells[results.COLUMNS.index("kvm")]
    assert (kvm.text, kvm.kind, table.notes[kvm.note - 1]) == ("not run", "missing", NO_KVM)


@pytest.mark.parametrize("key", THESIS)
def test_a_column_that_did_not_run_says_why_everywhere(key):
    table = tables.make(Machine(results.empty("emulator", why="made up: no VMX")), key)
    main = [row.cells[: len(results.COLUMNS)] for row in table.rows if row.kind == "main"]
    assert {cell.text for row in main for cell in row} == {"not run"} and table.notes


def test_must_hold_knows_good_from_bad():
    def verdicts(machine):
        return [fact[3] for fact in facts.must_hold(machine)]

    assert verdicts(emulator().machine()) == ["holds"] * 6
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
    assert set(verdicts(maker.machine())) == {"does not hold"}
    assert set(verdicts(Machine(results.empty("emulator")))) == {"not measured"}


def test_tables_fit_a_console():
    for machine in (emulator().machine(), metal().machine(), Machine(results.empty("emulator"))):
        for section in added.sections():
            for part in section.parts(machine):
                table = getattr(part, "what", part)
                lines = textpage.lines_of(table) if isinstance(table, cells.Table) else []
                assert all(len(line) <= textpage.WIDTH for line in lines), lines


def test_without_experiments_the_thesis_is_left():
    machine = emulator().machine()
    sections = tables.ENTRIES["section"].items()
    own = {key: what for key, what in sections if what["folder"] == "bench"}
    with mock.patch.object(tables, "ENTRIES", {**tables.ENTRIES, "section": own}):
        page, text = report.html_of([machine]), report.text_of([machine])
    assert "Table 4.7" in page and "Table 4.7" in text
    keys = [one.key for one in added.sections() if one.what["folder"] != "bench"]
    assert keys and not [key for key in keys if key in page]


# ---- units ----


def test_hardware_has_cycles_with_minimum_and_p95():
    table = tables.make(metal().machine(), "t41")
    assert "cycles" in table.unit
    assert row_of(table, "RDMSR EVTSEL")[:5] == ["100", "200", "300", "400", "500"]
    assert row_of(table, "minimum")[:5] == ["90", "180", "270", "360", "450"]
    assert row_of(table, "95th percentile")[:2] == ["120", "240"]


def test_an_emulators_figures_are_never_cycles():
    machine = emulator().machine()
    for key in (*COUNTED, *added.others(machine)):
        table = tables.make(machine, key)
        assert "cycles" not in " ".join([table.unit, table.groups[0][0], *table.heads])
    for _, sentence in summary.results_of(machine):
        assert "cycles" not in sentence.partition("The thesis")[0]


@pytest.mark.parametrize("maker, key", [(emulator, "t41"), (metal, "t43")])
def test_what_is_published_is_labelled_so(maker, key):
    assert tables.make(maker().machine(), key).groups[1][0].startswith("published")


def test_an_emulator_without_a_ledger_has_its_tsc():
    machine = Maker().add("native", "exit", "cpuid", "time", 3, "instructions").machine()
    assert row_of(tables.make(machine, "t43"), "CPUID")[0] == "3"
    sentence = dict(summary.results_of(machine))["4.3, VM exits"]
    assert "CPUID, in instructions: 3 natively" in sentence


# ---- the program ----


def run_program(*arguments):
    command = [sys.executable, "-m", "bench.report", *map(str, arguments)]
    return subprocess.run(command, text=True, check=False, capture_output=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name, maker in (("emulator", emulator()), ("metal", metal())):
        results.save(maker.made, str(folder / f"{name}.json"))
    return folder


@pytest.fixture(scope="module")
def page(files):
    out = files / "report.html"
    done = run_program("--out", out, files / "emulator.json", files / "metal.json")
    assert done.returncode == 0, done.stderr
    return out.read_text(encoding="utf-8")


def test_page_is_well_formed_and_self_contained(page):
    """It is XML as well, so what is opened is closed, and nothing comes from elsewhere."""
    elements = list(xml.etree.ElementTree.fromstring(page).iter())
    ids = [one.get("id") for one in elements if one.get("id")]
    assert len(ids) == len(set(ids))
    links = [one.get("href") for one in elements if one.tag == "a"]
    assert not [link for link in links if not link.startswith("https://") and link[1:] not in ids]
    assert not {one.tag for one in elements} & {"script", "img", "link", "iframe", "object"}
    assert not re.search(r"@import|url\((?!#)", page)
    assert all(one.get("scope") for one in elements if one.tag == "th")


def test_figures_have_title_desc_and_text(page):
    space = "{http://www.w3.org/2000/svg}"
    figures = list(xml.etree.ElementTree.fromstring(page).iter(f"{space}svg"))
    assert len(figures) >= 6
    for figure in figures:
        assert figure.find(f"{space}title").text and figure.find(f"{space}desc").text
        assert figure.findall(f".//{space}text") and figure.get("role") == "img"


def test_exact_is_said_once():
    maker = emulator()
    counts = len([one for one in maker.made["measurements"] if one["unit"] in figures.COUNTS])
    first, second, *_ = maker.made["measurements"]
    first.update(exact=False, again=2 * first["value"])
    second["exact"] = False
    (said,) = figures.two_runs(maker.machine())
    assert f"{counts - 2:,} of {counts:,} counts had the same value" in said
    assert f"1 had another value there ({first['experiment']})" in said
    assert "is 50.00 % (" in said and "The other 1 come from" in said
    for entry in maker.made["measurements"]:
        entry.pop("again", None)
        entry["exact"] = False
    (said,) = figures.two_runs(maker.machine())
    assert said == f"One run. Each of the {counts:,} counts comes from one run."


def test_machines_are_kept_apart(page):
    assert all(words in page for words in ('id="m1-tables"', 'id="m2-tables"', "made-up metal"))


def test_text_has_every_table(files):
    done = run_program("--text", files / "emulator.json")
    assert done.returncode == 0, done.stderr
    for name in ("4.1", "4.2, Linux", "4.2, test kernel", "4.3", "4.4", "4.5", "4.6", "4.7"):
        assert f"Table {name}:" in done.stdout


def test_bad_input_is_one_line(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text('{"schema": 7}')
    for name in (bad, tmp_path / "absent.json"):
        done = run_program(name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert str(name) in done.stderr


def test_two_runs_of_one_machine_are_merged(files, tmp_path):
    first = ("native", "kvm", *PEERS)
    for at, keep in enumerate((first, set(results.COLUMNS) - set(first))):
        made = emulator().made
        for key in ("measurements", "skipped"):
            made[key] = [entry for entry in made[key] if entry["column"] in keep]
        for name in set(results.COLUMNS) - set(keep):
            made["columns"][name] = {"status": "not run", "why": "made up", "detail": ""}
        results.save(made, str(tmp_path / f"half{at}.json"))
    merged = run_program("--text", tmp_path / "half0.json", tmp_path / "half1.json")
    assert merged.returncode == 0, merged.stderr
    assert merged.stdout == run_program("--text", files / "emulator.json").stdout


def test_columns_that_are_not_alike_make_neither_page_nor_tables(tmp_path):
    mixed, out = metal().made, tmp_path / "report.html"
    mixed["environment"]["root_mitigations"] = "kvm: auto; msr, msr+nmi: off"
    results.save(mixed, str(tmp_path / "mixed.json"))
    for words in (["--text"], ["--out", out]):
        done = run_program(*words, tmp_path / "mixed.json")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert "kvm: auto; msr, msr+nmi: off" in done.stderr and not out.exists()
    named = re.search(r"--columns (\S+)", done.stderr)[1]
    assert named.startswith("native,kvm,") and "msr" not in named
    done = run_program("--text", "--columns", "native,msr", tmp_path / "mixed.json")
    assert done.returncode == 0 and "left out by --columns" in done.stdout
    assert run_program("--columns", "xen", tmp_path / "mixed.json").returncode == 2
