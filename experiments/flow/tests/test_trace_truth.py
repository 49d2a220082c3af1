# SPDX-License-Identifier: BSD-2-Clause
# test_trace_truth.py: the time line of a flow trace, scored by what the guest's own scheduler
# says of the same run (analysis/truth.py). The load has processes that compete, a server with a
# client, a pair on a pipe, sleepers, threads, and idle time (guest/truth/). Which switches
# there are the scheduler says. When a process is gone the emulator says (the knob flow_log): the
# scheduler's event comes before the load of CR3. Both tables are in the folder of the boots,
# flowtruth-N.txt.
import collections
import os

import pytest

from experiments.flow.analysis import analyses, flow_log, sched_text, truth
from experiments.flow.analysis.exit_reasons import CR_ACCESS, HLT
from experiments.flow.analysis.identity import Identity
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import Source
from experiments.flow.tests.flowtruth import boot, rings

# What the scores have to be.
USER_TIME_WRONG_MAX = 0.002  # of the processes' time
IDLE_ERROR_MAX = 0.002
STATES_MIN = {
    "running": (0.99, 0.99),
    "idle": (0.999, 0.998),  # precision, recall
    "waiting": (0.99, 0.99),
    "preempted": (0.98, 0.93),
}
MIN_SWITCHES = 1000
THREADS_RIGHT_MIN = 0.5
BORROWERS_MAX = 2
FREE_THREADS = 1  # guest/truth/load.c
IN_PLACE_TICKS = 4000  # 99 % of them, of the 20,000 at which one counts as found
MEDIAN_TICKS = 1500  # and half of them: the kernel's way from its event to the load
LITTLE_TICKS = 100  # all loads so much later or earlier: test_harm_is_seen

FEW, MANY = 1, 4


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def run(lab, cpus):
    """The records of the run, its truth by the scheduler's events and by the loads of CR3, and
    these loads."""
    files = boot(lab, cpus)
    sched = read(files["sched"])
    switches = sched_text.switches(sched)
    who = (
        sched_text.pairs(read(files["tgid"])),
        sched_text.kernel_threads(read(files["processes"]), sched),
    )
    true = truth.build(switches, *who)
    assert len(true.processors) == cpus, f"the scheduler spoke of {sorted(true.processors)}"
    source = rings(files["ring"])
    loads = flow_log.table_changes(
        flow_log.events(files["log"]), true.processors, Identity(source.processors).key
    )
    at_loads = truth.at_loads(
        switches, {number: [load for _, load in found] for number, found in loads.items()}, *who
    )
    return source, true, truth.build(at_loads, *who), loads


def scores(lab, cpus):
    """(name, Score) of the trace as it is and of what other methods would have seen of it, by the
    scheduler's events and, of the same, by the loads; and the switches of the trace that are not at
    a load."""
    source, true, at_loads, loads = run(lab, cpus)
    processes = truth.match_processes(truth.our_processors(timeline(source)), true)
    assert len(set(processes.values())) == len(processes), f"a process has two tables: {processes}"
    lines = [
        ("trace=flow", timeline(source)),
        ("the same exits, no loads of CR3", timeline(truth.as_kvm(source))),
        ("the same exits, read backwards", timeline(truth.as_kvm(source), by_next=True)),
        ("trace=exits", timeline(truth.as_exits(source))),
    ]
    by_both = [
        [(name, truth.score(line, switches, processes=processes)) for name, line in lines]
        for switches in (true, at_loads)
    ]
    with open(os.path.join(lab.keep, f"flowtruth-{cpus}.txt"), "w", encoding="utf-8") as out:
        for words, found in zip(("the scheduler's events", "the loads of CR3"), by_both):
            out.write("\n".join([f"Truth: {words}", "", *truth.table(found)]) + "\n\n")
    return *by_both, truth.not_at_loads(lines[0][1], loads, true.start, true.end)


def expect_goals(score, exact, elsewhere):
    """Fails where a score is below what it has to be. Takes that by the scheduler's events, for the
    switches, that by the loads, for time, and the switches that are not at a load."""
    assert score.switches >= MIN_SWITCHES, f"only {score.switches} switches of processes"
    assert score.found == score.switches, (
        f"missed {len(score.missed)} of {score.switches} "
        f"switches, the first (processor, TSC, process) {score.missed[0]}"
    )
    assert (
        len(score.invented) == 0
    ), f"invented {len(score.invented)} switches, the first {score.invented[0]}"
    assert (
        score.spread()[2] <= IN_PLACE_TICKS
    ), f"the 99th percentile of their places is {score.spread()[2]} ticks off"
    assert score.spread()[1] <= MEDIAN_TICKS, f"half of them are {score.spread()[1]} ticks off"
    assert exact.found == exact.switches, f"{exact.found} of {exact.switches} at their loads"
    assert not elsewhere, (
        f"{len(elsewhere)} of {score.ours} switches are not in the exit that their "
        f"load follows, the first (processor, TSC) {elsewhere[0]}"
    )
    assert (
        exact.wrong_share() <= USER_TIME_WRONG_MAX
    ), f"{100 * exact.wrong_share():.3f} % of the processes' time is given to the wrong one"
    assert (
        exact.idle_error() <= IDLE_ERROR_MAX
    ), f"idle time differs by {100 * exact.idle_error():.3f} %"
    for state, (precision, recall) in STATES_MIN.items():
        assert (
            exact.precision(state) >= precision
        ), f"{state}: precision {exact.precision(state):.4f}, wanted {precision}"
        assert (
            exact.recall(state) >= recall
        ), f"{state}: recall {exact.recall(state):.4f}, wanted {recall}"


