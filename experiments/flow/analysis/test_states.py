# SPDX-License-Identifier: BSD-2-Clause
# test_states.py: small traces, written by hand, whose time line is obvious by reading them.
import unittest

from experiments.flow.analysis import trace_source
from experiments.flow.analysis.exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, VMCALL
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    HALTED,
    KERNEL,
    ROOT,
    SWITCH_MM,
    TIMER,
    USER,
    WAKE,
    WORKER_STACK,
    A,
    B,
    C,
    cpuid,
    exits,
    flow,
    halt,
    kernel_tick,
    load,
    record,
    rows,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW, TRACE_OFF, BadTrace
from experiments.flow.analysis.walk import TRACE_ENDS
from experiments.shared.analysis.cr3 import PTI_USER_PCID, PTI_USER_TABLE

PTI_USER = PTI_USER_TABLE | PTI_USER_PCID


def storm(start, rounds=10):
    """A and B by turns, each preempted 100 after a tick; ends with B."""
    found = [load(start, A, B_STACK)]
    for turn in range(rounds):
        at = start + 1000 * turn
        one, two, stack = (A, B, A_STACK) if turn % 2 == 0 else (B, A, B_STACK)
        found += [tick(at + 500, one), load(at + 500 + ROOT + 100, two, stack)]
    return found


