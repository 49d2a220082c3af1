# SPDX-License-Identifier: BSD-2-Clause
# test_kvm_trace.py, all with FULL=1: traces of Debian's own KVM in the emulator, read by
# analysis/kvm_trace.py: a plain guest with and without EPT, and PMUvisor as a guest, whose Linux
# is level 2. The emulator's ledger and KVM's own events of nested guests are the truth.
import os
import re

import pytest

from experiments.flow.analysis import analyse, exit_reasons, kvm_trace, levels, states
from experiments.flow.analysis.trace_source import Source
from experiments.flow.tests import kvm_traces
from experiments.shared.analysis import cr3, records
from testbed.machine import STATUS_POWEROFF
from tests.e2e.inner import expect_quiet

pytestmark = pytest.mark.full

REGION_PAIR = 64
CPUID = 10  # the exit reason
LEAF_BEGIN = 0x70616972  # guest/loads/pair.c; the next one is at the end
# testbed/README.md: the TSC of the emulator's machine, and what nested.py sets.
TSC_KHZ = 50_000
PARENT_MAX = 6  # switches to and from the players' parent
MASK = cr3.TABLE_MASK & ~cr3.PTI_USER_TABLE  # this Linux has page-table isolation
IDLE_SHARE = 0.02
PLAYERS = 0.98  # of the time that any process runs


def plain(lab):
    return kvm_traces.boot(lab, "kvm-trace")


def shadow(lab):
    return kvm_traces.boot(lab, "kvm-trace-shadow", append="pmv.ept=0")


def nested(lab):
    return kvm_traces.nested_boot(lab, "nested-ktrace")


def pmuvisor(lab, level):
    return lab.emulator(
        f"kvm-trace-{level}",
        config=f"trace={level}",
        jobs="pair",
        initrd=kvm_traces.LOADS,
        knobs="trace_rings rings\n",
    )


def ring(lab, level):
    """The records of PMUvisor, from the CPUID leaf at the job's begin to that at its end."""
    boot = pmuvisor(lab, level)
    assert boot.job_status("pair") == 0, boot.last_line()
    trace = records.read(boot.path("rings"))
    assert list(trace.processors) == [0] and not trace.complaints, trace.complaints
    found = trace.processors[0]
    begin, end = (
        next(
            (
                at
                for at, record in enumerate(found)
                if record.reason == CPUID and record.detail == leaf
            ),
            None,
        )
        for leaf in (LEAF_BEGIN, LEAF_BEGIN + 1)
    )
    assert (
        begin is not None and end is not None and begin < end
    ), f"the job's leaves are at {begin} and {end} of {len(found)} records; {trace.lost} are lost"
    return Source(tsc_khz=TSC_KHZ, level=trace.level, processors={0: found[begin : end + 1]})


def one(host):
    """The only virtual processor."""
    assert len(host.threads) == 1 and host.text.lost == 0, (host.threads, host.text.lost)
    return next(iter(host.threads.values()))


def counts(thread):
    found = {}
    for run in thread.levels.runs:
        name = exit_reasons.name(run.reason)
        found[name] = found.get(name, 0) + 1
    return found


def ledger_counts(boot):
    return {
        exit_reasons.name(int(number)): entry["count"]
        for number, entry in boot.region(REGION_PAIR)["exits"].items()
    }


def expect_ledger(boot, thread):
    """Each exit of the region is in the trace, once; the trace has the CPUID at its end besides."""
    ledger = ledger_counts(boot)
    found = counts(thread)
    assert found.pop("CPUID") == 1 and "CPUID" not in ledger, found
    assert found == ledger, f"the trace has {found}, the ledger {ledger}"
    return sum(found.values())


def test_plain(lab):
    """With EPT: the ledger's exits, all of level 1; and CR3 is known to KVM at no entry."""
    boot = plain(lab)
    boot.expect_status(STATUS_POWEROFF)
    host = kvm_traces.host(boot)
    thread = one(host)
    exits = expect_ledger(boot, thread)
    assert {run.level for run in thread.levels.runs} == {1}
    assert host.known == 0 and host.loads == 0, (host.known, host.entries)
    idle = levels.times(thread.levels.intervals)[levels.IDLE, None]
    line = states.timeline(host.source(TSC_KHZ))
    shown = sum(each.end - each.start for each in line.processors[0] if each.state == "idle")
    # That of the analyses ends when the thread runs again, not when it may.
    ns = idle * 1_000_000 // TSC_KHZ
    assert ns <= shown <= ns * 1.01, f"idle {ns} ns by the scheduler, {shown} ns by the records"
    return f"{exits} exits, CR3 known at {host.known} of {host.entries} entries"


