# SPDX-License-Identifier: BSD-2-Clause
# machines.py: which machine took the processor from which, of several machines of one host, and of
# several machines in one of these: the paper's NSD (levels.py) with a name for who came instead.
# What the host sees: its own scheduler (sched_switch, sched_wakeup) and each exit and entry, as the
# paper's module has them; here they are of the emulator's list (the knob flow_log). Times are the
# host's TSC.
#
# Level 0, the host's scheduler: a thread of a virtual processor left the processor. The next thread
# came first; others may run after it, until the machine is back. Level 1, the scheduler of a
# machine that has machines: the CR3 that executes VMRESUME is the nested machine, and the next such
# CR3 came. On both levels the paper's rule says preempted if the last exit was no HLT. The truth is
# each scheduler's own record.
import bisect
import collections
import typing

from experiments.flow.analysis import kvm_text, kvm_trace, levels

MACHINE = "launch-"  # how the threads of a machine are called (programs/kvm/launch.c)
TSC_MODULUS = 1 << 64


class Gap(typing.NamedTuple):
    """A machine had no processor from `start` to `end`. `by`: who came first. `rule`: the paper's
    rule calls it preempted; `true`: so does the scheduler (None: not known). `comer`: the thread
    that came first by a nested scheduler's word."""

    start: int
    end: int
    whom: object
    by: object
    rule: bool
    true: bool | None = None
    processor: int = 0
    comer: int | None = None


class Threads:
    """Which thread runs when, by the events of one scheduler."""

    def __init__(self, events):
        self.ticks, self.tids = collections.defaultdict(list), collections.defaultdict(list)
        self.names = {}
        for event in events:
            if event.name == "sched_switch":
                self.ticks[event.processor].append(event.time)
                self.tids[event.processor].append(event.fields["next"])
                self.names[event.tid] = event.comm

    def at(self, processor, tick):
        """The thread on the processor; None: before the first switch."""
        place = bisect.bisect_right(self.ticks[processor], tick) - 1
        return self.tids[processor][place] if place >= 0 else None

    def between(self, processor, start, end):
        """Yields (thread, ticks) of each stretch of a thread on the processor in that time."""
        ticks, tids = self.ticks[processor], self.tids[processor]
        place = max(bisect.bisect_right(ticks, start) - 1, 0)
        while place < len(ticks) and ticks[place] < end:
            until = ticks[place + 1] if place + 1 < len(ticks) else end
            yield tids[place], min(until, end) - max(ticks[place], start)
            place += 1

    def machine(self, tid):
        """The name of the machine that the thread is of; None: of none."""
        name = self.names.get(tid, "")
        return name[len(MACHINE) :] if name.startswith(MACHINE) else None


def scheduler(lines):
    """The events of a scheduler's text, by time. ValueError: some are lost."""
    text = kvm_text.parse(lines, wanted=("sched_switch",))
    if text.lost or text.complaints:
        raise ValueError(f"the scheduler's trace is no truth: {text.complaints}")
    return text.events


def gaps_of(events, is_machine, rule=lambda tid, tick: None):
    """The Gaps of machines' threads by the events of one scheduler, in order of their start.
    is_machine(tid); rule(tid, tick): the paper's."""
    gaps, out = [], {}
    for event in events:
        if event.name != "sched_switch":
            continue
        gone, come = event.fields["prev"], event.fields["next"]
        if is_machine(gone):
            true = event.fields["state"].startswith("R")
            word = rule(gone, event.time)
            out[gone] = Gap(event.time, 0, gone, come, word, true, event.processor)
        if come in out:
            gaps.append(out.pop(come)._replace(end=event.time))
    return sorted(gaps)


def of_log(log, threads):
    """Takes the events of flow_log.py and the host's Threads; yields them as events of KVM."""
    offsets = collections.Counter()
    for event in log:
        if event.kind == "offset":
            offsets[event.processor] = event.value
        if event.kind not in ("entry", "exit"):
            continue
        tid = threads.at(event.processor, event.tsc)
        common = event.tsc, event.processor, tid, threads.names.get(tid, "")
        if event.kind == "entry":
            seen = {"cr3": event.cr3, "cr3_known": 1, "rsp": event.rsp, "rsp_known": 1}
            yield kvm_text.Event(*common, "vcpu", seen)
            yield kvm_text.Event(*common, "kvm_entry", {"rip": event.rip})
        else:
            truth = {"eptp": event.eptp, "offset": offsets[event.processor]}
            fields = {"reason": event.value & 0xFFFF, "rip": event.rip, **truth}
            yield kvm_text.Event(*common, "kvm_exit", fields)


