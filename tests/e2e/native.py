# SPDX-License-Identifier: BSD-2-Clause
# native.py: Debian's unmodified kernel in the emulator without the hypervisor: what is compared
# with.
from testbed.machine import exit_count

A1_PERIODS = {1: 200000, 2: 10000, 3: 1000, 4: 100}
A1_BRANCHES = 100000
GENERALIZED = 20  # events that programs/payload/perf.c has figures for


def native(lab):
    return lab.emulator(
        "native",
        entry="native",
        jobs="a1,cpuid,report,cpuinfo,efivars,badmsr,touch,watchdog,interrupts",
        whole_init=True,
    )


def native_perf(lab):
    return lab.emulator("native-perf", entry="native", tools=True, jobs="perf")


def expect_a1_pmis(boot):
    """Each run of A.1 took exactly N/M PMIs by the kernel's own count, and none was lost."""
    rows = {int(row["M"]): row for row in boot.lines("a1") if "M" in row}
    assert sorted(rows) == sorted(A1_PERIODS.values()), f"A.1 ran for M = {sorted(rows)}"
    for period, row in rows.items():
        wanted = A1_BRANCHES // period
        assert int(row["pmis"]) == wanted, f"M={period}: {row['pmis']} PMIs, wanted {wanted}"
        # The loop, and the few branches of the two system calls around it.
        assert (
            A1_BRANCHES <= int(row["count"]) < A1_BRANCHES + 100
        ), f"M={period}: {row['count']} branches counted, wanted {A1_BRANCHES} and a few"
    return rows


def expect_a1_as_natively(lab, boot):
    """The same with as many branches in each run as natively."""
    natively = expect_a1_pmis(native(lab))
    for period, row in expect_a1_pmis(boot).items():
        assert (
            row["count"] == natively[period]["count"]
        ), f"M={period}: {row['count']} branches, natively {natively[period]['count']}"


def expect_a1_without_exits(boot):
    """A.1 under msr+nmi: no exit in its regions."""
    for region in A1_PERIODS:
        assert exit_count(boot.region(region)) == 0, boot.region(region)["exits"]


def expect_generalized(boot):
    """perf's generalized events of a program whose accesses, branches and misses are known."""
    rows = {row["event"]: row for row in boot.lines("perf") if "event" in row}
    assert len(rows) == GENERALIZED, f"{len(rows)} events; last line: {boot.last_line()}"
    for row in rows.values():
        assert int(row["least"]) <= int(row["count"]) <= int(row["most"]), row
    return {event: int(row["count"]) for event, row in rows.items()}
