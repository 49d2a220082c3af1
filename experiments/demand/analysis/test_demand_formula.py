# SPDX-License-Identifier: BSD-2-Clause
# test_demand_formula.py: the unit costs come out of boots that were made of them, the crossovers
# are where two ways cost the same, and a term left out or another base changes the answer.
import copy
import dataclasses

import pytest

from experiments.demand.analysis import demand_cost
from experiments.demand.analysis.demand_cost import Weights, always, demand, trap, units

TICK, SAMPLE, SESSION, REST, PROCESS, OPENED, LOOK = 80, 1000, 700, 90_000, 2000, 900, 40
SWITCH = {"counting": 300, "whole": 2500}
NS, TICKS, SESSIONS, PMIS = 50_000_000, 50, 4, {0: 0, 1: 6, 50: 31, 100: 56}
AT = {"ticks": 10, "sessions": 0.1, "frequency": 1000}


def account(extra, pmis=0):
    return {
        "instructions": TICKS * TICK + extra,
        "rdmsr": 3,
        "wrmsr": 4,
        "exits": TICKS + 5,
        "ticks": TICKS,
        "guest": 10**8,
        "ns": NS,
        "pmis": pmis,
    }


def case(policy, second, extra):
    a1 = {"pmis": 1000, "with": account(1000 * SAMPLE), "without": account(0)}
    return {
        "policy": policy,
        "second_user": second,
        "tick_ms": 1,
        "frequency": 1000,
        "sessions": SESSIONS,
        "a1": a1,
        "shares": {share: account(extra(share), PMIS[share]) for share in PMIS},
    }


def trapped(share):
    return (
        (SESSIONS * SESSION if share else 0) + SAMPLE * PMIS[share] + REST * share / 100 * NS * 1e-9
    )


def on_demand(share):
    return OPENED * (0 if share == 0 else 1 if share == 100 else SESSIONS) + (
        LOOK * TICKS if share == 100 else 0
    )


@pytest.fixture
def cases():
    made = {
        "trap": case("intercept", "off", trapped),
        "pass": case("msr+nmi", "off", lambda share: 0),
        "demand": case("demand", "off", on_demand),
    }
    for what, each in SWITCH.items():
        made[f"pass-{what}"] = case("msr+nmi", what, lambda share, each=each: 2 * each * TICKS)
    made["trap-processes"] = {
        "processes": {"switches": 400, "plain": account(0), "counted": account(400 * PROCESS)}
    }
    return made


def test_units(cases):
    u = units(cases)
    assert (u.tick, u.trap_sample, u.demand_session, u.switch) == (TICK, SAMPLE, OPENED, SWITCH)
    assert u.trap_process == PROCESS
    assert u.trap_session == pytest.approx(SESSION) and u.trap_rest == pytest.approx(REST)
    assert u.demand_look == pytest.approx(LOOK) and u.idle == {"trap": 0, "demand": 0}
    for name in ("trap", "pass-counting"):
        for share, found, wanted in demand_cost.checks(u, cases[name]):
            assert found == pytest.approx(wanted, rel=0.1), (name, share)


def test_weights(cases):
    """Exits and accesses count only where they are given a weight."""
    cases["pass-counting"]["shares"][0]["wrmsr"] += 100 * TICKS
    assert units(cases).switch["counting"] == SWITCH["counting"]
    assert units(cases, Weights(msr=10)).switch["counting"] == pytest.approx(
        SWITCH["counting"] + 50 * 10
    )


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_crossovers(cases, share):
    u = units(cases)
    high = demand_cost.beats_trap_below(
        u, share, AT["frequency"], AT["sessions"], AT["ticks"], "counting"
    )
    assert demand(u, share, high, AT["sessions"], AT["ticks"], "counting") == pytest.approx(
        trap(u, share, AT["frequency"], AT["sessions"])
    )
    low = demand_cost.beats_pass_above(u, share, AT["sessions"], AT["ticks"], "counting")
    if share == 1.0:
        assert low is None, "at all of the time nothing is spared"
        return
    assert demand(u, share, low, AT["sessions"], AT["ticks"], "counting") == pytest.approx(
        always(u, low, "counting")
    )
    between = (low + high) / 2
    found = [
        demand_cost.cheapest(
            u, share, switches, AT["frequency"], AT["sessions"], AT["ticks"], "counting"
        )
        for switches in (low / 2, between, 2 * high)
    ]
    assert found == ["pass", "demand", "trap"], found


def answer(u):
    return [
        demand_cost.beats_trap_below(u, share, AT["frequency"], AT["sessions"], AT["ticks"], what)
        for share in (0.1, 0.5)
        for what in SWITCH
    ]


def test_mutant_term_left_out(cases):
    """Without its sessions, or its looks, demand comes out cheaper than it is."""
    u = units(cases)
    for left_out in ("demand_session", "demand_look"):
        better = answer(dataclasses.replace(u, **{left_out: 0}))
        assert all(new > old for new, old in zip(better, answer(u))), left_out


def test_mutant_base_swapped(cases):
    """With the profiled region as the base of the ticks, and with A.1's two regions for each
    other."""
    swapped = copy.deepcopy(cases)
    swapped["pass"]["shares"][0] = swapped["demand"]["shares"][100]
    assert answer(units(swapped)) != answer(units(cases))
    swapped = copy.deepcopy(cases)
    swapped["trap"]["a1"]["with"], swapped["trap"]["a1"]["without"] = (
        swapped["trap"]["a1"]["without"],
        swapped["trap"]["a1"]["with"],
    )
    assert units(swapped).trap_sample == -SAMPLE and answer(units(swapped)) != answer(units(cases))
