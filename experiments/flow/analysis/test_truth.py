# SPDX-License-Identifier: BSD-2-Clause
# test_truth.py: the scheduler's text is read, and the scores are what one computes by hand.
import unittest

from experiments.flow.analysis import sched_text, truth
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    A,
    B,
    cpuid,
    flow,
    halt,
    load,
    tick,
    wake,
)

TIDS = {10: 10, 11: 10, 20: 20}  # process 10 has the threads 10 and 11
LINE = (
    "       {0}-{1}   ( {1}) [{2:03}] d..2.   {3}: sched_switch: prev_comm={0} prev_pid={1} "
    "prev_prio=120 prev_state={4} ==> next_comm={5} next_pid={6} next_prio=120"
)
NAMES = {0: "swapper/0", 10: "one thread", 11: "second", 20: "other", 2: "kworker/0:1"}


def text(*rows):
    """(tsc, processor, prev, state, next) of each."""
    return (
        "# tracer: nop\n"
        + "\n".join(
            LINE.format(NAMES[prev], prev, processor, tsc, state, NAMES[to], to)
            for tsc, processor, prev, state, to in rows
        )
        + "\n"
    )


def build(*rows):
    return truth.build(sched_text.switches(text(*rows)), TIDS, {2})


class Text(unittest.TestCase):
    def test_a_line(self):
        found = sched_text.switches(text((1442705128, 3, 10, "R+", 2)))
        self.assertEqual(
            found, [sched_text.Switch(1442705128, 3, 10, "one thread", "R+", 2, "kworker/0:1")]
        )

    def test_refused(self):
        good = text((5, 0, 10, "S", 20))
        for bad, words in (
            (good + "CPU:2 [LOST 33 EVENTS]\n", "LOST 33 EVENTS"),
            ("# entries-in-buffer/entries-written: 4/9   #P:1\n" + good, "4/9"),
            (good.replace(" 5: sched", " 1.25: sched"), "x86-tsc"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                sched_text.switches(bad)

    def test_tables(self):
        self.assertEqual(sched_text.pairs("10 10\n11 10\n"), {10: 10, 11: 10})
        known = "2 1 kworker/0:1\n10 0 a b\n"
        self.assertEqual(sched_text.kernel_threads(known), {2})
        fork = (
            " a-1 ( 1) [000] ..... 5: sched_process_fork: comm=a pid={} child_comm=a child_pid={}\n"
        )
        self.assertEqual(
            sched_text.kernel_threads(known, fork.format(2, 113) + fork.format(10, 114)), {2, 113}
        )


class Build(unittest.TestCase):
    def test_runs_and_states(self):
        found = build(
            (100, 0, 0, "R", 10),
            (200, 0, 10, "R", 20),
            (300, 0, 20, "S", 2),
            (310, 0, 2, "I", 11),
            (400, 0, 11, "X", 10),
            (450, 0, 10, "S", 0),
            (500, 0, 0, "R", 20),
        )
        self.assertEqual(
            found.processors[0],
            [
                (100, 200, 10, 10),
                (200, 300, 20, 20),
                (300, 310, truth.KERNEL, 2),
                (310, 400, 10, 11),
                (400, 450, 10, 10),
                (450, 500, truth.IDLE, 0),
            ],
        )
        self.assertEqual(
            found.processes[10],
            [
                (100, 200, "running"),
                (200, 310, "preempted"),
                (310, 400, "running"),
                (400, 450, "running"),
                (450, 500, "waiting"),
            ],
        )
        self.assertEqual(found.processes[20], [(200, 300, "running"), (300, 500, "waiting")])

    def test_contradiction(self):
        with self.assertRaisesRegex(ValueError, "thread 20 leaves processor 0 at 200, but 10"):
            build((100, 0, 0, "R", 10), (200, 0, 20, "R", 10))

    def test_unknown_thread(self):
        with self.assertRaisesRegex(ValueError, "thread 33"):
            truth.build(
                [
                    sched_text.Switch(1, 0, 0, "", "R", 33, ""),
                    sched_text.Switch(2, 0, 33, "", "R", 0, ""),
                ],
                TIDS,
                {2},
            )

    def test_at_loads(self):
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
        self.assertEqual(
            [(switch.tsc, switch.processor) for switch in found],
            [(100, 0), (200, 0), (305, 1), (320, 0), (400, 0), (500, 0), (600, 0)],
        )
        for loads in ([120], [120, 290], [120, 400], [120, 321]):
            with self.assertRaisesRegex(ValueError, "0 goes to process 20 at 300 without"):
                truth.at_loads(switches, {0: loads}, TIDS, {2}, near=21)

    def test_overlaps(self):
        found = truth.overlaps([(0, 10, "a"), (15, 30, "b")], [(5, 20, "x"), (20, 25, "y")])
        self.assertEqual(
            found,
            {
                ("a", None): 5,
                ("a", "x"): 5,
                (None, "x"): 5,
                ("b", "x"): 5,
                ("b", "y"): 5,
                ("b", None): 5,
            },
        )


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
SEEN = [
    load(1100, A, B_STACK),
    tick(49_900, A),
    load(50_100, B, A_STACK),
    cpuid(60_000, B),
    load(90_100, A, B_STACK),
    halt(120_500, A),
    wake(299_000, A),
    load(300_100, B, 0x10),
    load(400_100, A, B_STACK),
    cpuid(401_000, A),
    halt(410_300, A),
]


class Scores(unittest.TestCase):
    def score(self, records=SEEN, near=1000):
        return truth.score(flow(*records), build(*TRUE), near)

    def test_all_found(self):
        result = self.score()
        self.assertEqual((result.switches, result.found, result.ours), (4, 4, 4))
        self.assertEqual((result.missed, result.invented), ([], []))
        self.assertEqual(result.distances, [110, 110, 110, 110])
        self.assertEqual(result.user_time, 49_000 + 40_000 + 30_000 + 100_000 + 10_000)
        # The first one has no switch before it: the trace begins with its load.
        self.assertEqual(result.user_time - result.user_right, 100 + 10 + 4 * 110)
        self.assertAlmostEqual(result.switch_share(), 440 / result.user_time)
        self.assertEqual(result.idle_time, 180_000)
        # From HLT to the load's end; and the first exit, whose owner is not known.
        self.assertEqual(result.idle_ours, 300_110 - 120_500 + 10)
        self.assertAlmostEqual(result.idle_error(), 380 / 180_000)
        self.assertEqual((result.thread_switches, result.kernel_switches), (0, 0))

    def test_states(self):
        result = self.score()
        self.assertAlmostEqual(result.recall("idle"), (300_000 - 120_500) / 180_000)
        self.assertAlmostEqual(result.precision("idle"), (300_000 - 120_500) / 179_620)
        # A is preempted from 50,000 to 90,000; ours is 110 later.
        self.assertEqual(result.states["preempted"], (40_000, 40_000, 39_890))

    def test_one_load_is_missing(self):
        result = self.score([record for record in SEEN if record.tsc != 90_100])
        self.assertEqual((result.switches, result.found), (4, 2))
        # Without it the next load is none of another process.
        self.assertEqual(result.missed, [(0, 90_000, 10), (0, 300_000, 20)])

    def test_one_load_too_many(self):
        result = self.score(
            SEEN[:4] + [load(70_000, A, B_STACK), load(75_000, B, A_STACK)] + SEEN[4:]
        )
        self.assertEqual((result.found, result.ours), (4, 6))
        self.assertEqual(sorted(result.invented), [(0, 70_010, 10), (0, 75_010, 20)])

    def test_a_load_at_another_place(self):
        late = [record._replace(tsc=95_000) if record.tsc == 90_100 else record for record in SEEN]
        result = self.score(late)
        self.assertEqual((result.found, len(result.missed), len(result.invented)), (3, 1, 1))
        self.assertEqual(result.user_time - result.user_right, 100 + 10 + 4 * 110 + 4900)

    def test_two_swapped_values(self):
        swapped = list(SEEN)
        swapped[2], swapped[4] = (
            SEEN[2]._replace(cr3=SEEN[4].cr3),
            SEEN[4]._replace(cr3=SEEN[2].cr3),
        )
        self.assertLess(self.score(swapped).found, 4)

    def test_paper_way(self):
        from experiments.flow.analysis.hand_made import source
        from experiments.flow.analysis.states import timeline
        from experiments.flow.analysis.trace_source import TRACE_FLOW

        found = source(TRACE_FLOW, SEEN)
        result = truth.score(timeline(truth.as_kvm(found)), build(*TRUE), 1000)
        # It sees that B ran at CPUID, 10,000 too late. The last two loads are next to other exits.
        self.assertEqual(result.found, 1)
        self.assertGreater(result.wrong_share(), self.score().wrong_share())
        left = truth.as_exits(found).processors[0]
        self.assertEqual([record.tsc for record in left], [60_000, 401_000])

    def test_threads_of_one_process(self):
        true = build(
            (1000, 0, 0, "R", 10),
            (2000, 0, 10, "S", 11),
            (3000, 0, 11, "S", 2),
            (3500, 0, 2, "I", 10),
            (9000, 0, 10, "S", 0),
        )
        result = truth.score(flow(load(1100, A, B_STACK), halt(9100, A), wake(9500, A)), true)
        self.assertEqual(
            (result.thread_switches, result.kernel_switches, result.kernel_time), (2, 1, 500)
        )


if __name__ == "__main__":
    unittest.main()
