# SPDX-License-Identifier: BSD-2-Clause
# test_trace_cost.py: what the flow trace costs: a CPUID exit, and Linux's loads (the job
# flowcost) at each level, in instructions of root mode and of the guest. Emulator counts.
import collections

import pytest

from experiments.flow.tests import kvm_traces
from experiments.shared.analysis import records
from testbed.machine import STATUS_POWEROFF, exit_count, instructions, path
from tests.e2e.guest import (
    EXIT_REASON_CPUID,
    MAX_CPUID_INSTRUCTIONS,
    MAX_CPUID_VMCS_ACCESSES,
    REGION_CPUID,
)

LEVELS = ("off", "exits", "flow")
RECORD_INSTRUCTIONS = 32  # over the bare exit, and
RECORD_VMCS_ACCESSES = 2
# guest/loads/flowcost.c
LOADS = {
    "compute": 70,
    "calls": 71,
    "sleeps": 72,
    "switches": 73,
    "disk": 74,
    "memory": 77,
    "net": 78,
}
TRACED = 76
COMPUTE_PERCENT = 0.1
NGINX_PERCENT = 5
NGINX_PLAIN = 2330  # programs/workloads/nginx.sh
TURNS = 1000  # guest/loads/flowcost.c
READS = 64
CR_ACCESS, HLT, IO = "28", "12", "30"
DISK_PORT, DISK_PORTS = 0x1F0, 8  # ATA's command block


def boot(lab, level):
    return lab.emulator(
        f"trace-cost-{level}",
        jobs="cpuid,flowcost",
        initrd=kvm_traces.LOADS,
        config=f"trace={level}",
    )


def cost(lab, level, what):
    found = boot(lab, level).region(REGION_CPUID)["exits"][EXIT_REASON_CPUID][what]
    assert found["samples"] > 50, found
    return found["min"], found["max"]


def test_record(lab):
    """off: as without a trace. exits and flow: a record's instructions and VMCS accesses more."""
    bare = {what: cost(lab, "off", what) for what in ("root_instructions", "vmcs_accesses")}
    assert bare["root_instructions"][1] <= MAX_CPUID_INSTRUCTIONS
    assert bare["vmcs_accesses"] == (MAX_CPUID_VMCS_ACCESSES,) * 2
    said = [f"off {bare['root_instructions'][1]} and {bare['vmcs_accesses'][1]}"]
    for level in LEVELS[1:]:
        executed, accesses = (cost(lab, level, what) for what in bare)
        said.append(f"{level} {executed[1]} and {accesses[1]}")
        assert executed[1] - bare["root_instructions"][1] <= RECORD_INSTRUCTIONS, said
        assert accesses[1] - bare["vmcs_accesses"][1] <= RECORD_VMCS_ACCESSES, said
        assert executed[0] > bare["root_instructions"][0], "nothing was recorded"
    return "root instructions and VMCS accesses of a CPUID exit: " + ", ".join(said)


def account(lab, level, load):
    """Instructions of the guest and of root mode, and exits."""
    region = boot(lab, level).region(LOADS[load])
    return region["nonroot"]["instructions"], region["root"]["instructions"], exit_count(region)


def request_cost(lab, level):
    """Instructions of guest and root mode for a request, and exits by name for 100 of them."""
    boot = lab.emulator(
        f"trace-cost-nginx-{level}",
        jobs="nginx",
        initrd=path("build/payload/bench-cloud.img"),
        limit=60_000,
        config=f"trace={level} console=none",
        append="pmv.nginx_ms=500",
    )
    assert boot.job_status("nginx") == 0, boot.last_line()
    requests = sum(
        int(line["value"])
        for line in boot.lines("bench")
        if line["item"] == "plain" and line.get("metric") == "requests"
    )
    region = boot.region(NGINX_PLAIN)
    exits = {
        entry["name"]: round(100 * entry["count"] / requests, 1)
        for entry in region["exits"].values()
        if entry["count"]
    }
    return instructions(region) / requests, region["root"]["instructions"] / requests, exits


@pytest.mark.full
def test_nginx(lab):
    """What a request to nginx costs at each level."""
    base, said = request_cost(lab, "off")[0], []
    for level in LEVELS:
        whole, root, exits = request_cost(lab, level)
        said.append(
            f"{level}: {whole:.0f} instructions a request ({100 * (whole / base - 1):+.2f} "
            f"%), {root:.0f} of them root mode's; exits for 100 requests: {exits}"
        )
    assert whole / base <= 1 + NGINX_PERCENT / 100, said
    return "; ".join(said)


