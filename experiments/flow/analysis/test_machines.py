# SPDX-License-Identifier: BSD-2-Clause
# test_machines.py: machines.py on hand-made events: two machines on one processor, one of which has
# two machines itself.
import pytest

from experiments.flow.analysis import levels, machines
from experiments.flow.analysis.flow_log import Event

EXTERNAL_INTERRUPT, VMRESUME, HLT, IO = 1, 24, 12, 30
A, B, HOST = 11, 12, 3  # threads of the host
FIRST, SECOND, GUEST = 0x1000, 0x2000, 0x5000  # CR3: of the launchers in machine 1, of a guest
MAP = {"a": 0x100, "a1": 0x200, "a2": 0x300, "b": 0x400}


def switch(tick, prev, state, next_):
    names = {A: "launch-1", B: "launch-2", HOST: "kworker/0:1", 0: "swapper/0"}
    return (
        f" {names[prev]}-{prev} [000] d.... {tick}: sched_switch: prev_comm={names[prev]} "
        f"prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm={names[next_]} "
        f"next_pid={next_} next_prio=120"
    )


def stay(start, end, name, reason, cr3=FIRST):
    """An entry and the exit after it."""
    return [
        Event(start, 0, "entry", 0, 0x10, cr3, 0x20, 0),
        Event(end, 0, "exit", reason, 0x8000, cr3, 0x20, MAP[name]),
    ]


SWITCHES = [
    switch(10, 0, "R", A),
    switch(100, A, "R", B),  # by the other machine
    switch(200, B, "S", A),  # it halted
    switch(300, A, "S", B),  # not halted: it waits for its terminal
    switch(400, B, "R", HOST),  # by the host
    switch(420, HOST, "S", B),
    switch(500, B, "S", A),
    switch(600, A, "S", 0),
]
LOG = [
    *stay(20, 90, "a", EXTERNAL_INTERRUPT),
    *stay(110, 190, "b", HLT, GUEST),
    *stay(210, 290, "a", IO),
    *stay(310, 390, "b", EXTERNAL_INTERRUPT, GUEST),
    *stay(430, 490, "b", HLT, GUEST),
    *stay(510, 590, "a", HLT),
]


def host(log=None, switches=None):
    return machines.Host(machines.scheduler(switches or SWITCHES), log or LOG)


def test_first_level():
    """Each time without the processor: whose, by whom, by the paper's rule, by the scheduler."""
    found = [tuple(gap) for gap in host().gaps]
    assert found == [
        (100, 200, A, B, True, True),
        (200, 300, B, A, False, False),
        (300, 500, A, B, True, False),
        (400, 420, B, HOST, True, True),
    ]
    assert machines.score(host().gaps) == (2, 1, 0)
    names = host().who.machine
    assert machines.matrix(host().gaps, names) == {("1", "2"): (1, 100), ("2", None): (1, 20)}


def test_truth_of_the_maps():
    """A machine whose map is another's is found."""
    found = host()
    pairs = [(tid, eptp) for tid, maps in found.eptps.items() for eptp in maps]
    assert machines.owners(pairs) == ({MAP["a"]: A, MAP["b"]: B}, 0)
    other = host([*LOG[:-1], LOG[-1]._replace(eptp=MAP["b"])])
    pairs = [(tid, eptp) for tid, maps in other.eptps.items() for eptp in maps]
    assert machines.owners(pairs)[1] == 1


def test_lost_events():
    with pytest.raises(ValueError):
        machines.scheduler(["CPU:0 [LOST 3 EVENTS]", *SWITCHES])


# Machine 1 has two: each launcher resumes its own; ticks of machine 1 are 1000 less.
OFFSET = -1000 % machines.SHIFT
NESTED = [
    *stay(1020, 1030, "a", VMRESUME, FIRST),
    *stay(1040, 1090, "a1", EXTERNAL_INTERRUPT, GUEST),
    *stay(1100, 1110, "a", VMRESUME, SECOND),
    *stay(1120, 1190, "a2", HLT, GUEST),
    *stay(1200, 1210, "a", VMRESUME, FIRST),
    *stay(1220, 1290, "a1", IO, GUEST),
    *stay(1300, 1310, "a", VMRESUME, SECOND),
    *stay(1320, 1390, "a2", HLT, GUEST),
    *stay(1400, 1410, "a", VMRESUME, FIRST),
    *stay(1420, 1490, "a1", HLT, GUEST),
]
INNER = [
    switch(1, 0, "R", A),
    switch(95, A, "R", B),
    switch(195, B, "S", A),
    switch(295, A, "S", B),
    switch(395, B, "S", A),
]


def test_second_level():
    """The hypervisor's CR3 tells machines apart, whose processes have one CR3 here."""
    outer = machines.Host(
        machines.scheduler([switch(1010, 0, "R", A)]),
        [Event(1011, 0, "offset", OFFSET, 0, 0, 0, 0), *NESTED],
    )
    found = machines.nested(outer, A)
    assert [(one.machine, one.eptp) for one in found] == [
        (FIRST, MAP["a1"]),
        (SECOND, MAP["a2"]),
        (FIRST, MAP["a1"]),
        (SECOND, MAP["a2"]),
        (FIRST, MAP["a1"]),
    ]
    inner = machines.Inner(machines.scheduler(INNER), outer.offsets[A][0])
    gaps = machines.gaps_of_nested(found)
    assert [tuple(gap)[:5] for gap in gaps] == [
        (1090, 1220, FIRST, SECOND, True),
        (1190, 1320, SECOND, FIRST, False),
        (1290, 1420, FIRST, SECOND, True),
    ]
    scored = machines.with_truth(gaps, inner, {FIRST: A, SECOND: B})
    assert [gap.true for gap in scored] == [True, False, False]
    # Without the offset nothing fits.
    unshifted = machines.Inner(machines.scheduler(INNER), 0)
    assert not any(gap.true for gap in machines.with_truth(gaps, unshifted, {FIRST: A, SECOND: B}))


def test_not_told_apart():
    """With one table for all hypervisors there is one machine, and nobody preempts it."""
    outer = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED)
    assert not machines.gaps_of_nested(machines.nested(outer, A, lambda table: 0))


def test_as_printed():
    """Algorithm 2 takes each change between hypervisor and guest for a preemption."""
    vcpu = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED).threads[A].levels
    assert [run.level for run in vcpu.runs] == [1, 2] * 5
    assert machines.as_printed(vcpu) == 7
    assert levels.PREEMPTED not in {each.state for each in vcpu.intervals}


def test_unseen():
    """A preemption while no other machine runs is in no Gap, and is no other Gap's truth."""
    outer = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED)
    gaps = machines.gaps_of_nested(machines.nested(outer, A))
    threads = {FIRST: A, SECOND: B}
    late = [switch(1, 0, "R", A), switch(595, A, "R", HOST), switch(600, HOST, "S", A)]
    inside = machines.Inner(machines.scheduler(late), OFFSET)
    assert not any(gap.true for gap in machines.with_truth(gaps, inside, threads))
    assert [gap.start for gap in machines.unseen(gaps, inside, threads)] == [1595]
    early = [switch(1, 0, "R", A), switch(95, A, "R", B), switch(200, B, "S", A)]
    inside = machines.Inner(machines.scheduler(early), OFFSET)
    assert not machines.unseen(gaps, inside, threads)
