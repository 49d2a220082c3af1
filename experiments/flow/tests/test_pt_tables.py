# SPDX-License-Identifier: BSD-2-Clause
# test_pt_tables.py: who ran, from Intel PT: the guest's own trace of its loads of CR3, without
# branches. The load and the truth are those of test_trace_truth.py. No exit is taken for it, where
# trace=flow takes one for each load.
import pytest

from experiments.flow.analysis import flow_log, sched_text, truth
from experiments.flow.analysis.states import Interval, Timeline
from experiments.shared.analysis.cr3 import PTI_USER_TABLE, TABLE_MASK
from experiments.shared.tests import handed_over
from testbed.machine import STATUS_POWEROFF, path
from tests.e2e import pt_decoders
from tests.e2e.policies import NMI

ENTRIES = ["native", "msr+nmi"]
CR_ACCESS = "28"
# Ticks from a load to its time in the trace: CYC comes with the next packet that has time.
NEAR = 100
# CPUID leaf 15H, EAX and EBX, the nominal frequency to the bus clock, MTCFreq: guest/pt/flowpt.sh.
CLOCK = ("tsc_art_ratio", "max_nonturbo_ratio")
MTC_FREQUENCY = "3"
LOADS_MIN, SWITCHES_MIN = 5000, 1000
WRONG_MAX = 0.002  # of the processes' time, as in test_trace_truth.py


def boot(lab, entry):
    done = lab.emulator(
        f"flowpt-{entry}",
        entry=entry,
        jobs="flowpt",
        memory=512,
        config="console=none user_hypercalls=1",
        append="nmi_watchdog=0",
        initrd=path("build/payload/flowpt-cloud.img"),
        knobs=f"pt on\ntsc_hz {handed_over.TSC_HZ}\nguest_files {handed_over.FOLDER}\nflow_log "
        f"log\n",
    )
    done.expect_status(STATUS_POWEROFF)
    return done


def loads_of(done, scratch):
    """[(TSC, table)] of the trace, and its bytes."""
    with open(done.path(f"{handed_over.FOLDER}/pt.data"), "rb") as source:
        trace = pt_decoders.packets(source.read())
    clock = {line["name"]: line["value"] for line in done.lines("flowpt") if "name" in line}
    ratio, nominal = (clock[name] for name in CLOCK)
    # Linux writes EBX:EAX.
    ebx, eax = ratio.split(":")
    loads = pt_decoders.listed("libipt_tables", trace, scratch, eax, ebx, nominal, MTC_FREQUENCY)
    return [(tsc, table(cr3)) for tsc, cr3 in loads], len(trace)


def changes(loads):
    """Without those of the table that is there: what a PSB repeats, and changes of the PCID
    alone."""
    return [load for before, load in zip([(0, None), *loads], loads) if before[1] != load[1]]


def table(cr3):
    """The table's address. With page-table isolation the user's is the kernel's neighbour."""
    return cr3 & TABLE_MASK


def process(cr3):
    return table(cr3) & ~PTI_USER_TABLE


def time_line(loads):
    """A Timeline whose ticks are its times: who ran is whose table was loaded last. It knows of no
    idle time."""
    stays = [
        Interval(start, end, "running", process(cr3), None, None)
        for (start, cr3), (end, _) in zip(loads, loads[1:])
    ]
    return Timeline(processors={0: stays}, tsc_khz=0)


def true_of(done):
    """The emulator's own [(TSC, CR3)], and the truth by the scheduler at these loads."""
    text = {}
    for name in ("sched", "tgid", "processes"):
        with open(done.path(f"{handed_over.FOLDER}/{name}"), encoding="utf-8") as file:
            text[name] = file.read()
    who = sched_text.pairs(text["tgid"]), sched_text.kernel_threads(
        text["processes"], text["sched"]
    )
    events = list(flow_log.events(done.path("log")))
    changes = flow_log.table_changes(events, (0,), process)
    at_loads = truth.at_loads(
        sched_text.switches(text["sched"]), {0: [load for _, load in changes[0]]}, *who
    )
    return [
        (event.tsc, table(event.value)) for event in events if event.kind == "cr3"
    ], truth.build(at_loads, *who)


@pytest.mark.parametrize("entry", ENTRIES)
def test_tables(lab, entry, tmp_path):
    """Each load of CR3 is in the trace with its time, and no other; so is each switch of processes.
    Under msr+nmi without an exit."""
    done = boot(lab, entry)
    (loads, size), (exact, true) = loads_of(done, tmp_path), true_of(done)
    found, exact = changes(loads), changes(exact)
    first = next(
        n
        for n, (tsc, cr3) in enumerate(exact)
        if cr3 == found[1][1] and abs(tsc - found[1][0]) <= NEAR
    )
    pairs = list(zip(found[1:], exact[first:]))
    wrong = [
        pair for pair in pairs if pair[0][1] != pair[1][1] or abs(pair[0][0] - pair[1][0]) > NEAR
    ]
    assert len(pairs) == len(found) - 1 > LOADS_MIN and not wrong, wrong[:3]
    line = time_line(loads)
    score = truth.score(
        line, true, processes=truth.match_processes(truth.our_processors(line), true)
    )
    assert score.found == score.switches > SWITCHES_MIN and not score.invented, (
        score.found,
        score.switches,
    )
    assert score.wrong_share() < WRONG_MAX, score.wrong_share()
    if entry != "native":
        exits = {name: found["count"] for name, found in done.ledger["exits"].items()}
        assert (
            NMI not in exits and exits.get(CR_ACCESS, 0) <= 1
        ), exits  # one of CR4, when Linux starts
    return (
        f"{len(pairs)} loads of CR3, {score.found} of {score.switches} switches, wrong process "
        f"{100 * score.wrong_share():.3f} %, {size / score.switches:.0f} bytes for a switch, 0 "
        f"exits"
    )


def test_a_load_is_missed(lab, tmp_path):
    """Without every tenth change of process some switches are not there."""
    done = boot(lab, "native")
    (loads, _), (_, true) = loads_of(done, tmp_path), true_of(done)
    switches = changes([(tsc, process(cr3)) for tsc, cr3 in loads])
    line = time_line([load for n, load in enumerate(switches) if n % 10])
    score = truth.score(
        line, true, processes=truth.match_processes(truth.our_processors(line), true)
    )
    assert score.found < score.switches, score.switches
    assert score.wrong_share() > WRONG_MAX, score.wrong_share()
