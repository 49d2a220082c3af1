# SPDX-License-Identifier: BSD-2-Clause
# test_demand.py: policy=demand under Linux: which accesses exit while the guest does not profile,
# while it does, and afterwards; and what it counts meanwhile is what it counts under msr+nmi.
import pytest

from experiments.demand.tests.demand_boots import REGION_SHARE, boot_of
from testbed.machine import STATUS_POWEROFF, exit_count, path
from tests.e2e.native import expect_a1_pmis
from tests.e2e.policies import EXITS_PER_PMI, NMI, RDMSR, RDPMC, WRMSR

FIXED_CTR_CTRL = str(0x38D)  # which turns cycles on
PMU_EXITS = (RDMSR, WRMSR, RDPMC, NMI)
SESSIONS = 4


def steps(lab, policy="demand", efi=None, name=""):
    return boot_of(
        lab,
        name or f"steps-{policy}",
        policy,
        jobs="share,a1,nmilog",
        efi=efi,
        words=f"pmv.share=0,50,100 pmv.share_sessions={SESSIONS}",
    )


def exits(boot, share):
    """By reason, of the PMU's."""
    boot.expect_status(STATUS_POWEROFF)
    account = boot.region(str(REGION_SHARE + share))["exits"]
    return {reason: account[reason]["count"] for reason in PMU_EXITS if reason in account}


def turned_on(boot, share):
    """How often the write that turns the counter on exited."""
    return (
        boot.region(str(REGION_SHARE + share))["exits"]
        .get(WRMSR, {"msrs": {}})["msrs"]
        .get(FIXED_CTR_CTRL, 0)
    )


def pmis(boot, share):
    return next(int(row["pmis"]) for row in boot.lines("share") if row.get("share") == str(share))


def check_steps(boot):
    """Writes exit where no counter is on; the one that turns it on opens, once in each session that
    comes after a pause; no PMI and no access of its handler exits."""
    assert exits(boot, 0).get(WRMSR, 0) > 0, "while it does not profile, accesses exit"
    for share in (0, 50, 100):
        assert (
            not {RDMSR, RDPMC, NMI} & exits(boot, share).keys()
        ), f"{share} %: {exits(boot, share)}"
    assert pmis(boot, 100) > pmis(boot, 50) > 0
    assert exits(boot, 100).get(WRMSR, 0) < 10 < pmis(boot, 100), "while it profiles, none exits"
    found = [turned_on(boot, share) for share in (0, 50, 100)]
    assert found == [
        0,
        SESSIONS,
        1,
    ], f"openings {found}: accesses exit again after each session, and only then"


def test_steps(lab):
    boot = steps(lab)
    check_steps(boot)
    rows = expect_a1_pmis(boot)
    assert boot.lines("nmilog") == [{"lines": "0"}], boot.lines("nmilog")
    return (
        f"A.1: {rows[100]['pmis']} PMIs; exits at 50 %: {exits(boot, 50)}, at 100 %: "
        f"{exits(boot, 100)}"
    )


@pytest.mark.full
def test_beside_the_others(lab):
    """The same PMIs and branches of A.1 under all three; under intercept each access of a PMI
    exits."""
    base, trap, demand = (steps(lab, policy) for policy in ("msr+nmi", "intercept", "demand"))
    for period, row in expect_a1_pmis(base).items():
        for boot in (trap, demand):
            found = expect_a1_pmis(boot)[period]
            assert (found["pmis"], found["count"]) == (row["pmis"], row["count"]), (
                boot.name,
                period,
            )
    assert exits(base, 100) == {}
    for reason, each in EXITS_PER_PMI["intercept"].items():
        assert exits(trap, 100)[reason] >= each * pmis(trap, 100), (reason, exits(trap, 100))


@pytest.mark.full
@pytest.mark.parametrize("name", ["never_opens", "never_closes"])
def test_mutant(lab, name):
    boot = steps(lab, efi=path("build", "mutants", f"{name}.efi"), name=name)
    with pytest.raises(AssertionError):
        check_steps(boot)
    return f"{exit_count(boot.region(str(REGION_SHARE + 50)))} exits at 50 %"


@pytest.mark.full
def test_watchdog(lab):
    """Linux's NMI watchdog is a counter that is always on: then the PMU passes from the start to
    the end."""
    boot = boot_of(
        lab,
        "watchdog",
        "demand",
        jobs="watchdog,share",
        append="nmi_watchdog=1",
        words=f"pmv.share=0,50,100 pmv.share_sessions={SESSIONS}",
    )
    assert [exits(boot, share) for share in (0, 50, 100)] == [{}, {}, {}], [
        exits(boot, s) for s in (0, 50, 100)
    ]
    return boot.lines("watchdog")


@pytest.mark.full
def test_processors(lab):
    """Each processor has its own: profiled on one, with two."""
    boot = boot_of(
        lab,
        "two",
        "demand",
        jobs="share,a1smp",
        cpus=2,
        knobs="tsc_hz 500000000\n",
        words=f"pmv.share=0,50,100 pmv.share_sessions={SESSIONS}",
        append="nmi_watchdog=0 tsc_early_khz=500000",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1smp") == 0 and turned_on(boot, 50) >= SESSIONS, boot.last_line()
