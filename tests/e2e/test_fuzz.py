# SPDX-License-Identifier: BSD-2-Clause
# test_fuzz.py: the test kernel's fuzzer (tests/kernel/fuzz.c), natively and under PMUvisor: the
# same random operations have to give the same, but for the documented differences
# (tests/kernel/fuzz_differ.c), and the hypervisor lives. FULL=1: twenty times as many, other seeds.
import os
import re

import pytest

from testbed.machine import STATUS_POWEROFF, STATUS_RESET, path
from tests.e2e import kernel
from tests.e2e.host import STOPPED

pytestmark = pytest.mark.more

FULL = os.environ.get("FULL") == "1"
# Half of them in xAPIC mode, half in x2APIC mode.
OPERATIONS = 5_000_000 if FULL else 250_000
SEEDS = (11, 12) if FULL else (1, 2)
OTHER_OPERATIONS = 65_536  # a multiple of STEP
STEP, FINE_STEP = 4096, 64  # fuzz.c
LIMIT = 200_000 if FULL else 30_000  # millions of instructions
MUTANT_SEED = 3  # its first FINE_STEP operations have CPUID leaf 1 and no hypercall 16
LINES_MAX = 40  # of the hypervisor's, from the guest's start to its end
X2 = "x2apic"
# A register that the MSR bitmap cannot name; PEBS.
KNOBS = "msr 0x2000 0x1234\npebs 3\n"


def boot(lab, name, words, entry="native", limit=LIMIT, knobs=KNOBS, **keywords):
    return lab.emulator(
        name,
        entry=entry,
        kernel=path("build", "kernel.bzImage"),
        initrd=b"none\n",
        append="tests=" + ",".join(words),
        panic="report",
        limit=limit,
        until=STOPPED,
        knobs=knobs,
        **keywords,
    )


def plan():
    return [f"fuzz:{SEEDS[0]}:0:{OPERATIONS}", X2, f"fuzz:{SEEDS[1]}:0:{OPERATIONS}"]


def native(lab):
    return boot(lab, "fuzz-native", [f"fuzz:verbose:{MUTANT_SEED}:0:{FINE_STEP}"] + plan())


def guest(lab):
    return boot(lab, "fuzz-guest", plan() + ["fuzz-last:init"], entry="msr+nmi")


def other(lab):
    words = [f"fuzz:{SEEDS[0]}:0:{OTHER_OPERATIONS}", "fuzz-last:shutdown"]
    return boot(lab, "fuzz-intercept", words, entry="intercept", config="apic=trap")


def mutant(lab):
    return boot(
        lab,
        "fuzz-mutant",
        [f"fuzz:verbose:{MUTANT_SEED}:0:{FINE_STEP}", f"fuzz:{SEEDS[0]}:0:{OPERATIONS}"],
        entry="msr+nmi",
        efi=kernel.mutant("gullible"),
    )


def survived(run):
    """No fault in root mode, nothing that the fuzzer itself did not expect."""
    assert operations(run), f"nothing ran; last line: {run.last_line()}"
    for bad in ("fault in root mode", "Bail out!"):
        at = run.console.find(bad)
        assert at < 0, run.console[at : at + 600]


def operations(run):
    return {int(row["seed"]): int(row["operations"]) for row in run.lines("fuzz")}


def hashes(run):
    return {(int(row["seed"]), int(row["end"])): row["hash"] for row in run.lines("fuzz-hash")}


def first_difference(one, two):
    """The first (seed, end) that both have with different hashes; None: there is none."""
    ours, theirs = hashes(one), hashes(two)
    both = sorted(set(ours) & set(theirs))
    assert both, f"no hash in both; last lines: {one.last_line()}; {two.last_line()}"
    return next((key for key in both if ours[key] != theirs[key]), None)


def shown(run):
    """What verbose runs printed: {operation: (its executions, its result)}."""
    found, executions = {}, []
    for line in run.console.splitlines():
        if line.startswith("fuzz-run: "):
            executions.append(line)
        elif match := re.match(r"fuzz-op: number=(\d+) ", line):
            found[int(match[1])] = (executions, line)
            executions = []
    return found


