# SPDX-License-Identifier: BSD-2-Clause
# test_apic.py: apic=trap, the trapped local APIC of the thesis: what it costs by the ledger, and
# that the guest sees of its local APIC what it sees without it.
import pytest

from testbed.machine import STATUS_POWEROFF, exit_count
from tests.e2e import kernel
from tests.e2e.native import expect_a1_pmis
from tests.e2e.policies import under

REGION_NO_PMI = "1"
REGION_1000_PMIS = "4"
PMIS = 1000
# The LVTPC write comes on top of what the policy itself costs.
EXITS_PER_PMI = {"intercept": 9, "msr": 2, "msr+nmi": 1}
EPT_VIOLATION = "48"
# More root-mode instructions than the shortest of these exits has, so that each of its positions
# comes; those after an exit's end are missed.
SWEEP = 700


def trapped(lab, policy):
    """The hypervisor is silent, so that the guest's lines stay whole."""
    return lab.emulator(
        f"apic-trap-{policy}",
        entry=policy,
        config="apic=trap tick=0 console=none",
        append="iomem=relaxed",
        jobs="a1,apic,apicbad,report" if policy == "msr+nmi" else "a1,report",
    )


@pytest.mark.parametrize(
    "policy", under("exits", ["msr+nmi"]) + under("exits", ["msr", "intercept"], pytest.mark.more)
)
def test_exits(lab, policy):
    """apic=trap: one exit for each PMI, the write of LVTPC, beside what the policy itself costs."""
    boot = trapped(lab, policy)
    boot.expect_status(STATUS_POWEROFF)
    expect_a1_pmis(boot)
    without, account = boot.region(REGION_NO_PMI), boot.region(REGION_1000_PMIS)
    exits = exit_count(account) - exit_count(without)
    assert (
        exits == EXITS_PER_PMI[policy] * PMIS
    ), f"{exits} exits for {PMIS} PMIs, wanted {EXITS_PER_PMI[policy]} each: {account['exits']}"
    writes = account["exits"][EPT_VIOLATION]["count"] - without["exits"][EPT_VIOLATION]["count"]
    assert writes == PMIS, f"{writes} accesses of the local APIC, wanted 1 for each PMI"
    return f"{EXITS_PER_PMI[policy]} exits a PMI"


@pytest.mark.more
def test_same_as_passed_through(lab):
    """Each instruction form finds, leaves and flags what it does with apic=pass."""
    passed = lab.emulator(
        "apic-pass", config="apic=pass tick=0", append="iomem=relaxed", jobs="apic,report"
    )
    rows, trap_rows = passed.lines("apic"), trapped(lab, "msr+nmi").lines("apic")
    assert len(rows) > 12 and not any("error" in row for row in rows), rows or passed.last_line()
    for row, trap_row in zip(rows, trap_rows):
        assert row == trap_row, f"passed through {row}, trapped {trap_row}"
    assert len(rows) == len(trap_rows), f"{len(rows)} rows, trapped {len(trap_rows)}"
    words = {key: value for row in rows for key, value in row.items()}
    wanted = {"step": "ok", "cross": "8", "remap": "20"}
    assert all(words.get(key) == value for key, value in wanted.items()), words


def test_refused_forms(lab):
    """What PMUvisor does not perform is #GP in the guest and one line in its log, nothing more."""
    boot = trapped(lab, "msr+nmi")
    rows = boot.lines("apicbad")
    assert len(rows) > 15 and all(row["result"] == "SIGSEGV" for row in rows), rows
    assert boot.job_status("apicbad") == 0 and boot.job_status("report") == 0
    # On the guest's own console the hypervisor's lines come in between the guest's.
    loud = lab.emulator(
        "apic-refused", config="apic=trap tick=0", append="iomem=relaxed", jobs="apicbad"
    )
    loud.expect_status(STATUS_POWEROFF)
    said = loud.console.count("an instruction that apic=trap does not know at RIP 0x")
    assert said > 8, f"{said} lines of the hypervisor for {len(rows)} refused accesses"


def test_tables_in_devices(lab):
    """Code that is reached through page tables in a device's memory: root mode does not read
    there, and the access is #GP. Natively it is done."""
    for entry, word in (("native", "apic-device:1"), ("msr+nmi", "apic-device:0")):
        boot = kernel.run(
            lab, f"apic-device-{entry}", kernel.Plan().add(word), entry=entry, config="apic=trap"
        )
        kernel.expect_ok(boot, [word])


def test_nmi_at_every_instruction(lab):
    """An NMI at each root instruction of a trapped access reaches the guest once, and the guest's
    local APIC, its ICR above all, is as it was."""
    first = 1200  # in the middle of the A.1 program
    knobs = f"nmi_root reason={EPT_VIOLATION} exits={first}-{first + SWEEP - 1} position=sweep\n"
    boot = lab.emulator(
        "apic-nmi",
        config="apic=trap tick=0 console=none",
        append="iomem=relaxed loglevel=0",
        jobs="a1,apic,report",
        knobs=knobs,
    )
    boot.expect_status(STATUS_POWEROFF)
    expect_a1_pmis(boot)
    scheduled, nmi, pmi = boot.ledger["scheduled_nmis"], boot.ledger["nmi"], boot.ledger["pmi"]
    fired = scheduled["fired"]
    shortest = boot.ledger["exits"][EPT_VIOLATION]["root_instructions"]["min"]
    assert shortest <= fired == SWEEP - scheduled["missed"], (scheduled, shortest)
    assert nmi["root"] == fired, (scheduled, nmi)
    assert nmi["nonroot"] == pmi["raised"] + fired, f"{nmi}, {pmi}: an NMI was lost or doubled"
    assert boot.lines("apic") == trapped(lab, "msr+nmi").lines("apic"), boot.lines("apic")
    return f"{fired} positions"
