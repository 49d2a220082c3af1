# SPDX-License-Identifier: BSD-2-Clause
"""Boots Linux under memtrace=writes, traces a small program there, and shows what it wrote.

The program (guest/demo/matrix.c) writes a matrix by rows, then by columns. FOLDER gets the
trace, CTF, the feed and the page.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from bench import plots
from experiments.memory.analysis import (
    memory,
    memory_ctf,
    memory_feed,
    memory_page,
    memory_tool,
    operand,
    symbols,
)
from experiments.shared.analysis import demo_boot, records
from experiments.shared.analysis.console_files import BadFile
from experiments.shared.analysis.ctf_writer import CannotWrite
from testbed.machine import TOP

PROGRAM = pathlib.Path(TOP) / "build" / "programs" / "matrix"
TITLE = "Writes of a program: a matrix by rows, then by columns"


def render(folder, found, where=""):
    """Writes all, of the guest's files; gives memory.Accesses. `where`: what stands beside a
    time."""
    if "ptrace" not in found:
        raise demo_boot.DemoFailed(f"the guest left no file 'ptrace' (see {folder / 'console'})")
    trace = folder / "matrix.ptrace"
    trace.write_bytes(found["ptrace"])
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
    return accesses


def summary(folder, accesses):
    """Gives the lines to print."""
    rows = [*memory_tool.sums(accesses, accesses.ordered()), ""]
    return rows + [
        f"{os.path.relpath(folder / name):<34} {what}"
        for name, what in (
            ("memory.html", "any browser"),
            ("ctf", "babeltrace2, Trace Compass"),
            ("matrix.lackey", "cache simulators that read Valgrind's lackey"),
            ("matrix.ptrace", "python3 -m experiments.memory.analysis.memory_tool"),
        )
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--timeout", type=int, default=1200, metavar="S")
    parser.add_argument("--backend", default="auto", help="as run-qemu.sh has it")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = demo_boot.boot(
            folder, "memdemo", "memtrace=writes trace_ring=16", 1, options.timeout, options.backend
        )
        accesses = render(folder, found, demo_boot.where(options.backend))
    except (
        demo_boot.DemoFailed,
        BadFile,
        records.BadRecords,
        operand.NoDecoder,
        plots.NoPlots,
        CannotWrite,
        symbols.NoSymbols,
        subprocess.CalledProcessError,
        OSError,
    ) as error:
        sys.exit(f"memory_demo.py: {error}")
    print("\n".join(summary(folder, accesses)))


if __name__ == "__main__":
    main()