def operation_that_differs(one, two):
    ours, theirs = shown(one), shown(two)
    for number in sorted(set(ours) & set(theirs)):
        if ours[number][1] != theirs[number][1]:
            return "\n".join(
                [
                    f"operation {number}:",
                    *ours[number][0][-4:],
                    ours[number][1],
                    "and there:",
                    theirs[number][1],
                ]
            )
    return None


def bisect(lab, seed, end, **keywords):
    """Finds the operation by shorter runs: alone if that shows it, else with all before it."""
    start = (end - 1) // STEP * STEP
    before = [X2] if seed == SEEDS[1] else []
    for first in dict.fromkeys((start, 0)):

        def both(word, begin, stop):
            words = before + [f"fuzz:{word}:{seed}:{begin}:{stop - begin}"]
            name = f"fuzz-{word}-{begin}"
            return (
                boot(lab, name + "-native", words),
                boot(lab, f"{name}-{keywords['entry']}", words, **keywords),
            )

        found = first_difference(*both("fine", first, end))
        if found is None:
            continue
        begin = found[1] - FINE_STEP if first else 0
        line = operation_that_differs(*both("verbose", begin, found[1]))
        if line:
            return line
    return f"not seen again in operations 0 to {end} of seed {seed}"


def expect_same(lab, run, **keywords):
    survived(run)
    different = first_difference(native(lab), run)
    if different:
        raise AssertionError(
            f"seed {different[0]}, up to operation {different[1]}: "
            + bisect(lab, *different, **keywords)
        )
    return sum(operations(run).values())


def test_native(lab):
    """The fuzzer survives its own operations."""
    run = native(lab)
    survived(run)
    run.expect_status(STATUS_POWEROFF)
    return f"{sum(operations(run).values())} operations"


def test_guest(lab):
    """As many under PMUvisor: it lives, and the guest got what the machine itself gives."""
    run = guest(lab)
    count = expect_same(lab, run, entry="msr+nmi")
    assert count >= 2 * OPERATIONS, f"{count} operations; last line: {run.last_line()}"
    return f"{count} operations"


def test_last_init(lab):
    """The last operation, an INIT to the bootstrap processor: reported, then a reset."""
    run = guest(lab)
    run.expect_status(STATUS_RESET)
    assert re.search(r"pmuvisor: .*INIT.*", run.console), run.last_line()


def test_differences(lab):
    """Each documented difference is one: it changed something."""
    rows = native(lab).lines("fuzz-difference")
    used = {}
    for row in rows:
        used[row["why"]] = used.get(row["why"], 0) + int(row["used"])
    unused = [why for why, count in used.items() if count == 0]
    assert used and not unused, f"no difference seen: {unused}"
    return f"{len(used)} documented"


def test_log_is_bounded(lab):
    """Nothing that the guest does makes the hypervisor print without end."""
    lines = [
        line
        for line in guest(lab).console.split("starting the guest", 1)[1].splitlines()
        if line.startswith("pmuvisor: ")
    ]
    assert len(lines) <= LINES_MAX, f"{len(lines)} lines, the last: {lines[-1]}"
    return f"{len(lines)} lines"


def test_intercept(lab):
    """With everything trapped that can be (policy intercept, apic=trap): the same results."""
    run = other(lab)
    count = expect_same(lab, run, entry="intercept", config="apic=trap")
    assert count == OTHER_OPERATIONS, f"{count} operations; last line: {run.last_line()}"
    run.expect_status(STATUS_RESET)
    assert "shut down (triple fault)" in run.console, run.last_line()
    return f"{count} operations"


def test_finds_a_missing_row(lab):
    """A hypervisor that does not hide VMX in CPUID is seen, and the operation is named."""
    line = operation_that_differs(native(lab), mutant(lab))
    assert line and "kind=cpuid" in line and "subject=0x1 " in line, line
    return " ".join(line.split("\n")[0].split())


def test_finds_a_dereference(lab):
    """One that takes a hypercall's argument for a pointer faults, and that is seen."""
    try:
        survived(mutant(lab))
    except AssertionError as found:
        assert "fault in root mode: exception" in str(found), found
        return
    raise AssertionError(f"no fault was seen; last line: {mutant(lab).last_line()}")
