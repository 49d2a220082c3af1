# SPDX-License-Identifier: BSD-2-Clause
# test_results_page.py: each file of results/ is as the schema wants it, docs/results.md is made of
# them.
import copy
import glob
import json
import os

import pytest

from bench import formulas, leads, report, results, results_page, rowfile


@pytest.fixture(scope="module")
def machines():
    found = results_page.load()
    assert found, "results/ has no file"
    return found


FILES = glob.glob(os.path.join(results_page.TOP, "results", "**", "*.json"), recursive=True)


@pytest.mark.parametrize("file", [os.path.relpath(file, results_page.TOP) for file in FILES])
def test_a_file_is_as_written(file):
    """The writer writes each file as it is: each row on one line, and each cell in one row."""
    with open(os.path.join(results_page.TOP, file), encoding="ascii") as source:
        text = source.read()
    data = json.loads(text)
    assert text == rowfile.text_of(data), "rowfile.write() writes another text"
    if "measurements" in data:
        assert data["measurements"] == results.rows_of(
            results.measurements_of(data["measurements"])
        ), "a cell has more than one row"


def is_older(machines):
    """Whether a column came after these results: it is on the page as soon as it is measured."""
    return any(
        column["why"] == results.OLDER
        for machine in machines.values()
        for column in machine.results["columns"].values()
    )


def test_files_and_page_are_current(machines):
    assert is_older(machines) or not results_page.stale(machines), "make report"
    return f"{', '.join(machines)}"


def test_an_old_page_is_seen(machines):
    """Where one figure of one file is another, page, part and picture have to be made again."""
    name, machine = next(iter(machines.items()))
    changed = copy.deepcopy(machine.results)
    for one in changed["measurements"]:
        if (one["column"], one["experiment"], one["item"]) == ("msr", "a1", formulas.LAST):
            one["value"] *= 2
    wrong = results_page.stale({**machines, name: report.Machine(changed)})
    files = {line.partition(":")[0] for line in wrong}
    assert {
        "docs/results.md",
        f"docs/results/{name}-tables.md",
        f"docs/results/{name}-pmi.svg",
    } <= files, wrong


def test_no_figure_without_a_command(machines):
    for machine in machines.values():
        assert all(
            one.command.startswith(("make ", "FULL=1 make ", "pytest "))
            for one in leads.leads(machine)
        )
        assert all(one["command"] for one in machine.results.get("tables", []))


@pytest.mark.parametrize("harm", ["schema", "cell"])
def test_a_wrong_file_is_seen(machines, harm):
    found = {**next(iter(machines.values())).results}
    if harm == "schema":
        found["schema"] = 0
    else:
        found["measurements"] = [{**found["measurements"][0], "value": "much"}]
    with pytest.raises(results.Trouble):
        results.validate(found)
