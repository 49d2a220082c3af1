# SPDX-License-Identifier: BSD-2-Clause
# test_memory_points.py: cells of the points of an instruction: each point's own, none besides, and
# no more of them than there may be.
import random

from experiments.memory.analysis import memory_points
from experiments.memory.analysis.memory_page import Axis
from experiments.memory.analysis.test_memory_tool import access

COLUMNS, ROWS = memory_points.GRID


def decoded(found):
    column, out = 0, []
    for step, row in zip(found["cells"][::2], found["cells"][1::2]):
        column += step
        out.append((column, row))
    return out


def test_cells():
    """Ends of both axes are in the grid; equal places are one cell."""
    found = memory_points.cells([(0, -0.5), (0, -0.5), (999, 10.49), (500, 5)], 1000, 10)
    assert (found["columns"], found["rows"]) == (COLUMNS, ROWS)
    assert decoded(found) == [(0, 0), (COLUMNS // 2, ROWS // 2), (999 * COLUMNS // 1000, ROWS - 1)]
    assert memory_points.cells([], 10, 10)["cells"] == []


def test_too_many():
    """The grid is made coarser, and each point is still in one of its cells."""
    some = random.Random(1)
    places = [(number, some.uniform(0, 90)) for number in range(60_000)]
    found = memory_points.cells(places, len(places), 90)
    there = decoded(found)
    assert len(there) <= memory_points.POINTS_MAX and found["columns"] < COLUMNS
    assert set(there) == {
        (number * found["columns"] // len(places), int((place + 0.5) * found["rows"] / 91))
        for number, place in places
    }


def test_of_instructions():
    """Those of each instruction alone, in the order wanted; what a walk or an event writes is none
    of them."""
    accesses = [
        access(0, 0x1000, rip=5),
        access(1, 0x2000, rip=6),
        access(2, 0x3008, rip=5),
        access(3, 0x1000, rip=5, kind="event"),
    ]
    shown = [(number, one.gla, one) for number, one in enumerate(accesses)]
    five, six, none = memory_points.of_instructions(shown, [5, 6, 7], Axis({1, 2, 3}), 4)
    assert five["words"] == "2 points, access 0 to 2, addresses 0x1000 to 0x3008"
    assert [column for column, _ in decoded(five)] == [0, COLUMNS // 2]
    assert decoded(six) == [(COLUMNS // 4, int(1.5 * ROWS / 4))]
    assert none["cells"] == [] and none["words"] == "no point in the picture"