def test_shadow(lab):
    """Without EPT each load of CR3 is an exit, and KVM's event has the value: every process switch
    that the two players' own counts have is there, and nobody else ran for long."""
    boot = shadow(lab)
    boot.expect_status(STATUS_POWEROFF)
    host = kvm_traces.host(boot)
    thread = one(host)
    exits = expect_ledger(boot, thread)
    pair = boot.lines("pair")[0]
    wanted = int(pair["voluntary"]) + int(pair["involuntary"])
    line = states.timeline(host.source(TSC_KHZ))
    # Neither invented nor missing: the players' own, and some few of their parent's.
    tables = [record.cr3 & MASK for record in thread.records]
    changes = sum(before != after for before, after in zip(tables, tables[1:]))
    assert wanted <= changes <= wanted + PARENT_MAX, f"{changes} changes, {wanted} switches"
    times = sorted(
        (
            sum(each.end - each.start for each in process.intervals if each.state == "running")
            for process in line.processes.values()
        ),
        reverse=True,
    )
    assert times[0] + times[1] > sum(times) * PLAYERS and times[1] > sum(times) / 4, times
    assert thread.levels.preemptions and host.loads > 0
    return f"{exits} exits, {host.loads} loads of CR3, {changes} changes, {wanted} switches"


def test_side_by_side(lab):
    """The same job under PMUvisor: `exits` adds no exit, `flow` has KVM's interrupts and HLTs, and
    the loads of CR3 that KVM without EPT has as changes of process."""
    kvm, none, flow = (
        ledger_counts(boot) for boot in (plain(lab), pmuvisor(lab, "exits"), pmuvisor(lab, "flow"))
    )
    assert none == ledger_counts(pmuvisor(lab, "off")) == {}, none
    assert set(flow) == {"EXTERNAL_INTERRUPT", "HLT", "CR_ACCESS"}, flow
    for name in ("EXTERNAL_INTERRUPT", "HLT"):
        assert abs(flow[name] - kvm[name]) <= 1, f"{name}: {flow[name]}, KVM {kvm[name]}"
    pair = pmuvisor(lab, "flow").lines("pair")[0]
    wanted = int(pair["voluntary"]) + int(pair["involuntary"])
    assert wanted <= flow["CR_ACCESS"] <= wanted + PARENT_MAX, (flow, wanted)
    return "; ".join(
        f"{name} {sum(ledger_counts(boot).values())} exits, "
        f"{boot.region(REGION_PAIR)['root']['instructions']} root instructions"
        for name, boot in (
            ("KVM", plain(lab)),
            ("KVM without EPT", shadow(lab)),
            ("exits", pmuvisor(lab, "exits")),
            ("flow", pmuvisor(lab, "flow")),
        )
    )


