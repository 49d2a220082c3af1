# SPDX-License-Identifier: BSD-2-Clause
# test_sights.py: what hosts see of a run made by hand: two processes by turns, an interrupt, HLT.
import pytest

from experiments.flow.analysis.exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, NUMBERS
from experiments.flow.analysis.flow_log import Event
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW
from experiments.inference.analysis import sights
from experiments.inference.analysis.sights import ALL_LOADS, NO_LOADS, PIP, TARGETS, Subset

A, A_USER, B = 0xA001, 0xB801, 0x20002  # A's two tables, of one process; B's
CPUID, TIMER = NUMBERS["CPUID"], sights.PREEMPTION_TIMER
TSC_HZ = 1_000_000


def event(tsc, kind, value, cr3):
    return Event(tsc, 0, kind, value, 0x401000, cr3, 0, 0)


EVENTS = [
    event(0, "entry", 0, A),
    event(30, "cr3", A_USER, A_USER),
    event(50, "exit", CPUID, A_USER),
    event(60, "entry", 0, A_USER),
    event(80, "cr3", A, A),
    event(90, "cr3", B, B),
    event(100, "exit", EXTERNAL_INTERRUPT, B),
    event(110, "entry", 0, B),
    event(110, "interrupt", 0xEC, B),
    event(150, "cr3", A, A),
    event(160, "cr3", A | 1 << 63, A),
    event(200, "exit", HLT, A),
    event(300, "entry", 0, A),
    event(350, "exit", TIMER, A),
    event(351, "entry", 0, A),
    event(400, "exit", CPUID, A),
    event(401, "entry", 0, A),
    event(450, "exit", CPUID, A),
]


def key(cr3):
    return cr3 & 0xFFFFFFFFF000 & ~0x1000


@pytest.fixture(name="seen")
def of_events():
    return sights.run(EVENTS, TSC_HZ)


def of(seen, *subset):
    source = sights.source(seen, Subset(*subset), key)
    return source.level, [
        (record.tsc, record.reason, record.cr3) for record in source.processors[0]
    ]


def test_exits(seen):
    """A host has the exits of its reasons, with the end of HLT; KVM's are all."""
    assert of(seen, "HLT", NO_LOADS, 0) == (
        TRACE_EXITS,
        [(200, HLT, A), (300, EXTERNAL_INTERRUPT, A)],
    )
    assert of(seen, "interrupts", NO_LOADS, 0)[1] == [(100, EXTERNAL_INTERRUPT, B)]
    assert [row[:2] for row in of(seen, "KVM's", NO_LOADS, 0)[1]] == [
        (50, CPUID),
        (100, EXTERNAL_INTERRUPT),
        (200, HLT),
        (300, EXTERNAL_INTERRUPT),
        (350, TIMER),
        (400, CPUID),
    ]


def test_loads(seen):
    """Those of another table; beside them HLT and interrupts alone, whichever way the loads are
    seen."""
    for how in ALL_LOADS, TARGETS, PIP:
        level, found = of(seen, "KVM's", how, 0)
        assert level == TRACE_FLOW and found == [
            (30, CR_ACCESS, A_USER),
            (90, CR_ACCESS, B),
            (100, EXTERNAL_INTERRUPT, B),
            (150, CR_ACCESS, A),
            (200, HLT, A),
            (300, EXTERNAL_INTERRUPT, A),
        ], found


@pytest.mark.parametrize("hz, wanted", [(100_000, [10, 20, 30, 40, 50]), (40_000, [25, 50, 85])])
def test_samples(hz, wanted):
    """The timer counts outside root mode alone: not from 50 to 60."""
    assert [tick for tick, _ in sights.samples(EVENTS[:6], TSC_HZ // hz)][: len(wanted)] == wanted
    assert (
        dict(sights.samples(EVENTS, 40))[40] == A_USER
        and dict(sights.samples(EVENTS, 25))[120] == B
    )


def test_timer(seen):
    """A sample is a record, and an exit of the host's making; root mode has no part in its time."""
    seen.samples[1_000] = [(40, A_USER), (120, B)]
    assert of(seen, "none", NO_LOADS, 1_000)[1] == [(40, TIMER, A_USER), (120, TIMER, B)]
    assert sights.cost(seen, Subset("none", NO_LOADS, 1_000), 0, 100) == sights.Cost(
        {}, {TIMER: 1}, 0
    )


def test_cost(seen):
    """All loads exit, or those alone that are not of the last one's tables; PT takes bytes and no
    exit."""
    for how, made, size in ((ALL_LOADS, 5, 0), (TARGETS, 3, 0), (PIP, 0, 5 * sights.PIP_BYTES)):
        found = sights.cost(seen, Subset("HLT", how, 0), 0, 500)
        assert found.taken == {HLT: 1} and found.made == ({CR_ACCESS: made} if made else {}), (
            how,
            found,
        )
        assert found.bytes == size
    assert sights.cost(seen, Subset("KVM's", NO_LOADS, 0), 0, 120).taken == {
        EXTERNAL_INTERRUPT: 1,
        CPUID: 1,
    }


def test_subsets():
    """Each is there once."""
    assert len(set(sights.SUBSETS)) == len(sights.SUBSETS) >= 16
