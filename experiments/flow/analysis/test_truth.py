# SPDX-License-Identifier: BSD-2-Clause
# test_truth.py: the scheduler's text is read, and the scores are what one computes by hand.
import pytest

from experiments.flow.analysis import sched_text, truth
from experiments.flow.analysis.hand_made import flow, source, trace
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_FLOW

TIDS = {10: 10, 11: 10, 20: 20}  # process 10 has the threads 10 and 11
LINE = (
    "       {0}-{1}   ( {1}) [{2:03}] d..2.   {3}: sched_switch: prev_comm={0} prev_pid={1} "
    "prev_prio=120 prev_state={4} ==> next_comm={5} next_pid={6} next_prio=120"
)
NAMES = {0: "swapper/0", 10: "one thread", 11: "second", 20: "other", 2: "kworker/0:1"}


def text(*rows):
    """(tsc, processor, prev, state, next) of each."""
    lines = [
        LINE.format(NAMES[prev], prev, processor, tsc, state, NAMES[to], to)
        for tsc, processor, prev, state, to in rows
    ]
    return "\n".join(["# tracer: nop", *lines, ""])


def build(*rows):
    return truth.build(sched_text.switches(text(*rows)), TIDS, {2})


# ---- the scheduler's text ----


def test_a_line():
    assert sched_text.switches(text((1442705128, 3, 10, "R+", 2))) == [
        sched_text.Switch(1442705128, 3, 10, "one thread", "R+", 2, "kworker/0:1")
    ]


GOOD = text((5, 0, 10, "S", 20))


@pytest.mark.parametrize(
    "bad, words",
    [
        (GOOD + "CPU:2 [LOST 33 EVENTS]\n", "LOST 33 EVENTS"),
        ("# entries-in-buffer/entries-written: 4/9   #P:1\n" + GOOD, "4/9"),
        (GOOD.replace(" 5: sched", " 1.25: sched"), "x86-tsc"),
    ],
    ids=["lost", "overwritten", "other_clock"],
)
def test_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        sched_text.switches(bad)


def test_tables():
    assert sched_text.pairs("10 10\n11 10\n") == {10: 10, 11: 10}
    known = "2 1 kworker/0:1\n10 0 a b\n"
    assert sched_text.kernel_threads(known) == {2}
    fork = " a-1 ( 1) [000] ..... 5: sched_process_fork: comm=a pid={} child_comm=a child_pid={}\n"
    forks = fork.format(2, 113) + fork.format(10, 114)
    assert sched_text.kernel_threads(known, forks) == {2, 113}


# ---- runs and states ----


def test_runs_and_states():
    found = build(
        (100, 0, 0, "R", 10),
        (200, 0, 10, "R", 20),
        (300, 0, 20, "S", 2),
        (310, 0, 2, "I", 11),
        (400, 0, 11, "X", 10),
        (450, 0, 10, "S", 0),
        (500, 0, 0, "R", 20),
    )
    assert found.processors[0] == [
        (100, 200, 10, 10),
        (200, 300, 20, 20),
        (300, 310, truth.KERNEL, 2),
        (310, 400, 10, 11),
        (400, 450, 10, 10),
        (450, 500, truth.IDLE, 0),
    ]
    assert found.processes[10] == [
        (100, 200, "running"),
        (200, 310, "preempted"),
        (310, 400, "running"),
        (400, 450, "running"),
        (450, 500, "waiting"),
    ]
    assert found.processes[20] == [(200, 300, "running"), (300, 500, "waiting")]


def test_contradiction():
    with pytest.raises(ValueError, match="thread 20 leaves processor 0 at 200, but 10"):
        build((100, 0, 0, "R", 10), (200, 0, 20, "R", 10))
    switches = [
        sched_text.Switch(1, 0, 0, "", "R", 33, ""),
        sched_text.Switch(2, 0, 33, "", "R", 0, ""),
    ]
    with pytest.raises(ValueError, match="thread 33"):
        truth.build(switches, TIDS, {2})


def test_at_loads():
    rows = (
        (100, 0, 0, "R", 10),
        (200, 0, 10, "S", 2),
        (300, 0, 2, "I", 20),
        (305, 1, 0, "R", 10),
        (400, 0, 20, "S", 0),
        (500, 0, 0, "R", 20),
        (600, 0, 20, "S", 0),
    )
    switches = sched_text.switches(text(*rows))
    found = truth.at_loads(switches, {0: [90, 210, 320, 700]}, TIDS, {2})
    # A kernel thread's and the idle one's have none, nor has who comes back from them.
    ticks = [100, 200, 305, 320, 400, 500, 600]
    assert [(one.tsc, one.processor) for one in found] == [(tick, tick == 305) for tick in ticks]
    for loads in ([120], [120, 290], [120, 400], [120, 321]):
        with pytest.raises(ValueError, match="0 goes to process 20 at 300 without"):
            truth.at_loads(switches, {0: loads}, TIDS, {2}, near=21)


