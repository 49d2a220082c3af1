# SPDX-License-Identifier: BSD-2-Clause
# test_kernels.py: three generations of Debian's kernel, unmodified, under each policy with one and
# four processors. They do what they do natively: A.1, perf stat, perf record, PMIs on all
# processors at once; and they say what they say natively, line by line, but for what kernels.py
# explains. Without FULL=1: this machine's own kernel, under msr+nmi with one processor.
import os

import pytest

from testbed.machine import STATUS_POWEROFF, exit_count
from tests.e2e.kernels import (
    A1_AGAIN,
    A1_BRANCHES,
    A1_PERIODS,
    CPUS,
    DIFFERENCES,
    HYPERVISOR_BIT,
    PMIS_AT_ONCE,
    POLICIES,
    REGION_A1_AGAIN,
    SEEN,
    SUITES,
    boot_bit_off,
    boot_kernel,
    compare,
    explained_by,
    kernel_log,
    own_suite,
    seen,
    unexplained,
)

FULL = os.environ.get("FULL") == "1"
REGION_A1_SMP = 3000
BIT = [row for row in DIFFERENCES if row.bit]
SEEN_BY_BIT = [row for row in SEEN if row.bit]
# 1.0000, to the last place that is shown.
A1_SPREAD = 0.00005


EVERY = [(suite, policy, cpus) for suite in SUITES for policy in POLICIES for cpus in CPUS]
RUN = EVERY if FULL else [(own_suite(), "msr+nmi", 1)]


def each(function):
    """Once for each kernel, policy and number of processors."""
    return pytest.mark.parametrize(
        "suite, policy, cpus",
        RUN,
        ids=[f"{function}_{suite}_{policy}_{cpus}" for suite, policy, cpus in RUN],
    )


def each_suite(function):
    """Once for each kernel."""
    suites = list(SUITES) if FULL else [own_suite()]
    return pytest.mark.parametrize("suite", suites, ids=[f"{function}_{suite}" for suite in suites])


def pairs(lab, suite, policy, cpus):
    """The native boot and the one under PMUvisor."""
    return [boot_kernel(lab, suite, column, cpus) for column in ("native", policy)]


@each("boots")
def test_boots(lab, suite, policy, cpus):
    """The kernel of that suite boots, has all processors, and switches the machine off."""
    boot = boot_kernel(lab, suite, policy, cpus)
    boot.expect_status(STATUS_POWEROFF)
    assert f"running under PMUvisor, policy {policy}" in boot.console, boot.last_line()
    assert (
        f"kernel: Linux {SUITES[suite]}." in boot.console
    ), f"another kernel than {suite}'s {SUITES[suite]}"
    row = next(row for row in boot.lines("smp") if "processors" in row)
    assert row["processors"] == row["configured"] == str(cpus), row
    release = next(line for line in boot.console.splitlines() if line.startswith("kernel: "))
    return f"{release.removeprefix('kernel: ')}, {boot.seconds:.0f} s"


