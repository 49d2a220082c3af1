# SPDX-License-Identifier: BSD-2-Clause
# test_memtrace_tool.py: the guest's tool of the memory trace, in Linux: the program `matrix`
# (guest/demo/) says where its matrix is, and each of its stores has its record, in order, with its
# size and value, and none that it has not made.
import functools
import os
import shutil
import subprocess

import pytest

from experiments.memory.analysis import memory, memory_cache, memory_doubles, memory_samples
from experiments.memory.tests import memdemo
from experiments.shared.tests import demos
from testbed import boots
from testbed.machine import STATUS_POWEROFF, path

SIDE = 64
PERIOD = 101  # guest/demo/memstores.sh
CELLS = SIDE * SIDE
BY_ROWS = [(8 * cell, cell + 1) for cell in range(CELLS)]
BY_COLUMNS = [
    (8 * cell, ~cell & (1 << 64) - 1)
    for column in range(SIDE)
    for cell in range(column, CELLS, SIDE)
]


# A quarter of the matrix: by columns each store is to a line that has left.
SMALL_CACHE = "8192,2,64"
SIZE_BYTES = 4  # of the structures' field `size`
OWN_MISSES_MAX = 8  # other stores of main


@functools.cache
def recorded(lab, name, *words, **more):
    done, trace = memdemo.boot(lab, f"memtrace-{name}", *words, **more)
    return done, memory.read(trace)


def matrix(done, found):
    """The accesses of the matrix, as (offset, bytes, number, direction)."""
    row = next(row for row in done.lines("matrix") if "first" in row)
    first, count = int(row["first"], 16), int(row["bytes"])
    return [
        (access.gla - first, access.bytes, access.number, access.direction)
        for access in found.processors[0]
        if access.kind == "instruction" and first <= access.gla < first + count
    ]


def test_writes(lab):
    """Each store of both loops, in order, with its value; all else of user space has a size."""
    done, found = recorded(lab, "writes")
    assert found.lost == 0 and not found.complaints and not found.unknown, found.unknown
    made = [(at, 8, value, "W") for at, value in BY_ROWS + BY_COLUMNS]
    assert matrix(done, found) == made
    accesses = found.processors[0]
    assert len({access.cr3 & ~0x1FFF for access in accesses}) == 1
    assert all(access.gla < 1 << 47 for access in accesses)
    retired = [access.retired for access in accesses]
    assert found.counter and retired == sorted(retired)
    return f"{len(accesses)} accesses, {2 * CELLS} of the matrix"


def test_all(lab):
    """Reads beside writes: each store again, and the loads of user space. All have a size but loads
    under a mask."""
    done, found = recorded(lab, "all", "--all", "memtrace=all trace_ring=16")
    assert found.lost == 0 and not found.complaints
    made = [(at, 8, value, "W") for at, value in BY_ROWS + BY_COLUMNS]
    assert [one for one in matrix(done, found) if one[3] == "W"] == made
    reads = [access for access in found.processors[0] if access.direction == "R"]
    assert len(reads) > 1000 and all("masked" in why for why in found.unknown), found.unknown
    assert sum(not access.bytes for access in found.processors[0]) == sum(found.unknown.values())
    return f"{len(found.processors[0])} accesses, {len(reads)} reads, {dict(found.unknown)}"


def test_cachegrind(lab):
    """The trace in Valgrind's cache simulator: the matrix's stores miss as often as those of the
    program itself, which nobody traces, in the same simulator."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    done, found = recorded(lab, "all", "--all", "memtrace=all trace_ring=16")
    row = next(row for row in done.lines("matrix") if "first" in row)
    first, count = int(row["first"], 16), int(row["bytes"])
    fed = memory_cache.misses(
        found.ordered(),
        SMALL_CACHE,
        lambda access: "matrix" if first <= access.gla < first + count else "rest",
    )["matrix"]
    own = memory_cache.simulate([path("build", "programs", "matrix")], SMALL_CACHE)["main"]
    assert fed.writes == 2 * CELLS and fed.write_misses == CELLS // 8 + CELLS, fed
    assert abs(own.write_misses - fed.write_misses) <= OWN_MISSES_MAX, (own, fed)
    return f"{fed.write_misses} of {fed.writes} stores miss, {own.write_misses} untraced"


def test_doubles(lab):
    """Linux reads the size of two structures twice, and a buffer once."""
    done, file = memdemo.boot(
        lab, "memtrace-doubles", "--all", "memtrace=all trace_ring=16", program="fetches"
    )
    row = next(row for row in done.lines("fetches") if "perf" in row)
    at = {name: int(row[name], 16) for name in ("perf", "sched", "once")}
    found = list(memory_doubles.find(memory.read(file).ordered()))
    for name in ("perf", "sched"):
        assert (
            sum(double.bytes for double in found if at[name] <= double.gla < at[name] + SIZE_BYTES)
            == SIZE_BYTES
        ), name
    assert not any(at["once"] <= double.gla < at["once"] + 64 for double in found), found
    return (
        f"{len(found)} reads of what was read before, by {len(memory_doubles.counted(found))} "
        f"pairs of instructions"
    )


@pytest.mark.full
def test_range(lab):
    """A range of the program's addresses: nothing else is there."""
    done, whole = recorded(lab, "writes")
    first = int(next(row for row in done.lines("matrix") if "first" in row)["first"], 16)
    _, found = recorded(lab, "range", f"--range,{first:#x}+0x2000")
    assert found.lost == 0
    offsets = [access.gla - first for access in found.processors[0]]
    assert all(0 <= at < 0x2000 for at in offsets)
    wanted = [at for at, _ in BY_ROWS + BY_COLUMNS if at < 0x2000]
    assert [
        at
        for at, access in zip(offsets, found.processors[0])
        if access.kind == "instruction" and access.cr3 and access.rip < 1 << 47
    ] == wanted
    assert len(wanted) < len(whole.processors[0])


