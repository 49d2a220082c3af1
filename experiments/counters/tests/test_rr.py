# SPDX-License-Identifier: BSD-2-Clause
# test_rr.py: Debian's rr, unchanged, records and replays programs natively and in the guest
# (experiments/counters/guest/rr/). It counts conditional branches, and a recording is only replayed where
# each count is exact and each PMI comes: the hardest judge of a PMU that Debian has. FULL=1: all programs,
# in every column that offers the PMU.
import os

import pytest
import tools
import tools_table

FULL = os.environ.get("FULL") == "1"
TOOL = tools_table.read()["rr"]
QUICK = TOOL.words_of("quick")


def boot(lab, column, cases=(), **more):
    return tools.boot_of(lab, TOOL, column, cases or (() if FULL else QUICK), **more)


def check_replays(done, cases=()):
    """Each program's replay prints what was recorded, and ends alike. {case: Case}."""
    found = tools.ended(done, TOOL, cases or (() if FULL else QUICK))
    wrong = {name: case.lines[-3:] for name, case in found.items() if case.status != 0}
    assert not wrong, f"boot {done.name}: {wrong}"
    return found


def test_native(lab):
    """What is recorded natively is replayed natively."""
    return f"{len(check_replays(boot(lab, 'native')))} programs"


def test_msr_nmi(lab):
    """The same under msr+nmi; what a program prints is as natively; nothing of the PMU exits."""
    native, done = boot(lab, "native"), boot(lab, "msr+nmi")
    found = check_replays(done)
    wrong = tools.differences(TOOL, check_replays(native), found)
    assert not wrong, wrong
    exits, _, pmis = tools.exits_of(done, found)
    assert exits == 0 and pmis > 0, (exits, pmis)
    return f"{len(found)} programs, {pmis} PMIs, no exit for the PMU"