@each("does_as_native")
def test_does_as_native(lab, suite, policy, cpus):
    """A.1 on each processor as natively; perf stat, perf record and PMIs at once as wanted."""
    found = []
    for boot in pairs(lab, suite, policy, cpus):
        for job in ("a1smp", "statall", "recordall", "pmiall"):
            assert boot.job_status(job) == 0, f"{boot.name}: {boot.lines(job)}"
        rows = {(row["cpu"], int(row["M"])): row for row in boot.lines("a1smp")}
        assert len(rows) == cpus * len(A1_PERIODS), f"{boot.name}: {sorted(rows)}"
        for (_, period), row in rows.items():
            assert row["pmis"] == row["nmis"] == str(A1_BRANCHES // period), f"{boot.name}: {row}"
        found.append({key: row["count"] for key, row in rows.items()})
        row = boot.lines("pmiall")[0]
        assert row["pmis"] == row["nmis"] == ",".join([str(PMIS_AT_ONCE)] * cpus), row
    assert found[0] == found[1], f"branches natively {found[0]}, in the guest {found[1]}"


@each("pmi_exits")
def test_pmi_exits(lab, suite, policy, cpus):
    """A.1 takes no exit under msr+nmi, one for each PMI under msr, and more under intercept."""
    boot = boot_kernel(lab, suite, policy, cpus)
    said = []
    for cpu in range(cpus):
        for number, period in enumerate(A1_PERIODS):
            exits, pmis = (
                exit_count(boot.region(REGION_A1_SMP + 10 * cpu + number)),
                A1_BRANCHES // period,
            )
            wanted = {
                "msr+nmi": exits == 0,
                "msr": exits == pmis,
                "intercept": exits >= max(2 * pmis, 1),
            }[policy]
            assert wanted, f"processor {cpu}, M={period}: {exits} exits, {pmis} PMIs"
            said.append(exits)
    return f"with {A1_BRANCHES // A1_PERIODS[-1]} PMIs {said[-1]} exits"


@each("dmesg")
def test_dmesg(lab, suite, policy, cpus):
    """The kernel's log is the native one, but for the differences that kernels.py explains."""
    native, guest = (kernel_log(boot) for boot in pairs(lab, suite, policy, cpus))
    strange = unexplained(native, guest, suite)
    assert not strange, f"{len(strange)} lines without an explanation: " + " | ".join(strange[:20])
    return (
        f"{len(native)} lines, {len(guest)} in the guest, "
        f"{len(compare(native, guest))} differ, each explained"
    )


@each_suite("bit_off")
def test_bit_off(lab, suite):
    """With hypervisor_bit=off Linux says and makes of the machine what it does natively, but for
    what is hidden in any case; and the guest's programs still find PMUvisor."""
    native, off = boot_kernel(lab, suite, "native", 1), boot_bit_off(lab, suite)
    off.expect_status(STATUS_POWEROFF)
    assert "running under PMUvisor, policy msr+nmi" in off.console, off.last_line()
    strange = unexplained(kernel_log(native), kernel_log(off), suite)
    assert not strange, f"{len(strange)} lines without an explanation: " + " | ".join(strange[:20])
    said = [
        line
        for line in compare(kernel_log(native), kernel_log(off))
        if explained_by(line, suite) in BIT
    ]
    differ = compare(seen(native), seen(off))
    said += [line for line in differ if explained_by(line, suite, SEEN) in (None, *SEEN_BY_BIT)]
    assert not said, f"as with the bit: {said[:20]}"
    return f"{len(seen(native))} lines of what Linux sees, {len(differ)} differ, VMX's"


@each_suite("bit_on")
def test_bit_on(lab, suite):
    """What the bit changes is what docs/guest.md has, and all of it is so."""
    differ = compare(*map(seen, pairs(lab, suite, "msr+nmi", 1)))
    rows = [explained_by(line, suite, SEEN) for line in differ]
    strange = [line for line, row in zip(differ, rows) if row is None]
    assert not strange, f"{len(strange)} lines without an explanation: " + " | ".join(strange[:20])
    dead = [row.what for row in SEEN if row not in rows]
    assert not dead, dead
    return f"{sum(row.bit for row in rows)} lines differ by the bit"


@each_suite("bit_off_a1")
def test_bit_off_a1(lab, suite):
    """A.1 executes with hypervisor_bit=off what it executes natively, kernel included, and takes no
    exit. Of either boot it is the least of many runs, which meet the kernel's timers, and all else
    that it does by the clock, at other moments each: such work only adds."""
    shares = []
    for number, period in enumerate(A1_PERIODS):
        regions = [REGION_A1_AGAIN + run * len(A1_PERIODS) + number for run in range(A1_AGAIN)]
        off = boot_bit_off(lab, suite)
        least = [
            min(boot.region(region)["nonroot"]["instructions"] for region in regions)
            for boot in (off, boot_kernel(lab, suite, "native", 1))
        ]
        assert least[1] > A1_BRANCHES, f"M={period}: {least[1]} instructions natively"
        assert all(exit_count(off.region(region)) == 0 for region in regions), f"M={period}: exits"
        shares.append(f"M={period}: {least[0]} / {least[1]} = {least[0] / least[1]:.4f}")
        assert abs(least[0] / least[1] - 1) <= A1_SPREAD, shares[-1]
    return "; ".join(shares)


def test_planted_differences(lab):
    """A line more, a line less and a changed one are found, and have no explanation."""
    suite, _, cpus = RUN[0]
    log = kernel_log(boot_kernel(lab, suite, "native", cpus))
    pmu = next(line for line in log if line.startswith("Performance Events: "))
    without = [line for line in log if line != pmu]
    broken = "Performance Events: no PMU driver, software events only."
    assert unexplained(log, log, suite) == []
    assert unexplained(log, without, suite) == [f"- {pmu}"]
    assert unexplained(log, without + [broken], suite) == [f"- {pmu}", f"+ {broken}"]
    assert unexplained(log, log + [pmu], suite) == [f"+ {pmu}"]
    # One that may be another one, and may not be missing.
    disk = next(line for line in log if line.startswith("RAMDISK: "))
    without = [line for line in log if line != disk]
    assert unexplained(log, without, suite) == [f"- {disk}"]
    assert unexplained(log, without + ["RAMDISK: [mem 0x1-0x2]"], suite) == []


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES, ids=[f"explanations_{suite}" for suite in SUITES])
def test_explanations(lab, suite):
    """Each row explains some line of each suite that it names: the list has no dead rows."""
    used = set()
    for policy in POLICIES:
        for cpus in CPUS:
            for line in compare(*map(kernel_log, pairs(lab, suite, policy, cpus))):
                used.add(explained_by(line, suite))
    dead = [row.what for row in DIFFERENCES if row.applies(suite) and row not in used]
    assert not dead, dead


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES, ids=[f"hypervisor_bit_{suite}" for suite in SUITES])
def test_hypervisor_bit(lab, suite):
    """Natively, with CPUID's hypervisor bit set by the emulator, Linux says of vulnerabilities and
    microcode exactly what it says under PMUvisor."""
    native, guest = (kernel_log(boot) for boot in pairs(lab, suite, "msr+nmi", 1))
    bit = kernel_log(boot_kernel(lab, suite, "native", 1, "-bit", HYPERVISOR_BIT))
    found = [
        sorted(line for line in compare(native, log) if explained_by(line, suite) in BIT)
        for log in (guest, bit)
    ]
    assert found[0] == found[1] != [], found
    return "; ".join(found[0])
