# SPDX-License-Identifier: BSD-2-Clause
# test_demand_cost.py: what boots cost under each of the three ways is what the formula says, at
# shares, rates of switches and frequencies that the unit costs were not taken from; and the way
# that it says is the cheapest is.
import dataclasses

import pytest

from experiments.demand.analysis import demand_cost as cost
from experiments.demand.analysis import demand_tables
from experiments.demand.tests import demand_boots

OFF_BY_SHARE, OFF_BY = 0.08, 2500  # of what was found, and root instructions in a region


def cases(lab):
    return demand_boots.all_measured(lab)


def far_off(u, found):
    """[(case, share, found, by the formula)] of all that is not as it should be."""
    return [
        (name, *point)
        for name in demand_boots.CASES
        for point in cost.checks(u, found[name])
        if abs(point[1] - point[2]) > OFF_BY_SHARE * point[1] + OFF_BY
    ]


@pytest.mark.full
def test_formula(lab):
    found = cases(lab)
    assert not far_off(cost.units(found), found)
    return "; ".join(f"{what}: {value:,.0f}" for what, value, *_ in demand_tables.unit_rows(found))


@pytest.mark.full
def test_formula_mutants(lab):
    """A unit cost left out, or another one's in its place, is seen."""
    found = cases(lab)
    u = cost.units(found)
    for wrong in (
        {"trap_sample": 0},
        {"trap_rest": 0},
        {"trap_session": 0},
        {"demand_session": 0},
        {"demand_look": 0},
        {"switch": {**u.switch, "counting": u.switch["whole"]}},
        {"switch": {**u.switch, "whole": u.switch["counting"]}},
    ):
        assert far_off(dataclasses.replace(u, **wrong), found), wrong


@pytest.mark.full
def test_cheapest(lab):
    """At each point with all three ways the cheapest one, or one that is as cheap but for OFF_BY,
    is the formula's; and each is the cheapest somewhere."""
    found, seen = cases(lab), set()
    for what, switches, share, ways in demand_tables.points(found):
        least = min(spent for spent, _ in ways.values())
        chosen = min(ways, key=lambda way: ways[way][1])
        assert ways[chosen][0] <= least + OFF_BY, (what, switches, share, ways)
        seen.add(min(ways, key=lambda way: ways[way][0]))
    assert seen == {"trap", "pass", "demand"}