class Processor(unittest.TestCase):
    def test_two_processes(self):
        line = flow(load(1000, A, B_STACK), cpuid(1100, A), load(1200, B, A_STACK), cpuid(1300, B))
        self.assertEqual(
            rows(line.processors[0]),
            [
                (0, 10, "root", None),
                (10, 100, "running", A),
                (100, 110, "root", A),
                (110, 200, "running", A),
                (200, 210, "root", A),
                (210, 300, "running", B),
                (300, 310, "root", B),
            ],
        )
        self.assertEqual(line.complaints, [])

    def test_halt_is_idle_until_the_interrupt_and_awake_until_the_load(self):
        line = flow(
            load(0, A, B_STACK), halt(100, A), wake(500, A), load(600, B, 0x10), cpuid(700, B)
        )
        self.assertEqual(
            rows(line.processors[0]),
            [
                (0, 10, "root", None),
                (10, 100, "running", A),
                (100, 110, "root", None),
                (110, 500, "idle", None),
                (500, 510, "root", None),
                (510, 600, "idle", None),
                (600, 610, "root", None),
                (610, 700, "running", B),
                (700, 710, "root", B),
            ],
        )

    def test_user_space_behind_a_wake_up_is_the_process(self):
        line = flow(load(0, A, B_STACK), halt(100, A), wake(500, A), cpuid(900, A), halt(1000, A))
        self.assertIn((510, 900, "running", A), rows(line.processors[0]))
        self.assertIn((910, 1000, "running", A), rows(line.processors[0]))

    def test_other_stack_behind_a_wake_up_is_not_the_idle_thread(self):
        line = flow(
            load(0, A, B_STACK),
            halt(100, A),
            wake(500, A),
            kernel_tick(700, A, A_STACK),
            kernel_tick(800, A, 0x11),
            halt(1000, A),
        )
        self.assertIn((510, 700, "running", A), rows(line.processors[0]))
        # and the idle thread's own stack is
        self.assertIn((710, 800, "idle", None), rows(line.processors[0]))

    def test_short_stretch_between_wake_up_and_halt(self):
        """From wake-up to load of CR3 it takes 100; so 140 is too short for a switch there and
        back, and 160 is not."""
        found = [load(0, A, B_STACK)]
        for turn in range(4):
            at = 1000 * turn
            found += [
                halt(at + 100, A),
                wake(at + 500, A),
                load(at + 610, B, 0x10),
                load(at + 700, A, B_STACK),
            ]
        line = flow(
            *found,
            halt(4100, A),
            wake(4500, A),
            halt(4650, A),
            wake(5500, A),
            halt(5670, A),
            wake(6000, A),
        )
        self.assertIn((4510, 4650, "idle", None), rows(line.processors[0]))
        self.assertIn((5510, 5610, "idle", None), rows(line.processors[0]))
        self.assertIn((5610, 5670, "running", A), rows(line.processors[0]))
        # But for an exit of user space, which shows that there was one.
        line = flow(
            *found, halt(4100, A), wake(4500, A), cpuid(4620, A), halt(4640, A), wake(5000, A)
        )
        self.assertIn((4610, 4620, "running", A), rows(line.processors[0]))

    def test_errand(self):
        """An interrupt of user space takes 100 to a load of CR3. A processor that another one wakes
        in the first 100 of such an interrupt, for 200 at most, runs an errand for it."""
        other = [
            tick(1000, B),
            load(1110, C, B_STACK),
            tick(2000, C),
            cpuid(2300, C),
            tick(2400, C),
            cpuid(2450, C),
            cpuid(9000, C),
        ]
        for idle, vector, at, until in (
            (True, WAKE, 2050, 2200),
            (True, WAKE, 2110, 2320),
            (False, WAKE, 2111, 2200),
            (False, WAKE, 2110, 2321),
            (False, TIMER, 2050, 2200),
            (False, WAKE, 2005, 2100),  # before the guest has its interrupt
            (True, WAKE, 2450, 2500),  # until the next record
            (False, WAKE, 2451, 2500),
        ):
            own = [
                load(0, A, B_STACK),
                halt(100, A),
                wake(at, A, vector),
                halt(until, A),
                wake(9000, A),
            ]
            line = timeline(source(TRACE_FLOW, own, other))
            with self.subTest(vector=vector, at=at, until=until):
                self.assertIn(
                    (at + 10, until, "idle" if idle else "running", None if idle else A),
                    rows(line.processors[0]),
                )
        # Its own interrupts are no errand for itself.
        line = flow(
            tick(0, B),
            load(110, C, B_STACK),
            tick(2000, C),
            halt(2040, C),
            wake(2050, C, WAKE),
            halt(2200, C),
            wake(9000, C),
        )
        self.assertIn((2060, 2200, "running", C), rows(line.processors[0]))
        # Nor does it hide who showed itself.
        own = [
            load(0, A, B_STACK),
            halt(100, A),
            wake(2050, A, WAKE),
            cpuid(2100, A),
            halt(2200, A),
            wake(9000, A),
        ]
        line = timeline(source(TRACE_FLOW, own, other))
        self.assertIn((2060, 2100, "running", A), rows(line.processors[0]))

    def test_lost_records_are_unknown(self):
        line = flow(cpuid(0, A), cpuid(100, A), cpuid(500, A), gaps={0: {2: 7}})
        self.assertEqual(rows(line.processors[0])[3], (110, 500, "unknown", None))
        self.assertEqual(line.lost, 7)
        self.assertIn("7 records are lost", line.complaints)

    def test_turned_off_is_unknown(self):
        ends = record(100, VMCALL, A)._replace(detail=19, flags=TRACE_ENDS)
        line = flow(cpuid(0, A), ends, cpuid(500, A), load(600, B, A_STACK))
        self.assertEqual(rows(line.processors[0])[3], (110, 500, "unknown", None))

    def test_switch_without_its_record_is_unknown(self):
        line = flow(load(0, A, B_STACK), cpuid(100, A), cpuid(500, B))
        self.assertEqual(rows(line.processors[0])[3], (110, 500, "unknown", None))
        self.assertEqual(line.complaints, ["processor 0: 1 changes of CR3 have no record"])

    def test_interrupt_before_the_load_is_executed(self):
        """The exit's new value is there, the guest's MOV not yet: the interrupt has the old one."""
        before = record(120, EXTERNAL_INTERRUPT, A, SWITCH_MM, A_STACK, TIMER)
        line = flow(load(0, A, B_STACK), load(100, B, A_STACK), before, cpuid(300, B))
        self.assertEqual(
            rows(line.processors[0])[-5:],
            [
                (100, 110, "root", A),
                (110, 120, "running", A),
                (120, 130, "root", A),
                (130, 300, "running", B),
                (300, 310, "root", B),
            ],
        )
        self.assertEqual(line.complaints, [])

    def test_interrupts_before_the_load_is_executed(self):
        """However many there are: the switch is where the last one ends, and is what it was."""

        def interrupts(*times):
            return [record(at, EXTERNAL_INTERRUPT, A, SWITCH_MM, A_STACK, WAKE) for at in times]

        for times in ((), (10625,), (10625, 10640)):
            line = flow(
                *storm(0),
                tick(10500, A),
                load(10610, B, A_STACK),
                *interrupts(*times),
                cpuid(11000, B),
            )
            at = times[-1] + ROOT if times else 10620
            with self.subTest(times=times):
                self.assertIn((at, 11000, "running", B), rows(line.processors[0]))
                self.assertEqual(
                    [(left.time, left.process, left.to, left.preempted) for left in line.leaves][
                        -1
                    ],
                    (at, A, B, True),
                )
        # The idle thread's load: it is idle until then.
        line = flow(
            load(0, A, B_STACK),
            halt(100, A),
            wake(500, A),
            load(600, B, 0x10),
            *interrupts(620),
            cpuid(700, B),
        )
        self.assertEqual(
            rows(line.processors[0])[-5:],
            [
                (600, 610, "root", None),
                (610, 620, "idle", None),
                (620, 630, "root", None),
                (630, 700, "running", B),
                (700, 710, "root", B),
            ],
        )

    def test_processors_begin_when_their_records_do(self):
        line = timeline(
            source(TRACE_FLOW, [cpuid(1000, A), cpuid(1100, A)], [cpuid(1050, B), cpuid(1200, B)])
        )
        self.assertEqual(rows(line.processors[1])[0], (0, 50, "unknown", None))
        self.assertEqual(line.end, 210)

    def test_ticks_become_ns(self):
        line = flow(cpuid(10_000, A), cpuid(60_000, A), tsc_khz=50_000)
        self.assertEqual(rows(line.processors[0])[1], (200, 1_000_000, "running", A))
        for tsc in (10_000, 10_007, 60_000):
            self.assertEqual(line.tick(line.ns(tsc)), tsc)


