# SPDX-License-Identifier: BSD-2-Clause
# test_exact.py: records and an exact list that agree, and each way in which they can differ.
import collections
import unittest

from experiments.flow.analysis import exact
from experiments.flow.analysis.hand_made import (
    A_STACK,
    TIMER,
    WAKE,
    A,
    B,
    cpuid,
    halt,
    load,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.trace_source import TRACE_FLOW

Event = collections.namedtuple("Event", "tsc processor kind value")
RECORDS = [
    cpuid(0, A),
    tick(500, A),
    load(600, B, A_STACK),
    halt(900, B),
    wake(2000, B, WAKE),
    load(2100, A, 0x10),
    cpuid(3000, A),
]
EVENTS = [
    Event(511, 0, "interrupt", TIMER),
    Event(612, 0, "cr3", B),
    Event(700, 0, "cr3", B | 5),
    Event(899, 0, "hlt", 0),
    Event(2011, 0, "interrupt", WAKE),
    Event(2112, 0, "cr3", A),
]


class Agree(unittest.TestCase):
    def test_all(self):
        found = exact.compare(source(TRACE_FLOW, RECORDS), EVENTS)
        self.assertEqual(found.faults, [])
        self.assertEqual((found.changes, found.interrupts, found.halts), (2, 2, 1))
        self.assertEqual(found.behind, [12, 12])

    def test_outside_of_the_records(self):
        found = exact.compare(
            source(TRACE_FLOW, RECORDS),
            [Event(-5, 0, "cr3", B), *EVENTS, Event(3001, 0, "hlt", 0), Event(700, 3, "hlt", 0)],
        )
        self.assertEqual(found.faults, [])

    def test_nothing(self):
        self.assertEqual(exact.compare(source(TRACE_FLOW, []), EVENTS), exact.Exact())


class Differ(unittest.TestCase):
    def faults(self, records=RECORDS, events=EVENTS):
        return exact.compare(source(TRACE_FLOW, records), events).faults

    def test_a_record_is_missing(self):
        for place, words in (
            (1, "2 times interrupt|interrupt number 0"),
            (2, "change to table"),
            (3, "1 times HLT, recorded 0"),
        ):
            found = self.faults(RECORDS[:place] + RECORDS[place + 1 :])
            self.assertRegex(found[0], words)

    def test_a_record_too_many(self):
        self.assertEqual(
            self.faults(events=EVENTS[:3] + EVENTS[4:]), ["processor 0: 0 times HLT, recorded 1"]
        )

    def test_order(self):
        swapped = list(EVENTS)
        swapped[0], swapped[4] = (EVENTS[0]._replace(value=WAKE), EVENTS[4]._replace(value=TIMER))
        self.assertEqual(
            self.faults(events=swapped),
            [f"processor 0, interrupt number 0: {WAKE:#x} at 511, recorded {TIMER:#x} at 500"],
        )


if __name__ == "__main__":
    unittest.main()
