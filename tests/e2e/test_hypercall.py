# SPDX-License-Identifier: BSD-2-Clause
# test_hypercall.py: hypercalls that are refused, with the test kernel: each changes nothing but RAX
# (tests/kernel/test_hypercall.c). The test build's own numbers are in no other build.
import pytest

from tests.e2e import host, kernel
from tests.e2e.host import Plan, results

JOBS = ["hypercall", "hypercall-apic", "hypercall-hidden"]


def refusals(lab):
    """In xAPIC and in x2APIC mode."""
    return kernel.run(lab, "hypercall", Plan().add(*JOBS, "x2apic", *JOBS))


def expect_good(boot, name):
    runs = [good for one, good, skipped, _ in kernel.tap(boot) if one == name and not skipped]
    assert runs == [True, True], f"{name}: {runs}; {kernel.notes(boot)}"


def test_refused(lab):
    """Wrong numbers give -38, wrong arguments -22, a tick that is off -16; only RAX changes."""
    expect_good(refusals(lab), "hypercall")


def test_apic_disabled(lab):
    """Host work with the local APIC disabled by software: -16, LVTPC and the PMU left alone."""
    expect_good(refusals(lab), "hypercall-apic")
    assert "host work refused: the guest's local APIC is disabled" in refusals(lab).console


@pytest.mark.parametrize(
    "msr", [0x186, 0x0C1, 0x4C1], ids=["absent_186", "absent_c1", "absent_4c1"]
)
def test_absent(lab, msr):
    """A processor of version 6 without an older name that host work uses: -95, and the machine
    lives."""
    boot = kernel.run(
        lab,
        f"hypercall-absent-{msr:x}",
        Plan("pmu_version 6", f"hide_msr {msr:#x}").add("hypercall-absent"),
    )
    assert results(boot) == {"hypercall-absent": True}, kernel.notes(boot)


def test_hidden(lab):
    """The test build's numbers: -38, and not shown by CPUID."""
    expect_good(refusals(lab), "hypercall-hidden")


def test_shown_by_test_build(lab):
    """The same test fails on the test build, which does show them; the others pass there too."""
    found = results(host.run(lab, "hypercall-test-build", Plan().add(*JOBS)))
    assert found == {"hypercall": True, "hypercall-apic": True, "hypercall-hidden": False}, found