class PaperWay(unittest.TestCase):
    def test_without_loads_of_cr3_a_switch_is_seen_at_the_next_exit(self):
        line = exits(cpuid(0, A), cpuid(100, A), cpuid(500, B), cpuid(600, B))
        self.assertEqual(
            rows(line.processors[0]),
            [
                (0, 10, "root", A),
                (10, 100, "running", A),
                (100, 110, "root", A),
                (110, 500, "running", A),
                (500, 510, "root", A),
                (510, 600, "running", B),
                (600, 610, "root", B),
            ],
        )
        self.assertEqual(rows(line.processes[A].intervals)[-1], (510, 610, "preempted", B))
        # The paper has no second look at a preemption, either.
        line = exits(cpuid(0, A), cpuid(100, A), cpuid(500, B), halt(600, B), wake(900, B))
        self.assertEqual(rows(line.processes[A].intervals)[-1], (510, 910, "preempted", B))

    def test_read_backwards(self):
        line = timeline(
            source(TRACE_EXITS, [cpuid(0, A), cpuid(100, A), cpuid(500, B)]), by_next=True
        )
        self.assertEqual(
            rows(line.processors[0])[-2:], [(110, 500, "running", B), (500, 510, "root", B)]
        )

    def test_halt_is_no_preemption(self):
        line = exits(cpuid(0, A), halt(100, A), wake(500, B), cpuid(600, B))
        self.assertEqual(rows(line.processes[A].intervals)[-1][2], "waiting")

    def test_a_trace_without_a_level_that_loads_cr3_is_flow(self):
        found = [load(0, A, B_STACK), load(100, B, A_STACK)]
        self.assertTrue(timeline(source(None, found)).flow)
        self.assertTrue(timeline(source(TRACE_OFF, found)).flow)  # turned off when it was read
        self.assertFalse(timeline(source(None, [cpuid(0, A)])).flow)
        # A load of CR4 is a CR access, too.
        cr4 = record(50, CR_ACCESS, A)._replace(detail=0x3506F0)
        self.assertFalse(timeline(source(None, [cpuid(0, A), cr4, cpuid(100, B)])).flow)
        self.assertFalse(timeline(source(TRACE_EXITS, found)).flow)


