# SPDX-License-Identifier: BSD-2-Clause
# test_kept.py: tables of experiments as data of the results. All figures are made up.
import copy
import dataclasses
import json

import pytest

from bench import added, environment, kept, report, results, textpage
from bench.cells import Cell, Machine, Table
from testbed import machine


def made_up(_lab, _machine):
    table = Table(
        "some-table",
        "Some table",
        "count",
        ["ours", "theirs"],
        [("emulator", 1), ("published", 1)],
        reading=["Made up."],
        theirs=[0],
    )
    table.group("a group")
    table.add("a row", [Cell("1", "value", table.note("a note")), Cell("2", "published")])
    table.add("short", [Cell("3")])
    return table


def wanted(table=made_up, key="some-table", quick=True):
    return added.Measured(key, "Some table", "make some", table, quick, "some")


def refuses(_lab, _machine):
    raise machine.Skip("nothing here")


def fails(_lab, _machine):
    assert False, "one thing is wrong\nmore"


def breaks(_lab, _machine):
    return {}["no such key"]


def test_data_and_back():
    table = made_up(None, None)
    assert kept.as_table(json.loads(json.dumps(dataclasses.asdict(table)))) == table


def test_heads_are_data():
    """The function of an entry with heads adds the rows, and no more cells than there are heads."""

    def rows(count):
        return lambda table, lab, machine: table.add(lab, [Cell(machine)] * count)

    what = {"table": "Some table", "unit": "count", "heads": ["a", "b"], "over": "emulator"}
    table = added.filled("some-table", what, rows(1), "a row", "1")
    assert (table.heads, table.groups) == (["a", "b"], [("emulator", 2)])
    assert [cell.text for cell in table.rows[0].cells] == ["1", ""]
    with pytest.raises(AssertionError, match="the row a row"):
        added.filled("some-table", what, rows(3), "a row", "1")


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data.pop("heads"),
        lambda data: data["rows"][1]["cells"].pop(),
        lambda data: data["rows"][1]["cells"][0].update(note=2),
        lambda data: data["groups"].pop(),
        lambda data: data["rows"][0].pop("label"),
        lambda data: data.update(strange=1),
    ],
)
def test_faults_are_seen(harm):
    data = dataclasses.asdict(made_up(None, None))
    harm(data)
    with pytest.raises(results.Trouble):
        kept.as_table(data)


def test_gather_says_why():
    rows = [
        wanted(),
        wanted(refuses, "a"),
        wanted(fails, "b"),
        wanted(breaks, "c"),
        wanted(fails, "d", quick=False),
    ]
    said = []
    entries, failed, interrupted = kept.gather(None, 1, rows, None, True, said.append)
    assert [bool(one["table"]) for one in entries] == [True, False, False, False, False]
    assert failed == ["b", "c"] and not interrupted and len(said) == len(rows)
    assert [one["why"] for one in entries[1:]] == [
        "nothing here",
        "one thing is wrong",
        "KeyError: 'no such key'",
        kept.QUICK,
    ]


@pytest.mark.parametrize("sources, boots", [(environment.sources(), 0), ("old", 1), (None, 1)])
def test_an_answer_of_this_code_needs_no_boot(tmp_path, sources, boots):
    (tmp_path / "some.json").write_text(json.dumps({"sources": sources}))
    booted = []

    def boot(_lab, _machine):
        booted.append(1)
        return made_up(None, None)

    answer = dataclasses.replace(wanted(boot, quick=False), kept=lambda: made_up(None, None))
    rows = [*kept.without_boots([answer], str(tmp_path)), *kept.without_boots([wanted(boot, "b")])]
    entries, failed, _ = kept.gather(None, 1, rows, None, False, lambda _: None)
    assert (len(booted), failed) == (boots + 1, []) and all(one["table"] for one in entries)
    (entry,) = kept.gather(None, 1, rows[:1], None, True, lambda _: None)[0]
    assert bool(entry["table"]) is not bool(boots)


def found(entries):
    return {**results.empty("emulator"), "tables": entries}


def test_in_results(tmp_path):
    """Saved, loaded, merged: a table that was made wins over one that was not."""
    entries, _, _ = kept.gather(
        None, 1, [wanted(), wanted(fails, "b")], None, False, lambda _: None
    )
    name = str(tmp_path / "results.json")
    results.save(found(entries), name)
    there = results.load(name)
    assert kept.parts("some", Machine(there))[0].rows == made_up(None, None).rows
    worse = copy.deepcopy(there)
    worse["tables"][0].update(table=None, why="gone")
    assert results.merge([there, worse])[0]["tables"] == there["tables"]
    there["tables"][0]["why"] = "both"
    with pytest.raises(results.Trouble):
        results.validate(there)


def test_on_the_page():
    entries, _, _ = kept.gather(
        None, 1, [wanted(), wanted(fails, "b")], None, False, lambda _: None
    )
    tables = kept.parts("some", Machine(found(entries)))
    page = report.page.MACROS.table(tables[0])
    assert "<details>" in page and "make some" in page and "a note" in page
    assert "Not run: one thing is wrong." in report.page.MACROS.table(tables[1])
    assert "make some" in textpage.lines_of(tables[0])


def test_each_experiments_tables_are_on_the_report():
    """A table that no section has would be measured for nothing."""
    experiments = {one.experiment for one in added.measured()}
    entries = [{**kept.entry(one), "why": f"not run: {one.key}"} for one in added.measured()]
    page = report.html_of([Machine(found(entries))])
    assert experiments and not [
        one.key for one in added.measured() if f"not run: {one.key}" not in page
    ]
    assert len({one.key for one in added.measured()}) == len(added.measured())
