# SPDX-License-Identifier: BSD-2-Clause
# demand_boots.py: the boots that price the three ways, and what the ledger has of them.
from testbed import boots
from testbed.machine import STATUS_POWEROFF

REGION_SHARE = 2800  # and the share; programs: experiments/demand/guest/share.c
REGION_A1_PLAIN, REGION_A1_PMIS = "1", "4"
A1_PMIS = 1000
TIMER = "52"
SHARES = (0, 1, 25, 50, 75, 100)
FREQUENCY, SESSIONS = 1000, 4
# Name: policy, second_user, tick, samples a second. The first ones give the unit costs, all are
# compared with what the formula says.
CASES = {
    "trap": ("intercept", "off", 1, 1000),
    "pass": ("msr+nmi", "off", 1, 1000),
    "pass-counting": ("msr+nmi", "counting", 1, 1000),
    "pass-whole": ("msr+nmi", "whole", 1, 1000),
    "demand": ("demand", "off", 1, 1000),
    "demand-counting": ("demand", "counting", 1, 1000),
    "demand-whole": ("demand", "whole", 1, 1000),
    "trap-4000": ("intercept", "off", 1, 4000),
    "pass-counting-slow": ("msr+nmi", "counting", 4, 1000),
    "demand-counting-slow": ("demand", "counting", 4, 1000),
    "demand-counting-4000": ("demand", "counting", 1, 4000),
}


def boot_of(
    lab,
    name,
    policy,
    jobs="share,nmilog",
    words="",
    config="tick=1",
    append="nmi_watchdog=0",
    **more,
):
    return lab.emulator(
        f"demand-{name}",
        config=f"policy={policy} console=none {config}",
        jobs=jobs,
        append=f"iomem=relaxed loglevel=0 {append} {words}",
        initrd=boots.initrd(name="demand"),
        **more,
    )


def case(lab, name):
    policy, second, tick, frequency = CASES[name]
    words = (
        f"pmv.share={','.join(map(str, SHARES))} pmv.share_freq={frequency} "
        f"pmv.share_sessions={SESSIONS}"
    )
    return boot_of(
        lab,
        f"cost-{name}",
        policy,
        jobs="share,a1",
        words=words,
        config=f"tick={tick} second_user={second}",
    )


def processes(lab, policy):
    """The job context_switch: two processes hand each other a byte, without counters and with four
    each."""
    boot = boot_of(
        lab, f"processes-{policy}", policy, jobs="context_switch", words="pmv.switch_runs=1"
    )
    boot.expect_status(STATUS_POWEROFF)
    rows = {
        row["item"]: row for row in boot.lines("bench") if row["experiment"] == "context_switch"
    }
    return {
        "policy": policy,
        "processes": {
            "switches": int(rows["plain"]["ops"]),
            **{item: account(boot.region(rows[item]["region"])) for item in ("plain", "counted")},
        },
    }


def account(region):
    """Of one region: what root mode did, and what of it was ticks."""
    timer = region["exits"].get(TIMER, {"count": 0})
    return {
        "instructions": region["root"]["instructions"],
        "rdmsr": region["root"]["rdmsr"],
        "wrmsr": region["root"]["wrmsr"],
        "vmread": region["root"]["vmread"],
        "vmwrite": region["root"]["vmwrite"],
        "exits": sum(one["count"] for one in region["exits"].values()),
        "ticks": timer["count"],
        "guest": region["nonroot"]["instructions"],
    }


def measured(lab, name):
    """What JSON can say of a boot: each share's account, and A.1's PMI."""
    boot = case(lab, name)
    boot.expect_status(STATUS_POWEROFF)
    policy, second, tick, frequency = CASES[name]
    rows = {int(row["share"]): row for row in boot.lines("share")}
    shares = {
        share: {
            **account(boot.region(str(REGION_SHARE + share))),
            "ns": int(rows[share]["ns"]),
            "pmis": int(rows[share]["pmis"]),
        }
        for share in SHARES
    }
    pmis, plain = (account(boot.region(number)) for number in (REGION_A1_PMIS, REGION_A1_PLAIN))
    return {
        "policy": policy,
        "second_user": second,
        "tick_ms": tick,
        "frequency": frequency,
        "sessions": SESSIONS,
        "shares": shares,
        "a1": {"pmis": A1_PMIS, "with": pmis, "without": plain},
    }


def all_measured(lab):
    """All cases, and the switches between processes."""
    found = {name: measured(lab, name) for name in CASES}
    return {
        **found,
        "trap-processes": processes(lab, "intercept"),
        "demand-processes": processes(lab, "demand"),
    }
