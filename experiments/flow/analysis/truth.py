# SPDX-License-Identifier: BSD-2-Clause
# truth.py: scores a time line by the scheduler's own trace of the same run: processes' switches
# found and invented, time given to the right process, and precision and recall of each state.
# Precision: how much of what we say is so. Recall: how much of what is so we say.
import bisect
import collections
import dataclasses
import statistics

from experiments.flow.analysis.exit_reasons import (
    CR_ACCESS,
    EXTERNAL_INTERRUPT,
    HLT,
    INTERRUPT_WINDOW,
)
from experiments.flow.analysis.trace_source import TRACE_EXITS, Source, load

# A switch is found where ours is at most so many ticks from the scheduler's event. In Linux 6.1 the
# event comes right before the load of CR3, with interrupts off; but in the emulator other
# processors may run meanwhile. It is a tenth of Linux's clock tick (250 Hz, at 50,000,000 ticks of
# the TSC a second).
NEAR_TICKS = 20_000

IDLE = 0  # the truth's process of the idle thread
KERNEL = -1  # and of all kernel threads


@dataclasses.dataclass
class Truth:
    """What the scheduler says; times are ticks."""

    processors: dict  # number -> [(start, end, tgid or IDLE or KERNEL, tid)]
    processes: dict  # tgid -> [(start, end, running | waiting | preempted)]
    start: int
    end: int


@dataclasses.dataclass
class Score:
    """Each a count, or ticks; `states` has state -> (truth, ours, both)."""

    switches: int = 0  # of processes, by the scheduler
    found: int = 0
    ours: int = 0  # that we have
    invented: list = dataclasses.field(default_factory=list)  # (processor, tick, key)
    missed: list = dataclasses.field(default_factory=list)  # (processor, tick, tgid)
    kernel_tables: int = 0  # switches to a table that is no process's
    distances: list = dataclasses.field(default_factory=list)
    user_time: int = 0  # of processes, by the scheduler
    user_right: int = 0
    idle_time: int = 0
    idle_ours: int = 0
    states: dict = dataclasses.field(default_factory=dict)
    thread_switches: int = 0  # inside of one process: no record can tell
    kernel_switches: int = 0  # to kernel threads
    kernel_time: int = 0

    def precision(self, state):
        """Gives the part of our time in that state that is so; None: we have none."""
        _, ours, both = self.states.get(state, (0, 0, 0))
        return both / ours if ours else None

    def recall(self, state):
        """Gives the part of the true time in that state that we have; None: there is none."""
        truth, _, both = self.states.get(state, (0, 0, 0))
        return both / truth if truth else None

    def spread(self):
        """Gives the least, the median, the 99th percentile and the most of the distances."""
        many = statistics.quantiles(self.distances, n=100) if len(self.distances) > 1 else None
        return (
            min(self.distances),
            statistics.median(self.distances),
            many[98] if many else self.distances[0],
            max(self.distances),
        )

    def wrong_share(self):
        """Gives the part of the processes' time that we do not give to the right one."""
        return 1 - self.user_right / self.user_time

    def switch_share(self):
        """Gives the part of the processes' time that lies between the truth's switches and ours,
        where ours come later. By the scheduler's events it is the way from these to the loads."""
        return sum(max(ticks, 0) for ticks in self.distances) / self.user_time

    def idle_error(self):
        """Gives by how much our idle time differs, as a part of the true one."""
        return abs(self.idle_ours - self.idle_time) / self.idle_time


def build(switches, tgids, kernel_threads):
    """Takes what sched_text.py gives. Gives the Truth, from when each processor is known. Raises
    ValueError where a thread's process is not known, or where a line contradicts the one before."""
    if not switches:
        raise ValueError("the scheduler's trace has no switch")
    processors, last = {}, {}
    end = switches[-1].tsc

    def process(tid):
        if tid == 0:
            return IDLE
        if tid in kernel_threads or tgids.get(tid) in kernel_threads:
            return KERNEL
        if tid not in tgids:
            raise ValueError(f"the process of thread {tid} is not known")
        return tgids[tid]

    threads = collections.defaultdict(list)  # tid -> [(start, state)]
    for switch in switches:
        since, tid = last.get(switch.processor, (switch.tsc, switch.prev_tid))
        if tid != switch.prev_tid:
            raise ValueError(
                f"thread {switch.prev_tid} leaves processor {switch.processor} at "
                f"{switch.tsc}, but {tid} is there: events are lost"
            )
        add_run(processors, switch.processor, since, switch.tsc, process(tid), tid)
        last[switch.processor] = (switch.tsc, switch.next_tid)
        state = {"R": "preempted", "X": "dead", "Z": "dead"}.get(switch.prev_state[0], "waiting")
        threads[switch.prev_tid].append((switch.tsc, state))
        threads[switch.next_tid].append((switch.tsc, "running"))
    for number, (since, tid) in last.items():
        add_run(processors, number, since, end, process(tid), tid)
    groups = collections.defaultdict(list)
    for tid, states in threads.items():
        if process(tid) > 0:
            groups[process(tid)] += [(tick, tid, state) for tick, state in states]
    start = max(min(s.tsc for s in switches if s.processor == number) for number in processors)
    return Truth(
        processors, {tgid: group_states(found, end) for tgid, found in groups.items()}, start, end
    )


