# SPDX-License-Identifier: BSD-2-Clause
# policies.py: the three policies and the steps of NMI bookkeeping under Linux, each step also
# switched off to see the loss that it prevents. Thesis, sections 3.2, 4.2, 4.3 and 4.4.2.
# FULL=1 in the environment: the profiles have 20,000 samples instead of 2,000.
import os
import re

from guest import CPUID_ROUNDS, EXIT_REASON_CPUID, REGION_CPUID
from machine import STATUS_POWEROFF, exit_count
from native import A1_BRANCHES, A1_PERIODS, expect_a1_pmis, native

POLICIES = ("msr+nmi", "msr", "intercept")
REGION_NO_PMI = "1"
REGION_1000_PMIS = "4"
PMIS = 1000
# What Linux's handler of one PMI does: an NMI, RDPMC, 2 RDMSR, 4 WRMSR (basic exit reasons).
NMI, RDPMC, RDMSR, WRMSR = "0", "15", "31", "32"
EXITS_PER_PMI = {"intercept": {NMI: 1, RDPMC: 1, RDMSR: 2, WRMSR: 4}, "msr": {NMI: 1},
                 "msr+nmi": {}}

# Region 60 and 61, and what a load of them makes.
REGION_SKID = "60"
LOAD_PMIS = 10000
SWITCH_PMIS = 9999  # of 10,000 switches
# From the branch that overflows to the middle of the CPUID exit behind it.
SKID = "pmi_skid 30\n"

EAGER_COST = (12, 1)  # root instructions and VMREADs that bookkeeping adds to an exit
LAZY_COST = (5, 0)

PREEMPTION_TIMER = "52"
TICK_MS = 10


def boot_policy(lab, policy):
    """The hypervisor is silent, so that the guest's lines stay whole."""
    jobs = "a1,cpuid,switch,masking,nmilog,report" if policy == "msr+nmi" else "a1,nmilog,report"
    return lab.emulator(f"policy-{policy}", entry=policy, append="iomem=relaxed", jobs=jobs,
                        config="console=none user_hypercalls=1")


def boot_skid(lab, policy, steps="all"):
    name = f"skid-{policy}" + ("" if steps == "all" else "-off")
    jobs = "skid,nmilog" if steps != "all" else "skid,switch,nmilog"
    return lab.emulator(name, entry=policy, jobs=jobs, knobs=SKID, append="iomem=relaxed",
                        config=f"console=none user_hypercalls=1 bookkeeping={steps}")


def boot_steps(lab, name, config, jobs="cpuid,masking,nmilog"):
    return lab.emulator(f"steps-{name}", append="iomem=relaxed", jobs=jobs,
                        config=f"console=none user_hypercalls=1 {config}")


def row_of(boot, job):
    rows = boot.lines(job)
    if not rows:
        boot.job_status(job)
    assert rows and "error" not in rows[-1], f"boot {boot.name}: {rows}"
    return {key: int(value) for key, value in rows[-1].items()}


def expect_quiet(boot):
    """Linux complained of no NMI."""
    assert row_of(boot, "nmilog")["lines"] == 0, \
        [line for line in boot.console.splitlines() if line.startswith("nmilog: ")][:3]


def check_exits(lab, policy):
    boot = boot_policy(lab, policy)
    boot.expect_status(STATUS_POWEROFF)
    expect_quiet(boot)
    without, account = boot.region(REGION_NO_PMI), boot.region(REGION_1000_PMIS)
    more = {}
    for reason in set(without["exits"]) | set(account["exits"]):
        count = account["exits"].get(reason, {"count": 0})["count"] - \
            without["exits"].get(reason, {"count": 0})["count"]
        if count:
            more[reason] = count
    wanted = {reason: count * PMIS for reason, count in EXITS_PER_PMI[policy].items()}
    assert more == wanted, f"exits by reason for {PMIS} PMIs: {more}, wanted {wanted}"
    rows, native_rows = expect_a1_pmis(boot), expect_a1_pmis(native(lab))
    for period, row in rows.items():
        assert row["count"] == native_rows[period]["count"], \
            f"M={period}: {row['count']} branches, natively {native_rows[period]['count']}"
    for region, period in A1_PERIODS.items():
        pmi, wanted = boot.region(region)["pmi"], A1_BRANCHES // period
        arrived = pmi["nonroot" if policy == "msr+nmi" else "exits"]
        assert pmi["raised"] == wanted and arrived == wanted, f"M={period}: {pmi}"
    exits = exit_count(account) - exit_count(without)
    return f"{exits / PMIS:g} exits a PMI; {exit_count(without)} in the run without PMIs"


def test_exits_intercept(lab):
    """intercept: 8 exits for each PMI, by reason; PMIs and branches as native."""
    return check_exits(lab, "intercept")


def test_exits_msr(lab):
    """msr: 1 exit for each PMI, the NMI; PMIs and branches as native."""
    return check_exits(lab, "msr")


def test_exits_msr_nmi(lab):
    """msr+nmi: no exit for a PMI, and none in the whole run; PMIs and branches as native."""
    text = check_exits(lab, "msr+nmi")
    account = boot_policy(lab, "msr+nmi").region(REGION_1000_PMIS)
    assert exit_count(account) == 0, account["exits"]
    return text


def check_load(boot, job, pmis):
    """Every PMI that the counter raised was handled, and no NMI besides."""
    boot.expect_status(STATUS_POWEROFF)
    row = row_of(boot, job)
    assert row["expected"] == pmis and row["pmis"] == pmis and \
        row["nmis"] == row["pmis"] and row["refused"] == 0 and row["masked"] == 0, row
    expect_quiet(boot)
    return row