class Processes(unittest.TestCase):
    def test_preempted_by_whom(self):
        line = flow(*storm(0))
        states = rows(line.processes[A].intervals)
        self.assertEqual(
            states[:5],
            [
                (10, 500, "running", None),
                (500, 510, "root", None),
                (510, 610, "running", None),
                (610, 620, "root", None),
                (620, 1620, "preempted", B),
            ],
        )

    def test_who_blocks_long_behind_a_tick_waits(self):
        """The short way from a tick to a load is 100: 210 is more than twice that."""
        at = 10_000
        line = flow(*storm(0), tick(at, A), load(at + ROOT + 210, B, A_STACK), cpuid(at + 500, B))
        self.assertEqual(rows(line.processes[A].intervals)[-1][2], "waiting")
        line = flow(*storm(0), tick(at, A), load(at + ROOT + 190, B, A_STACK), cpuid(at + 500, B))
        self.assertEqual(rows(line.processes[A].intervals)[-1][2:], ("preempted", B))

    def test_a_tick_in_the_kernel_does_not_preempt(self):
        at = 10_000
        line = flow(
            *storm(0),
            kernel_tick(at, A, A_STACK),
            load(at + ROOT + 100, B, A_STACK),
            cpuid(at + 500, B),
        )
        self.assertEqual(rows(line.processes[A].intervals)[-1][2], "waiting")

    def test_a_kernel_thread_between_is_one_switch_more(self):
        """Its stack leaves with the tables of two processes."""
        at = 10_000
        worker = [
            load(at, B, WORKER_STACK),
            load(at + 100, C, WORKER_STACK),
            load(at + 200, A, A_STACK),
        ]
        line = flow(
            *storm(0),
            *worker,
            tick(at + 1000, A),
            load(at + 1000 + ROOT + 390, B, WORKER_STACK),
            cpuid(at + 2000, B),
        )
        self.assertEqual(rows(line.processes[A].intervals)[-1][2:], ("preempted", B))

    def test_who_halts_waits(self):
        line = flow(*storm(0), tick(10_000, A), halt(10_100, A), wake(20_000, A))
        self.assertEqual(rows(line.processes[A].intervals)[-1][2], "waiting")

    def test_who_has_not_run_by_the_next_halt_waits(self):
        """A leaves for B right after a tick. Then its processor halts at 600 after the tick."""
        at = 10_000
        left = [*storm(0), tick(at, A), load(at + ROOT + 100, B, A_STACK)]
        halts = [halt(at + 600, B), wake(at + 5000, B)]
        back = [load(at + 400, A, B_STACK), halt(at + 600, A), wake(at + 5000, A)]
        for here, there, state in (
            ([cpuid(at + 600, B)], None, "preempted"),
            (halts, None, "waiting"),
            (back, None, "preempted"),
            (halts, at + 500, "preempted"),  # by then it runs on the other processor
            (halts, at + 700, "waiting"),
        ):
            other = [load(0, C, B_STACK), load(there, A, B_STACK)] if there else []
            line = timeline(source(TRACE_FLOW, left + here, [*other, cpuid(at + 6000, A)]))
            after = next(i for i in line.processes[A].intervals if i.start == at + 120)
            with self.subTest(here=here[0].reason, there=there):
                self.assertEqual(after.state, state)

    def test_runs_where_it_runs_on_any_processor(self):
        line = timeline(
            source(
                TRACE_FLOW,
                [load(0, A, B_STACK), load(100, B, A_STACK), cpuid(1000, B)],
                [
                    load(0, C, B_STACK),
                    load(50, A, B_STACK),
                    cpuid(300, A),
                    halt(400, A),
                    wake(900, A),
                ],
            )
        )
        self.assertEqual(
            rows(line.processes[A].intervals),
            [
                (10, 300, "running", None),
                (300, 310, "root", None),
                (310, 400, "running", None),
                (400, 1010, "waiting", None),
            ],
        )

    def test_page_table_isolation_is_inferred(self):
        line = flow(
            load(0, A | 3, B_STACK),
            cpuid(100, A | 3 | PTI_USER),
            load(200, B | 4, A_STACK),
            cpuid(300, B | 4 | PTI_USER),
        )
        self.assertEqual(sorted(line.processes), [A, B])
        self.assertEqual(line.complaints, [])

    def test_without_it_the_next_page_is_another_process(self):
        line = flow(
            load(0, A, B_STACK),
            cpuid(100, A),
            load(200, A | PTI_USER_TABLE, A_STACK),
            cpuid(300, A | PTI_USER_TABLE),
        )
        self.assertEqual(sorted(line.processes), [A, A | PTI_USER_TABLE])


