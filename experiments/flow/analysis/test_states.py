# SPDX-License-Identifier: BSD-2-Clause
# test_states.py: small traces, written by hand, whose time line is obvious by reading them.
import random

import pytest

from experiments.flow.analysis import trace_source
from experiments.flow.analysis.exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, VMCALL
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    HALTED,
    KERNEL,
    SWITCH_MM,
    TIMER,
    USER,
    WAKE,
    A,
    B,
    C,
    cpuid,
    exits,
    flow,
    kernel_tick,
    load,
    record,
    said,
    source,
    trace,
)
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW, TRACE_OFF, BadTrace
from experiments.flow.analysis.walk import TRACE_ENDS
from experiments.shared.analysis.cr3 import PTI_USER_PCID, PTI_USER_TABLE

PTI_USER = PTI_USER_TABLE | PTI_USER_PCID
# A and B by turns, each preempted 100 after a tick; ends with B.
STORM = "0 load A B" + "".join(
    f"; {at + 500} tick {one}; {at + 610} load {two} {one}"
    for at, one, two in ((1000 * turn, *("AB" if turn % 2 == 0 else "BA")) for turn in range(10))
)


def of_processor(*processors, **more):
    return said(flow(*processors, **more).processors[0])


def of_process(key, *processors, **more):
    return said(flow(*processors, **more).processes[key].intervals)


def interrupts(*times):
    """Of A, at the instruction that loads CR3."""
    return [record(at, EXTERNAL_INTERRUPT, A, SWITCH_MM, A_STACK, WAKE) for at in times]


# ---- processors ----


@pytest.mark.parametrize(
    "records, wanted",
    [
        (
            "1000 load A B; 1100 cpuid A; 1200 load B A; 1300 cpuid B",
            "0 root; 10 running A; 100 root A; 110 running A; 200 root A; 210 running B; "
            "300 root B; 310",
        ),
        (
            "0 load A B; 100 halt A; 500 wake A; 600 load B idle; 700 cpuid B",
            "0 root; 10 running A; 100 root; 110 idle; 500 root; 510 idle; 600 root; "
            "610 running B; 700 root B; 710",
        ),
        (
            "0 load A B; 100 halt A; 500 wake A; 900 cpuid A; 1000 halt A",
            "0 root; 10 running A; 100 root; 110 idle; 500 root; 510 running A; 900 root A; "
            "910 running A; 1000 root; 1010",
        ),
    ],
    ids=["two_processes", "idle_until_the_load", "user_space_after_a_wake_up"],
)
def test_processor(records, wanted):
    line = flow(records)
    assert said(line.processors[0]) == wanted and line.complaints == []


def test_other_stack_after_a_wake_up_is_not_the_idle_thread():
    records = trace("0 load A B; 100 halt A; 500 wake A; 700 kernel A A")
    found = of_processor([*records, kernel_tick(800, A, 0x11), *trace("1000 halt A")])
    assert "510 running A; 700" in found
    # and the idle thread's own stack is
    assert "710 idle; 800" in found


def test_short_stretch_between_wake_up_and_halt():
    """From wake-up to load of CR3 it takes 100; so 140 is too short for a switch there and back,
    and 160 is not."""
    records = "0 load A B" + "".join(
        f"; {at + 100} halt A; {at + 500} wake A; {at + 610} load B idle; {at + 700} load A B"
        for at in range(0, 4000, 1000)
    )
    found = of_processor(
        records + "; 4100 halt A; 4500 wake A; 4650 halt A; 5500 wake A; 5670 halt A; 6000 wake A"
    )
    assert "4510 idle; 4650" in found and "5510 idle; 5610 running A; 5670" in found
    # But for an exit of user space, which shows that there was one.
    found = of_processor(
        records + "; 4100 halt A; 4500 wake A; 4620 cpuid A; 4640 halt A; 5000 wake A"
    )
    assert "4610 running A; 4620" in found


