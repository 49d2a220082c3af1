# SPDX-License-Identifier: BSD-2-Clause
# test_inference_scores.py: the score of a host is what one computes by hand, and another one for
# records that are not the run's; the front has who is not beaten.
from bench import plots
from experiments.flow.analysis import truth
from experiments.flow.analysis.exit_reasons import EXTERNAL_INTERRUPT, HLT
from experiments.flow.analysis.sched_text import Switch
from experiments.flow.analysis.trace_source import Record
from experiments.inference.analysis import inference, inference_picture, sights
from experiments.inference.analysis.harms import dropped, shifted, swapped
from experiments.inference.analysis.sights import NO_LOADS, PIP, Run, Subset
from experiments.shared.analysis import answers

A, B = 0xA0000, 0xB0000
MS = 100_000  # more than truth.NEAR_TICKS


def record(ms, reason, cr3, root=0):
    return Record(ms * MS, 0x401000, cr3, reason, 0, 0, root * MS)


def switch(ms, before, after, state="S"):
    return Switch(ms * MS, 0, before, "", state, after, "")


# 10 runs to 10, 20 to 20, 10 to 30, nobody to 40, 20 to 50.
SWITCHES = [
    switch(0, 0, 10),
    switch(10, 10, 20, "R"),
    switch(20, 20, 10, "R"),
    switch(30, 10, 0),
    switch(40, 0, 20),
    switch(50, 20, 0),
]
LOADS = [(0, A), (10 * MS, B), (20 * MS, A), (40 * MS, B), (60 * MS, A)]
TRUTH = truth.build(SWITCHES, {10: 10, 20: 20}, set())
EXITS = [
    (EXTERNAL_INTERRUPT, [record(-1, EXTERNAL_INTERRUPT, A)]),
    (EXTERNAL_INTERRUPT, [record(10, EXTERNAL_INTERRUPT, A)]),
    (EXTERNAL_INTERRUPT, [record(15, EXTERNAL_INTERRUPT, B)]),
    (HLT, [record(30, HLT, A), record(40, EXTERNAL_INTERRUPT, A)]),
    (EXTERNAL_INTERRUPT, [record(45, EXTERNAL_INTERRUPT, B)]),
    (EXTERNAL_INTERRUPT, [record(55, EXTERNAL_INTERRUPT, B)]),
]
SEEN = Run(
    EXITS,
    LOADS,
    {10_000: [(ms * MS, A if ms < 10 or 20 <= ms < 40 else B) for ms in range(0, 50, 5)]},
    0,
)


def rows(*subset, harm=inference.whole):
    found = inference.rows(
        SEEN, (TRUTH, TRUTH), {A: 10, B: 20}, lambda cr3: cr3, False, [Subset(*subset)], harm
    )
    return {one["reading"]: one for one in found}


def test_by_hand():
    """Of 40 ms with a process and 10 idle: the earlier sight's until the next one, or the later
    one's."""
    found = rows("KVM's", NO_LOADS, 0)
    paper, backwards = found[inference.PAPER], found[inference.BACKWARDS]
    # The earlier one's: A from 10 to 15, B from 20 to 30, A from 40 to 45.
    assert (paper["wrong"], paper["wrong_process"]) == (0.4, 0.5), found
    # The later one's: from 15 to 20.
    assert (backwards["wrong"], backwards["wrong_process"], backwards["found"]) == (0.1, 0.125, 2)
    one = rows("HLT", PIP, 0)[inference.BY_LOADS]
    assert (one["wrong"], one["found"], one["switches"], one["idle_off"]) == (0, 3, 3, 0), one
    assert (one["taken"], one["made"]) == ({"HLT": 1}, {}), one
    assert one["pip_bytes"] == 4 * sights.PIP_BYTES, one


def test_without_halt():
    """Without HLT idle time is the last one's: of processes' time nothing is wrong, of all time a
    fifth."""
    one = rows("none", PIP, 0)[inference.BY_LOADS]
    assert one["wrong_process"] == 0 and one["wrong"] == 0.2 and one["idle_off"] == 1, one


def test_harm_is_seen():
    """CR3 of the record before, the reasons the other way round, a load that is missing: each is
    another score."""
    for subset, reading, harm, what in (
        (("KVM's", NO_LOADS, 0), inference.BACKWARDS, shifted, "wrong"),
        (("HLT", PIP, 0), inference.BY_LOADS, shifted, "wrong"),
        (("KVM's", NO_LOADS, 0), inference.BACKWARDS, swapped, "idle_off"),
        (("HLT", PIP, 0), inference.BY_LOADS, dropped, "wrong"),
    ):
        bad, sound = rows(*subset, harm=harm), rows(*subset)
        assert bad[reading][what] > sound[reading][what], (subset, harm)


def host(exits, cost, wrong, taken=0):
    return {
        "exits": exits,
        "loads": NO_LOADS,
        "hz": 0,
        "reading": "",
        "wrong": wrong,
        "switches": 10,
        "made": {"CR_ACCESS": cost} if cost else {},
        "taken": {"HLT": taken} if taken else {},
    }


def test_front():
    """Who costs no more and is less wrong beats; equals are not there twice; who has no cost has no
    part."""
    hosts = ("a", 20, 0.5), ("b", 20, 0.4), ("c", 10, 0.6), ("d", 30, 0.4), ("e", 40, 0.1)
    found = [*(host(*one) for one in hosts), host("f", 5, 0.9, taken=1)]
    price = {"CR_ACCESS": {"mean": 100}}
    cost = lambda one: inference.instructions_of(one, price, True)
    front = inference.front(found, cost, lambda one: one["wrong"])
    assert [one["exits"] for one in front] == ["c", "b", "e"]
    assert inference.instructions_of(found[0], price, False) == 200 and cost(found[5]) is None
    assert inference.exits_of(found[5], False) == 0.5 and inference.exits_of(found[5], True) == 0.6


def test_better():
    """Of a host's readings the less wrong one."""
    first, second = dict(host("a", 1, 0.5), reading="x"), dict(host("a", 1, 0.2), reading="y")
    found = inference.better([first, second, host("b", 1, 0.9)])
    assert [one["reading"] for one in found] == ["y", ""]


def test_prices():
    """Of a ledger: mean, least and most of one exit's root instructions; a reason without samples
    has none."""
    spread = {"samples": 4, "sum": 50, "min": 5, "max": 20}
    ledger = {
        "exits": {
            "12": {"root_instructions": spread},
            "10": {"root_instructions": dict(spread, samples=0)},
        }
    }
    assert inference.prices(ledger) == {"HLT": {"mean": 12.5, "least": 5, "most": 20, "exits": 4}}


def test_kept():
    """The picture and the page's figures are those of the data that is kept."""
    answer = answers.kept("inference")
    assert answer["environment"].startswith("emulator")
    assert plots.is_kept(inference_picture.CURVE, inference_picture.curve(answer).svg)
    page = inference_picture.PAGE.read_text(encoding="utf-8")
    assert inference_picture.put(page, answer) == page
    for one in answer["boots"]["kvm"]["rows"]:
        one["invented"] += 1
        one["wrong"] *= 2
    assert inference_picture.put(page, answer) != page
    assert not plots.is_kept(inference_picture.CURVE, inference_picture.curve(answer).svg)
