# SPDX-License-Identifier: BSD-2-Clause
# test_machines.py: which results the report takes for one machine's; and that it has a page for
# results that are all zero, and for ablations with few and with all exits. All figures are made up.
import pytest

from bench import columns, figures, formulas, report, results, tables
from bench.test_report import Maker, emulator, metal, row_of


def of_column(name, cpu="made up", **environment):
    maker = Maker("metal", cpu)
    maker.made["environment"].update(environment)
    for other, column in maker.made["columns"].items():
        if other != name:
            column.update(status="not run", why="made up", detail="")
    maker.add(name, "msr", "rdpmc", "time", 100, "cycles", min=90, p95=110)
    return maker.made


def test_columns_of_one_machine_are_merged():
    machines, notes = report.by_machine([of_column("native"), of_column("msr")])
    assert (len(machines), notes, machines[0].number) == (1, [], 0)


def test_two_machines_with_one_processor_are_kept_apart():
    machines, notes = report.by_machine(
        [of_column("native"), of_column("native"), of_column("msr"), of_column("msr", "other")]
    )
    assert [machine.number for machine in machines] == [1, 2, 0]
    assert len(notes) == 1
    assert "column native is in both" in notes[0]
    assert report.name_of(machines[1]) == "metal: made up, set 2"
    page = report.html_of(machines, notes)
    assert "column native is in both" in page
    assert "metal: made up, set 2" in page


def test_other_versions_are_kept_apart():
    second = of_column("msr")
    second["tool"]["version"] = "v2"
    first = of_column("native")
    first["tool"]["version"] = "v1"
    machines, notes = report.by_machine([first, second])
    assert len(machines) == 2
    assert "tool.version" in notes[0]


def test_parts_that_are_not_alike_are_refused():
    parts = [of_column("native", kernel="6"), of_column("msr", kernel="7")]
    with pytest.raises(results.Trouble, match="native: 6; msr: 7.*--columns native RESULTS"):
        report.by_machine(parts)
    machines, _ = report.by_machine(parts, ["msr"])
    assert machines[0].environment["kernel"] == "7"


def test_what_is_only_said_is_the_first_line():
    parts = [of_column("native", frequency="1 MHz"), of_column("msr", frequency="2 MHz")]
    machines, _ = report.by_machine(parts)
    said = "Columns differ in frequency: native: 1 MHz; msr: 2 MHz."
    assert report.text_of(machines).splitlines()[2] == said
    page = report.html_of(machines)
    assert page.index(said) < page.index("Run on a bare machine")


def test_all_zero():
    maker = emulator()
    for entry in maker.made["measurements"]:
        entry["value"] = 0
    assert "</html>" in report.html_of([maker.machine()])
    assert "Table 4.7" in report.text_of([maker.machine()])


def test_emulated_time_has_no_ratios():
    maker = emulator()
    for name in ("native", "msr"):
        maker.region(name, "nginx", "plain", 0, 1000)
        maker.add(name, "nginx", "plain", "rate", 500)
        maker.add(name, "nginx", "plain", "requests", 800)
    table = tables.make(maker.machine(), "t46")
    assert [row.label for row in table.rows].count("x native") == 1
    assert row_of(table, "requests per second")[0] == "500"
    assert "below 2.0 %" in " ".join(table.reading)


def test_dr7_is_said_where_it_counts():
    machine = emulator().machine()
    assert formulas.DR7 in tables.make(machine, "t42-a1").reading
    assert formulas.DR7 not in tables.make(machine, "t42-a1k").reading


def test_ablation_of_every_exit():
    def headings():
        table = tables.make(maker.machine(), "ablation")
        return [row.label for row in table.rows if row.kind == "group"]

    maker = emulator()
    assert headings() == ["CPUID"]
    for item in ("vmcall", "inl", "outl", "cpuid_blocked"):
        maker.region("msr+nmi", "ablation", f"{item}@all", 100, 1, 1, 5, 1)
    assert headings() == ["CPUID", "VMCALL", "INL", "OUTL", "CPUID in NMI"]
    plotted = [heading for heading, rows in figures.ablation_groups(maker.machine()) if rows]
    assert plotted == ["CPUID", "CPUID in NMI"]


def test_pairs_without_mitigations_and_with_them():
    """On hardware each column that has such a pair has both rows, in time."""
    maker = metal()
    maker.add("kvm", "exit", "cpuid", "time", 1200, "cycles")
    maker.add("kvm", "config", "exit.cpuid@kvm_mitigated", "time", 2900, "cycles")
    table = tables.make(maker.machine(), "twins")
    twins = [row for row in columns.CONFIGS.values() if row.options == formulas.TWIN]
    pairs = [columns.COLUMNS[row.on].head for row in twins]
    assert [row.label for row in table.rows if row.kind == "group"] == pairs
    at = [row.label for row in table.rows].index("KVM")
    rows = {row.label: row.cells[0].text for row in table.rows[at + 1 : at + 3]}
    assert rows == {"off": "1,200", formulas.TWIN: "2,900"}, rows
