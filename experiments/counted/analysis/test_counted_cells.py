# SPDX-License-Identifier: BSD-2-Clause
# test_counted_cells.py: the calculation, the reasons, and what is kept; with the method's own
# faults: a base that is another one, an event that is left out, events and modes that are mixed up.
import copy
from fractions import Fraction

import pytest

from bench.cells import NONE
from experiments.counted.analysis import counted
from experiments.counted.analysis import counted_kept as kept
from experiments.counted.analysis import counted_picture
from experiments.counted.analysis import counted_reasons as reasons
from experiments.counted.analysis import counted_table

LINE = {
    "row": "cpuid",
    "runs": "4",
    "instructions": "40",
    "branches": "8",
    "user_instructions": "2",
    "user_branches": "0",
    "region": "2802",
}
EMPTY = {**LINE, "row": "empty", "instructions": "36", "user_instructions": "0", "region": "2801"}
REGIONS = {
    name: {
        "nonroot": {"kernel": kernel, "user": 1},
        "root": {"instructions": 360},
        "exits": {"10": {"name": "CPUID", "count": 4}},
    }
    for name, kernel in (("2801", 20), ("2802", 20), ("0", 7))
}


@pytest.fixture
def columns():
    return kept.columns()


def mutated(columns, change):
    columns = copy.deepcopy(columns)
    for name, column in columns.items():
        for row, count in column.items():
            change(name, row, count)
    return reasons.unexplained(counted.cells(columns))


def test_counts():
    """Of the test kernel's lines and the ledger's regions; what was skipped, or is in no region of
    its own, is so."""
    found = counted.counts(
        [LINE, EMPTY, {"row": "xsetbv", "skip": "no XSAVE"}, {**LINE, "row": "x", "region": "0"}],
        REGIONS,
    )
    assert set(found) == {"cpuid", "empty", "x"} and found["x"].retired is None
    assert found["cpuid"].instructions == {"kernel": 40, "user": 2} and found["cpuid"].exits == {
        "CPUID": 4
    }


def test_each():
    """A run of the operation less one of the base: 42 and 36 of four runs; of kernel mode alone 40
    and 36."""
    found = counted.counts([LINE, EMPTY], REGIONS)
    assert counted.each(found, "cpuid", "instructions") == Fraction(6, 4)
    assert counted.each(found, "cpuid", "instructions", levels=("kernel",)) == 1
    assert counted.each(found, "cpuid", "retired") == 0


def test_kept_is_explained(columns):
    """Each cell that was kept is as its reason says, and each reason is a cell's."""
    cells = counted.cells(columns)
    assert set(columns) == set(counted.COLUMNS)
    assert not reasons.unexplained(cells)
    assert set(reasons.EXPECTED) | set(reasons.RETIRED) <= set(cells)
    by_ledger = {reasons.reason(row, column, cell) for (row, column), cell in cells.items()} - {
        None
    }
    assert {
        one[-1] for one in (*reasons.EXPECTED.values(), *reasons.RETIRED.values())
    } | by_ledger == set(reasons.REASONS)


def test_bitvisor_is_its_root_mode(columns):
    """One instruction of root mode's more or less, or a branch without any, is not as explained."""
    for what, row in (
        ("root", "cpuid"),
        ("root", "string"),
        ("instructions", "cpuid"),
        ("branches", "string"),
    ):
        changed = copy.deepcopy(columns)
        count = changed[reasons.BITVISOR][row]
        setattr(
            count,
            what,
            (
                count.root + count.runs
                if what == "root"
                else {**getattr(count, what), "kernel": getattr(count, what)["kernel"] + count.runs}
            ),
        )
        wrong = reasons.unexplained(counted.cells(changed))
        assert [line.split(":")[0] for line in wrong] == [f"{row}, bitvisor"], (what, wrong)


def test_ours_are_exits(columns):
    """Under PMUvisor a count is short by just the exits that root mode completes; an NMI's exit
    completes nothing. Of the two that stop and start the counters only the second would have been
    counted."""
    cells, counted_exits = counted.cells(columns), {("stop_start", "intercept"): 1}
    for name in reasons.OURS:
        for row, count in columns[name].items():
            completed = sum(
                number for exit, number in count.exits.items() if exit != "exception or NMI"
            )
            each = counted_exits.get((row, name), Fraction(completed, count.runs))
            assert cells[row, name].instructions == -each, (row, name, count.exits)


def test_no_reason_for_zero():
    """No reason stands at a cell that it says is 0."""
    assert all(one[0] or one[1] for one in reasons.EXPECTED.values())
    assert all(one[0] for one in reasons.RETIRED.values())


def test_base_swapped(columns):
    """With CPUID as the base its exit disappears, and all other cells of PMUvisor move."""
    wrong = reasons.unexplained(counted.cells(columns, base="cpuid"))
    assert any(line.startswith("cpuid, msr+nmi") for line in wrong) and len(wrong) > len(
        counted.LABELS
    )


def test_event_dropped(columns):
    """Without the event nothing differs from the bare machine any more, and is found out cell by
    cell."""

    def drop(_name, _row, count):
        count.instructions["kernel"] = 0

    wrong = mutated(columns, drop)
    for row, column in (("cpuid", "msr"), ("outs_user", "kvm"), ("int1", "kvm-mediated")):
        assert any(line.startswith(f"{row}, {column}:") for line in wrong)


def test_events_mixed_up(columns):
    """Branches counted as instructions, or user mode's as the kernel's."""

    def branches(_name, _row, count):
        count.instructions = count.branches

    def user(_name, row, count):
        if row == "user_cpuid":
            count.instructions["user"] = 0

    assert mutated(columns, branches) and mutated(columns, user)


def test_one_run_otherwise(columns):
    """One instruction more in one of sixteen runs is no whole number for one, and no reason's."""

    def one_more(name, row, count):
        count.instructions["kernel"] += (name, row) == ("kvm", "cpuid")

    wrong = mutated(columns, one_more)
    assert len(wrong) == 1 and wrong[0].startswith("cpuid, kvm:")


def test_without_the_ledger(columns):
    def none(_name, _row, count):
        count.retired = None

    assert mutated(columns, none)


def test_missing_row(columns):
    del columns["kvm"]["int1"]
    assert reasons.unexplained(counted.cells(columns)) == ["int1, kvm: not measured"]


def test_page_and_picture(columns):
    """Both are what the file gives (make counted)."""
    cells = counted.cells(columns)
    with open(kept.PAGE, encoding="utf-8") as source:
        page = source.read()
    assert all(page.count(mark) == 1 for marks in counted_table.PLACES.values() for mark in marks)
    assert page == counted_table.put(page, cells)
    with open(kept.PICTURE, encoding="utf-8") as source:
        assert source.read() == counted_picture.picture(cells)


def test_report_table(columns):
    """The report's table has a note for each cell that differs, and none for another."""
    cells = counted.cells(columns)
    table = counted_table.table(cells)
    for row in table.rows:
        assert all((cell.text in ("0", NONE)) == (cell.note == 0) for cell in row.cells), row.label
    assert len(table.rows) == len(
        {row for (row, column), cell in cells.items() if reasons.reason(row, column, cell)}
    )
