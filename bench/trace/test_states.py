# SPDX-License-Identifier: BSD-2-Clause
# test_states.py: small traces, written by hand, whose time line is obvious by reading them. Times
# are ns; a process is one letter of CR3.
import unittest

from exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, NUMBERS
from states import timeline
from trace_source import TRACE_EXITS, TRACE_FLOW, Record, Source

A, B = 0xA0000, 0xB0000
USER, KERNEL = 0x401000, 0xffffffff81000000
IDLE_STACK, A_STACK, B_STACK = 0x10, 0x20, 0x30  # pages
TIMER = 0xec


def record(tsc, reason, cr3, rip=KERNEL, stack=0, vector=0, took=10):
    return Record(tsc, rip, cr3, reason, 0, stack << 8 | vector, took)


def load(tsc, cr3, stack):
    return record(tsc, CR_ACCESS, cr3, stack=stack)


def interrupt(tsc, cr3, stack, rip=KERNEL):
    return record(tsc, EXTERNAL_INTERRUPT, cr3, rip, stack, TIMER)


def halt(tsc, cr3):
    return record(tsc, HLT, cr3, stack=IDLE_STACK)


def cpuid(tsc, cr3, rip=USER):
    return record(tsc, NUMBERS["CPUID"], cr3, rip)


def flow(*records, **more):
    return timeline(Source(level=TRACE_FLOW, processors={0: list(records)}, **more))


def rows(intervals):
    """(start, end, state, process) of each."""
    return [tuple(interval[:4]) for interval in intervals]


class Processor(unittest.TestCase):
    def test_two_processes(self):
        line = flow(load(1000, A, B_STACK), cpuid(1100, A), load(1200, B, A_STACK),
                    cpuid(1300, B))
        self.assertEqual(rows(line.processors[0]), [
            (0, 10, "root", None), (10, 100, "running", A), (100, 110, "root", A),
            (110, 200, "running", A), (200, 210, "root", A), (210, 300, "running", B),
            (300, 310, "root", B)])


if __name__ == "__main__":
    unittest.main()
