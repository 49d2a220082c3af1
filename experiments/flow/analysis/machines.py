# SPDX-License-Identifier: BSD-2-Clause
# machines.py: which machine took the processor from which, of several machines of one host, and of
# several machines in one of these: the paper's NSD (levels.py) with a name for who came instead.
# What the host sees: its own scheduler (sched_switch, sched_wakeup) and each exit and entry, as the
# paper's module has them; here they are of the emulator's list (the knob flow_log). Times are the
# host's TSC.
#
# Level 0, the host's scheduler: a thread of a virtual processor left the processor; who came is the
# next thread. Level 1, the scheduler of a machine that has machines: the CR3 that executes
# VMRESUME is the nested machine; who came is the next one that does. In both, the rule of the paper
# says preempted where the last exit was no HLT. The truth is each scheduler's own prev_state.
import bisect
import collections
import typing

from experiments.flow.analysis import kvm_text, kvm_trace, levels

MACHINE = "launch-"  # how the threads of a machine are called (programs/kvm/launch.c)
SHIFT = 1 << 64


class Gap(typing.NamedTuple):
    """A machine had no processor from `start` to `end`. `by`: who came. `rule`: the paper's rule
    calls it preempted; `true`: so does the scheduler (None: not known)."""

    start: int
    end: int
    whom: object
    by: object
    rule: bool
    true: bool | None = None


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
        self.gaps, self.out = [], {}
        self.eptps, self.offsets = collections.defaultdict(list), collections.defaultdict(list)
        events = sorted([*sched, *of_log(log, self.who)], key=lambda event: event.time)
        super().__init__(kvm_text.Text(events, True, 0, 0, []))
        self.gaps.sort()

    def switch(self, event):
        gone, come = event.fields["prev"], event.fields["next"]
        if gone in self.threads:
            last = self.threads[gone].levels.last
            self.out[gone] = Gap(
                event.time,
                0,
                gone,
                come,
                last is not None and last.reason != levels.HLT,
                event.fields["state"].startswith("R"),
            )
        if come in self.out:
            self.gaps.append(self.out.pop(come)._replace(end=event.time))
        super().switch(event)

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


def as_printed(vcpu):
    """How many entries algorithm 2 as printed calls a preemption: another CR3 than that of the last
    entry, and the last exit no HLT."""
    return sum(
        before.reason != levels.HLT and before.cr3 != after.cr3
        for before, after in zip(vcpu.runs, vcpu.runs[1:])
    )


def owners(pairs):
    """Takes (name, truth) of each run; gives {truth: name}, by most of its runs, and how many runs
    have another name, or a name that is another truth's."""
    counts = collections.defaultdict(collections.Counter)
    for name, truth in pairs:
        counts[truth][name] += 1
    found = {truth: names.most_common(1)[0][0] for truth, names in counts.items()}
    return found, sum(names.total() - names.most_common(1)[0][1] for names in counts.values())


class Inner:
    """A machine's own scheduler, which knows its machines: the truth of level 1."""

    def __init__(self, sched, offset):
        """`offset`: of the machine's TSC to the host's."""
        shifted = [event._replace(time=(event.time - offset) % SHIFT) for event in sched]
        self.who = Threads(shifted)
        self.gaps, out = [], {}
        for event in shifted:
            if event.name != "sched_switch":
                continue
            gone, come = event.fields["prev"], event.fields["next"]
            if self.who.machine(gone):
                state = event.fields["state"].startswith("R")
                out[gone] = Gap(event.time, 0, gone, come, None, state)
            if come in out:
                self.gaps.append(out.pop(come)._replace(end=event.time))


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
    """Takes Gaps of level 1, a machine's Inner, and {machine: its thread}. Gives the Gaps with what
    the scheduler says of the machine's thread where it left the processor last before another
    machine ran; True only if it says the same of who came at last."""
    by_thread = collections.defaultdict(list)
    for gap in inner.gaps:
        by_thread[gap.whom].append(gap)
    found = []
    for gap in gaps:
        mine = by_thread[thread_of[gap.whom]]
        place = bisect.bisect_left([one.start for one in mine], gap.start)
        true = place < len(mine) and mine[place].start < gap.end and mine[place].true
        found.append(gap._replace(true=bool(true)))
    return found


def unseen(gaps, inner, thread_of):
    """The scheduler's preemptions of level 1 that are in no Gap: no other machine ran meanwhile."""
    spans = collections.defaultdict(list)
    for gap in gaps:
        spans[thread_of[gap.whom]].append(gap)
    threads, found = set(thread_of.values()), []
    for gap in inner.gaps:
        mine = spans[gap.whom]
        place = bisect.bisect_right([one.start for one in mine], gap.start) - 1
        inside = place >= 0 and gap.start < mine[place].end
        if gap.whom in threads and gap.true and not inside:
            found.append(gap)
    return found


def matrix(gaps, name):
    """{(whom, by): (how often, ticks)} of the Gaps that are preemptions by their truth."""
    found = {}
    for gap in gaps:
        if gap.true:
            key = name(gap.whom), name(gap.by)
            count, ticks = found.get(key, (0, 0))
            found[key] = count + 1, ticks + gap.end - gap.start
    return found
