# SPDX-License-Identifier: BSD-2-Clause
# test_memtrace_tool.py: the guest's tool of the memory trace, in Linux: the program `matrix`
# (programs/memtrace/demo/) says where its matrix is, and each of its stores has its record, in order,
# with its size and value, and none that it has not made.
import functools

import memdemo
import memory

SIDE = 64
CELLS = SIDE * SIDE
BY_ROWS = [(8 * cell, cell + 1) for cell in range(CELLS)]
BY_COLUMNS = [(8 * cell, ~cell & (1 << 64) - 1)
              for column in range(SIDE) for cell in range(column, CELLS, SIDE)]


@functools.cache
def recorded(lab, name, *words, **more):
    done, trace = memdemo.boot(lab, f"memtrace-{name}", *words, **more)
    return done, memory.read(trace)


def matrix(done, found):
    """The accesses of the matrix, as (offset, bytes, number, direction)."""
    row = next(row for row in done.lines("matrix") if "first" in row)
    first, count = int(row["first"], 16), int(row["bytes"])
    return [(access.gla - first, access.bytes, access.number, access.direction)
            for access in found.processors[0]
            if access.kind == "instruction" and first <= access.gla < first + count]


def test_writes(lab):
    """Each store of both loops, in order, with its value; all else of user space has a size."""
    done, found = recorded(lab, "writes")
    assert found.lost == 0 and not found.complaints and not found.unknown, found.unknown
    made = [(at, 8, value, "W") for at, value in BY_ROWS + BY_COLUMNS]
    assert matrix(done, found) == made
    accesses = found.processors[0]
    assert len({access.cr3 & ~0x1fff for access in accesses}) == 1
    assert all(access.gla < 1 << 47 for access in accesses)
    retired = [access.retired for access in accesses]
    assert found.counter and retired == sorted(retired)
    return f"{len(accesses)} accesses, {2 * CELLS} of the matrix"