def test_loads(lab):
    """Root instructions at each level, in percent of the guest's with trace=off."""
    said = []
    for level in LEVELS:
        boot(lab, level).expect_status(STATUS_POWEROFF)
        assert boot(lab, level).job_status("flowcost") == 0, boot(lab, level).last_line()
        for load in LOADS:
            base = account(lab, "off", load)
            guest, root, exits = account(lab, level, load)
            more = guest + root - sum(base[:2])
            said.append(
                f"{load} {level}: {exits} exits, {root} root instructions, "
                f"{100 * more / sum(base[:2]):+.2f} %"
            )
    print("\n".join(said))
    guest, root, _ = account(lab, "flow", "compute")
    assert root <= guest * COMPUTE_PERCENT / 100, said
    # Each turn is two changes of process, and each of them one exit; a few may be somebody else's.
    changes = boot(lab, "flow").region(LOADS["switches"])["exits"][CR_ACCESS]["count"]
    assert 2 * TURNS - 2 <= changes <= 2 * TURNS + 20, changes
    # What does not change the process does not load CR3 to an exit.
    assert (
        CR_ACCESS not in boot(lab, "flow").region(LOADS["calls"])["exits"]
        or boot(lab, "flow").region(LOADS["calls"])["exits"][CR_ACCESS]["count"] <= 4
    )
    assert boot(lab, "flow").region(LOADS["sleeps"])["exits"][HLT]["count"] >= 20
    return "; ".join(line for line in said if " off:" not in line)


def test_kernels_own_trace(lab):
    """The paper's comparison: what sched_switch costs a guest that traces itself, and what flow
    costs it for the same switches."""
    plain = sum(account(lab, "off", "switches")[:2])
    traced = boot(lab, "off").region(TRACED)
    own = instructions(traced)
    flow = sum(account(lab, "flow", "switches")[:2])
    assert own > plain and flow > plain
    return (
        f"2000 switches: sched_switch {100 * (own / plain - 1):+.2f} %, trace=flow "
        f"{100 * (flow / plain - 1):+.2f} %"
    )


def test_tick(lab):
    """Under flow the tick comes, though other exits start its timer anew before it fires."""
    boot = lab.emulator(
        "trace-tick",
        jobs="hosttick,flowcost",
        initrd=kvm_traces.LOADS,
        config="trace=flow tick=20 user_hypercalls=1",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("hosttick") == 0, boot.last_line()
    assert "host work at the tick: " in boot.console, "the tick did not come"


def test_ports(lab):
    """trace_port=: the disk's ports exit, each access is a record with its port, and the reads are
    what they are without. Its data port is read by string instructions, which pass after the
    first."""
    ports = lab.emulator(
        "trace-ports",
        jobs="flowcost",
        initrd=kvm_traces.LOADS,
        knobs="trace_rings rings\n",
        config=f"trace=exits trace_ring=8 trace_port={DISK_PORT:#x} trace_ports={DISK_PORTS}",
    )
    ports.expect_status(STATUS_POWEROFF)
    assert (
        ports.lines("flowcost")[-1]["reads"]
        == boot(lab, "exits").lines("flowcost")[-1]["reads"]
        == str(READS)
    )
    assert IO not in boot(lab, "exits").region(LOADS["disk"])["exits"]
    counted = ports.region(LOADS["disk"])["exits"][IO]["count"]
    trace = records.read(ports.path("rings"))
    seen = collections.Counter(
        record.detail >> 16 for record in trace.processors[0] if record.reason == int(IO)
    )
    of_disk = {
        port: count for port, count in seen.items() if DISK_PORT <= port < DISK_PORT + DISK_PORTS
    }
    # The power-off that ends the run has no record.
    assert trace.lost == 0 and sum(seen.values()) + 1 == ports.ledger["exits"][IO]["count"], seen
    # A command is a write of the last port, and the interrupt's handler reads the status there.
    assert of_disk[DISK_PORT + DISK_PORTS - 1] >= 2 * READS and counted >= 8 * READS, of_disk
    assert of_disk.get(DISK_PORT, 0) <= 2, of_disk
    assert "a string instruction at port 0x1f0" in ports.console
    return f"{counted} exits for {READS} reads; " + ", ".join(
        f"{count} of port {port:#x}" for port, count in sorted(of_disk.items())
    )
