# SPDX-License-Identifier: BSD-2-Clause
# test_memory_points.py: cells of the points of accesses: each point's own, none besides, and no
# more of them than there may be.
import random

from experiments.memory.analysis import memory_points
from experiments.memory.analysis.memory_points import GROUPS, Axis
from experiments.memory.analysis.test_memory_tool import READ, access


def decoded(found):
    """(access number, pages, group, instruction) of each cell."""
    flat, at, out = iter(found["cells"]), 0, []
    for step, row, group, instruction in zip(flat, flat, flat, flat):
        at += step
        out.append((at * found["column"], row * found["row"], GROUPS[group], instruction))
    return out


def test_axis():
    """Far regions lie beside each other, and pages of one keep their distance."""
    axis = Axis({0x10, 0x12, 0x7FFFF0})
    assert [axis.place(page << 12) for page in (0x10, 0x12, 0x7FFFF0)] == [0, 2, 4]
    assert axis.place((0x12 << 12) + 2048) == 2.5 and axis.end == 5
    assert [text for _, text in axis.ticks()][0] == "0x10000"


def test_cells():
    """Each point has its group and its instruction; what a walk or an event writes has none; equal
    places are one cell."""
    accesses = [
        access(0, 0x1000, rip=5),
        access(1, 0x2000, rip=6, flags=READ),
        access(2, 0x3808, rip=5),
        access(3, 0x1000, rip=5, kind="event"),
        access(4, 0x1000, rip=8),
    ]
    shown = [(number, one.gla, one) for number, one in enumerate(accesses)]
    shown.append(shown[0])
    assert decoded(memory_points.cells(shown, Axis({1, 2, 3}), [5, 6, 7])) == [
        (0, 0, "W", 0),
        (1, 1, "R", 1),
        (2, 2.5, "W", 0),
        (3, 0, "other", -1),
        (4, 0, "W", -1),
    ]
    assert (
        memory_points.words(shown[:4], 5) == "2 points, access 0 to 2, addresses 0x1000 to 0x3808"
    )
    assert memory_points.words(shown, 7) == "no point in the picture"


def test_too_many():
    """The grid is made coarser, and each point is still in one of its cells."""
    some = random.Random(1)
    axis = Axis(range(90))
    shown = [
        (number, address, access(number, address))
        for number, address in enumerate(some.randrange(90 << 12) for _ in range(70_000))
    ]
    found = memory_points.cells(shown, axis, [])
    assert found["column"] > 1 and len(found["cells"]) <= 4 * memory_points.POINTS_MAX
    assert {(at, row) for at, row, _, _ in decoded(found)} == {
        (
            number // found["column"] * found["column"],
            int(axis.place(address) / found["row"]) * found["row"],
        )
        for number, address, _ in shown
    }
