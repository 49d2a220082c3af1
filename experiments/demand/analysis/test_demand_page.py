# SPDX-License-Identifier: BSD-2-Clause
# test_demand_page.py: the README's tables are of results/answers/demand.json, and its picture is.
from bench import plots
from experiments.demand.analysis import demand_picture, demand_tables
from experiments.shared.analysis import answers
from testbed.machine import path


def readme():
    with open(path("experiments", "demand", "README.md"), encoding="utf-8") as source:
        return source.read()


def test_tables():
    text, rows = readme(), list(demand_tables.page(answers.kept("demand")["cases"]))
    assert len(rows) > 20 and [row for row in rows if row not in text] == []


def test_tables_of_other_data():
    cases = answers.kept("demand")["cases"]
    cases["trap"]["a1"]["with"]["instructions"] += 100_000
    assert [row for row in demand_tables.page(cases) if row not in readme()]


def test_picture():
    data = answers.kept("demand")
    assert plots.is_kept(demand_picture.PICTURE, demand_picture.picture(data))
    data["cases"]["trap"]["a1"]["with"]["instructions"] += 100_000
    assert not plots.is_kept(demand_picture.PICTURE, demand_picture.picture(data))
