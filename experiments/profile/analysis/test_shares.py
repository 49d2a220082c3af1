# SPDX-License-Identifier: BSD-2-Clause
# test_shares.py: shares.py, mapped.py and profile_truth.py on profiles made by hand, and mutants of
# the method.
import collections
import os
import random
import sys

import pytest

from experiments.profile.analysis import mapped
from experiments.profile.analysis import profile_truth as truth
from experiments.profile.analysis import shares

SYMBOLS = [(0x100, 0x110, "a"), (0x110, 0x130, "b"), (0x200, 0x210, "c")]
SPACE = 0x5000
FILE = """begin 7
overflow 5000 104 1 1 1000 900
interrupt 2 5000 108 1 1040 905
overflow 5000 112 1 1 2000 1500
overflow 5000 114 1 1 2002 1502
interrupt 236 5000 116 1 2008 1503
interrupt 2 5000 118 1 2010 1504
interrupt 2 5000 118 1 2030 1510
overflow 5000 118 1 1 3000 2000
count 5000 104 1 1 30
count 5000 118 1 1 70
count 6000 104 1 1 900
count 0 ffffffff81000000 0 0 25
count 0 ffffffff81000000 0 1 75
end 7
"""


def test_distance():
    assert shares.distance({"a": 1.0}, {"a": 1.0}) == 0
    assert shares.distance({"a": 1.0}, {"b": 1.0}) == 1
    assert shares.distance({"a": 0.5, "b": 0.5}, {"a": 0.75, "b": 0.25}) == 0.25


def test_functions():
    functions = shares.Functions(SYMBOLS, ("a", "b", "c"))
    assert [functions.of(at) for at in (0xFF, 0x100, 0x10F, 0x110, 0x130, 0x200, 0x210)] == [
        None,
        "a",
        "a",
        "b",
        None,
        "c",
        None,
    ]
    assert functions.counts({0x100: 2, 0x12F: 3, 0x130: 9}) == {"a": 2, "b": 3}
    with pytest.raises(AssertionError):
        shares.Functions(SYMBOLS, ("a", "d"))


def test_file():
    region = truth.read(FILE.splitlines())[7]
    assert (
        region.space_of({0x118: 2}) == SPACE
        and region.space_of({0xFFFFFFFF81000000: 1}) == truth.KERNEL
    )
    assert region.instructions(SPACE) == {0x104: 30, 0x118: 70}
    assert region.masked(truth.KERNEL) == {0xFFFFFFFF81000000: 0.25}
    found = truth.ways(region)
    assert (found.skids, found.distances) == ([5, 4], [40, 10])
    assert (found.merged, found.lost, found.unasked) == (1, 1, 1)


def test_file_mutant():
    """An overflow or an NMI dropped from the file changes the answer."""
    whole = truth.ways(truth.read(FILE.splitlines())[7])
    for number, line in enumerate(FILE.splitlines()):
        if line.startswith(("overflow", "interrupt 2 ")):
            lines = FILE.splitlines()
            del lines[number]
            assert truth.ways(truth.read(lines)[7]) != whole, line


def test_stacks():
    """Two blocks that ran once each, and the one that the sample is in, which has not ended."""
    code = [0x100, 0x102, 0x105, 0x108, 0x110, 0x114]
    stack = [(0x114, 0x100), (0x105, 0x110), (0x108, 0x102)]
    found = shares.of_stacks([stack], code)
    assert found == {0x110: 1, 0x114: 1, 0x102: 1, 0x105: 1}
    assert shares.last_targets([stack, []]) == {0x100: 1}
    # A base that is swapped: targets for origins.
    assert shares.of_stacks([[(to, at) for at, to in stack]], code) != found


def test_by_samples():
    """Random samples come as near as chance says; those that all went to one function are as far as
    that says."""
    true = {"a": 0.25, "b": 0.75}
    rng = random.Random(1)

    def profile(samples):
        return shares.share(collections.Counter(samples))

    good = ["a" if rng.random() < true["a"] else "b" for _ in range(4096)]
    found = shares.by_samples(good, profile, true)
    assert [count for count, _ in found][:3] == [4096, 2048, 1024] and found[-1][0] == 8
    for count, apart in found[2:]:
        assert 0.5 < apart / shares.by_chance(true, count) < 2, (count, apart)
    moved = ["b"] * len(good)  # all samples skid into the next function
    assert shares.by_samples(moved, profile, true)[0][1] == true["a"]


def test_masked():
    """Samples at an address stand for the part of its times that had interrupts off."""
    assert shares.part_masked({0x10: 3, 0x20: 1}, {0x10: 0.0, 0x20: 1.0}) == 0.25


def test_mappings():
    """perf's records, and this Python's own file for one."""
    line = (
        "python3 123 0.0: PERF_RECORD_MMAP2 123/123: [0x555555557000({size}) @ {offset} 08:01 12 "
        "0]: r-xp {file}"
    )
    path = os.path.realpath(sys.executable)
    ((offset, address, size),) = mapped.segments(path)
    lines = [
        line.format(size=hex(size), offset=hex(offset), file=path),
        "55555555",
        lines_of_data(path),
    ]
    (found,) = mapped.mappings(lines)
    assert found == (0x555555557000, size, offset, path)
    (added, first, end), symbols = mapped.placed(found, path), mapped.symbols([found], [""])
    assert (added, first, end) == (0x555555557000 - address, address, address + size)
    assert len(symbols) > 100 and all(
        found.start <= at < found.start + size for at, _, _ in symbols
    )


def lines_of_data(path):
    return (
        f"python3 123 0.0: PERF_RECORD_MMAP2 123/123: [0x7000(0x1000) @ 0x9000 08:01 12 0]: r--p "
        f"{path}"
    )
