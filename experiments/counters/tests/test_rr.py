# SPDX-License-Identifier: BSD-2-Clause
# test_rr.py: Debian's rr, unchanged, records and replays programs natively and in the guest
# (experiments/counters/guest/rr/). It counts conditional branches, and a recording is only replayed
# where each count is exact and each PMI comes: the hardest judge of a PMU that Debian has. FULL=1:
# all programs, in every column that offers the PMU, on two processors, and recordings that travel
# between boots.
import os

import pytest

from experiments.counters.tests import tools, tools_table
from testbed.machine import path

FULL = os.environ.get("FULL") == "1"
ROWS = tools_table.read()
TOOL, TWO, ELSEWHERE = ROWS["rr"], ROWS["rr-two"], ROWS["rr-elsewhere"]
QUICK = TOOL.words_of("quick")
OTHERS = [name for name in tools.columns_of(TOOL) if name not in ("native", "msr+nmi")]


def boot(lab, column, tool=TOOL, cases=(), **more):
    if not FULL:
        cases = cases or QUICK
    return tools.boot_of(lab, tool, column, cases, **more)


def check_replays(done, tool=TOOL, cases=()):
    """Each program's replay prints what was recorded, and ends alike. {case: Case}."""
    found = tools.ended(done, tool, cases or (() if FULL else QUICK))
    wrong = {name: case.lines[-3:] for name, case in found.items() if case.status != 0}
    assert not wrong, f"boot {done.name}: {wrong}"
    return found


def check_alike(lab, column, tool=TOOL):
    """In a column every program is replayed, and prints what it prints natively."""
    native, done = boot(lab, "native", tool), boot(lab, column, tool)
    found = check_replays(done, tool)
    wrong = tools.differences(tool, check_replays(native, tool), found)
    assert not wrong, wrong[:4]
    return done, found


def check_untouched(done, found):
    """Under msr+nmi no work on the PMU exits. What to say."""
    exits, _, pmis = tools.exits_of(done, found)
    assert exits == 0 and pmis > 0, (exits, pmis)
    return f"{len(found)} programs, {pmis} PMIs, no exit for the PMU"


def test_native(lab):
    """What is recorded natively is replayed natively."""
    return f"{len(check_replays(boot(lab, 'native')))} programs"


def test_msr_nmi(lab):
    """The same under msr+nmi; what a program prints is as natively; nothing of the PMU exits."""
    return check_untouched(*check_alike(lab, "msr+nmi"))


@pytest.mark.full
@pytest.mark.parametrize("column", OTHERS, ids=lambda name: f"column_{name}")
def test_column(lab, column):
    """The same in every other column."""
    done, found = check_alike(lab, column)
    exits, every, pmis = tools.exits_of(done, found)
    return f"{len(found)} programs, {pmis} PMIs, {exits} of {every} exits for the PMU"


@pytest.mark.full
@pytest.mark.parametrize(
    "column", ["native", "msr+nmi", "msr", "intercept"], ids=lambda name: f"two_{name}"
)
def test_two_processors(lab, column):
    """The same on two processors, rr bound to one of them and not."""
    done, found = check_alike(lab, column, TWO)
    return check_untouched(done, found) if column == "msr+nmi" else f"{len(found)} programs"


@pytest.mark.full
@pytest.mark.parametrize("column", ["native", "msr+nmi"], ids=lambda name: f"elsewhere_{name}")
def test_recorded_elsewhere(lab, column):
    """What was recorded natively is replayed in the guest, and the guest's natively."""
    done = boot(lab, column, ELSEWHERE)
    return f"{len(check_replays(done, ELSEWHERE))} programs"


@pytest.mark.full
def test_elsewhere_is_another(lab):
    """That test is seen to fail where one byte of what was recorded is another."""
    files = tools.taken(lab, ELSEWHERE, "msr+nmi", ["signals"])
    ((name, data),) = files.items()
    at = data.index(b"signals: at least 5")
    files = {name: data[:at] + b"S" + data[at + 1 :]}
    done = boot(lab, "msr+nmi", ELSEWHERE, ["signals"], name="-another", files=files)
    case = tools.ended(done, ELSEWHERE, ["signals"])["signals"]
    assert case.status != 0 and "same=no" in case.lines[-1], case


@pytest.mark.full
def test_inexact(lab):
    """A replay is seen to part from its recording where the hypervisor loses bits of counters: the
    signals are not found again. A program without any counts as little in its replay as before."""
    done = boot(
        lab,
        "intercept",
        cases=["plain", "signals"],
        name="-inexact",
        efi=path("build", "mutants", "inexact.efi"),
    )
    case = tools.cases_of(done, TOOL)["signals"]
    assert case.status != 0, case.lines
    return case.lines[-1]
