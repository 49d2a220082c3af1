# SPDX-License-Identifier: BSD-2-Clause
# test_machines.py: machines.py on hand-made events: two machines on one processor, one of which has
# two machines itself.
import functools

import pytest

from experiments.flow.analysis import levels, machines
from experiments.flow.analysis.flow_log import Event

EXTERNAL_INTERRUPT, VMRESUME, HLT, IO = 1, 24, 12, 30
A, B, C, HOST = 11, 12, 13, 3  # threads of the host
FIRST, SECOND, GUEST = 0x1000, 0x2000, 0x5000  # CR3: of the launchers in machine 1, of a guest
MAP = {"a": 0x100, "a1": 0x200, "a2": 0x300, "b": 0x400, "c": 0x500}


def switch(tick, prev, state, next_):
    names = {A: "launch-1", B: "launch-2", C: "launch-3", HOST: "kworker/0:1", 0: "swapper/0"}
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
    """Each time without the processor: whose, who came first, by the paper's rule, by the
    scheduler; and who had the processor meanwhile."""
    found = [tuple(gap)[:6] for gap in host().gaps]
    assert found == [
        (100, 200, A, B, True, True),
        (200, 300, B, A, False, False),
        (300, 500, A, B, True, False),
        (400, 420, B, HOST, True, True),
    ]
    assert machines.score(host().gaps) == (2, 1, 0)
    names, ran = host().who.machine, host().ran
    assert machines.matrix(host().gaps, names, ran) == {("1", "2"): (1, 100), ("2", None): (1, 20)}
    by_rule = machines.matrix(host().gaps, names, ran, lambda gap: gap.rule)
    assert by_rule["1", "2"] == (2, 100 + 100 + 80) and by_rule["1", None] == (0, 20)


def test_several_come():
    """A thread of the host comes first; then two machines run, and they have the time."""
    log = [*stay(20, 90, "c", EXTERNAL_INTERRUPT), *stay(110, 190, "a", IO)]
    log += [*stay(210, 290, "b", IO), *stay(310, 390, "c", HLT)]
    switches = [switch(10, 0, "R", C), switch(100, C, "R", HOST), switch(103, HOST, "S", A)]
    switches += [switch(200, A, "S", B), switch(300, B, "S", C), switch(400, C, "S", 0)]
    found = host(log, switches)
    assert machines.matrix(found.gaps, found.who.machine, found.ran) == {
        ("3", None): (1, 3),
        ("3", "1"): (0, 97),
        ("3", "2"): (0, 100),
    }


def test_before_the_first_run():
    """A machine's thread that has not entered the guest yet is no machine."""
    early = [switch(1, 0, "R", A), switch(3, A, "R", HOST), switch(5, HOST, "S", 0)]
    assert host(None, [*early, *SWITCHES]).gaps == host().gaps


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
OFFSET = -1000 % machines.TSC_MODULUS
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
    threads = {FIRST: A, SECOND: B}
    scored = machines.with_truth(gaps, inner, threads)
    assert [(gap.true, gap.comer) for gap in scored] == [(True, B), (False, A), (False, B)]
    ran = functools.partial(machines.ran_of_nested, found)
    assert machines.matrix(scored, threads.get, ran) == {(A, B): (1, 70)}
    # A thread of machine 1 itself comes first, and then the other machine.
    own = [switch(95, A, "R", HOST), switch(97, HOST, "S", B)]
    own = machines.Inner(machines.scheduler([INNER[0], *own, *INNER[2:]]), OFFSET)
    assert [gap.comer for gap in machines.with_truth(gaps, own, threads)] == [HOST, A, B]
    assert not machines.wrong_comers(gaps, own, threads)
    # The victim itself as the comer is wrong.
    assert not machines.wrong_comers(gaps, inner, threads)
    victims = [gap._replace(by=gap.whom) for gap in gaps]
    assert machines.wrong_comers(victims, inner, threads) == victims
    # Without the offset nothing fits.
    unshifted = machines.Inner(machines.scheduler(INNER), 0)
    assert not any(gap.true for gap in machines.with_truth(gaps, unshifted, threads))


def test_not_told_apart():
    """With one table for all hypervisors there is one machine, and nobody preempts it."""
    outer = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED)
    assert not machines.gaps_of_nested(machines.nested(outer, A, lambda table: 0))


def test_as_printed():
    """Algorithm 2's pseudo-code takes each change between hypervisor and guest for a preemption."""
    vcpu = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED).threads[A].levels
    assert [run.level for run in vcpu.runs] == [1, 2] * 5
    assert machines.as_printed(vcpu) == 7
    assert levels.PREEMPTED not in {each.state for each in vcpu.intervals}


def test_unseen():
    """A preemption while no other machine runs is in no Gap, and is no other Gap's truth. One in a
    Gap that is left out is missed. One before both machines run does not count."""
    outer = machines.Host(machines.scheduler([switch(1010, 0, "R", A)]), NESTED)
    found = machines.nested(outer, A)
    gaps, threads = machines.gaps_of_nested(found), {FIRST: A, SECOND: B}

    def missed(*switches, left_out=0):
        inside = machines.Inner(machines.scheduler([switch(1, 0, "R", A), *switches]), OFFSET)
        return machines.unseen(found, gaps[left_out:], inside, threads)

    own = [switch(225, A, "R", HOST), switch(230, HOST, "S", A)]
    inside = machines.Inner(machines.scheduler([switch(1, 0, "R", A), *own]), OFFSET)
    assert not any(gap.true for gap in machines.with_truth(gaps, inside, threads))
    assert [(gap.start, gap.by) for gap in missed(*own)] == [(1225, HOST)]
    by_other = [switch(125, A, "R", B), switch(200, B, "S", A)]
    assert not missed(*by_other)
    assert [(gap.start, gap.by) for gap in missed(*by_other, left_out=1)] == [(1125, B)]
    assert not missed(switch(95, A, "R", B), switch(105, B, "S", A), left_out=1)
    assert not missed(switch(495, A, "R", HOST), switch(500, HOST, "S", A))
