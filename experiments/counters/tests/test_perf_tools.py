# SPDX-License-Identifier: BSD-2-Clause
# test_perf_tools.py: perf and other tools that people use, servers and a JIT compiler under perf
# record, as Debian packages them: each case of the rows of guest/tools/tools.ini ends as natively,
# prints the same lines but for what the table lets differ, and takes no exit for the PMU. Each
# check runs a few cases of perf; FULL=1: all.
import os

import pytest

from experiments.counters.tests import tools, tools_table
from testbed.machine import STATUS_POWEROFF, path

FULL = os.environ.get("FULL") == "1"
TABLE = tools_table.read()
PERF = TABLE["perf"]
QUICK = PERF.words_of("quick")
PLATFORM = ("likwid", "turbostat", "topdown")  # of them one case in each check
# rr's have tests of their own, and Linux sees that residencies are not there
# (test_tools_platform.py).
ROWS = [name for name in TABLE if not name.startswith("rr") and name != "residency"]
# Rows of which a PMI is wanted: something of them is sampled.
SAMPLED = ("perf", "perf-trace", "bpftrace", "nginx", "postgres", "php")


def check_as_natively(lab, tool, cases=(), run=()):
    """What a row's cases did under msr+nmi and natively: {case: Case}, and the ledger's figures.
    `run`: what its boot runs, where that is more."""
    native, done = (
        tools.boot_of(lab, tool, column, run or cases) for column in ("native", "msr+nmi")
    )
    wanted, found = (tools.ended(boot, tool, cases) for boot in (native, done))
    wrong = tools.differences(tool, wanted, found)
    assert not wrong, f"{len(wrong)} lines differ: {wrong[:4]}"
    empty = [name for name, case in found.items() if not case.lines]
    assert not empty, f"nothing printed: {empty}"
    exits, _, pmis = tools.exits_of(done, found)
    assert exits == 0, exits
    return found, pmis


def lines(found):
    return sum(len(case.lines) for case in found.values())


def test_perf_quick(lab):
    """A count, a profile, an annotation and a trace are the native ones to the last digit."""
    found, pmis = check_as_natively(lab, PERF, QUICK)
    assert pmis > 0 and all(case.status == 0 for case in found.values()), found
    return f"{lines(found)} lines of {len(found)} cases, {pmis} PMIs, no exit for the PMU"


@pytest.mark.parametrize("row", PLATFORM)
def test_platform_quick(lab, row):
    """A tool that reads the platform's registers prints what it does natively."""
    run = [f"{name}/{case}" for name in PLATFORM for case in TABLE[name].words_of("quick")]
    found, _ = check_as_natively(lab, TABLE[row], TABLE[row].words_of("quick"), run)
    assert all(case.status == 0 for case in found.values()), found
    return f"{lines(found)} lines of {len(found)} cases, no exit for the PMU"


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS)
def test_row(lab, row):
    """All cases of a row."""
    found, pmis = check_as_natively(lab, TABLE[row])
    assert pmis > 0 or row not in SAMPLED, pmis
    failed = {name: case.lines[-1] for name, case in found.items() if case.status != 0}
    return (
        f"{lines(found)} lines of {len(found)} cases, {pmis} PMIs, no exit for the PMU; "
        f"fail natively, too: {failed or 'none'}"
    )


@pytest.mark.full
def test_bpftrace_probes(lab):
    """bpftrace's uprobe on a CPUID, with other probes there, sees what it sees natively."""
    row = TABLE["bpftrace"]
    files = {
        "jobs/bpfprobes": path("experiments/counters/guest/others/probes.sh"),
        "jobs/probes": path("build/programs/probes"),
        "lib/modules/pmuvisor_probed.ko": path("build/module/cloud/pmuvisor_probed.ko"),
    }
    said = []
    for column in ("native", "msr+nmi"):
        options = tools.options_of(row, column)
        boot = lab.emulator(
            f"bpftrace-probes-{column}",
            **{**options, "jobs": "bpfprobes", "initrd": (files, options["initrd"])},
        )
        boot.expect_status(STATUS_POWEROFF)
        said.append(
            sorted(
                line for line in boot.console.splitlines() if line.startswith(("bpf: ", "probes: "))
            )
        )
    counts = [line.rsplit(": ", 1)[1] for line in said[0] if line.startswith("bpf: ")]
    assert said[0] == said[1] and counts and set(counts) == {"3"}, said
    return f"{len(counts)} leaves"
