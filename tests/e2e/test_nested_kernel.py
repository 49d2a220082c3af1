# SPDX-License-Identifier: BSD-2-Clause
# test_nested_kernel.py, all with FULL=1: under QEMU/KVM inside the emulator, with two processors:
# the test kernel, storms of NMIs and PMIs, a refusal, Linux; with one, what an operation costs the
# outer KVM under each policy.
import re
import sys

import pytest

from testbed.machine import STATUS_POWEROFF, STATUS_REFUSED
from tests.e2e import kernel
from tests.e2e.inner import expect_quiet, kernel_boot, linux
from tests.e2e.scripts import run

SUITE = kernel.BASICS + ["cr4", "delivery", "hypercall", "x2apic", *kernel.BASICS]
COSTS = "measure:3:100"
CPUS = 2
STORMS = ["smp-processors", "smp-nmi:20", "smp-pmi:50:100", "smp-mixed:20:100"]
A1_SMP = [(str(cpu), str(pmis), "100005") for cpu in range(CPUS) for pmis in (0, 10, 100, 1000)]
COLUMNS = {
    "native": {"entry": "native"},
    "intercept": {"entry": "intercept"},
    "msr": {"entry": "msr"},
    "msr+nmi": {},
    "apic_trap": {"config": "apic=trap"},
}


def costs(lab, column):
    return kernel_boot(lab, f"costs-{column}", [COSTS], **COLUMNS[column])


@pytest.mark.full
def test_kernel(lab):
    """The test kernel: nothing fails, and nothing is left out."""
    boot = kernel_boot(lab, "kernel", SUITE, cpus=CPUS)
    kernel.expect_ok(boot, SUITE)
    expect_quiet(boot)
    return f"{len(SUITE)} tests"


@pytest.mark.full
def test_storms(lab):
    """INIT and SIPI through KVM, then NMIs between two processors and PMIs on both: none is lost,
    and none comes that nobody sent."""
    boot = kernel_boot(lab, "storms", STORMS, cpus=CPUS)
    kernel.expect_ok(boot, STORMS)
    expect_quiet(boot)
    rows = boot.lines("storm")
    assert len(rows) == 3 * CPUS and {row["lost"] for row in rows} == {"0"}, rows
    return f"{sum(int(row['nmis']) for row in rows)} NMIs, 0 lost"


@pytest.mark.full
def test_linux(lab):
    """Linux with two processors, and program A.1 on each."""
    boot = linux(lab, "smp", cpus=CPUS, jobs="smp,a1smp,nmilog,report")
    boot.expect_status(STATUS_POWEROFF)
    row = next(row for row in boot.lines("smp") if "processors" in row)
    assert row["processors"] == "2" and row["online"] == "0-1", row
    found = [(row["cpu"], row["pmis"], row["count"]) for row in boot.lines("a1smp") if "M" in row]
    assert found == A1_SMP, found
    expect_quiet(boot)
    return "processor, PMIs, branches: " + "; ".join(" ".join(run) for run in found)


@pytest.mark.full
def test_refusal(lab):
    """A refusal is one line of QEMU's console, and GRUB goes on: it resets the machine."""
    boot = linux(lab, "refusal", cpus=CPUS, config="policy=bogus", limit=9000)
    boot.expect_status(STATUS_REFUSED)
    assert "PMUvisor refuses to start: pmuvisor.cfg: option policy: found 'bogus'" in boot.console
    expect_quiet(boot)


@pytest.mark.full
def test_costs(lab):
    """What an operation costs the outer KVM: an exit that PMUvisor takes is many to it, and an
    access that msr+nmi passes through is one, as without PMUvisor in between."""
    for column in ("native", "msr+nmi"):
        boot = costs(lab, column)
        kernel.expect_ok(boot, [COSTS])
        expect_quiet(boot)
    done = run(sys.executable, "-m", "bench.nested_costs", lab.keep)
    assert done.returncode == 0, done.stderr
    # Columns native and msr+nmi: outer instructions, exits, inner instructions of each.
    rows = {
        line.split("  ")[0]: re.findall(r"  +([0-9,.]+)", line)
        for line in done.stdout.splitlines()
        if re.match("[A-Z]", line)
    }
    cpuid, rdpmc = rows["CPUID"], rows["RDPMC"]
    assert len(cpuid) >= 6 and cpuid[1] == "1" and int(cpuid[-2]) > 1, done.stdout
    assert rdpmc[1] == rdpmc[-2] == "1", f"an exit of RDPMC came to PMUvisor: {done.stdout}"
    return f"CPUID {cpuid[0]} and {cpuid[-3]} outer instructions, RDPMC {rdpmc[0]} and {rdpmc[-3]}"


@pytest.mark.full
@pytest.mark.parametrize("column", list(COLUMNS), ids=[f"costs_{name}" for name in COLUMNS])
def test_costs_of(lab, column):
    boot = costs(lab, column)
    kernel.expect_ok(boot, [COSTS])
    expect_quiet(boot)
