# SPDX-License-Identifier: BSD-2-Clause
# test_flow_log.py: the emulator's flow log (emulator/README.md) and its dump of the rings: each
# record of a ring is an exit of the log and the other way round, natively the log has the sleep and
# the changes of process, and a run with both is the run without.
import collections
import functools
import os

import pytest

from experiments.flow.analysis import flow_log
from experiments.flow.tests import kvm_traces
from experiments.shared.analysis import records
from testbed.machine import STATUS_POWEROFF, path
from tests.e2e import scripts

EXTERNAL_INTERRUPT, INTERRUPT_WINDOW, CR_ACCESS = 1, 7, 28
VECTOR = 0xFF  # trace_ring.h: TRACE_VECTOR
CR3_VALUE = (1 << 48) - 1
LATE_TICKS = 2000  # from an exit to its record's TSC; several processors take turns
TURNS = 1000  # guest/loads/flowcost.c: each is two changes of process


@functools.cache
def run(lab, entry, cpus, logged):
    """The run, its events by processor, and where its rings are."""
    name = f"flow-log-{entry}-{cpus}-{logged}"
    knobs = "flow_log log\ntrace_rings rings\n" if logged else ""
    done = lab.emulator(
        name,
        entry=entry,
        jobs="flowcost",
        cpus=cpus,
        append="nmi_watchdog=0",
        initrd=kvm_traces.LOADS,
        config="trace=flow trace_ring=8",
        knobs="allow_resets 0\n" + knobs,
    )
    done.expect_status(STATUS_POWEROFF)
    events = collections.defaultdict(list)
    for event in flow_log.events(done.path("log")) if logged else ():
        events[event.processor].append(event)
    return done, events, done.path("rings")


def exits(events):
    """Each exit of a processor with the vector that its entry delivers, 0 for none."""
    found = []
    for event in events:
        if event.kind == "exit":
            found.append([event, 0])
        elif event.kind == "interrupt" and found:
            found[-1][1] = found[-1][1] or event.value
    return found


@pytest.mark.parametrize(
    "cpus", [pytest.param(1, id="rings_1"), pytest.param(4, id="rings_4", marks=pytest.mark.full)]
)
def test_rings(lab, cpus):
    """Record by record: reason, place, time, CR3 and vector as the emulator has them."""
    _, events, rings = run(lab, "msr+nmi", cpus, True)
    trace = records.read(rings)
    assert not trace.complaints and trace.lost == 0, trace.complaints
    assert sorted(trace.processors) == list(range(cpus))
    delay = 0
    for processor, found in trace.processors.items():
        true = exits(events[processor])
        # The exit that the run ended in has no record.
        assert len(found) <= len(true) <= len(found) + 1, (processor, len(found), len(true))
        for number, (record, (event, vector)) in enumerate(zip(found, true)):
            where = (processor, number, record, event)
            assert (record.reason, record.rip) == (event.value, event.rip), where
            assert 0 <= record.tsc - event.tsc <= LATE_TICKS, where
            delay = max(delay, record.tsc - event.tsc)
            if record.reason != CR_ACCESS:
                assert record.cr3 == event.cr3 & CR3_VALUE, where
            if record.reason in (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW):
                assert record.detail & VECTOR == vector, where
    return (
        f"{cpus} processors: {sum(map(len, trace.processors.values()))} records, each as in the "
        f"log, at most {delay} ticks behind the exit"
    )


def test_native(lab):
    """Without a hypervisor: sleep and wake-up take turns, interrupts and changes of process
    show."""
    _, events, rings = run(lab, "native", 1, True)
    kinds = collections.Counter(event.kind for event in events[0])
    assert not kinds["exit"] and not kinds["entry"], kinds
    assert kinds["hlt"] + kinds["mwait"] >= 20 and kinds["interrupt"] >= 20, kinds
    sleeping = False
    for event in events[0]:
        if sleeping:
            assert event.kind == "wake", event
        else:
            assert event.kind != "wake", event
        sleeping = event.kind in ("hlt", "mwait")
    assert all(one.tsc <= following.tsc for one, following in zip(events[0], events[0][1:]))
    # Bits 51:12 without bit 12: page-table isolation has a pair of tables for each process.
    tables = [event.value & 0xFFFFFFFFFE000 for event in events[0] if event.kind == "cr3"]
    changes = sum(one != following for one, following in zip(tables, tables[1:]))
    assert changes >= 2 * TURNS, changes
    assert os.path.getsize(rings) == 0
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


@pytest.mark.parametrize(
    "entry", [pytest.param("native", id="same_native"), pytest.param("msr+nmi", id="same_msr+nmi")]
)
def test_run_is_the_same(lab, entry):
    """The ledger of a run with both knobs is that of one without, to the last count."""
    with_both, without = (run(lab, entry, 1, logged)[0].ledger for logged in (True, False))
    assert with_both == without


def test_no_server_at_init(tmp_path):
    """The log begins with the kernel: a server that waits at init takes no such knob."""
    disk, knobs = tmp_path / "disk.img", tmp_path / "knobs"
    disk.write_bytes(bytes(1 << 20))
    knobs.write_text("flow_log x\n", encoding="ascii")
    refused = scripts.run(
        path("testbed", "run.sh"),
        "--serve",
        str(tmp_path / "socket"),
        "--at",
        "init",
        "--disk",
        str(disk),
        "--knobs",
        str(knobs),
    )
    scripts.expect_line(refused, "flow_log is not for a server at init")
