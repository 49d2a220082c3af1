# SPDX-License-Identifier: BSD-2-Clause
# test_policies.py: the three policies and the steps of NMI bookkeeping under Linux, each step also
# switched off to see the loss that it prevents. Thesis, sections 3.2, 4.2, 4.3 and 4.4.2.
import re

import pytest

from testbed.machine import STATUS_POWEROFF, exit_count
from tests.e2e import kernel
from tests.e2e.guest import CPUID_ROUNDS, EXIT_REASON_CPUID, REGION_CPUID
from tests.e2e.native import A1_BRANCHES, A1_PERIODS, expect_a1_as_natively, expect_a1_pmis
from tests.e2e.policies import EXITS_PER_PMI, SAMPLES, boot_profile, under

POLICIES = ("msr+nmi", "msr", "intercept")
REGION_NO_PMI = "1"
REGION_1000_PMIS = "4"
PMIS = 1000

REGION_SKID = "60"
REGION_SWITCH = "61"
LOAD_PMIS = 10000
SWITCH_PMIS = 9999  # of 10,000 switches
# From the branch that overflows to the middle of the CPUID exit after it.
SKID = "pmi_skid 30\n"

EAGER_COST = (8, 1)  # root instructions and VMREADs that bookkeeping adds to an exit
LAZY_COST = (4, 0)

PREEMPTION_TIMER = "52"
TICK_MS = 10
REGION_SPIN = "62"
# The emulator's TSC, one instruction a count, told to the hypervisor by CPUID.
TSC_HZ = 50000000

# Listing 2: the share of each function with its callees, in percent.
SHARES = {"a": 30, "aa": 10, "b": 40, "bb": 30, "bbb": 10, "c": 30}
MAX_SHARE_DIFFERENCE = 1.0


def boot_policy(lab, policy):
    """The hypervisor is silent, so that the guest's lines stay whole."""
    jobs = "a1,cpuid,switch,masking,nmilog,report" if policy == "msr+nmi" else "a1,nmilog,report"
    return lab.emulator(
        f"policy-{policy}",
        entry=policy,
        append="iomem=relaxed",
        jobs=jobs,
        config="console=none user_hypercalls=1",
    )


def boot_skid(lab, policy, steps="all"):
    name = f"skid-{policy}" + ("" if steps == "all" else "-off")
    jobs = "skid,nmilog" if steps != "all" else "skid,switch,nmilog"
    return lab.emulator(
        name,
        entry=policy,
        jobs=jobs,
        knobs=SKID,
        append="iomem=relaxed",
        config=f"console=none user_hypercalls=1 bookkeeping={steps}",
    )


def boot_steps(lab, name, config, jobs="cpuid,masking,nmilog"):
    return lab.emulator(
        f"steps-{name}",
        append="iomem=relaxed",
        jobs=jobs,
        config=f"console=none user_hypercalls=1 {config}",
    )


def boot_none(lab):
    return boot_steps(lab, "none", "bookkeeping=none", "cpuid,spin,nmilog")


def row_of(boot, job):
    rows = boot.lines(job)
    if not rows:
        boot.job_status(job)
    assert rows and "error" not in rows[-1], f"boot {boot.name}: {rows}"
    return {key: int(value) for key, value in rows[-1].items()}


def expect_quiet(boot):
    """Linux complained of no NMI."""
    assert row_of(boot, "nmilog")["lines"] == 0, [
        line for line in boot.console.splitlines() if line.startswith("nmilog: ")
    ][:3]


@pytest.mark.parametrize("policy", under("exits", POLICIES))
def test_exits(lab, policy):
    """By reason: 8 exits for each PMI, 1 or none; PMIs and branches as native."""
    boot = boot_policy(lab, policy)
    boot.expect_status(STATUS_POWEROFF)
    expect_quiet(boot)
    without, account = boot.region(REGION_NO_PMI), boot.region(REGION_1000_PMIS)
    more = {}
    for reason in set(without["exits"]) | set(account["exits"]):
        count = (
            account["exits"].get(reason, {"count": 0})["count"]
            - without["exits"].get(reason, {"count": 0})["count"]
        )
        if count:
            more[reason] = count
    wanted = {reason: count * PMIS for reason, count in EXITS_PER_PMI[policy].items()}
    assert more == wanted, f"exits by reason for {PMIS} PMIs: {more}, wanted {wanted}"
    expect_a1_as_natively(lab, boot)
    for region, period in A1_PERIODS.items():
        pmi, wanted = boot.region(region)["pmi"], A1_BRANCHES // period
        arrived = pmi["nonroot" if policy == "msr+nmi" else "exits"]
        assert pmi["raised"] == wanted and arrived == wanted, f"M={period}: {pmi}"
    assert policy != "msr+nmi" or exit_count(account) == 0, account["exits"]
    exits = exit_count(account) - exit_count(without)
    return f"{exits / PMIS:g} exits a PMI; {exit_count(without)} in the run without PMIs"