def test_same_analyses(lab):
    """analyse.py reads KVM's trace and PMUvisor's records: the exits that the ledger has, and as
    much idle time. The table is in build/e2e."""
    columns, ns = {}, {}
    for name, boot, source in (
        ("KVM", plain(lab), kvm_traces.host(plain(lab)).source(TSC_KHZ)),
        ("KVM, ept=0", shadow(lab), kvm_traces.host(shadow(lab)).source(TSC_KHZ)),
        ("trace=exits", pmuvisor(lab, "exits"), ring(lab, "exits")),
        ("trace=flow", pmuvisor(lab, "flow"), ring(lab, "flow")),
    ):
        line, found = analyse.analyse(source)
        ledger = ledger_counts(boot)
        seen = {row.reason: row.count for row in found["exits"] if row.reason != "CPUID"}
        if name.startswith("KVM"):  # kvm_trace.py's records of the ends of HLT
            seen["EXTERNAL_INTERRUPT"] -= ledger["HLT"]
        assert seen == ledger, f"{name}: {seen}, ledger {ledger}"
        ns[name] = line.end
        columns[name] = {f"exits: {reason}": count for reason, count in seen.items()}
        columns[name] |= {
            f"{state}, thousandths": round(1000 * time / line.end, 3)
            for state, time in found["processors"][0].items()
            if state in ("root", "idle")
        }
        columns[name]["processes"] = len(line.processes)
    idle = {name: column["idle, thousandths"] * ns[name] for name, column in columns.items()}
    assert abs(idle["trace=flow"] - idle["KVM"]) < idle["KVM"] * IDLE_SHARE, idle
    assert idle["trace=exits"] == 0, "HLT makes no record at this level"
    rows = sorted({row for column in columns.values() for row in column})
    with open(os.path.join(lab.keep, "kvm-trace-table.txt"), "w", encoding="utf-8") as out:
        for row in ["", *rows]:
            out.write(
                f"{row:<32}"
                + "".join(
                    f"{name if not row else column.get(row, 0):>14}"
                    for name, column in columns.items()
                )
                + "\n"
            )
    return (
        f"idle {columns['KVM']['idle, thousandths']:.1f} and "
        f"{columns['trace=flow']['idle, thousandths']:.1f} thousandths"
    )


def wrong(host, use_cr3, use_rip):
    """Runs whose level is not KVM's, where the algorithm has less to go by."""
    thread = one(host)
    vcpu = levels.Vcpu()
    cr3 = None
    for event in host.text.events:
        fields = event.fields
        if event.name == "vcpu":
            cr3 = kvm_trace.known(fields, "cr3")
        elif event.name == "kvm_entry":
            vcpu.entry(event.time, cr3 if use_cr3 else None, fields["rip"] if use_rip else None)
        elif event.name == "kvm_exit":
            vcpu.exit(event.time, fields["reason"], fields["rip"] if use_rip else None)
    return sum(run.level != truth for run, truth in zip(vcpu.runs, thread.truths))


def test_levels(lab):
    """PMUvisor is level 1, its Linux level 2, in each run between an entry and an exit, as KVM's
    own events say; by CR3 as by RIP, and not without both."""
    boot = nested(lab)
    boot.expect_status(STATUS_POWEROFF)
    expect_quiet(boot)
    said = []
    for name in ("start", "pair"):
        host = kvm_traces.host(boot, name)
        thread = one(host)
        found = kvm_trace.judge(thread)
        assert set(found) == {(1, 1), (2, 2)}, f"{name}: {found}"
        assert wrong(host, True, True) == wrong(host, False, True) == 0
        assert wrong(host, False, False) > 0, "what the levels are found by makes no difference"
        said.append(f"{name}: {found[1, 1]} runs of level 1, {found[2, 2]} of level 2")
        if name == "start":
            assert wrong(host, True, False) == 0
    assert re.search("^job: name=pair status=0$", boot.console, re.M)
    return "; ".join(said)


def wake_ups(lab):
    """(name, wake-ups by layer) of both: KVM's guest, and the guest of PMUvisor under KVM."""
    return (
        ("KVM", levels.wake_ups(one(kvm_traces.host(plain(lab))).levels.intervals)),
        (
            "PMUvisor above KVM",
            levels.wake_ups(one(kvm_traces.host(nested(lab), "pair")).levels.intervals),
        ),
    )


def test_wake_ups(lab):
    """Each sleep of the guest's ends in the host's scheduler, its root mode, and then the guest;
    PMUvisor has no part in it: its guest's HLT and interrupts are the host's."""
    (_, plainly), (_, through) = wake_ups(lab)
    sleeps = ledger_counts(plain(lab))["HLT"]
    assert len(plainly) == sleeps and len(through) > 0, (len(plainly), sleeps, len(through))
    for found in (*plainly, *through):
        assert found[levels.WAIT] > 0 and found[levels.ROOT] > 0, found
    return "; ".join(
        f"{len(side)} wake-ups, mean ticks: "
        + ", ".join(
            f"{layer} {sum(found.get(layer, 0) for found in side) / len(side):.0f}"
            for layer in (levels.WAIT, levels.ROOT, 1)
        )
        for side in (plainly, through)
    )