# An interrupt of user space takes 100 to a load of CR3.
OTHER = (
    "1000 tick B; 1110 load C B; 2000 tick C; 2300 cpuid C; 2400 tick C; 2450 cpuid C; 9000 cpuid C"
)


@pytest.mark.parametrize(
    "state, vector, at, until",
    [
        ("idle", "sent", 2050, 2200),
        ("idle", "sent", 2110, 2320),
        ("running A", "sent", 2111, 2200),
        ("running A", "sent", 2110, 2321),
        ("running A", "timer", 2050, 2200),
        ("running A", "sent", 2005, 2100),  # before the guest has its interrupt
        ("idle", "sent", 2450, 2500),  # until the next record
        ("running A", "sent", 2451, 2500),
    ],
)
def test_errand(state, vector, at, until):
    """A processor that another one wakes in the first 100 of an interrupt there, for 200 at most,
    runs an errand for it."""
    own = f"0 load A B; 100 halt A; {at} wake A {vector}; {until} halt A; 9000 wake A"
    assert f"{at + 10} {state}; {until}" in of_processor(own, OTHER)


def test_no_errand():
    """A processor's own interrupts are no errand for itself, nor does one hide who showed
    itself."""
    found = of_processor(
        "0 tick B; 110 load C B; 2000 tick C; 2040 halt C; 2050 wake C sent; 2200 halt C; "
        "9000 wake C"
    )
    assert "2060 running C; 2200" in found
    own = "0 load A B; 100 halt A; 2050 wake A sent; 2100 cpuid A; 2200 halt A; 9000 wake A"
    assert "2060 running A; 2100" in of_processor(own, OTHER)


def test_lost_records_are_unknown():
    line = flow("0 cpuid A; 100 cpuid A; 500 cpuid A", gaps={0: {2: 7}})
    assert "110 unknown; 500" in said(line.processors[0])
    assert line.lost == 7 and "7 records are lost" in line.complaints


def test_turned_off_is_unknown():
    ends = record(100, VMCALL, A)._replace(detail=19, flags=TRACE_ENDS)
    found = of_processor([cpuid(0, A), ends, *trace("500 cpuid A; 600 load B A")])
    assert "110 unknown; 500" in found


def test_switch_without_its_record_is_unknown():
    line = flow("0 load A B; 100 cpuid A; 500 cpuid B")
    assert "110 unknown; 500" in said(line.processors[0])
    assert line.complaints == ["processor 0: 1 changes of CR3 have no record"]


@pytest.mark.parametrize("times", [(), (10625,), (10625, 10640)])
def test_interrupts_before_the_load_is_executed(times):
    """The exit's new value is there, the guest's MOV not yet: an interrupt has the old one. However
    many there are, the switch is where the last one ends, and is what it was."""
    at = times[-1] + 10 if times else 10620
    line = flow(
        [*trace(STORM + "; 10500 tick A; 10610 load B A"), *interrupts(*times), cpuid(11000, B)]
    )
    assert f"{at} running B; 11000" in said(line.processors[0])
    left = line.leaves[-1]
    assert (left.time, left.process, left.to, left.preempted) == (at, A, B, True)


def test_an_interrupt_before_the_load_is_executed():
    """Until then it is who was there, or the idle thread."""
    line = flow([*trace("0 load A B; 100 load B A"), *interrupts(120), cpuid(300, B)])
    assert said(line.processors[0]).endswith(
        "100 root A; 110 running A; 120 root A; 130 running B; 300 root B; 310"
    )
    assert line.complaints == []
    before = trace("0 load A B; 100 halt A; 500 wake A; 600 load B idle")
    assert of_processor([*before, *interrupts(620), cpuid(700, B)]).endswith(
        "600 root; 610 idle; 620 root; 630 running B; 700 root B; 710"
    )


def test_processors_begin_when_their_records_do():
    line = flow("1000 cpuid A; 1100 cpuid A", "1050 cpuid B; 1200 cpuid B")
    assert said(line.processors[1]).startswith("0 unknown; 50 ") and line.end == 210