@pytest.mark.full
def test_physical(lab):
    """Physical memory on two processors, while the program runs: each record is of one of them and
    has its address in the range, whoever made it. Of what the tool itself writes there some may be
    lost: it is traced as well."""
    _, found = recorded(lab, "physical", "--physical,0x4000000-0xc000000", cpus=2)
    accesses = found.ordered()
    assert set(found.processors) <= {0, 1} and accesses and not found.complaints
    assert all(0x4000000 <= access.gpa < 0xC000000 for access in accesses)
    return f"{len(accesses)} accesses, {found.lost} lost"


def test_refused(lab):
    """Off, more than the option names, and no user_hypercalls: one line each, and the guest goes
    on."""
    for name, asked, option, words in (
        ("off", "--writes", "memtrace=off", "start it with memtrace=writes"),
        ("more", "--all", "memtrace=writes", "more than the option memtrace= names"),
        ("range", "--physical,0x7fff00000000+4096", "memtrace=writes", "no range of memory"),
    ):
        done, _ = memdemo.boot(lab, f"memtrace-refused-{name}", asked, option, status=1)
        assert words in done.squeezed() or words in done.console, done.last_line()


def test_stores(lab):
    """--stores: perf's samples of one store in 101, each at an address that matrix stores to there,
    about as many as there are, and no exit more. Not a trace: the tool reads them all the same."""
    done = lab.emulator(
        "memtrace-stores",
        jobs="memstores",
        append="norandmaps",
        config="console=none",
        knobs="pebs 3\n",
        limit=60_000,
        initrd=boots.initrd(name="memstores"),
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("memstores") == 0, done.last_line()
    text = os.path.join(lab.keep, "memtrace-stores.txt")
    with open(text, "w", encoding="utf-8") as out:
        out.writelines(
            line.partition("sample: ")[2] + "\n"
            for line in done.console.replace("\r", "").split("\n")
            if "sample: " in line
        )
    samples = memory_samples.read(text).ordered()
    row = next(row for row in done.lines("matrix") if "first" in row)
    first, count = int(row["first"], 16), int(row["bytes"])
    cells = [one.gla - first for one in samples if first <= one.gla < first + count]
    assert all(at % 8 == 0 for at in cells)
    assert abs(len(cells) - 2 * CELLS / PERIOD) <= 2, len(cells)
    rows = cells[: len(cells) // 2 - 1]
    assert rows == sorted(rows) and set(b - a for a, b in zip(rows, rows[1:])) <= {8 * 101, 8 * 102}
    return f"{len(samples)} samples, {len(cells)} of the matrix"


def test_demo(lab):
    """`make memtrace`: its page, CTF that babeltrace2 reads without a complaint, and the feed."""
    for needed in ("bt2", "matplotlib"):
        pytest.importorskip(needed, reason=f"python3-{needed} is not installed")
    if not shutil.which("babeltrace2"):
        pytest.skip("babeltrace2 is not installed")
    done = demos.demo(lab, "make-memtrace", "experiments.memory.analysis.memory_demo", "memdemo")
    out = done.folder
    accesses = memory.read(os.path.join(out, "matrix.ptrace")).ordered()
    assert len(accesses) > 2 * CELLS and f"{len(accesses)} accesses" in done.said
    read = subprocess.run(
        ["babeltrace2", os.path.join(out, "ctf")],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert read.stderr == "" and read.stdout.count("mem_access:") == len(accesses)
    with open(os.path.join(out, "memory.html"), encoding="utf-8") as source:
        page = source.read()
    assert page.count("<svg") == 3 and '<td class="text">main+0x' in page
    with open(os.path.join(out, "matrix.lackey"), encoding="ascii") as feed:
        assert sum(1 for _ in feed) == len(accesses)