def summary(score, exact):
    _, median, many, most = score.spread()
    return (
        f"{score.found} of {score.switches} switches, {len(score.invented)} invented, "
        f"{median:.0f} ticks behind the scheduler's event (99 %: {many:.0f}, most: {most}); "
        f"{exact.spread()[0]} to {exact.spread()[3]} behind the load; "
        f"wrong process {100 * exact.wrong_share():.3f} %, with the way to the load "
        f"{100 * score.wrong_share():.3f} %, idle off by {100 * exact.idle_error():.3f} %, "
        f"running {100 * exact.precision('running'):.2f} %"
    )


@pytest.mark.parametrize("cpus", (FEW, MANY), ids=("one", "four"))
def test_goals(lab, cpus):
    """Every switch of processes at its place, none invented, and the time of each state."""
    *by_both, elsewhere = scores(lab, cpus)
    flow = [found[0][1] for found in by_both]
    expect_goals(*flow, elsewhere)
    return summary(*flow)


@pytest.mark.parametrize("cpus", (FEW, MANY), ids=("paper_one", "paper_four"))
def test_paper(lab, cpus):
    """What the paper's own method sees of the same run: it has no exits by loads of CR3."""
    flow, paper, backwards, _ = (score for _, score in scores(lab, cpus)[0])
    for score in (paper, backwards):
        assert score.found < flow.found and score.wrong_share() > flow.wrong_share()
    return (
        f"{paper.found} of {paper.switches} switches in place, {len(paper.invented)} not, "
        f"wrong process {100 * paper.wrong_share():.1f} %; {100 * backwards.wrong_share():.1f} % "
        "where who ran is read off the next exit"
    )


@pytest.mark.parametrize("cpus", (FEW, MANY), ids=("threads_one", "threads_four"))
def test_threads(lab, cpus):
    """Kernel stacks tell the threads of a process: of the one that has four, and on one processor
    of most others. On four a thread that sleeps may leave its processor idle each time: then nobody
    loads CR3 on its stack, and nothing shows it. So one of the four is free to go where it likes,
    and the others stay where the competitors are. A kernel thread that borrowed the table of one
    process alone counts as its."""
    source, true, *_ = run(lab, cpus)
    line = timeline(source)
    processes = truth.match_processes(truth.our_processors(line), true)
    there = collections.defaultdict(set)
    for runs in true.processors.values():
        for _, _, tgid, tid in runs:
            there[tgid].add(tid)
    seen = {
        processes[row.key]: row.threads for row in analyses.processes(line) if row.key in processes
    }
    several = [tgid for tgid in seen if len(there[tgid]) > 1]
    assert len(several) == 1, f"processes with several threads: {several}"
    assert (
        -FREE_THREADS <= seen[several[0]] - len(there[several[0]]) <= BORROWERS_MAX
    ), f"{seen[several[0]]} threads, the scheduler has {len(there[several[0]])}"
    right = sum(len(there[tgid]) == count for tgid, count in seen.items())
    assert cpus > FEW or right >= THREADS_RIGHT_MIN * len(seen), f"{right} of {len(seen)} processes"
    return (
        f"{right} of {len(seen)} processes have the right number of threads, that with "
        f"{len(there[several[0]])} has {seen[several[0]]}"
    )


def changed(source, records):
    """The Source with other records on its first processor."""
    processors = {**source.processors, min(source.processors): records}
    return Source(source.tsc_khz, source.level, processors)


def switches_in(source, true):
    """Places of loads of CR3 in the stretch that is scored."""
    found = source.processors[min(source.processors)]
    return found, [
        place
        for place, record in enumerate(found)
        if record.reason == CR_ACCESS and true.start < record.tsc < true.end
    ]


@pytest.mark.parametrize(
    "harm",
    (
        "no_loads",
        "one_load_less",
        "two_swapped",
        "no_halts",
        "late",
        "a_little_late",
        "a_little_early",
    ),
)
def test_harm_is_seen(lab, harm):
    """The goals are not met by a trace to which this was done."""
    source, true, at_loads, stays = run(lab, FEW)
    found, loads = switches_in(source, true)
    middle = loads[len(loads) // 2]
    other = next(
        place
        for place in loads[len(loads) // 2 :]
        if found[place].cr3 >> 12 != found[middle].cr3 >> 12
    )
    if harm == "no_loads":
        records = [record for record in found if record.reason != CR_ACCESS]
    elif harm == "one_load_less":
        records = found[:middle] + found[middle + 1 :]
    elif harm == "two_swapped":
        records = list(found)
        records[middle] = found[middle]._replace(cr3=found[other].cr3)
        records[other] = found[other]._replace(cr3=found[middle].cr3)
    elif harm == "no_halts":
        records = [record for record in found if record.reason != HLT]
    elif harm == "a_little_early":
        records = [
            (
                record._replace(
                    tsc=record.tsc - min(LITTLE_TICKS + record.root_time, record.tsc - before.tsc)
                )
                if record.reason == CR_ACCESS
                else record
            )
            for before, record in zip([found[0], *found], found)
        ]
    else:  # the time of each load is that of the record after it, or a little nearer to that
        late = LITTLE_TICKS if harm == "a_little_late" else found[-1].tsc
        records = [
            (
                record._replace(tsc=min(found[place + 1].tsc - record.root_time, record.tsc + late))
                if record.reason == CR_ACCESS and place + 1 < len(found)
                else record
            )
            for place, record in enumerate(found)
        ]
    line = timeline(changed(source, records))
    with pytest.raises(AssertionError) as seen:
        expect_goals(
            truth.score(line, true),
            truth.score(line, at_loads),
            truth.not_at_loads(line, stays, true.start, true.end),
        )
    return str(seen.value).splitlines()[0]