def test_overlaps():
    found = truth.overlaps([(0, 10, "a"), (15, 30, "b")], [(5, 20, "x"), (20, 25, "y")])
    pairs = ("a", None), ("a", "x"), (None, "x"), ("b", "x"), ("b", "y"), ("b", None)
    assert found == dict.fromkeys(pairs, 5)


# ---- scores ----

# One processor, times in ticks. The scheduler's events come 100 before the loads.
TRUE = (
    (1000, 0, 0, "R", 10),
    (50_000, 0, 10, "R", 20),
    (90_000, 0, 20, "S", 10),
    (120_000, 0, 10, "S", 0),
    (300_000, 0, 0, "R", 20),
    (400_000, 0, 20, "S", 10),
    (410_000, 0, 10, "S", 0),
)
SEEN = trace(
    "1100 load A B; 49900 tick A; 50100 load B A; 60000 cpuid B; 90100 load A B; 120500 halt A; "
    "299000 wake A; 300100 load B idle; 400100 load A B; 401000 cpuid A; 410300 halt A"
)


def score(records=SEEN, near=1000):
    return truth.score(flow(records), build(*TRUE), near)


def test_all_found():
    result = score()
    assert (result.switches, result.found, result.ours) == (4, 4, 4)
    assert (result.missed, result.invented) == ([], []) and result.distances == [110] * 4
    assert result.user_time == 49_000 + 40_000 + 30_000 + 100_000 + 10_000
    # The first one has no switch before it: the trace begins with its load.
    assert result.user_time - result.user_right == 100 + 10 + 4 * 110
    assert result.switch_share() == pytest.approx(440 / result.user_time)
    assert result.idle_time == 180_000
    # From HLT to the load's end; and the first exit, whose owner is not known.
    assert result.idle_ours == 300_110 - 120_500 + 10
    assert result.idle_error() == pytest.approx(380 / 180_000)
    assert (result.thread_switches, result.kernel_switches) == (0, 0)
    assert result.recall("idle") == pytest.approx((300_000 - 120_500) / 180_000)
    assert result.precision("idle") == pytest.approx((300_000 - 120_500) / 179_620)
    # A is preempted from 50,000 to 90,000; ours is 110 later.
    assert result.states["preempted"] == (40_000, 40_000, 39_890)


def test_one_load_is_missing():
    result = score([record for record in SEEN if record.tsc != 90_100])
    assert (result.switches, result.found) == (4, 2)
    # Without it the next load is none of another process.
    assert result.missed == [(0, 90_000, 10), (0, 300_000, 20)]


def test_one_load_too_many():
    result = score([*SEEN[:4], *trace("70000 load A B; 75000 load B A"), *SEEN[4:]])
    assert (result.found, result.ours) == (4, 6)
    assert sorted(result.invented) == [(0, 70_010, 10), (0, 75_010, 20)]


def test_a_load_at_another_place():
    late = [record._replace(tsc=95_000) if record.tsc == 90_100 else record for record in SEEN]
    result = score(late)
    assert (result.found, len(result.missed), len(result.invented)) == (3, 1, 1)
    assert result.user_time - result.user_right == 100 + 10 + 4 * 110 + 4900


def test_two_swapped_values():
    swapped = list(SEEN)
    swapped[2], swapped[4] = SEEN[2]._replace(cr3=SEEN[4].cr3), SEEN[4]._replace(cr3=SEEN[2].cr3)
    assert score(swapped).found < 4


def test_paper_way():
    found = source(TRACE_FLOW, SEEN)
    result = truth.score(timeline(truth.as_kvm(found)), build(*TRUE), 1000)
    # It sees that B ran at CPUID, 10,000 too late. The last two loads are next to other exits.
    assert result.found == 1 and result.wrong_share() > score().wrong_share()
    left = truth.as_exits(found).processors[0]
    assert [record.tsc for record in left] == [60_000, 401_000]


def test_threads_of_one_process():
    true = build(
        (1000, 0, 0, "R", 10),
        (2000, 0, 10, "S", 11),
        (3000, 0, 11, "S", 2),
        (3500, 0, 2, "I", 10),
        (9000, 0, 10, "S", 0),
    )
    result = truth.score(flow("1100 load A B; 9100 halt A; 9500 wake A"), true)
    counts = result.thread_switches, result.kernel_switches, result.kernel_time
    assert counts == (2, 1, 500)