class Host(kvm_trace.Host):
    """A host's machines. `gaps` are those of level 0, by time; of each thread `eptps` and `offsets`
    are the emulator's word on each of its runs."""

    def __init__(self, sched, log):
        self.who = Threads(sched)
        self.eptps, self.offsets = collections.defaultdict(list), collections.defaultdict(list)
        events = sorted([*sched, *of_log(log, self.who)], key=lambda event: event.time)
        super().__init__(kvm_text.Text(events, True, 0, 0, []))
        gaps = gaps_of(sched, self.threads.__contains__, self.rule)
        self.gaps = [gap for gap in gaps if gap.rule is not None]

    def rule(self, tid, tick):
        """Whether the paper's rule calls a machine preempted that leaves then. None: it has not run
        yet."""
        runs = self.threads[tid].levels.runs
        place = bisect.bisect_left(runs, tick, key=lambda run: run.end) - 1
        return runs[place].reason != levels.HLT if place >= 0 else None

    def ran(self, gap):
        """(thread, ticks) of all that had the processor in a Gap."""
        return self.who.between(gap.processor, gap.start, gap.end)

    def kvm_exit(self, thread, event):
        self.eptps[thread.tid].append(event.fields["eptp"])
        self.offsets[thread.tid].append(event.fields["offset"])
        super().kvm_exit(thread, event)


class Nested(typing.NamedTuple):
    """A run of level 2. `machine`: the CR3 of the hypervisor of level 1 that resumed it."""

    machine: int
    run: levels.Run
    eptp: int
    offset: int


def nested(host, tid, machine_of=lambda table: table):
    """The runs of level 2 of a thread. Those before the first VMLAUNCH that has a CR3 are left
    out."""
    vcpu, found, now = host.threads[tid].levels, [], None
    for run, eptp, offset in zip(vcpu.runs, host.eptps[tid], host.offsets[tid]):
        if run.level == 1 and run.reason in levels.LAUNCHES:
            now = machine_of(vcpu.table(run.cr3))
        elif run.level == 2 and now is not None:
            found.append(Nested(now, run, eptp, offset))
    return found


def gaps_of_nested(found):
    """Takes Nested runs; gives the Gaps of level 1: a machine's last run, until its next one, where
    another machine of the level ran between."""
    gaps, open_ = [], {}
    for before, after in zip(found, found[1:]):
        if after.machine == before.machine:
            continue
        rule = before.run.reason != levels.HLT
        open_[before.machine] = Gap(before.run.end, 0, before.machine, after.machine, rule)
        if after.machine in open_:
            gaps.append(open_.pop(after.machine)._replace(end=after.run.start))
    return gaps


def ran_of_nested(found, gap):
    """(machine, ticks) of the Nested runs in a Gap of level 1."""
    place = bisect.bisect_left(found, gap.start, key=lambda one: one.run.start)
    while place < len(found) and found[place].run.start < gap.end:
        yield found[place].machine, found[place].run.end - found[place].run.start
        place += 1


def as_printed(vcpu):
    """How many entries the pseudo-code of algorithm 2 calls a preemption: another CR3 than that of
    the last entry, and the last exit no HLT. The paper's text also wants the CR3 of a process;
    Vcpu.preemptions has that condition."""
    return sum(
        before.reason != levels.HLT and before.cr3 != after.cr3
        for before, after in zip(vcpu.runs, vcpu.runs[1:])
    )


def owners(pairs):
    """Takes (name, truth) of each run; gives {truth: name}, by most of its runs, and how many runs
    have another name than that. Two truths may get one name: the caller counts the names."""
    counts = collections.defaultdict(collections.Counter)
    for name, truth in pairs:
        counts[truth][name] += 1
    found = {truth: names.most_common(1)[0][0] for truth, names in counts.items()}
    return found, sum(names.total() - names.most_common(1)[0][1] for names in counts.values())


