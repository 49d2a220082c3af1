# SPDX-License-Identifier: BSD-2-Clause
# test_demand_page.py: the README's tables are of results/answers/demand.json, and its picture is.
import pytest

from bench import plots
from experiments.demand.analysis import demand_picture, demand_tables
from testbed.machine import path


def readme():
    with open(path("experiments", "demand", "README.md"), encoding="utf-8") as source:
        return source.read()


def test_tables():
    text, rows = readme(), list(demand_tables.page(demand_picture.read()["cases"]))
    assert len(rows) > 20 and [row for row in rows if row not in text] == []


def test_tables_of_other_data():
    cases = demand_picture.read()["cases"]
    cases["trap"]["a1"]["with"]["instructions"] += 100_000
    assert [row for row in demand_tables.page(cases) if row not in readme()]


def test_picture():
    data = demand_picture.read()
    with open(demand_picture.PICTURE, encoding="utf-8") as source:
        kept = plots.mark_of(source.read())
    try:
        assert kept and kept == plots.mark_of(
            demand_picture.picture(data)
        ), "demand_picture.py draws another one"
    except plots.NoPlots as why:
        pytest.skip(str(why))
    data["cases"]["trap"]["a1"]["with"]["instructions"] += 100_000
    assert kept != plots.mark_of(demand_picture.picture(data))
