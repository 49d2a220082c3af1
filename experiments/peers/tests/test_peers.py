# SPDX-License-Identifier: BSD-2-Clause
# test_peers.py, all with FULL=1: Debian's Xen with its virtual PMU, beneath the same kernel and
# programs as native and PMUvisor, for the table of peer_costs.py; and a BitVisor that was built by
# hand, where BITVISOR= names the folder of its sources.
import os
import re
import subprocess
import sys

import pytest

from experiments.peers.tests import peers
from testbed.machine import STATUS_POWEROFF, Skip

pytestmark = pytest.mark.full

NO_MITIGATIONS = "spec-ctrl=no"
A1_PMIS = {"m200000": 0, "m10000": 10, "m1000": 100}
SAMPLES_MIN = 990  # of 1,250,000 iterations with 40 cycles each, every 50,021 cycles: 1,000
SHARES = {"share_c": 30, "share_b": 40, "share_a": 30}
SHARE_WITHIN = 1  # percent


def default(lab):
    return peers.xen(lab, "xen-default", "")


def fast(lab):
    return peers.xen(lab, "xen", NO_MITIGATIONS)


def rows_of(boot, experiment, metric):
    return {
        row["item"]: float(row["value"])
        for row in boot.lines("bench")
        if row["experiment"] == experiment and row.get("metric") == metric and "value" in row
    }


def expect_measured(boot):
    """Each job ended well; program A.1 has its PMIs, and perf its samples where they belong."""
    boot.expect_status(STATUS_POWEROFF)
    for job in peers.JOBS:
        assert boot.job_status(job) == 0, f"job {job}: status {boot.job_status(job)}"
    pmis = rows_of(boot, "a1", "pmis")
    assert {item: pmis[item] for item in A1_PMIS} == A1_PMIS, pmis
    samples = rows_of(boot, "profile", "samples")["profiled"]
    assert samples >= SAMPLES_MIN, f"{samples} samples, wanted {SAMPLES_MIN} at least"
    shares = rows_of(boot, "profile", "share")
    for item, wanted in SHARES.items():
        assert abs(shares[item] - wanted) <= SHARE_WITHIN, (item, shares)
    return f"{samples:.0f} samples"


def exits_of(boot, item):
    """Of a region that has nothing but `item` in it: the VM exits of each of its operations."""
    row = next(row for row in boot.lines("bench") if row["item"] == item and "region" in row)
    region = boot.region(row["region"])
    return sum(entry["count"] for entry in region["exits"].values()) / int(row["ops"])


def test_plain(lab):
    """The same programs natively and under PMUvisor, which takes no exit for a PMU register."""
    native, ours = peers.plain(lab, "native"), peers.plain(lab, "msr+nmi")
    said = [expect_measured(boot) for boot in (native, ours)]
    assert exits_of(native, "cpuid") == 0 and exits_of(ours, "cpuid") == 1
    assert exits_of(ours, "wrmsr_ctrl_change") == 0
    return "; ".join(said)


def test_xen(lab):
    """Xen's PVH dom0 has a virtual PMU that counts and samples; with its mitigations and without.
    A write of GLOBAL_CTRL exits, CPUID exits, RDPMC does not."""
    for boot in fast(lab), default(lab):
        expect_measured(boot)
        assert re.search(r"Xen version 4\.\d+", boot.console), boot.console[:300]
        assert exits_of(boot, "cpuid") >= 1 and exits_of(boot, "wrmsr_ctrl_change") >= 1
        assert exits_of(boot, "rdpmc") == 0
    return expect_measured(fast(lab))


@pytest.mark.always  # its files are not of this tree
def test_bitvisor(lab):
    """BitVisor passes the PMU's registers through; NMIs and the local APIC exit."""
    folder = os.environ.get("BITVISOR")
    if not folder:
        raise Skip(
            "BITVISOR= names no folder in which BitVisor was built (experiments/peers/README.md)"
        )
    boot = peers.bitvisor(lab, folder)
    said = expect_measured(boot)
    assert "Starting BitVisor" in boot.console and exits_of(boot, "cpuid") == 1
    assert exits_of(boot, "wrmsr_ctrl_change") == 0 and exits_of(boot, "lvtpc_write") == 1
    return said


def test_xen_without_vpmu(lab):
    """With vpmu=off the kernel finds no PMU: what the other boots count is Xen's virtual one."""
    boot = peers.xen(lab, "xen-off", f"{NO_MITIGATIONS} vpmu=off", jobs=("a1bench",))
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1bench") != 0, "program A.1 counted without a virtual PMU"
    return f"status {boot.job_status('a1bench')}"


def test_table(lab):
    """The table has a figure for each operation that Xen's virtual PMU has."""
    for boot in peers.plain(lab, "native"), peers.plain(lab, "msr+nmi"), fast(lab), default(lab):
        expect_measured(boot)
    done = subprocess.run(
        [sys.executable, "-B", "-m", "experiments.peers.analysis.peer_costs", lab.keep],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    rows = [line for line in done.stdout.splitlines() if "one PMI, Linux" in line]
    assert len(rows) == 1 and " - " not in rows[0], done.stdout
    return rows[0]