def check_skid(lab, policy):
    boot = boot_skid(lab, policy)
    row = check_load(boot, "skid", LOAD_PMIS)
    account = boot.region(REGION_SKID)
    pmi = account["pmi"]
    # Nearly all of them: else this is no test of skid.
    assert pmi["root"] >= 0.9 * LOAD_PMIS and pmi["masked"] == 0, pmi
    return f"{row['pmis']} PMIs handled, {pmi['root']} of them had landed in root mode"


def test_skid_msr_nmi(lab):
    """10,000 PMIs that skid into an exit are handled by the guest, under msr+nmi."""
    return check_skid(lab, "msr+nmi")


def test_skid_msr(lab):
    """10,000 PMIs that skid into an exit are handled by the guest, under msr."""
    return check_skid(lab, "msr")


def check_skid_off(lab, policy):
    """A PMI that lands in root mode is nobody's: LVTPC stays masked, and no further PMI comes."""
    boot = boot_skid(lab, policy, "lost,unblock,mask")
    boot.expect_status(STATUS_POWEROFF)
    row, pmi = row_of(boot, "skid"), boot.region(REGION_SKID)["pmi"]
    assert row["pmis"] < row["expected"] and pmi["root"] >= 1, (row, pmi)
    assert row["masked"] == 1, f"LVTPC was not left masked: {row}"
    return f"{row['pmis']} of {row['expected']} PMIs handled, LVTPC left masked"


def test_skid_off_msr_nmi(lab):
    """Without that step of the bookkeeping the guest's PMIs stop, under msr+nmi."""
    return check_skid_off(lab, "msr+nmi")


def test_skid_off_msr(lab):
    """Without that step of the bookkeeping the guest's PMIs stop, under msr."""
    return check_skid_off(lab, "msr")


def check_masking(boot):
    boot.expect_status(STATUS_POWEROFF)
    row = row_of(boot, "masking")
    assert row["expected"] == row["pmis"] == LOAD_PMIS, row
    assert row["changed"] == 0, f"LVTPC was not put back: {row}"
    assert row["guest"] == row["idle"], f"the guest's counter saw the host's work: {row}"
    expect_quiet(boot)
    return f"{row['pmis']} PMIs in P_Host, the guest's counter {row['guest']} as without"


def test_masking(lab):
    """P_Host gets its 10,000 PMIs while the guest keeps its own masked from the middle on."""
    return check_masking(boot_policy(lab, "msr+nmi"))


def test_masking_lazy(lab):
    """The same with unblock=lazy."""
    return check_masking(boot_steps(lab, "lazy", "unblock=lazy"))


def test_masking_off(lab):
    """Without the step that unmasks, P_Host loses its PMIs as soon as the guest has masked."""
    boot = boot_steps(lab, "no-mask", "bookkeeping=lost,skid,unblock", "masking")
    boot.expect_status(STATUS_POWEROFF)
    row = row_of(boot, "masking")
    assert row["expected"] == LOAD_PMIS and row["pmis"] == LOAD_PMIS / 2, row
    return f"{row['pmis']} of {row['expected']} PMIs in P_Host"


def test_switching(lab):
    """NMI passthrough goes on and off all the time: no PMI is lost, none is invented."""
    row = check_load(boot_policy(lab, "msr+nmi"), "switch", SWITCH_PMIS)
    return f"{row['pmis']} PMIs, 10000 switches"


def test_switching_skid(lab):
    """The same with PMIs that land in the hypercalls, under msr+nmi and msr."""
    rows = [check_load(boot_skid(lab, policy), "switch", SWITCH_PMIS) for policy in ("msr+nmi", "msr")]
    return f"{rows[0]['pmis']} and {rows[1]['pmis']} PMIs"


def cpuid_cost(boot):
    """Root instructions and VMREADs of a CPUID exit. The least: a timer's exit may be among them."""
    account = boot.region(REGION_CPUID)
    exits = account["exits"][EXIT_REASON_CPUID]
    assert exits["count"] == CPUID_ROUNDS and exit_count(account) == CPUID_ROUNDS, account["exits"]
    return exits["root_instructions"], account["root"]["vmread"] / CPUID_ROUNDS


def test_exit_cost(lab):
    """What bookkeeping adds to an exit with nothing due, at each of 100 CPUID exits."""
    none = cpuid_cost(boot_steps(lab, "none", "bookkeeping=none", "cpuid,nmilog"))
    said = [f"none {none[0]['max']} and {none[1]:g}"]
    for name, boot, limit in (
            ("eager", boot_policy(lab, "msr+nmi"), EAGER_COST),
            ("lazy", boot_steps(lab, "lazy", "unblock=lazy"), LAZY_COST)):
        cost = cpuid_cost(boot)
        instructions, vmreads = cost[0]["max"] - none[0]["min"], cost[1] - none[1]
        said.append(f"{name} +{instructions} and +{vmreads:g}")
        assert instructions <= limit[0] and vmreads <= limit[1], \
            f"{said}, wanted at most +{limit[0]} and +{limit[1]}"
    return "root instructions and VMREADs of a CPUID exit: " + ", ".join(said)


TESTS = [test_exits_intercept, test_exits_msr, test_exits_msr_nmi, test_skid_msr_nmi,
         test_skid_msr, test_skid_off_msr_nmi, test_skid_off_msr, test_masking, test_masking_lazy,
         test_masking_off, test_switching, test_switching_skid, test_exit_cost]
