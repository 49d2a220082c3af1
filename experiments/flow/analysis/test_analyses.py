# SPDX-License-Identifier: BSD-2-Clause
# test_analyses.py: the answers to small traces, and the report of analyse.py.
import json
import subprocess
import sys
import tempfile
import unittest

from experiments.flow.analysis import analyse, analyses
from experiments.flow.analysis.exit_reasons import NUMBERS
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    C_STACK,
    IDLE_STACK,
    TIMER,
    WAKE,
    WORKER_STACK,
    A,
    B,
    cpuid,
    flow,
    halt,
    kernel_tick,
    load,
    record,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.trace_source import TRACE_EXITS, TRACE_FLOW

TRACE = [
    load(0, A, B_STACK),
    tick(500, A),
    load(600, B, A_STACK),
    tick(1500, B),
    load(1600, A, B_STACK),
    cpuid(1700, A),
    halt(2000, A),
    wake(3000, A, WAKE),
    load(3100, B, IDLE_STACK),
    halt(3500, B),
    wake(4000, B),
    halt(4100, B),
    wake(5000, B),
    load(5120, A, IDLE_STACK),
    cpuid(6000, A),
]


class Answers(unittest.TestCase):
    def test_processors(self):
        times = analyses.processors(flow(*TRACE))[0]
        self.assertEqual(times["root"], 10 * len(TRACE))
        # Thrice HLT to interrupt, and after each up to the load or HLT.
        self.assertEqual(times["idle"], (990 + 490 + 890) + (90 + 90 + 110))
        self.assertEqual(sum(times.values()), 6010)

    def test_preemptions(self):
        def rows(*records):
            return {
                (row.process, row.by): (row.count, row.time, row.longest)
                for row in analyses.preemptions(flow(*records))
            }

        both = rows(*TRACE[:6], load(3100, B, A_STACK), cpuid(3200, B))
        self.assertEqual(both, {(A, B): (1, 1000, 1000), (B, A): (1, 1500, 1500)})
        self.assertEqual(rows(*TRACE), {(A, B): (1, 1000, 1000)})  # it halts before B comes back

    def test_wake_ups(self):
        rows = {(row.process, row.vector): row.latencies for row in analyses.wake_ups(flow(*TRACE))}
        self.assertEqual(rows, {(B, WAKE): [110], (A, TIMER): [130], (None, TIMER): [110]})

    def test_exits(self):
        slow = record(300, NUMBERS["EPT_VIOLATION"], A, root_time=100)
        rows = {
            row.reason: row
            for row in analyses.exits(
                flow(cpuid(0, A), cpuid(100, A), cpuid(200, A), slow, cpuid(990, A))
            )
        }
        self.assertEqual(
            (rows["CPUID"].count, rows["CPUID"].time, rows["CPUID"].longest), (4, 40, 10)
        )
        self.assertEqual((rows["EPT_VIOLATION"].time, rows["EPT_VIOLATION"].share), (100, 10.0))
        self.assertEqual(rows["CPUID"].per_second, 4e6)

    def test_threads_are_own_kernel_stacks(self):
        line = flow(
            load(0, A, B_STACK),
            kernel_tick(100, A, A_STACK),
            kernel_tick(200, A, C_STACK + 1),
            kernel_tick(300, A, C_STACK + 2),
            kernel_tick(400, A, WORKER_STACK),
            load(500, B, WORKER_STACK),
            load(600, A, WORKER_STACK),
            cpuid(700, A),
        )
        row = next(row for row in analyses.processes(line) if row.key == A)
        self.assertEqual(row.threads, 2)
        self.assertEqual(sorted(row.stacks.values()), [1, 2])

    def test_processes_have_all_states(self):
        row = analyses.processes(flow(*TRACE))[0]
        self.assertEqual(row.key, A)
        self.assertEqual(row.times["preempted"], 1000)
        self.assertEqual(row.on, [0])


class Report(unittest.TestCase):
    def test_tables(self):
        line, found = analyse.analyse(source(TRACE_FLOW, TRACE))
        said = "\n".join(analyse.report(line, found, None))
        for words in (
            "lost records: 0",
            f"cr3 {A:#x}",
            "Preemption",
            "0xfb",
            "CR_ACCESS",
            "each change of process has its record",
        ):
            self.assertIn(words, said)
        self.assertNotIn("Levels", said)
        json.dumps({name: analyse.plain(rows) for name, rows in found.items()})

    def test_rows_that_are_not_shown_are_told(self):
        line, found = analyse.analyse(source(TRACE_FLOW, TRACE))
        self.assertIn("more (--all)", "\n".join(analyse.report(line, found, 1)))

    def test_nothing_at_all(self):
        line, found = analyse.analyse(source(TRACE_EXITS, []))
        self.assertIn("0 records", "\n".join(analyse.report(line, found, None)))

    def test_bad_input_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-B", "-m", analyse.__name__, folder],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("analyse.py: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
