# SPDX-License-Identifier: BSD-2-Clause
# test_sequences.py: the fuzzer of sequences (tests/kernel/sequence.c, test_smp_sequence.c): under
# each row of options that is drawn the guest gets what the machine itself gives, event by event.
# FULL=1: an hour of it, and which of the hypervisors with one fault it sees.
import os
import time
from types import SimpleNamespace

import pytest

from testbed.machine import STATUS_POWEROFF
from tests.e2e import campaign, sequences
from tests.e2e.experiment_rows import all_of
from tests.e2e.kernel import mutant
from tests.e2e.sequences import Row

pytestmark = pytest.mark.more

FULL = os.environ.get("FULL") == "1"
COUNT = 16_000 if FULL else 1280
SMP_COUNT = 600 if FULL else 60
# Shadow stacks under traces of writes and of reads, branches, and all that exits.
SEEDS = range(1, 41) if FULL else (45, 2, 41, 4)
SMP_SEEDS = (1, 3, 5) if FULL else (3,)
# One fault each, of which a foreign test suite and an adversary had found the first.
MUTANTS = sorted(
    [
        "deaf_loop",
        "half_a_move",
        "long_by_l_alone",
        "narrow_port",
        "no_breakpoints",
        "rar_shown",
        "shadow_kept",
        "taken_for_store",
        "twice_broken",
    ]
    + all_of("mutants")
)
MISSED_MAX = 3
CAMPAIGN_MINUTES = 30


def test_native(lab):
    """The sequences themselves: none of them stops the machine, and events come in most of them."""
    row = Row.draw(SEEDS[0])
    run = sequences.native(lab, SEEDS[0], COUNT, row)
    run.expect_status(STATUS_POWEROFF)
    assert len(sequences.hashes(run)) == COUNT // sequences.STEP, run.last_line()
    line = run.lines("sequences")[0]
    assert int(line["events"]) > COUNT, line
    return f"{line['events']} events in {COUNT} sequences"


def test_limit():
    """Firmware may take any number of instructions: the room of a guest's own is the same."""
    own, row = 45_000_000, Row.draw(SEEDS[0])
    rooms = set()
    for begun in (655_000_000, 715_000_000):
        native, start = (
            SimpleNamespace(ledger={"ticks": ticks}, expect_status=lambda status: None)
            for ticks in (begun + own, begun)
        )
        rooms.add(sequences.guest_limit(start, native, row) - begun // 1_000_000)
    assert len(rooms) == 1, rooms
    return f"{rooms.pop()} million instructions under {row}"


def expect_same(lab, seed, count, row):
    found = sequences.find(lab, seed, count, row)
    if found:
        found.minimise(lab)
        raise AssertionError(str(found))
    return f"{count} sequences under {row}"


@pytest.mark.parametrize("seed", SEEDS, ids=[f"row_{seed}" for seed in SEEDS])
def test_guest(lab, seed):
    """Sequences on one processor."""
    return expect_same(lab, seed, COUNT, Row.draw(seed))


@pytest.mark.parametrize("seed", SMP_SEEDS, ids=[f"smp_{seed}" for seed in SMP_SEEDS])
def test_smp(lab, seed):
    """INIT and SIPI to another processor."""
    return expect_same(lab, seed, SMP_COUNT, Row.draw(seed, smp=True))


def test_finds(lab):
    """A port's breakpoint that gets lost is seen, and the sequence is made small."""
    found = sequences.find(
        lab, SEEDS[1], COUNT, Row.draw(SEEDS[1]), mutant("no_breakpoints"), "-lost"
    )
    assert found, "a hypervisor without I/O breakpoints gave the same"
    found.minimise(lab)
    parts = found.lines[0].split("parts=")[1].split()[0].split(",")
    assert [part for part in parts if part] in (["in"], ["out"]), str(found)
    return found.lines[0]


@pytest.mark.full
def test_mutants(lab):
    """Which of the mutants are seen, the fuzzer not told which, and after how long."""
    found = campaign.campaign(
        lab,
        [mutant(name) for name in MUTANTS],
        range(1, 1000),
        time.monotonic() + 60 * CAMPAIGN_MINUTES,
    )
    said = ", ".join(
        f"{os.path.basename(name)[:-4]} after {seconds:.0f} s"
        for name, (seconds, _) in found.items()
    )
    assert len(found) >= len(MUTANTS) - MISSED_MAX, said
    return said
