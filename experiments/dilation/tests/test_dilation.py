# SPDX-License-Identifier: BSD-2-Clause
# test_dilation.py: what a memory trace does to the run that it traces, by share of traced writes
# and by what the guest's clock shows of root mode. With DRAW=1 the whole answer is written to
# results/answers/.
import os
import re

import pytest

from experiments.dilation.analysis import dilation, dilation_picture
from experiments.dilation.tests import dilation_boot
from tests.e2e import kernel

EXITS, TICKS = 1000, 576
AROUND = 10  # ticks: RDTSC reads a clock that is some instructions late
LATE = 2  # interrupts and switches between the guest's reading of its counters and the region


def expect_true(pairs):
    """What holds whatever the clock does: each write took two exits, or up to two more for an
    interrupt that ended its step, the loop made the same accesses, and the guest's own counters say
    what the emulator counted.
    """
    for pair in pairs:
        assert not pair.untraced.exits, pair
        assert 0 <= pair.traced.exits - 2 * pair.traced.writes <= 2 * pair.traced.timer, pair
        assert pair.traced.own_accesses == pair.untraced.own_accesses, pair
        for counts in (pair.untraced, pair.traced):
            assert 0 <= counts.guest_timer - counts.timer <= LATE, counts
            assert counts.guest_switches >= counts.switches, counts


def expect_clock(time, pairs):
    """The guest's clock shows its own instructions, and of root mode what the knob says (a tick is
    an instruction): all of it and so much for each exit, or that alone."""
    way, ticks = time.split()
    for pair in pairs:
        counts = pair.traced
        shown = counts.guest + int(ticks) * counts.exits + (counts.root if way == "kept" else 0)
        assert abs(counts.ticks / shown - 1) < 0.01, (time, counts)


def test_clock_stands_still(lab):
    """In the test kernel, whose region has CPUID exits alone: the clock shows the guest's own
    instructions, and each exit takes the knob's ticks."""
    plan = kernel.Plan(f"root_time taken {TICKS}").add(f"cpuid:{EXITS}")
    boot = kernel.run(lab, "dilation-clock", plan)
    kernel.expect_ok(boot, plan.words)
    shown = boot.region(kernel.REGION_CPUID)["nonroot"]["instructions"] + EXITS * TICKS
    ticks = int(re.search(r"^# (\d+) ticks$", boot.console, re.MULTILINE)[1])
    assert abs(ticks - shown) <= AROUND, (ticks, shown)


@pytest.mark.more
def test_left_alone(lab):
    """Nothing is done about time: the guest's clock runs on in root mode."""
    pairs = dilation_boot.boot(lab, "kept 0", "blocked", dilation_boot.ROUNDS_QUICK)
    expect_true(pairs)
    expect_clock("kept 0", pairs)  # halted the guest never is
    top = pairs[-1]
    assert dilation.times(top, dilation.timer_rate) > 5, top
    assert dilation.times(top, dilation.miss_rate) > 5, top
    return (
        f"{100 * top.share:.1f} % traced: {dilation.times(top, dilation.timer_rate):.1f} times the "
        f"timer interrupts"
    )


@pytest.mark.full
def test_answer(lab):
    """All ways of time. Left alone each share has more; where the clock stands still in root mode
    it has not."""
    found = dilation_boot.answer(lab)
    for way in found.values():
        expect_true(way["pairs"])
        expect_clock(way["time"], way["pairs"])
    top = {name: way["pairs"][-1] for name, way in found.items()}
    clock = {name: dilation.times(pair, dilation.clock_rate) for name, pair in top.items()}
    assert clock["left alone, cycles estimated"] > clock["left alone, instructions"] > 10, clock
    # An offset leaves the most of what an exit takes: the exit itself.
    assert (
        clock["left alone, cycles estimated"] / 2
        < clock["TSC offset, cycles estimated"]
        < clock["left alone, cycles estimated"]
    ), clock
    assert abs(clock["retired instructions"] - 1) < 0.01, clock
    still = top["retired instructions"]
    assert abs(still.traced.timer - still.untraced.timer) <= LATE, still
    if os.environ.get("DRAW") == "1":
        dilation_picture.keep(found)
    return "; ".join(dilation.said(name, way["pairs"]) for name, way in found.items())
