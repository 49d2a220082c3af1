# SPDX-License-Identifier: BSD-2-Clause
# test_dilation_sums.py: the sums, on counts made by hand and on those of the kept run; and what a
# wrong method would have said of both.
from dataclasses import replace

import pytest

from experiments.dilation.analysis import dilation, dilation_picture, dilation_table

MADE = dilation.Counts(
    ticks=1_000_000,
    guest=1_000_000,
    timer=4,
    guest_switches=8,
    own_accesses=200_000,
    own_misses=200,
)
STILL = "retired instructions"


def pair(share, factor):
    """Of a run that the trace makes so many times as long by its own clock."""
    untraced = replace(MADE, writes=round(share * MADE.guest))
    more = round((factor - 1) * MADE.guest)
    traced = replace(
        untraced,
        ticks=untraced.ticks + more,
        root=more,
        exits=2 * untraced.writes,
        timer=round(4 * factor),
        guest_switches=round(8 * factor),
        own_misses=round(200 * factor),
    )
    return dilation.Pair(untraced, traced)


def test_rates():
    one = pair(0.01, 3)
    assert dilation.timer_rate(one.untraced) == 4 and dilation.timer_rate(one.traced) == 12
    assert dilation.switch_rate(one.traced) == 24 and dilation.miss_rate(one.traced) == 0.003
    assert dilation.clock_rate(one.traced) == dilation.times(one, dilation.timer_rate) == 3


def test_doubles():
    pairs = [pair(0, 1), pair(0.01, 1.5), pair(0.03, 2.5), pair(0.1, 6)]
    assert dilation.doubles_at(pairs, dilation.timer_rate) == pytest.approx(0.02)
    assert dilation.doubles_at(pairs[:2], dilation.timer_rate) is None
    assert dilation.doubles_at(pairs[3:], dilation.timer_rate) == pytest.approx(0.1)


def test_price():
    """An exit's price and its instructions make up the estimate."""
    one = pair(0.01, 3)
    ticks = dilation.price(one, lambda costs: 1000 * costs["exits"])
    assert ticks * one.traced.exits + one.traced.root == 1000 * one.traced.exits


RATES = (dilation.clock_rate, dilation.timer_rate, dilation.switch_rate, dilation.miss_rate)
OFF = 0.1  # the most that a calculated point is off that of a run


def off(found):
    """How far each calculated point is from the run's own, as a part of it."""
    priced = found[dilation.PRICED_WAY]["pairs"]
    for name, way in found.items():
        kind, ticks = way["time"].split()
        if name in (STILL, dilation.PRICED_WAY):
            continue
        base = name if way["step"] == "exits" else dilation.ALONE
        for rate in RATES:
            share = dilation.calculated(
                found[base]["pairs"], priced, rate, int(ticks), kind == "kept"
            )
            yield abs(share / dilation.doubles_at(way["pairs"], rate) - 1)


def test_price_is_calculated_as_it_was_run():
    """Each run with a price, from the run without one; and a mutant that has half the price."""
    found = dilation_picture.kept()
    assert max(off(found)) < OFF
    for way in found.values():
        kind, ticks = way["time"].split()
        way["time"] = f"{kind} {int(ticks) // 2}"
    assert max(off(found)) > 2 * OFF


def test_at_share():
    pairs = [pair(0, 1), pair(0.01, 1.5), pair(0.03, 2.5)]
    for share, wanted in ((0, 1), (0.005, 1.25), (0.01, 1.5), (0.02, 2), (0.04, 3)):
        assert dilation.at_share(pairs, share, dilation.clock_rate) == pytest.approx(wanted)


def test_what_the_estimate_says():
    """The page's intervals are in order, a higher price has lower shares, and a write takes what
    the price was made of."""
    found = dilation_picture.kept()
    alone = found[dilation.ALONE]["pairs"]
    assert dilation.ticks_of_write(alone, dilation.price_of_write(alone, 4550)) == pytest.approx(
        4550
    )
    (_, write, shares), (_, paper, at_paper), (_, _, faster), _ = dilation_table.calculated(found)
    assert all(one[0] < two[0] / 2 for one, two in zip(faster, shares))
    middle, low, high = write
    assert low < middle < high and [round(one) for one in paper] == [4550]
    for (at_middle, at_low, at_high), (theirs,) in zip(shares, at_paper):
        assert at_high < at_middle < at_low and (theirs < at_middle) == (paper[0] > middle)


def test_page_is_of_the_kept_run():
    found, page = dilation_picture.kept(), dilation_table.PAGE.read_text(encoding="utf-8")
    assert dilation_table.put(page, found) == page
    found[dilation.ALONE]["pairs"] = (
        found[dilation.ALONE]["pairs"][:4] + found[dilation.ALONE]["pairs"][5:]
    )
    assert dilation_table.put(page, found) != page


def root_as_guest(pairs):
    """The mutant: root mode's instructions are counted as the guest's."""
    return [
        dilation.Pair(one.untraced, replace(one.traced, guest=one.traced.guest + one.traced.root))
        for one in pairs
    ]


def test_root_is_not_the_guest():
    """The mutant finds no dilation where there is one: by hand, and in the kept run."""
    for pairs in ([pair(0, 1), pair(0.1, 6)], dilation_picture.kept()[dilation.ALONE]["pairs"]):
        assert dilation.doubles_at(pairs, dilation.clock_rate) is not None
        assert dilation.doubles_at(root_as_guest(pairs), dilation.clock_rate) is None
        assert dilation.times(pairs[-1], dilation.timer_rate) > 5
        assert dilation.times(root_as_guest(pairs)[-1], dilation.timer_rate) < 2


def stands_still(pairs):
    return all(abs(dilation.times(one, dilation.clock_rate) - 1) < 0.01 for one in pairs)


def test_offset_is_not_dropped():
    """Where the clock stands still in root mode it does so at each share; the mutant without the
    offset is the run that is left alone, and is found."""
    found = dilation_picture.kept()
    assert stands_still(found[STILL]["pairs"])
    assert not stands_still(found[dilation.ALONE]["pairs"]) and not stands_still(
        found[dilation.OFFSET]["pairs"]
    )


def test_kept_run_is_whole():
    found = dilation_picture.kept()
    assert list(found) == list(dilation.WAYS)
    for way in found.values():
        shares = [one.share for one in way["pairs"]]
        assert len(shares) >= 5 and shares[0] == 0 and shares == sorted(shares)
        assert dilation.from_json(dilation.to_json(way["pairs"])) == way["pairs"]
        # Stepped by exits, an interrupt may be up to two more.
        assert all(
            0 <= one.traced.exits - 2 * one.traced.writes <= 2 * one.traced.timer
            for one in way["pairs"]
        )
