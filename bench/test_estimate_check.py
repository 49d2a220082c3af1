# SPDX-License-Identifier: BSD-2-Clause
# test_estimate_check.py: what a bare machine measured, beside the estimate: which medians are
# inside, in which unit, of which processor, and what is said if there is no estimate. The times are
# made up, from the estimate itself.
from unittest import mock

import pytest

from bench import estimate, estimate_check, report, results
from bench.cells import Machine
from bench.estimate_check import OPERATIONS, PMIS
from bench.formulas import BASE
from bench.test_report import Maker

SKYLAKE = "Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz"
MHZ = {"native": 2200, "kvm": 2000}
BASE_NS = 200_000


def machine(times=1, kind="metal", cpu=SKYLAKE, frequency=None, **more):
    """A machine that takes so many times the estimate's cycles."""
    made = Maker(kind, cpu)
    made.made["environment"]["frequency"] = frequency or "; ".join(
        f"{name}: {mhz}.000 MHz" for name, mhz in MHZ.items()
    )
    for name, mhz in MHZ.items():
        for experiment, item in OPERATIONS.values():
            cycles = times * estimate_check.estimates(name, experiment, item).middle
            if experiment == "a1":
                pmis = 1000 * PMIS * cycles / mhz
                made.add(name, "a1", BASE, "time", BASE_NS, "ns")
                made.add(name, "a1", item, "time", BASE_NS + pmis, "ns", **more)
            else:
                made.add(name, experiment, item, "time", cycles, "cycles", **more)
    return made.machine()


def table_of(*arguments, **more):
    return estimate_check.parts(machine(*arguments, **more))[0]


def rows_of(table, cell):
    return [row.cells[cell].text for row in table.rows if row.cells]


@pytest.mark.parametrize("times, inside", [(1, "yes"), (0.2, "NO"), (8, "NO")])
def test_a_median_is_inside_or_not(times, inside):
    """Of each operation and column; ns are cycles by the column's own frequency."""
    table = table_of(times)
    assert [row.label for row in table.rows if not row.cells] == list(OPERATIONS)
    assert rows_of(table, -1) == [inside] * len(OPERATIONS) * len(MHZ)
    number = len(OPERATIONS) * len(MHZ) * (inside == "yes")
    assert f"{number} of 6 measured medians are inside" in table.reading[0]


def test_columns_that_only_one_has_are_left_out():
    made = machine()
    for entry in made.metrics("kvm", *OPERATIONS["CPUID"]).values():
        entry["metric"] = "other"
    made = Machine(made.results)
    table = estimate_check.parts(made)[0]
    assert len(rows_of(table, -1)) == 5


def test_interval_is_that_of_the_samples():
    """Of one PMI: what each repetition of the run has more than the base of the same repetition."""
    made = Maker("metal", SKYLAKE)
    made.made["environment"]["frequency"] = "2000.000 MHz"
    for item, each in ((BASE, 1000), (OPERATIONS["one of 1000 PMIs"][1], 2_001_000)):
        samples = [[place, number, each + 100 * place] for place in (1, 2) for number in (1, 2)]
        made.add("native", "a1", item, "time", each + 150, "ns", samples=samples)
    time, unit = estimate_check.measured(made.machine(), "native", *OPERATIONS["one of 1000 PMIs"])
    assert (time, unit) == ({"value": 4000, "low": 4000, "high": 4000}, "cycles")


@pytest.mark.parametrize("frequency", ["native: 2 GHz", "800 to 4000 MHz, governor none"])
def test_without_a_frequency_nothing_is_guessed(frequency):
    table = table_of(frequency=frequency)
    assert rows_of(table, -1) == ["yes"] * 4 + ["-"] * 2
    assert all(text.endswith(" ns") for text in rows_of(table, 0)[-2:])
    assert table.notes == [estimate_check.NO_FREQUENCY]


@pytest.mark.parametrize(
    "cpu, known",
    [
        (SKYLAKE, True),
        ("Intel(R) Xeon(R) Platinum 8160 CPU @ 2.10GHz", True),
        ("Intel(R) Xeon(R) Silver 4214 CPU @ 2.20GHz", False),
        ("INTEL(R) XEON(R) GOLD 6548N", False),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", False),
        ("", False),
    ],
)
def test_another_generation_is_said(cpu, known):
    assert bool(table_of(cpu=cpu).reading[1:]) != known


@pytest.mark.parametrize("text, why", [(None, "No such file"), ("{", "not JSON"), ("{}", "schema")])
def test_bad_results_of_the_emulator_are_one_line(tmp_path, text, why):
    """And the report is whole without them."""
    path, made = tmp_path / "emulator.json", machine()
    if text:
        path.write_text(text)
    with mock.patch.object(estimate, "counted", lambda: Machine(results.load(str(path)))):
        (line,) = estimate_check.lines(made)
        page = report.html_of([made])
    assert line.startswith("No estimate stands beside") and why in line, line
    assert "Table 4.1" in page and "No estimate stands beside" in page


def test_only_a_bare_machine_is_compared():
    assert not estimate_check.parts(machine(kind="nested"))
    assert not list(estimate_check.lines(machine(kind="nested")))
