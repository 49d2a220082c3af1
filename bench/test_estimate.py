# SPDX-License-Identifier: BSD-2-Clause
# test_estimate.py: estimated cycles with their range, and columns in other configurations. All
# figures are made up to test arithmetic.

from bench import estimate, tables, test_report
from bench.columns import CONFIGS

NAIVE = CONFIGS["naive"].title


def test_configurations_stand_beside_their_column():
    maker = test_report.emulator()
    for item, value in (
        ("exit.cpuid@trap", 110),
        ("a1.m100@trap", 5000),
        ("a1.m200000@trap", 1000),
    ):
        maker.add("msr+nmi", "config", item, "root_instructions", value, "instructions")
        maker.add("msr+nmi", "config", item, "instructions", value, "instructions")
    table = tables.make(maker.machine(), "config")
    rows = {row.label: [cell.text for cell in row.cells] for row in table.rows[:7]}
    assert rows["PMUvisor"] == []
    assert rows["as in the tables"][0] == "100"
    assert [rows["apic=trap"][at] for at in (0, 3, 5)] == ["110", "5,000", "4"]
    assert next(label for label in rows if label == NAIVE) in " ".join(table.reading)
    for label in (NAIVE, "mitigations=auto"):
        assert all(text.startswith("not run") for text in rows[label]), rows[label]


def test_table_4_2_has_the_models_ratio_beside_its_counts():
    made = test_report.emulator().machine()
    table = tables.make(made, "t42-a1")
    groups = [row.label for row in table.rows if row.kind == "group"]
    estimated = [row for row in table.rows if row.label.startswith("cycles, estimated")]
    assert len(estimated) == len(groups) - 1
    assert [len(row.cells) for row in estimated] == [len(table.heads)] * 3


def test_estimates_have_a_range_and_are_called_so():
    table = tables.make(test_report.emulator().machine(), "estimate")
    assert "not measured" in table.unit
    at = next(at for at, row in enumerate(table.rows) if row.label == "CPUID")
    ours = table.heads.index("msr+nmi")
    mean = float(table.rows[at].cells[ours].text.replace(",", ""))
    low, high = (
        float(text.replace(",", "")) for text in table.rows[at + 1].cells[ours].text.split(" to ")
    )
    assert 0 < low < mean < high, (low, mean, high)


def test_an_access_that_does_not_exit_is_its_msrs():
    made = test_report.emulator().machine()
    assert estimate.operation(made, "msr+nmi", "msr", "rdmsr_pmc") == estimate.operation(
        made, "native", "msr", "rdmsr_pmc"
    )