def test_ticks_become_ns():
    line = flow("10000 cpuid A; 60000 cpuid A", tsc_khz=50_000)
    assert "200 running A; 1000000 root" in said(line.processors[0])
    for tsc in (10_000, 10_007, 60_000):
        assert line.tick(line.ns(tsc)) == tsc


# ---- the paper's way ----


def test_without_loads_of_cr3_a_switch_is_seen_at_the_next_exit():
    line = exits("0 cpuid A; 100 cpuid A; 500 cpuid B; 600 cpuid B")
    assert said(line.processors[0]) == (
        "0 root A; 10 running A; 100 root A; 110 running A; 500 root A; 510 running B; 600 root B; "
        "610"
    )
    assert said(line.processes[A].intervals).endswith("510 preempted B; 610")
    # The paper has no second look at a preemption, either.
    line = exits("0 cpuid A; 100 cpuid A; 500 cpuid B; 600 halt B; 900 wake B")
    assert said(line.processes[A].intervals).endswith("510 preempted B; 910")


def test_read_backwards():
    found = timeline(source(TRACE_EXITS, "0 cpuid A; 100 cpuid A; 500 cpuid B"), by_next=True)
    assert said(found.processors[0]).endswith("110 running B; 500 root B; 510")


def test_halt_is_no_preemption():
    line = exits("0 cpuid A; 100 halt A; 500 wake B; 600 cpuid B")
    assert line.processes[A].intervals[-1].state == "waiting"


def test_a_trace_without_a_level_that_loads_cr3_is_flow():
    loads = "0 load A B; 100 load B A"
    cr4 = record(50, CR_ACCESS, A)._replace(detail=0x3506F0)  # a CR access, too
    for level, records, is_flow in (
        (None, loads, True),
        (TRACE_OFF, loads, True),  # turned off when it was read
        (None, "0 cpuid A", False),
        (None, [cpuid(0, A), cr4, cpuid(100, B)], False),
        (TRACE_EXITS, loads, False),
    ):
        assert timeline(source(level, records)).flow == is_flow


# ---- processes ----


def test_preempted_by_whom():
    assert of_process(A, STORM).startswith(
        "10 running; 500 root; 510 running; 610 root; 620 preempted B; 1620 "
    )


@pytest.mark.parametrize(
    "records, after",
    [
        # The short way from a tick to a load is 100: 210 is more than twice that.
        ("10000 tick A; 10220 load B A; 10500 cpuid B", "waiting"),
        ("10000 tick A; 10200 load B A; 10500 cpuid B", "preempted B"),
        ("10000 kernel A A; 10110 load B A; 10500 cpuid B", "waiting"),
        ("10000 tick A; 10100 halt A; 20000 wake A", "waiting"),
        # The worker's stack leaves with the tables of two processes.
        (
            "10000 load B worker; 10100 load C worker; 10200 load A A; 11000 tick A; "
            "11400 load B worker; 12000 cpuid B",
            "preempted B",
        ),
    ],
    ids=["long_after_a_tick", "soon", "tick_in_the_kernel", "halts", "kernel_thread_between"],
)
def test_who_leaves(records, after):
    """After a tick."""
    assert of_process(A, f"{STORM}; {records}").rpartition("; ")[0].endswith(after)


HALTS, BACK = "10600 halt B; 15000 wake B", "10400 load A B; 10600 halt A; 15000 wake A"


@pytest.mark.parametrize(
    "here, there, state",
    [
        ("10600 cpuid B", None, "preempted"),
        (HALTS, None, "waiting"),
        (BACK, None, "preempted"),
        (HALTS, 10500, "preempted"),  # by then it runs on the other processor
        (HALTS, 10700, "waiting"),
    ],
)
def test_who_has_not_run_by_the_next_halt_waits(here, there, state):
    """A leaves for B right after a tick. Then its processor halts at 600 after the tick."""
    other = f"0 load C B; {there} load A B; 16000 cpuid A" if there else "16000 cpuid A"
    line = flow(f"{STORM}; 10000 tick A; 10110 load B A; {here}", other)
    assert next(i for i in line.processes[A].intervals if i.start == 10120).state == state