def check_load(boot, job, pmis):
    """Every PMI that the counter raised was handled, and no NMI besides."""
    boot.expect_status(STATUS_POWEROFF)
    row = row_of(boot, job)
    assert (
        row["expected"] == pmis
        and row["pmis"] == pmis
        and row["nmis"] == row["pmis"]
        and row["refused"] == 0
        and row["masked"] == 0
    ), row
    expect_quiet(boot)
    return row


@pytest.mark.parametrize(
    "policy", under("skid", ["msr+nmi"]) + under("skid", ["msr"], pytest.mark.more)
)
def test_skid(lab, policy):
    """10,000 PMIs that skid into an exit are handled by the guest."""
    boot = boot_skid(lab, policy)
    row = check_load(boot, "skid", LOAD_PMIS)
    account = boot.region(REGION_SKID)
    pmi = account["pmi"]
    # Nearly all of them: else this is no test of skid.
    assert pmi["root"] >= 0.9 * LOAD_PMIS and pmi["masked"] == 0, pmi
    return f"{row['pmis']} PMIs handled, {pmi['root']} of them had landed in root mode"


@pytest.mark.parametrize(
    "policy",
    under("skid_off", ["msr+nmi"], pytest.mark.more) + under("skid_off", ["msr"], pytest.mark.full),
)
def test_skid_off(lab, policy):
    """Without that step of the bookkeeping a PMI that lands in root mode is nobody's: LVTPC stays
    masked, and no further PMI comes."""
    boot = boot_skid(lab, policy, "lost,unblock,mask")
    boot.expect_status(STATUS_POWEROFF)
    row, pmi = row_of(boot, "skid"), boot.region(REGION_SKID)["pmi"]
    assert row["pmis"] < row["expected"] and pmi["root"] >= 1, (row, pmi)
    assert row["masked"] == 1, f"LVTPC was not left masked: {row}"
    return f"{row['pmis']} of {row['expected']} PMIs handled, LVTPC left masked"


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


@pytest.mark.more
def test_masking_lazy(lab):
    """The same with unblock=lazy."""
    return check_masking(boot_steps(lab, "lazy", "unblock=lazy"))


@pytest.mark.more
def test_masking_off(lab):
    """Without the step that unmasks, P_Host loses its PMIs as soon as the guest has masked."""
    boot = boot_steps(lab, "no-mask", "bookkeeping=lost,skid,unblock", "masking")
    boot.expect_status(STATUS_POWEROFF)
    row = row_of(boot, "masking")
    assert row["expected"] == LOAD_PMIS and row["pmis"] == LOAD_PMIS / 2, row
    return f"{row['pmis']} of {row['expected']} PMIs in P_Host"


def check_switching(boot, *places):
    """The PMIs of the switching loop by where they arrived: at each of the places a good part."""
    row, pmi = check_load(boot, "switch", SWITCH_PMIS), boot.region(REGION_SWITCH)["pmi"]
    assert pmi["raised"] == row["pmis"] and pmi["masked"] == 0, f"{pmi}, {row}"
    assert all(pmi[place] > SWITCH_PMIS / 20 for place in places), pmi
    return f"{row['pmis']} PMIs: " + ", ".join(
        f"{place} {pmi[place]}" for place in ("nonroot", "exits", "root")
    )


def test_switching(lab):
    """NMI passthrough goes on and off all the time: no PMI is lost, none is invented."""
    return check_switching(boot_policy(lab, "msr+nmi"), "nonroot", "exits")


def test_switching_skid(lab):
    """The same with skid, so that PMIs land in the hypercalls as well, under msr+nmi and msr."""
    return "; ".join(
        check_switching(boot_skid(lab, policy), "nonroot", "exits", "root")
        for policy in ("msr+nmi", "msr")
    )


def cpuid_cost(boot):
    """Root instructions and VMREADs of each of the CPUID exits in the region."""
    account = boot.region(REGION_CPUID)
    exits = account["exits"][EXIT_REASON_CPUID]
    assert exits["count"] == CPUID_ROUNDS and exit_count(account) == CPUID_ROUNDS, account["exits"]
    root = exits["root_instructions"]
    assert root["min"] == root["max"], f"boot {boot.name}: not each exit costs the same: {root}"
    return root["max"], account["root"]["vmread"] / CPUID_ROUNDS


def cost_without(lab, mutant):
    return cpuid_cost(
        lab.emulator(
            f"cost-{mutant}", jobs="cpuid", config="console=none", efi=kernel.mutant(mutant)
        )
    )


@pytest.mark.more
def test_exit_cost(lab):
    """What bookkeeping adds to an exit with nothing due. eager: compared with a hypervisor that has
    nothing of it; lazy: with one that reads the guest's interruptibility state, which an exit that
    skips an instruction needs anyway. bookkeeping=none does not make the check itself go away."""
    lazy_boot = boot_steps(lab, "lazy", "unblock=lazy")
    said = []
    for name, boot, mutant, wanted in (
        ("eager", boot_policy(lab, "msr+nmi"), "no_bookkeeping", EAGER_COST),
        ("lazy", lazy_boot, "no_exit_check", LAZY_COST),
        ("none", boot_none(lab), "no_exit_check", LAZY_COST),
    ):
        cost, without = cpuid_cost(boot), cost_without(lab, mutant)
        more = (cost[0] - without[0], cost[1] - without[1])
        said.append(f"{name} {cost[0]} and {cost[1]:g}, +{more[0]} and +{more[1]:g}")
        assert more == wanted, f"{said}, wanted +{wanted[0]} and +{wanted[1]}"
    return "root instructions and VMREADs of a CPUID exit: " + "; ".join(said)