class Inner:
    """A machine's own scheduler, which knows its machines: the truth of level 1."""

    def __init__(self, sched, offset):
        """`offset`: of the machine's TSC to the host's."""
        shifted = [event._replace(time=(event.time - offset) % TSC_MODULUS) for event in sched]
        self.who = Threads(shifted)
        self.gaps = gaps_of(shifted, self.who.machine)


class Score(typing.NamedTuple):
    """The rule against the scheduler: gaps that both call preempted, that the rule alone does, and
    that the scheduler alone does."""

    both: int
    rule: int
    true: int

    def precision(self):
        return self.both / (self.both + self.rule) if self.both + self.rule else 1

    def recall(self):
        return self.both / (self.both + self.true) if self.both + self.true else 1

    def text(self):
        return (
            f"{self.both + self.rule} called preempted, {self.rule} of them wrong; "
            f"{self.true} of {self.both + self.true} missed "
            f"(precision {self.precision():.3f}, recall {self.recall():.3f})"
        )


def score(gaps):
    """Of Gaps whose truth is known."""
    return Score(
        sum(gap.rule and gap.true for gap in gaps),
        sum(gap.rule and not gap.true for gap in gaps),
        sum(gap.true and not gap.rule for gap in gaps),
    )


def with_truth(gaps, inner, thread_of):
    """Takes Gaps of level 1, a machine's Inner, and {machine: its thread}. Gives the Gaps with the
    scheduler's record of when the machine's thread first left the processor in the Gap: whether it
    could run (`true`), and who came first (`comer`)."""
    by_thread = collections.defaultdict(list)
    for gap in inner.gaps:
        by_thread[gap.whom].append(gap)
    found = []
    for gap in gaps:
        mine = by_thread[thread_of[gap.whom]]
        place = bisect.bisect_left([one.start for one in mine], gap.start)
        if place < len(mine) and mine[place].start < gap.end:
            gap = gap._replace(true=mine[place].true, comer=mine[place].by)
        else:
            gap = gap._replace(true=False)
        found.append(gap)
    return found


def wrong_comers(gaps, inner, thread_of):
    """The Gaps of level 1 with another `by` than the first machine that the scheduler let run."""
    threads, wrong = set(thread_of.values()), []
    for gap in gaps:
        others = threads - {thread_of[gap.whom]}
        ran = (tid for tid, _ in inner.who.between(0, gap.start, gap.end) if tid in others)
        if next(ran, None) != thread_of[gap.by]:
            wrong.append(gap)
    return wrong


def unseen(found, gaps, inner, thread_of):
    """The scheduler's preemptions of level 1 that are in no Gap. Counts only while each machine has
    Nested runs (`found`): from the latest first run on to the earliest last one."""
    mine = collections.defaultdict(list)
    for one in found:
        mine[one.machine].append(one.run)
    begin = max(runs[0].start for runs in mine.values())
    end = min(runs[-1].end for runs in mine.values())
    spans = collections.defaultdict(list)
    for gap in gaps:
        spans[thread_of[gap.whom]].append(gap)
    threads, missed = set(thread_of.values()), []
    for gap in inner.gaps:
        if gap.whom not in threads or not gap.true or not begin <= gap.start < end:
            continue
        place = bisect.bisect_right([one.start for one in spans[gap.whom]], gap.start) - 1
        if place < 0 or gap.start >= spans[gap.whom][place].end:
            missed.append(gap)
    return missed


def matrix(gaps, name, ran, preempted=lambda gap: gap.true):
    """{(whom, who): (how often `who` came first, ticks that it had)} of the Gaps that are
    preemptions. ran(gap) gives (who, ticks) of all that ran in it."""
    found = collections.defaultdict(lambda: (0, 0))
    for gap in filter(preempted, gaps):
        for who, first, ticks in [(gap.by, 1, 0), *((who, 0, ticks) for who, ticks in ran(gap))]:
            key = name(gap.whom), name(who)
            found[key] = found[key][0] + first, found[key][1] + ticks
    return dict(found)