def test_runs_where_it_runs_on_any_processor():
    assert (
        of_process(
            A,
            "0 load A B; 100 load B A; 1000 cpuid B",
            "0 load C B; 50 load A B; 300 cpuid A; 400 halt A; 900 wake A",
        )
        == "10 running; 300 root; 310 running; 400 waiting; 1010"
    )


def test_page_table_isolation_is_inferred():
    line = flow(
        [
            load(0, A | 3, B_STACK),
            cpuid(100, A | 3 | PTI_USER),
            load(200, B | 4, A_STACK),
            cpuid(300, B | 4 | PTI_USER),
        ]
    )
    assert sorted(line.processes) == [A, B] and line.complaints == []
    # Without it the next page is another process.
    other = A | PTI_USER_TABLE
    line = flow([*trace("0 load A B; 100 cpuid A"), load(200, other, A_STACK), cpuid(300, other)])
    assert sorted(line.processes) == [A, other]


# ---- names ----

NAMES = {
    "pti": False,
    "tasks": [
        {"pid": 7, "tid": 8, "comm": "second", "pgd": hex(A), "stack": "0xffffc90000024000"},
        {"pid": 7, "tid": 7, "comm": "first", "pgd": hex(A), "stack": "0xffffc90000020000"},
        {"pid": 3, "tid": 3, "comm": "worker", "pgd": None, "stack": "0xffffc90000050000"},
    ],
}


def test_process_and_thread():
    stack = 0x90000024000 >> 12 & 0xFFFFFF
    records = [load(0, A, B_STACK), kernel_tick(100, A, stack + 3), cpuid(200, A)]
    line = flow(records, names=NAMES)
    assert (line.processes[A].name, line.processes[A].pid) == ("first", 7)
    assert line.threads[line.processors[0][1].thread] == "second"
    assert flow(records).processes[A].name == f"cr3 {A:#x}"


@pytest.mark.parametrize("bad", ["/nonexistent/names.json", __file__])
def test_bad_names_say_so(bad):
    with pytest.raises(ValueError, match="wanted what 'flowtrace names' writes"):
        flow("0 cpuid A", names=bad)


# ---- damage ----


def expect_order(intervals):
    """None is empty, and none begins before the one before it has ended."""
    assert all(one.start < one.end for one in intervals)
    assert all(one.end <= two.start for one, two in zip(intervals, intervals[1:]))


def test_swapped_records_are_told():
    found = trace(STORM)
    found[4], found[5] = found[5], found[4]
    line = flow(found)
    assert "processor 0: 1 records are older than the one before them" in line.complaints
    expect_order(line.processors[0])


def test_little():
    for found in ((), ([],)):
        line = timeline(source(TRACE_FLOW, *found))
        assert (line.processes, line.end) == ({}, 0)
    assert of_processor("5 cpuid A") == "0 root A; 10"


def test_no_processor_is_ever_in_two_states():
    """Random records, of any order and content."""
    chance = random.Random(12)
    for _ in range(200):
        found = [
            record(
                chance.randrange(1000),
                chance.choice((1, 7, 10, HLT, 18, 28)),
                chance.choice((A, B, C)),
                chance.choice((USER, KERNEL, HALTED)),
                chance.randrange(64),
                chance.choice((0, TIMER, WAKE)),
                chance.randrange(50),
            )
            for _ in range(chance.randrange(30))
        ]
        line = flow(found, gaps={0: {chance.randrange(30): 1}})
        for intervals in line.processors.values():
            expect_order(intervals)
        for process in line.processes.values():
            expect_order(process.intervals)


# ---- sources ----


def test_no_trace(tmp_path):
    with pytest.raises(BadTrace, match="test_states.py"):
        trace_source.load(__file__)
    with pytest.raises(BadTrace, match="babeltrace2 cannot read it|no event"):
        trace_source.load(tmp_path)
