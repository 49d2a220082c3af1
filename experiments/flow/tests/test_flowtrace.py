# SPDX-License-Identifier: BSD-2-Clause
# test_flowtrace.py: the guest's tool of the flow trace, in Linux on one and on four processors:
# what it reads is whole, reading takes no exit, a guest cannot write to a ring, what was
# overwritten is counted, and each thing that is missing is one line.
import functools
import json

from experiments.flow.analysis import rings_on_console
from experiments.flow.tests import flowdemo, kvm_traces
from experiments.shared.analysis import records
from testbed.machine import STATUS_POWEROFF, exit_count

REGION_READ = 75  # guest/demo/main.c
CPUID, EXTERNAL_INTERRUPT, HLT, CR_ACCESS = 10, 1, 12, 28
CAPACITY = 32768  # of 1 MiB
EXITS = 50000
DUMPED = 200  # records


@functools.cache
def recorded(lab, level, cpus):
    done, files = flowdemo.boot(lab, f"flowtrace-{level}-{cpus}", level, cpus=cpus)
    with open(files["names"], encoding="utf-8") as source:
        return done, records.read(files["ptrace"]), json.load(source)


def test_flow(lab):
    """Each processor's records, none lost, all in order; what flow has is there."""
    said = []
    for cpus in (1, 4):
        _, trace, _ = recorded(lab, "flow", cpus)
        assert not trace.complaints and trace.lost == 0, trace.complaints
        assert len(trace.processors) == cpus and trace.level == 2
        reasons = {record.reason for found in trace.processors.values() for record in found}
        assert {EXTERNAL_INTERRUPT, HLT, CR_ACCESS} <= reasons, reasons
        for number, found in trace.processors.items():
            for one, following in zip(found, found[1:]):
                assert one.tsc + one.root_time <= following.tsc, (number, one, following)
        said.append(f"{cpus} processors: {sum(map(len, trace.processors.values()))} records")
    return ", ".join(said)


def test_exits(lab):
    """trace=exits: no more than what exits anyway."""
    _, trace, _ = recorded(lab, "exits", 1)
    reasons = {record.reason for record in trace.processors[0]}
    assert CPUID in reasons and not {EXTERNAL_INTERRUPT, HLT, CR_ACCESS} & reasons, reasons
    assert trace.lost == 0 and not trace.complaints


def test_reading_is_free(lab):
    """A whole ring is read without an exit; a write to it kills who tries, and changes nothing."""
    done, _, _ = recorded(lab, "exits", 1)
    assert exit_count(done.region(REGION_READ)) == 0
    row = next(row for row in done.lines("flowdemo") if "write" in row)
    assert (row["write"], row["magic"]) == ("refused", "1"), row
    assert int(row["bytes"]) == (1 << 20) + 4096


def test_names(lab):
    """The load's processes by name, each with what it executes and writes."""
    _, _, names = recorded(lab, "flow", 1)
    tasks = {task["comm"]: task for task in names["tasks"]}
    assert {"calm", "hasty", "server", "client"} <= set(tasks), sorted(tasks)
    assert all(
        {kind for _, _, kind in tasks[name]["maps"]} == {"x", "w"} for name in ("calm", "server")
    )
    assert isinstance(names["pti"], bool)


def test_overflow(lab):
    """More exits than a ring holds, and nobody reads: the guest goes on, each loss is counted."""
    _, files = flowdemo.boot(lab, "flowtrace-overflow", "exits", words=f"pmv.exits={EXITS}")
    trace = records.read(files["ptrace"])
    cpuids = sum(record.reason == CPUID for record in trace.processors[0])
    assert EXITS - CAPACITY <= trace.lost < EXITS and not trace.complaints, trace.lost
    assert cpuids < EXITS and cpuids + trace.lost >= EXITS, (cpuids, trace.lost)
    return f"{trace.lost} lost, {cpuids} CPUIDs read"


def test_refused(lab):
    """trace=off, and a level above the option's: one line each, and the guest goes on."""
    for option, words in (
        ("off", "start it with trace=exits or trace=flow"),
        ("exits", "above that of the option trace="),
    ):
        done, _ = flowdemo.boot(lab, f"flowtrace-refused-{option}", "flow", option=option, status=1)
        assert words in done.squeezed() or words in done.console, done.last_line()


def test_dump(lab):
    """trace_dump=: the rings' last records are on the serial line at the guest's end, as they are
    in memory."""
    done = lab.emulator(
        "flowtrace-dump",
        config=f"trace=flow trace_dump={DUMPED}",
        jobs="pair",
        cpus=2,
        initrd=kvm_traces.LOADS,
        knobs="trace_rings rings\n",
    )
    done.expect_status(STATUS_POWEROFF)
    source = rings_on_console.rings(done.console)
    whole = records.read(done.path("rings"))
    assert sorted(source.processors) == sorted(whole.processors) == [0, 1] and whole.lost == 0
    for number, found in source.processors.items():
        first = sum(source.gaps[number].values())
        assert (
            len(found) == DUMPED and found == whole.processors[number][first : first + DUMPED]
        ), number
    return (
        f"{DUMPED} of each processor's "
        f"{', '.join(str(len(found)) for found in whole.processors.values())}"
    )
