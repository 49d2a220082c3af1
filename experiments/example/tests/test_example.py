# SPDX-License-Identifier: BSD-2-Clause
# test_example.py: policy=status under Linux: the exits of a PMI are those of its accesses to
# IA32_PERF_GLOBAL_STATUS, all else is as under msr+nmi, and no NMI is lost at any instruction of
# the two handlers.
import pytest

from testbed.boots import image
from testbed.machine import STATUS_POWEROFF, exit_count
from tests.e2e.native import expect_a1_pmis
from tests.e2e.policies import RDMSR, WRMSR

REGION_NO_PMI, REGION_1000_PMIS, PMIS = "1", "4", 1000
# What Linux's handler of one PMI does with the register: it reads, clears, and reads it again.
EXITS_PER_PMI = {RDMSR: 2, WRMSR: 1}
# Within A.1: more positions than such an exit has root-mode instructions, each in a PMI's handler
# of its own, since two NMIs in one would be one, as natively.
FIRST, SWEEP, STRIDE = 100, 200, 6


def boot_of(lab, name, policy="status", knobs=None):
    return lab.emulator(
        f"example-{name}",
        config=f"policy={policy} tick=0 console=none",
        append="iomem=relaxed loglevel=0",
        jobs="a1,nmilog,report",
        knobs=knobs,
    )


def exits_of(boot):
    """By reason, what 1000 PMIs add to the run without any."""
    boot.expect_status(STATUS_POWEROFF)
    without, account = (
        boot.region(region)["exits"] for region in (REGION_NO_PMI, REGION_1000_PMIS)
    )
    found = {
        reason: account.get(reason, {"count": 0})["count"]
        - without.get(reason, {"count": 0})["count"]
        for reason in {*without, *account}
    }
    return {reason: count for reason, count in found.items() if count}


def test_exits(lab):
    """Three exits a PMI; PMIs and branches as under msr+nmi, which has no exit."""
    boot, base = boot_of(lab, "status"), boot_of(lab, "base", "msr+nmi")
    assert exits_of(boot) == {reason: count * PMIS for reason, count in EXITS_PER_PMI.items()}
    assert exits_of(base) == {} and exit_count(base.region(REGION_1000_PMIS)) == 0
    rows, wanted = expect_a1_pmis(boot), expect_a1_pmis(base)
    for period, row in wanted.items():
        assert (rows[period]["pmis"], rows[period]["count"]) == (row["pmis"], row["count"]), period
    assert boot.lines("nmilog") == base.lines("nmilog"), boot.lines("nmilog")
    return f"{exit_count(boot.region(REGION_1000_PMIS)) / PMIS:g} exits a PMI"


def test_says_its_name(lab):
    """The log has the policy's name; the plain image refuses it, and says which image may have
    it."""
    boot = lab.emulator("example-log", config="policy=status tick=0", jobs="report")
    boot.expect_status(STATUS_POWEROFF)
    assert ", policy status\n" in boot.console and "the guest, policy status, " in boot.console
    plain = lab.emulator("example-plain", config="policy=status tick=0", jobs="report", efi=image())
    assert (
        "option policy: found 'status', wanted intercept, msr or msr+nmi, or an experiment's that "
        "a pmuvisor-lab.efi has" in plain.console
    ), plain.last_line()


@pytest.mark.parametrize("reason", [RDMSR, WRMSR], ids=["nmi_at_rdmsr", "nmi_at_wrmsr"])
def test_sweep(lab, reason):
    """An NMI at each root-mode instruction of such an exit reaches the guest, once. It is sent
    again while the guest's handler runs, so the other exits of that handler meet it, too."""
    knobs = "".join(
        f"nmi_root reason={reason} exits={FIRST + at * STRIDE} position={at + 1}\n"
        for at in range(SWEEP)
    )
    boot = boot_of(lab, f"nmi-{reason}", knobs=knobs)
    boot.expect_status(STATUS_POWEROFF)
    expect_a1_pmis(boot)
    scheduled, nmi, pmi = boot.ledger["scheduled_nmis"], boot.ledger["nmi"], boot.ledger["pmi"]
    fired, shortest = scheduled["fired"], boot.ledger["exits"][reason]["root_instructions"]["min"]
    assert shortest <= fired == SWEEP - scheduled["missed"], (scheduled, shortest)
    met_again = sum(EXITS_PER_PMI.values()) - 1
    assert fired <= nmi["root"] <= fired * (1 + met_again), (scheduled, nmi)
    assert nmi["nonroot"] == pmi["raised"] + fired, f"{nmi}, {pmi}: an NMI was lost or doubled"
    return f"{fired} positions"