def at_loads(switches, loads, tgids, kernel_threads, near=NEAR_TICKS):
    """Takes what build() does, and when each processor loaded another table, number -> [tick] in
    order: from a witness that is not the trace. Gives the switches, each that loads a table with
    the tick of that load. Until then who leaves is on the processor, with table and stack; the
    scheduler's event only says what it is about to do. Raises ValueError where a processor goes
    from one process to another without a load before the next event, or within `near`."""
    found = []
    for number in {switch.processor for switch in switches}:
        own = [switch for switch in switches if switch.processor == number]
        ticks, last = loads.get(number, []), None
        for switch, end in zip(own, [*(after.tsc for after in own[1:]), own[-1].tsc + near]):
            process = tgids.get(switch.next_tid)
            if switch.next_tid == 0 or {switch.next_tid, process} & kernel_threads:
                found.append(switch)
                continue
            place = bisect.bisect_right(ticks, switch.tsc)
            if place < len(ticks) and ticks[place] < min(end, switch.tsc + near):
                switch = switch._replace(tsc=ticks[place])
            elif last not in (None, process):
                raise ValueError(
                    f"processor {number} goes to process {process} at {switch.tsc} "
                    "without a load of its table"
                )
            last = process
            found.append(switch)
    return sorted(found)


def not_at_loads(line, loads, start, end):
    """Takes a Timeline, and number -> [(exit, load)] in ticks, in order. Gives (processor, tick) of
    each change of process between the two ticks that is not where a load was about to be executed:
    after the last exit before it, and not after the load. (By the distance alone it cannot be
    told: with several processors the emulator's clock moves in their turns.)"""
    found = []
    for number, runs in our_processors(line).items():
        stays = loads.get(number, [])
        for tick, _ in changes(runs, start, end, lambda name: name not in (None, IDLE)):
            place = bisect.bisect_left([load for _, load in stays], tick)
            if place == len(stays) or tick < stays[place][0]:
                found.append((number, tick))
    return found


def add_run(processors, number, start, end, process, tid):
    """Adds a thread's run on a processor."""
    runs = processors.setdefault(number, [])
    if end > start:
        runs.append((start, end, process, tid))


def group_states(changes, end):
    """Takes [(tick, tid, state)] of the threads of one process; gives [(start, end, state)]. The
    process runs where one of them does, is preempted where one could, and else waits; it is
    nowhere when all are dead."""
    changes.sort(key=lambda change: change[0])
    now, found = {}, []
    since, state = changes[0][0], None
    for tick, tid, new in changes:
        if state is not None and tick > since:
            found.append((since, tick, state))
        since = tick
        now[tid] = new
        state = next(
            (name for name in ("running", "preempted", "waiting") if name in now.values()), None
        )
    if state is not None and end > since:
        found.append((since, end, state))
    return found


def overlaps(ours, truth):
    """Takes two lists of (start, end, label), each in order and without overlaps. Gives a Counter
    of (our label, its label) in ticks; None is the label where one of them has nothing."""
    marks = sorted({edge for start, end, _ in [*ours, *truth] for edge in (start, end)})
    found = collections.Counter()
    places = [0, 0]
    for start, end in zip(marks, marks[1:]):
        labels = []
        for side, listed in enumerate((ours, truth)):
            while places[side] < len(listed) and listed[places[side]][1] <= start:
                places[side] += 1
            here = places[side] < len(listed) and listed[places[side]][0] <= start
            labels.append(listed[places[side]][2] if here else None)
        found[tuple(labels)] += end - start
    return found