def profile(lab, entry):
    """Share of each function with its callees and number of samples in itself, by perf report."""
    boot = boot_profile(lab, entry)
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("profile") == 0, boot.last_line()
    assert boot.job_status("watchdog") == 0, f"boot {boot.name}: the NMI watchdog is gone"
    shares, samples = {}, {}
    for children, own, symbol in re.findall(
        r"^profile-report: +([0-9.]+)% +[0-9.]+% +([0-9]+) +\[\.\] (\w+) *$",
        boot.console,
        re.MULTILINE,
    ):
        samples[symbol] = int(own)
        shares[symbol] = float(children)
    assert set(SHARES) <= set(shares), f"boot {boot.name}: perf report has {sorted(shares)}"
    total = re.search(r"^profile-stats: +SAMPLE events: +([0-9]+)", boot.console, re.MULTILINE)
    assert total and int(total[1]) >= SAMPLES, f"boot {boot.name}: {total and total[1]} samples"
    assert "THROTTLE" not in boot.console, f"boot {boot.name}: perf was throttled"
    return {name: shares[name] for name in SHARES}, int(total[1])


def complaints(boot):
    """The kernel's words on NMIs, without times and numbers."""
    return {
        re.sub(r"[0-9.]+", "N", line)
        for line in boot.console.splitlines()
        if line.startswith("nmilog: ") and not line.startswith("nmilog: lines=")
    }


@pytest.mark.full
@pytest.mark.parametrize("policy", under("profile", POLICIES))
def test_profile(lab, policy):
    """perf record -g of Listing 2 gives the native profile."""
    natively, native_samples = profile(lab, "native")
    for name, share in natively.items():
        assert abs(share - SHARES[name]) <= MAX_SHARE_DIFFERENCE, f"natively {name} has {share} %"
    shares, samples = profile(lab, policy)
    for name, share in shares.items():
        assert (
            abs(share - natively[name]) <= MAX_SHARE_DIFFERENCE
        ), f"{name} has {share} %, natively {natively[name]} %"
    more = complaints(boot_profile(lab, policy)) - complaints(boot_profile(lab, "native"))
    assert not more, f"{more}"
    worst = max(abs(shares[name] - natively[name]) for name in SHARES)
    return (
        f"{samples} samples, natively {native_samples}; at most {worst:.2f} points apart; "
        + ", ".join(f"{name} {share:g} %" for name, share in shares.items())
    )


@pytest.mark.more
def test_tick(lab):
    """tick=10: an exit every 10 ms of a loop that has none, no more and no fewer; A.1 as ever."""
    boot = lab.emulator(
        "tick",
        jobs="a1,spin,nmilog",
        config=f"console=none tick={TICK_MS}",
        knobs=f"tsc_hz {TSC_HZ}\n",
    )
    boot.expect_status(STATUS_POWEROFF)
    expect_a1_pmis(boot)
    expect_quiet(boot)
    account = boot.region(REGION_SPIN)
    ticks = account["exits"].get(PREEMPTION_TIMER, {"count": 0})["count"]
    # The time of an exit itself comes on top of each, so there may be a few less.
    most = account["nonroot"]["instructions"] * 1000 // (TSC_HZ * TICK_MS) + 1
    assert (
        0.99 * (most - 1) - 1 <= ticks <= most and most > 10
    ), f"{ticks} ticks, wanted {most - 1}: {account['exits']}"
    assert exit_count(account) == ticks, account["exits"]
    return f"{ticks} ticks in {account['nonroot']['instructions']} instructions"


@pytest.mark.more
def test_host_work_at_tick(lab):
    """Host work left to the tick runs there; without a tick it is refused."""
    boot = lab.emulator(
        "host-work-tick", jobs="hosttick", config=f"user_hypercalls=1 tick={TICK_MS}"
    )
    assert boot.job_status("hosttick") == 0, boot.last_line()
    assert "host work at the tick: 1000000 branches, 1000000 counted, 1000 PMIs" in boot.console
    refused = lab.emulator("host-work-no-tick", jobs="hosttick", config="user_hypercalls=1")
    assert refused.lines("hosttick")[0]["result"] == "-16", refused.last_line()


@pytest.mark.more
def test_no_tick(lab):
    """tick=0: not one, and no exit at all in that loop."""
    boot = boot_none(lab)
    assert PREEMPTION_TIMER not in boot.ledger["exits"], boot.ledger["exits"]
    assert exit_count(boot.region(REGION_SPIN)) == 0, boot.region(REGION_SPIN)["exits"]
