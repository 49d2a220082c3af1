# SPDX-License-Identifier: BSD-2-Clause
# test_demand_page.py: the README's answer and tables are of results/answers/demand.json, and its
# picture is; what is estimated there has every kind of count, and an interval.
import copy

import numpy
import pytest

from bench import plots, predict
from experiments.demand.analysis import demand_cost, demand_picture, demand_tables
from experiments.shared.analysis import answers

COUNTS = ("instructions", "exits", "rdmsr", "wrmsr", "vmread", "vmwrite")


@pytest.fixture(name="cases")
def kept_cases():
    return answers.kept("demand")["cases"]


def test_tables(cases):
    page = demand_tables.PAGE.read_text(encoding="utf-8")
    assert demand_tables.put(page, cases) == page
    cases["trap"]["a1"]["with"]["instructions"] += 100_000
    assert demand_tables.put(page, cases) != page


def accounts(value):
    """All accounts of the cases."""
    for one in value.values() if isinstance(value, dict) else ():
        if isinstance(one, dict):
            yield from [one] if "instructions" in one else accounts(one)


@pytest.mark.parametrize("name", COUNTS)
def test_every_count_has_its_cycles(cases, name):
    """Without it a PMI that traps takes fewer."""
    fewer = copy.deepcopy(cases)
    for account in accounts(fewer):
        account[name] = 0
    whole, rest = (demand_tables.unit_cycles(one).trap_sample for one in (cases, fewer))
    assert numpy.median(rest) < 0.99 * numpy.median(whole)


def test_arrays_and_numbers_are_the_same(cases):
    """Unit costs and crossovers, of a price that is a number and of one that is draws."""
    found = [
        demand_tables.crossovers(demand_cost.units(cases, price))
        for price in (
            demand_cost.Weights(exit=7),
            lambda account: numpy.ones(3) * demand_cost.Weights(exit=7)(account),
        )
    ]
    for key, values in found[0].items():
        for number, each in zip(values, found[1][key]):
            assert each == pytest.approx(numpy.full(3, number))


def test_ways_are_off_by_themselves(cases, monkeypatch):
    """If all accounts had a sure price, the ends of a crossover would still be off by what two ways
    are, each with its own discrepancy."""
    monkeypatch.setattr(demand_tables, "draws", lambda account: account["instructions"])
    ends = demand_tables.crossovers(demand_tables.unit_cycles(cases))[demand_tables.USUAL]
    for values in ends:
        spread = numpy.std(numpy.log(values))
        assert spread == pytest.approx(2**0.5 * predict.discrepancy("other"), rel=0.15)


def test_picture():
    data = answers.kept("demand")
    assert plots.is_kept(demand_picture.PICTURE, demand_picture.picture(data))
    data["cases"]["trap"]["a1"]["with"]["instructions"] += 100_000
    assert not plots.is_kept(demand_picture.PICTURE, demand_picture.picture(data))