def cut(intervals, start, end):
    """Takes and gives [(start, end, label)]: what is between the two ticks."""
    return [
        (max(a, start), min(b, end), label) for a, b, label in intervals if b > start and a < end
    ]


def our_processors(line):
    """Gives number -> [(start, end, process key or IDLE or None for unknown)] in ticks."""
    return {
        number: [(line.tick(i.start), line.tick(i.end), label(i)) for i in intervals]
        for number, intervals in line.processors.items()
    }


def label(interval):
    """Gives whose an interval of a processor is. Root mode's is that of what it interrupted, and of
    nobody where this was the idle thread."""
    if interval.process is not None:
        return interval.process
    return None if interval.state == "unknown" else IDLE


def match_processes(ours, truth):
    """Gives {key: tgid}: to each of our processes that with which it shares the most time, if it is
    most of the time that it shares with processes at all."""
    shared = collections.defaultdict(collections.Counter)
    for number, runs in truth.processors.items():
        labelled = [(start, end, tgid) for start, end, tgid, _ in runs]
        for (key, tgid), ticks in overlaps(ours.get(number, []), labelled).items():
            if key not in (None, IDLE) and tgid is not None and tgid > 0:
                shared[key][tgid] += ticks
    found = {}
    for key, counts in shared.items():
        tgid, ticks = counts.most_common(1)[0]
        if 2 * ticks > sum(counts.values()):
            found[key] = tgid
    return found


def changes(runs, start, end, counts):
    """Takes [(start, end, label)]; gives [(tick, label)] for each change from one label of which
    counts(label) is true to another, between the two ticks."""
    found, last = [], None
    for tick, _, name in runs:
        if not counts(name):
            continue
        if last is not None and name != last and start <= tick <= end:
            found.append((tick, name))
        last = name
    return found


def score(line, truth, near=NEAR_TICKS, processes=None):
    """Takes a Timeline and the Truth of the same run; gives the Score. `processes`: {key: tgid};
    None: as match_processes() finds them. A method that is to be compared gets those of the other
    one: where it is wrong about who ran, what it overlaps with most is wrong as well."""
    ours = our_processors(line)
    if processes is None:
        processes = match_processes(ours, truth)
    result = Score()
    states = collections.defaultdict(lambda: [0, 0, 0])
    for number, runs in truth.processors.items():
        mine = [
            (start, end, processes.get(name, KERNEL) if name not in (None, IDLE) else name)
            for start, end, name in ours.get(number, [])
        ]
        labelled = [(start, end, tgid) for start, end, tgid, _ in runs]
        score_switches(result, number, mine, labelled, truth, near)
        score_unseen(result, runs, truth)
        for (we, it), ticks in overlaps(
            cut(mine, truth.start, truth.end), cut(labelled, truth.start, truth.end)
        ).items():
            if it is None:
                continue
            if it > 0:
                result.user_time += ticks
                result.user_right += ticks if we == it else 0
            result.kernel_time += ticks if it == KERNEL else 0
            result.idle_time += ticks if it == IDLE else 0
            result.idle_ours += ticks if we == IDLE else 0
            for state, so, said in (
                ("running", it > 0, we is not None and we > 0),
                ("idle", it == IDLE, we == IDLE),
            ):
                add_state(states[state], ticks, so, said, we == it)
    for key, tgid in processes.items():
        if key not in line.processes:
            add_unseen(states, truth, tgid)
            continue
        score_process(states, line, key, truth, tgid)
    result.states = {state: tuple(found) for state, found in states.items()}
    return result


def add_state(found, ticks, so, said, same):
    """Adds time to (truth, ours, both)."""
    found[0] += ticks if so else 0
    found[1] += ticks if said else 0
    found[2] += ticks if so and said and same else 0


