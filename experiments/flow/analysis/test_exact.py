# SPDX-License-Identifier: BSD-2-Clause
# test_exact.py: records and an exact list that agree, and each way in which they can differ.
import collections
import re

import pytest

from experiments.flow.analysis import exact
from experiments.flow.analysis.hand_made import TIMER, WAKE, A, B, source, trace
from experiments.flow.analysis.trace_source import TRACE_FLOW

Event = collections.namedtuple("Event", "tsc processor kind value")
RECORDS = trace(
    "0 cpuid A; 500 tick A; 600 load B A; 900 halt B; 2000 wake B sent; 2100 load A idle; "
    "3000 cpuid A"
)
EVENTS = [
    Event(511, 0, "interrupt", TIMER),
    Event(612, 0, "cr3", B),
    Event(700, 0, "cr3", B | 5),
    Event(899, 0, "hlt", 0),
    Event(2011, 0, "interrupt", WAKE),
    Event(2112, 0, "cr3", A),
]


def compare(records=RECORDS, events=EVENTS):
    return exact.compare(source(TRACE_FLOW, records), events)


def test_same():
    found = compare()
    assert (found.changes, found.interrupts, found.halts) == (2, 2, 1)
    assert found.behind == [12, 12] and found.faults == []
    assert compare([]) == exact.Exact()


def test_outside_of_the_records():
    others = Event(-5, 0, "cr3", B), Event(3001, 0, "hlt", 0), Event(700, 3, "hlt", 0)
    assert compare(events=sorted([*EVENTS, *others])).faults == []


@pytest.mark.parametrize(
    "place, words",
    [
        (1, "2 times interrupt|interrupt number 0"),
        (2, "change to table"),
        (3, "1 times HLT, recorded 0"),
    ],
)
def test_a_record_is_missing(place, words):
    assert re.search(words, compare(RECORDS[:place] + RECORDS[place + 1 :]).faults[0])


def test_a_record_too_many():
    found = compare(events=EVENTS[:3] + EVENTS[4:]).faults
    assert found == ["processor 0: 0 times HLT, recorded 1"]


def test_order():
    first, *between, last = EVENTS[:5]
    swapped = [first._replace(value=WAKE), *between, last._replace(value=TIMER), EVENTS[5]]
    assert compare(events=swapped).faults == [
        f"processor 0, interrupt number 0: {WAKE:#x} at 511, recorded {TIMER:#x} at 500"
    ]
