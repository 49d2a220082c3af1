# SPDX-License-Identifier: BSD-2-Clause
# test_nested.py: PMUvisor under Debian's own QEMU/KVM with nested VMX, inside the emulator
# (testbed/nested.py): Linux under each policy, the ends of the machine, and that the outer kernel
# complains of nothing. FULL=1: also policy intercept, a tick, perf and a panic.
import re

import pytest

from testbed import ledger
from testbed.machine import STATUS_POWEROFF, STATUS_RESET
from tests.e2e.inner import expect_quiet, linux
from tests.e2e.native import expect_a1_pmis

pytestmark = pytest.mark.more

TSC_KHZ = 200000  # testbed/nested.py: KNOBS
CPUID, VMLAUNCH, VMRESUME = 10, 20, 24  # basic exit reasons
SAMPLES = 490  # 40 cycles for each of 625,000 iterations, one for 50,021 cycles


def msr_nmi(lab):
    return linux(lab, "msr+nmi", jobs="a1,nmilog,report", config="apic=pass")


def intercept(lab):
    """With a trapped local APIC; and the machine is reset."""
    return linux(
        lab,
        "intercept",
        entry="intercept",
        jobs="a1,nmilog,report",
        config="apic=trap",
        end="reboot",
        append="reboot=acpi",
    )


def msr(lab):
    return linux(lab, "msr", entry="msr", jobs="a1,nmilog,report", config="tick=100")


def expect_a1(boot, status):
    """Program A.1 in Linux: each PMI, and the very branches; no NMI that Linux does not know. That
    a handler takes long is no wonder where each of its accesses exits twice."""
    boot.expect_status(status)
    rows = expect_a1_pmis(boot)
    assert {row["nmis"] == row["pmis"] for row in rows.values()} == {True}, rows
    assert boot.job_status("nmilog") == 0
    complaints = [
        line
        for line in re.findall(r"^nmilog: (?!lines=).*$", boot.console, re.M)
        if "took too long" not in line
    ]
    assert not complaints, complaints
    expect_quiet(boot)
    return "; ".join(
        f"M={period}: {row['pmis']} PMIs, {row['count']} branches"
        for period, row in sorted(rows.items())
    )


def test_a1_msr_nmi(lab):
    """The default policy, local APIC passed through, power-off."""
    return expect_a1(msr_nmi(lab), STATUS_POWEROFF)


def test_exits(lab):
    """KVM's own counts of its exits: it passed on to PMUvisor what PMUvisor says that it took. No
    interrupt, NMI or access of the PMU is among that."""
    boot = linux(lab, "exits", jobs="a1,report", config="apic=pass", outer="pmv.exits=1")
    expect_a1_pmis(boot)
    expect_quiet(boot)
    text = "".join(f"{line}\n" for line in re.findall(r"^exits: (.*)$", boot.console, re.M))
    every, nested, passed = ledger.kvm_counts(text)
    own = boot.console.partition("pmuvisor: exits of processor 0")[2].partition(" total ")[0]
    said = re.findall(r"^ +(\d+)  \w+ +(\d+)$", own, re.M)
    said = {int(reason): int(count) for reason, count in said}
    assert passed == said and passed[CPUID] > 0, (passed, said)
    assert all(nested[reason] <= every[reason] for reason in nested), (nested, every)
    # Before each of them PMUvisor has entered its guest.
    assert every[VMLAUNCH] + every[VMRESUME] == passed.total(), (every, passed)
    return f"{every.total()} exits to KVM, {passed.total()} passed on"


@pytest.mark.full
def test_a1_intercept_trap(lab):
    """All intercepted, the local APIC too, and a reset through ACPI."""
    boot = intercept(lab)
    assert "local APIC trapped" in boot.console, boot.last_line()
    return expect_a1(boot, STATUS_RESET)


@pytest.mark.full
def test_a1_msr_tick(lab):
    """PMU passed through, and a tick, though CPUID does not tell the TSC's frequency there."""
    boot = msr(lab)
    text = expect_a1(boot, STATUS_POWEROFF)
    khz = re.search(r"pmuvisor: TSC: (\d+) kHz, measured by ACPI's PM timer", boot.console)
    assert khz and abs(int(khz[1]) - TSC_KHZ) < TSC_KHZ / 50, khz
    ticks = re.search(r"^ +52 +PREEMPTION_TIMER +(\d+)$", boot.console, re.M)
    assert ticks, boot.console[-600:]
    return f"{text}; {khz[1]} kHz, {ticks[1]} ticks"


@pytest.mark.full
def test_perf(lab):
    """Debian's perf: counts of programs whose numbers are known, and perf record."""
    boot = linux(
        lab,
        "perf",
        jobs="perf,profile,nmilog",
        tools=True,
        config="console=none",
        append="pmv.profile_items=profiled pmv.profile_runs=1 pmv.iter=625000 "
        "pmv.period=50021 sysctl.kernel.perf_cpu_time_max_percent=0",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("profile") == 0, boot.last_line()
    row = next(row for row in boot.lines("perf") if "expected" in row)
    assert row["instructions"] == row["expected"], row
    total = re.search(r"^profile-stats: +SAMPLE events: +([0-9]+)", boot.console, re.M)
    assert total and int(total[1]) >= SAMPLES, total
    assert "THROTTLE" not in boot.console, "perf was throttled"
    expect_quiet(boot)
    return f"{total[1]} samples"


@pytest.mark.full
def test_panic(lab):
    """Linux panics and resets the machine."""
    boot = linux(lab, "panic", append="rdinit=/absent panic=-1 reboot=acpi")
    boot.expect_status(STATUS_RESET)
    assert "Kernel panic - not syncing" in boot.console, boot.last_line()
    expect_quiet(boot)
