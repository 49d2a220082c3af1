# SPDX-License-Identifier: BSD-2-Clause
# test_nested_kernel.py: under QEMU/KVM inside the emulator: the test kernel, a refusal, and what one
# operation costs the outer KVM. FULL=1: the costs under each policy.
import re
import subprocess
import sys

from inner import expect_quiet, kernel_boot, linux
from machine import STATUS_REFUSED, path
import kernel
import pytest

pytestmark = pytest.mark.group("nested")

BASICS = ["cpuid", "wrap", "vmcall", "msr", "count", "pmi", "self", "blocked", "sti", "movss", "hlt"]
SUITE = BASICS + ["cr4", "delivery", "hypercall", "x2apic", *BASICS]
COSTS = "measure:3:100"
COLUMNS = {"native": {"entry": "native"}, "intercept": {"entry": "intercept"},
           "msr": {"entry": "msr"}, "msr+nmi": {}, "apic_trap": {"config": "apic=trap"}}


def costs(lab, column):
    return kernel_boot(lab, f"costs-{column}", [COSTS], **COLUMNS[column])


def test_kernel(lab):
    """The test kernel: nothing fails, and nothing is left out but what a PMU of version 4 needs."""
    boot = kernel_boot(lab, "kernel", SUITE)
    kernel.expect_ok(boot, SUITE)
    expect_quiet(boot)
    return f"{len(SUITE)} tests"


def test_refusal(lab):
    """A refusal is one line of QEMU's console, and GRUB goes on: it resets the machine."""
    boot = linux(lab, "refusal", config="policy=bogus", limit=9000)
    boot.expect_status(STATUS_REFUSED)
    assert "PMUvisor refuses to start: pmuvisor.cfg: option policy: found 'bogus'" in boot.console
    expect_quiet(boot)


def test_costs(lab):
    """What an operation costs the outer KVM, with PMUvisor in between and without: the exits that
    each policy is to save are saved from the outer one too, where KVM lets them pass at all."""
    for column in ("native", "msr+nmi"):
        boot = costs(lab, column)
        kernel.expect_ok(boot, [COSTS])
        expect_quiet(boot)
    done = subprocess.run([sys.executable, path("bench", "nested_costs.py"), lab.keep],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    row = re.search(r"^CPUID +([0-9,.]+) +([0-9,.]+) .* ([0-9,.]+) +([0-9,.]+)$", done.stdout, re.M)
    assert row, done.stdout
    return re.sub(r" +", " ", row[0])


@pytest.mark.full
@pytest.mark.parametrize("column", list(COLUMNS), ids=[f"costs_{name}" for name in COLUMNS])
def test_costs_of(lab, column):
    boot = costs(lab, column)
    kernel.expect_ok(boot, [COSTS])
    expect_quiet(boot)
