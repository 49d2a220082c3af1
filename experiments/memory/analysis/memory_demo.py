# SPDX-License-Identifier: BSD-2-Clause
"""Boots Linux under memtrace=writes, traces a small program there, and shows what it wrote.

The program (guest/demo/matrix.c) writes a matrix by rows, then by columns. FOLDER gets the
trace, CTF, the feed and the page.
"""

import pathlib
import shutil

from experiments.memory.analysis import (
    memory,
    memory_ctf,
    memory_feed,
    memory_page,
    memory_tool,
    operand,
    symbols,
)
from experiments.shared.analysis import demo_boot
from testbed.machine import TOP

PROGRAM = pathlib.Path(TOP) / "build" / "programs" / "matrix"
TITLE = "Writes of a program: a matrix by rows, then by columns"


def render(folder, found, where):
    """Writes all, of the guest's files; gives the lines to print. `where`: what stands beside a
    time."""
    trace = folder / "matrix.ptrace"
    trace.write_bytes(demo_boot.file_of(found, "ptrace", folder))
    accesses = memory.read(trace)
    ordered = accesses.ordered()
    shutil.rmtree(folder / "ctf", ignore_errors=True)  # an earlier run's
    memory_ctf.write(accesses.processors, accesses.gaps, folder / "ctf", accesses.tsc_khz)
    with open(folder / "matrix.lackey", "w", encoding="ascii") as out:
        memory_feed.write(ordered, out, "lackey")
    names = symbols.read([str(PROGRAM)] if PROGRAM.exists() else [])
    (folder / "memory.html").write_text(
        memory_page.html(accesses, ordered, TITLE, names=names, where=where), encoding="utf-8"
    )
    files = (
        ("memory.html", "any browser"),
        ("ctf", "babeltrace2, Trace Compass"),
        ("matrix.lackey", "cache simulators that read Valgrind's lackey"),
        ("matrix.ptrace", "python3 -m experiments.memory.analysis.memory_tool"),
    )
    return [*memory_tool.sums(accesses, ordered), "", *demo_boot.paths(folder, files)]


if __name__ == "__main__":
    demo_boot.main(
        __doc__,
        "memdemo",
        "memtrace=writes trace_ring=16",
        render,
        [operand.NoDecoder, symbols.NoSymbols],
    )
