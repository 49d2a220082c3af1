# SPDX-License-Identifier: BSD-2-Clause
# test_inference.py: what each host can tell of its guest, and for how many exits
# (analysis/inference.py). One boot under KVM has the emulator's list of all that decides who runs;
# each host sees a part of it. DRAW=1: results/answers/inference.json anew: every host, by two
# boots.
import functools
import os

import pytest

from experiments.flow.analysis.exit_reasons import NUMBERS
from experiments.inference.analysis import inference, sights
from experiments.inference.analysis.harms import dropped, shifted, swapped
from experiments.inference.analysis.sights import NO_LOADS, PIP, TARGETS, Subset
from experiments.inference.tests import inference_boots
from experiments.shared.analysis import answers

pytestmark = pytest.mark.more

MIN_SWITCHES = 1000
PAPER = Subset("KVM's", NO_LOADS, 0)
BY_PT, BY_TARGETS = Subset("HLT", PIP, 0), Subset("HLT", TARGETS, 0)
FEW = [
    PAPER,
    Subset("HLT, interrupts", NO_LOADS, 0),
    Subset("HLT", NO_LOADS, 1_000),
    Subset("none", PIP, 0),
    BY_PT,
    BY_TARGETS,
]
RIGHT_MAX = 0.001  # wrong of all time, where loads and HLT are seen
NEAR = 0.01  # what was there takes as many exits as what is made of the list


@functools.cache
def rows(lab, which, subsets):
    seen, truths, processes, key, pti, _ = inference_boots.read(lab, inference_boots.KVM[which])
    return inference.rows(seen, truths, processes, key, pti, list(subsets))


def of(found, subset, reading):
    return next(
        one
        for one in found
        if (one["exits"], one["loads"], one["hz"], one["reading"]) == (*subset, reading)
    )


def expect(found):
    """What has to hold of any run: loads with HLT tell all, and the paper's exits much less."""
    paper, backwards = (
        of(found, PAPER, reading) for reading in (inference.PAPER, inference.BACKWARDS)
    )
    assert paper["switches"] >= MIN_SWITCHES, paper
    assert paper["found"] < paper["switches"] and paper["wrong"] > backwards["wrong"] > RIGHT_MAX, (
        paper,
        backwards,
    )
    assert sum(paper["made"].values()) == 0 < sum(paper["taken"].values()), paper
    for subset in BY_PT, BY_TARGETS:
        one = of(found, subset, inference.BY_LOADS)
        assert (
            one["found"] == one["switches"] and one["invented"] == 0 and one["wrong"] < RIGHT_MAX
        ), one
    assert (
        not of(found, BY_PT, inference.BY_LOADS)["made"]
        and of(found, BY_TARGETS, inference.BY_LOADS)["made"]
    )


def test_few(lab):
    """Of one boot, some hosts; without HLT idle time is taken for a process's."""
    found = rows(lab, "kvm", tuple(FEW))
    expect(found)
    blind = of(found, Subset("none", PIP, 0), inference.BY_LOADS)
    assert blind["wrong_process"] < RIGHT_MAX < blind["wrong"] and blind["idle_off"] > 0.99, blind
    return "; ".join(
        f"{inference.name(one)} ({one['reading']}): {one['found']} of {one['switches']}, wrong "
        f"{100 * one['wrong']:.3f} %, {inference.exits_of(one, False):.2f} exits a switch"
        for one in found
    )


@pytest.mark.parametrize(
    "harm, subset, reading, what",
    ids=("paper_shifted", "timer_shifted", "loads_shifted", "swapped", "dropped"),
    argvalues=[
        (shifted, PAPER, inference.BACKWARDS, "wrong_process"),
        (shifted, Subset("HLT", NO_LOADS, 1_000), inference.PAPER, "wrong_process"),
        (shifted, BY_PT, inference.BY_LOADS, "wrong_process"),
        (swapped, BY_PT, inference.BY_LOADS, "idle_off"),
        (dropped, BY_PT, inference.BY_LOADS, "missed"),
    ],
)
def test_harm_is_seen(lab, harm, subset, reading, what):
    """The score is worse for records to which this was done."""
    seen, truths, processes, key, pti, _ = inference_boots.read(lab, inference_boots.KVM["kvm"])
    found = [
        inference.rows(seen, truths, processes, key, pti, [subset], harm=done)
        for done in (inference.whole, harm)
    ]
    sound, bad = (next(one for one in each if one["reading"] == reading) for each in found)
    missed = [one["switches"] - one["found"] for one in (sound, bad)]
    before, after = missed if what == "missed" else (sound[what], bad[what])
    assert after > before, (sound, bad)
    return f"{what}: {before}, {after}"


def checks(lab):
    """{what: (exits that PMUvisor took, exits by the list)}: a timer, and loads of CR3 but for
    targets, that were there."""
    found = {}
    for what, make, subset in (
        (
            "PREEMPTION_TIMER",
            inference_boots.ticking,
            Subset("none", NO_LOADS, inference_boots.TICK_HZ),
        ),
        ("CR_ACCESS", inference_boots.tracing, Subset("none", TARGETS, 0)),
    ):
        seen, (true, _), *_ = inference_boots.read(lab, make)
        costs = [sights.cost(seen, one, true.start, true.end) for one in (PAPER, subset)]
        number = NUMBERS[what]
        found[what] = costs[0].taken[number], costs[1].made[number]
    return found


def answer(lab):
    """All of it, as JSON can say it."""
    tick, flow = (
        inference_boots.read(lab, make)
        for make in (inference_boots.ticking, inference_boots.tracing)
    )
    own = {**tick[-1], **flow[-1]}
    return {
        "boots": {
            which: {
                "rows": rows(lab, which, tuple(sights.SUBSETS)),
                "prices": inference_boots.read(lab, make)[-1],
            }
            for which, make in inference_boots.KVM.items()
        },
        "prices": {
            reason: own[reason]
            for reason in ("HLT", "EXTERNAL_INTERRUPT", "CR_ACCESS", "PREEMPTION_TIMER")
        },
        "tick": inference.rows(*tick[:-1], [PAPER]),
        "checks": checks(lab),
    }


@pytest.mark.full
def test_all(lab):
    """Every host, by two boots; and a timer and loads that PMUvisor itself took, as many as by the
    list."""
    found = answer(lab)
    if os.environ.get("DRAW"):
        answers.keep("inference", inference_boots.machine(lab), found)
    for boot in found["boots"].values():
        expect(boot["rows"])
        assert (
            len({(one["exits"], one["loads"], one["hz"]) for one in boot["rows"]})
            == len(sights.SUBSETS)
            >= 16
        )
    for what, (there, by_list) in found["checks"].items():
        assert there and abs(there - by_list) <= NEAR * there, (what, there, by_list)
    assert set(of(found["tick"], PAPER, inference.PAPER)["taken"]) == {"PREEMPTION_TIMER"}, found[
        "tick"
    ]
    return f"{len(sights.SUBSETS)} hosts; taken, and by the list: {found['checks']}"