def score_switches(result, number, mine, labelled, truth, near):
    """Each switch of the scheduler's takes the nearest of ours to the same process."""
    # Whose table was loaded before its first process the scheduler does not say.
    first = min((start for start, _, tgid in labelled if tgid > 0), default=truth.end)
    first = max(first, truth.start)
    true = changes(labelled, first, truth.end, lambda tgid: tgid > 0)
    # Ours may lie just outside of the stretch where the scheduler's lies just inside.
    have = changes(mine, first - near, truth.end + near, lambda tgid: tgid is not None and tgid > 0)
    left = collections.defaultdict(list)
    for tick, tgid in have:
        left[tgid].append(tick)
    result.switches += len(true)
    missed = len(result.missed)
    for tick, tgid in true:
        ticks = left[tgid]
        place = bisect.bisect_left(ticks, tick)
        nearest = min(
            ticks[max(place - 1, 0) : place + 1], key=lambda t: abs(t - tick), default=None
        )
        if nearest is None or abs(nearest - tick) > near:
            result.missed.append((number, tick, tgid))
            continue
        ticks.remove(nearest)
        result.found += 1
        result.distances.append(nearest - tick)
    invented = [
        (number, tick, tgid)
        for tgid, ticks in left.items()
        for tick in ticks
        if first + near < tick < truth.end - near
    ]
    result.invented += invented
    result.ours += len(true) - (len(result.missed) - missed) + len(invented)
    result.kernel_tables += len(
        [
            1
            for _, tgid in changes(
                mine, truth.start, truth.end, lambda tgid: tgid not in (None, IDLE)
            )
            if tgid == KERNEL
        ]
    )


def score_unseen(result, runs, truth):
    """What exits alone cannot see: switches between threads of one process, and kernel threads."""
    last = None
    for start, _, tgid, tid in runs:
        inside = truth.start <= start <= truth.end
        result.kernel_switches += 1 if tgid == KERNEL and inside else 0
        if tgid > 0:
            if last is not None and last[0] == tgid and last[1] != tid and inside:
                result.thread_switches += 1
            last = (tgid, tid)


def add_unseen(states, truth, tgid):
    """A process that our time line does not have at all."""
    for start, end, state in cut(truth.processes[tgid], truth.start, truth.end):
        if state in ("waiting", "preempted"):
            add_state(states[state], end - start, True, False, False)


def score_process(states, line, key, truth, tgid):
    """Waiting and preempted, of one process."""
    mine = [(line.tick(i.start), line.tick(i.end), i.state) for i in line.processes[key].intervals]
    for (we, it), ticks in overlaps(
        cut(mine, truth.start, truth.end), cut(truth.processes[tgid], truth.start, truth.end)
    ).items():
        if it is None:
            continue
        for state in ("waiting", "preempted"):
            add_state(states[state], ticks, it == state, we == state, True)


def percent(part, digits=2):
    """Gives a share as text; a dash for none."""
    return "-" if part is None else f"{100 * part:.{digits}f} %"


def table(scores):
    """Takes [(name, Score)] of one run; yields the lines of a table in Markdown."""
    rows = [
        ("switches of processes", lambda s: str(s.switches)),
        ("found in place", lambda s: str(s.found)),
        ("elsewhere or invented", lambda s: str(len(s.invented))),
        (
            "ticks from the truth's switch to ours: least, median, 99 %, most",
            lambda s: (", ".join(f"{ticks:.0f}" for ticks in s.spread()) if s.distances else "-"),
        ),
        ("processes' time given to the wrong one", lambda s: percent(s.wrong_share(), 3)),
        ("of it between the truth's switch and ours", lambda s: percent(s.switch_share(), 3)),
        ("idle time, off by", lambda s: percent(s.idle_error(), 3)),
        *(
            (
                f"{state}: precision, recall",
                lambda s, state=state: (
                    f"{percent(s.precision(state))}, {percent(s.recall(state))}"
                ),
            )
            for state in ("running", "idle", "waiting", "preempted")
        ),
        ("not seen: switches between threads of a process", lambda s: str(s.thread_switches)),
        (
            "not seen: runs of kernel threads, their time",
            lambda s: (
                f"{s.kernel_switches}, {percent(s.kernel_time / s.user_time)} of the processes'"
            ),
        ),
    ]
    yield "| | " + " | ".join(name for name, _ in scores) + " |"
    yield "|---|" + "---|" * len(scores)
    for name, value in rows:
        yield f"| {name} | " + " | ".join(value(score) for _, score in scores) + " |"


def without(source, reasons):
    """Takes what trace_source.load() takes; gives the Source without the exits of these reasons and
    without a level above TRACE_EXITS: what the paper's own method would have seen."""
    source = load(source)
    return Source(
        tsc_khz=source.tsc_khz,
        level=TRACE_EXITS,
        processors={
            number: [record for record in found if record.reason not in reasons]
            for number, found in source.processors.items()
        },
    )


def as_kvm(source):
    """The exits that KVM has: HLT and interrupts, no loads of CR3."""
    return without(source, (CR_ACCESS,))


def as_exits(source):
    """The exits that there are at trace=exits."""
    return without(source, (CR_ACCESS, HLT, EXTERNAL_INTERRUPT, INTERRUPT_WINDOW))