class Names(unittest.TestCase):
    NAMES = {
        "pti": False,
        "tasks": [
            {"pid": 7, "tid": 8, "comm": "second", "pgd": hex(A), "stack": "0xffffc90000024000"},
            {"pid": 7, "tid": 7, "comm": "first", "pgd": hex(A), "stack": "0xffffc90000020000"},
            {"pid": 3, "tid": 3, "comm": "worker", "pgd": None, "stack": "0xffffc90000050000"},
        ],
    }

    def test_process_and_thread(self):
        stack = 0x90000024000 >> 12 & 0xFFFFFF
        line = flow(
            load(0, A, B_STACK), kernel_tick(100, A, stack + 3), cpuid(200, A), names=self.NAMES
        )
        self.assertEqual((line.processes[A].name, line.processes[A].pid), ("first", 7))
        thread = line.processors[0][1].thread
        self.assertEqual(line.threads[thread], "second")

    def test_without_names(self):
        self.assertEqual(flow(cpuid(0, A), cpuid(100, A)).processes[A].name, f"cr3 {A:#x}")

    def test_bad_names_say_so(self):
        for bad in ("/nonexistent/names.json", __file__):
            with self.assertRaisesRegex(ValueError, "wanted what 'flowtrace names' writes"):
                flow(cpuid(0, A), names=bad)


class Damaged(unittest.TestCase):
    def test_swapped_records_are_told(self):
        found = storm(0)
        found[4], found[5] = found[5], found[4]
        line = flow(*found)
        self.assertIn("processor 0: 1 records are older than the one before them", line.complaints)
        for intervals in line.processors.values():
            for one, two in zip(intervals, intervals[1:]):
                self.assertLessEqual(one.end, two.start)
                self.assertLess(one.start, one.end)

    def test_empty(self):
        for found in ((), ([],)):
            line = timeline(source(TRACE_FLOW, *found))
            self.assertEqual((line.processes, line.end), ({}, 0))

    def test_one_record(self):
        self.assertEqual(rows(flow(cpuid(5, A)).processors[0]), [(0, 10, "root", A)])

    def test_no_processor_is_ever_in_two_states(self):
        """Random records, of any order and content: intervals do not overlap, and are not empty."""
        import random

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
            line = flow(*found, gaps={0: {chance.randrange(30): 1}})
            for intervals in [
                *line.processors.values(),
                *(process.intervals for process in line.processes.values()),
            ]:
                for one, two in zip(intervals, intervals[1:]):
                    self.assertLessEqual(one.end, two.start)
                self.assertTrue(all(one.start < one.end for one in intervals))


class Sources(unittest.TestCase):
    def test_file_that_is_no_trace(self):
        with self.assertRaisesRegex(BadTrace, "test_states.py"):
            trace_source.load(__file__)

    def test_records(self):
        class Trace:
            tsc_khz, level, lost, complaints = 0, TRACE_FLOW, 3, ["cut"]
            processors = {2: [cpuid(0, A), cpuid(100, A)]}

        line = timeline(Trace())
        self.assertEqual((line.lost, line.complaints[0]), (3, "cut"))
        self.assertEqual(rows(line.processors[2])[1], (10, 100, "running", A))

    def test_folder_that_is_no_trace(self):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(BadTrace, "babeltrace2 cannot read it|no event"):
                trace_source.load(folder)


if __name__ == "__main__":
    unittest.main()
