# SPDX-License-Identifier: BSD-2-Clause
# test_paper_method.py: the paper's own method (002: GTA and NSD of exits with CR3) on what its
# module reads: each exit of KVM with the VMCS's CR3, on one level of virtualization and, with
# PMUvisor under KVM, on two. The emulator's flow log has them. Truth is the guest's own scheduler,
# as in test_trace_truth.py. Both tables are in the folder of the boots, paper-method-N.txt.
import functools
import os

import pytest

from experiments.flow.analysis import flow_log, sched_text, seen_by_host, stacks_seen, truth
from experiments.flow.analysis.identity import Identity
from experiments.flow.analysis.states import timeline
from experiments.flow.tests import kvm_traces
from experiments.shared.tests import handed_over
from testbed import nested
from testbed.machine import STATUS_POWEROFF, path
from tests.e2e.inner import expect_quiet

MIN_SWITCHES = {
    1: 1000,
    2: 500,
}  # a second has four times as many instructions on two levels, and as many ticks
IDLE_ERROR_MAX = 0.01
WRONG_MIN = 0.05  # of the processes' time: what the method cannot see is not little
KNOBS = f"guest_files {handed_over.FOLDER}\nflow_log log\n"


def one_level(lab):
    done = lab.emulator(
        "flowtruth-kvm",
        entry="native",
        jobs="kvm",
        memory=kvm_traces.MEMORY,
        limit=kvm_traces.LIMIT,
        initrd=path("build/payload/kvm-flowtruth-cloud.img"),
        append="pmv.kvm=flowtruth nmi_watchdog=0",
        knobs=f"tsc_hz {handed_over.TSC_HZ}\n{KNOBS}",
    )
    done.expect_status(STATUS_POWEROFF)
    return done


def two_levels(lab):
    done = nested.boot(
        lab,
        "flowtruth-nested",
        jobs="flowtruth",
        append="nmi_watchdog=0",
        limit=kvm_traces.LIMIT,
        initrd=path("build/payload/flowtruth-cloud.img"),
        config="console=none",
        knobs=KNOBS,
    )
    done.expect_status(STATUS_POWEROFF)
    expect_quiet(done)
    return done


LEVELS = {1: (one_level, handed_over.TSC_HZ), 2: (two_levels, nested.TSC_HZ)}


@functools.cache
def run(lab, level):
    """What the module has of the guest of that level, who ran by its scheduler and the loads of
    CR3, {key: process}, and what it has of threads: by their stacks, and without."""
    make, hz = LEVELS[level]
    done = make(lab)
    found = {}
    for name in ("sched", "tgid", "processes"):
        with open(os.path.join(done.path(handed_over.FOLDER), name), encoding="utf-8") as file:
            found[name] = file.read()
    switches = sched_text.switches(found["sched"])
    who = (
        sched_text.pairs(found["tgid"]),
        sched_text.kernel_threads(found["processes"], found["sched"]),
    )
    events = list(seen_by_host.guest_time(flow_log.events(done.path("log"))))
    stays = list(seen_by_host.stays(events))
    if level > 1:
        stays = seen_by_host.of_level(stays, level)
    source = seen_by_host.source(stays, hz // 1000)
    key = Identity(source.processors).key
    loads = flow_log.table_changes(events, (0,), key)
    at_loads = truth.build(
        truth.at_loads(switches, {0: [load for _, load in loads[0]]}, *who), *who
    )
    processes = truth.match_processes({0: seen_by_host.tables(events, key)}, at_loads)
    assert len(set(processes.values())) == len(processes), f"a process has two tables: {processes}"
    threads = stacks_seen.seen(stays, key)
    blind = [(start, end, (table, 0)) for start, end, (table, _) in threads]
    return (
        source,
        at_loads,
        processes,
        [stacks_seen.score(one, at_loads) for one in (threads, blind)],
    )


def scores_of(lab, level):
    """(name, Score) of the paper's rules, and of the same exits read backwards."""
    source, true, processes, _ = run(lab, level)
    return [
        (name, truth.score(timeline(source, by_next=by_next), true, processes=processes))
        for name, by_next in (("the paper's rules", False), ("read backwards", True))
    ]


@pytest.mark.parametrize(
    "level",
    [pytest.param(1, id="one_level"), pytest.param(2, id="two_levels", marks=pytest.mark.full)],
)
def test_paper_method(lab, level):
    """Of the switches it finds few, and gives much of the time to the wrong process; read
    backwards, less."""
    scores = scores_of(lab, level)
    with open(os.path.join(lab.keep, f"paper-method-{level}.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(truth.table(scores)) + "\n")
    (_, paper), (_, backwards) = scores
    assert paper.switches >= MIN_SWITCHES[level], paper.switches
    assert paper.found < paper.switches and paper.wrong_share() > WRONG_MIN, (
        paper.found,
        paper.wrong_share(),
    )
    assert (
        backwards.found > paper.found and backwards.wrong_share() < paper.wrong_share()
    ), backwards
    assert paper.idle_error() < IDLE_ERROR_MAX, paper.idle_error()
    return "; ".join(
        f"{name}: {score.found} of {score.switches} switches in place, {len(score.invented)} not, "
        f"wrong process {100 * score.wrong_share():.1f} %, idle off by "
        f"{100 * score.idle_error():.2f} %"
        for name, score in scores
    )


@pytest.mark.parametrize(
    "level",
    [
        pytest.param(1, id="threads_one_level"),
        pytest.param(2, id="threads_two_levels", marks=pytest.mark.full),
    ],
)
def test_threads(lab, level):
    """Threads by the stack pointer (GTA): the stacks tell them apart, and few of their switches are
    seen."""
    score, blind = run(lab, level)[3]
    assert (
        score.stacks > blind.stacks and score.found > blind.found and score.right > blind.right
    ), (score, blind)
    assert score.switches > 0 and score.found < score.switches, score
    assert score.right < score.right_process < score.time, score
    return (
        f"{score.found} of {score.switches} switches between threads of a process in place; "
        f"{100 * (1 - score.right / score.time):.1f} % of the time given to another thread, "
        f"{100 * (1 - score.right_process / score.time):.1f} % to another process; {score.stacks} "
        f"stacks"
    )
