# SPDX-License-Identifier: BSD-2-Clause
# test_steady.py: under msr+nmi the PMU costs no VM exit once the guest is up, perf record and the
# NMI watchdog included: by the emulator's ledger of the boot that profiles Listing 2.
import pytest

from testbed.machine import STATUS_POWEROFF
from tests.e2e.guest import REGION_USER, guest
from tests.e2e.policies import NMI, RDMSR, RDPMC, SAMPLES, WRMSR, boot_profile

pytestmark = pytest.mark.full

CPUID, IO = "10", "30"  # starting a program; switching the machine off


def counts(account):
    return {reason: entry["count"] for reason, entry in account["exits"].items()}


def before_user(boot):
    """Exits of the whole run but those after the first line of init."""
    user = counts(boot.region(REGION_USER))
    return {reason: count - user.get(reason, 0) for reason, count in counts(boot.ledger).items()}


def test_no_pmu_exits(lab):
    """From init to the end no exit for an NMI, RDPMC, RDMSR or WRMSR: perf and watchdog run."""
    boot = boot_profile(lab, "msr+nmi")
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("profile") == 0 and boot.job_status("watchdog") == 0, boot.last_line()
    account = boot.region(REGION_USER)
    assert account["pmi"]["nonroot"] >= SAMPLES, f"perf took no PMIs: {account['pmi']}"
    assert set(counts(account)) <= {CPUID, IO}, f"exits by reason: {counts(account)}"
    return f"{account['pmi']['nonroot']} PMIs; exits by reason {counts(account)}"


def test_no_pmu_exits_at_boot(lab):
    """The kernel's start has no such exits either, but RDMSRs and WRMSRs as without perf."""
    boot = before_user(boot_profile(lab, "msr+nmi"))
    plain = before_user(guest(lab))
    assert NMI not in boot and RDPMC not in boot, boot
    for reason in (RDMSR, WRMSR):
        assert boot.get(reason, 0) == plain.get(reason, 0), (boot, plain)
    return f"RDMSR {boot.get(RDMSR, 0)}, WRMSR {boot.get(WRMSR, 0)}"
