# SPDX-License-Identifier: BSD-2-Clause
# analyses.py: questions to a time line (states.py). All times are ns.
import bisect
import collections
import dataclasses

STATES = ("running", "root", "waiting", "preempted")
PROCESSOR_STATES = ("running", "root", "idle", "unknown")


def share(part, whole):
    """Gives percent; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


def state_times(intervals, states):
    """Gives {state: time}, with each of the states."""
    found = dict.fromkeys(states, 0)
    for interval in intervals:
        found[interval.state] += interval.end - interval.start
    return found


def runs(intervals):
    """Gives how often a process began to run: stretches without a gap of running and root."""
    active = [(one.start, one.end) for one in intervals if one.state in ("running", "root")]
    return sum(not place or active[place - 1][1] < start for place, (start, _) in enumerate(active))


def preempted(intervals):
    """Gives how often a process was preempted."""
    return sum(one.state == "preempted" for one in intervals)


def switches(intervals):
    """Gives how often a processor went from one process to another, idle or not in between."""
    order = [one.process for one in intervals if one.state == "running"]
    return sum(one != other for one, other in zip(order, order[1:]))


def processors(line):
    """Gives number -> {state: time}."""
    return {
        number: state_times(intervals, PROCESSOR_STATES)
        for number, intervals in line.processors.items()
    }


@dataclasses.dataclass
class ProcessRow:
    """One process."""

    key: int
    name: str
    pid: int | None
    times: dict
    threads: int  # kernel stacks that are its own; 0: no record showed one
    stacks: dict  # name of the stack or thread -> records that showed it
    on: list  # the processors


def processes(line):
    """Gives [ProcessRow], who ran longest first."""
    stacks = collections.defaultdict(collections.Counter)
    places = collections.defaultdict(set)
    for number, intervals in line.processors.items():
        for interval in intervals:
            if interval.process is None:
                continue
            places[interval.process].add(number)
            if interval.thread is not None and interval.thread not in line.borrowers:
                stacks[interval.process][interval.thread] += 1
    rows = []
    for key, process in line.processes.items():
        own = sum(thread.side == "kernel" for thread in stacks[key])
        named = {line.threads[thread]: count for thread, count in stacks[key].most_common()}
        rows.append(
            ProcessRow(
                key,
                process.name,
                process.pid,
                state_times(process.intervals, STATES),
                own,
                named,
                sorted(places[key]),
            )
        )
    return sorted(rows, key=lambda row: -row.times["running"])


@dataclasses.dataclass
class PreemptionRow:
    """`process` was preempted by `by`, and did not run for `time` in all."""

    process: int
    by: int
    count: int = 0
    time: int = 0
    longest: int = 0


def preemptions(line):
    """Gives [PreemptionRow], the longest in all first. Who never ran again counts to the end."""
    rows = {}
    for key, process in line.processes.items():
        for interval in process.intervals:
            if interval.state != "preempted":
                continue
            row = rows.setdefault((key, interval.process), PreemptionRow(key, interval.process))
            took = interval.end - interval.start
            row.count += 1
            row.time += took
            row.longest = max(row.longest, took)
    return sorted(rows.values(), key=lambda row: -row.time)


@dataclasses.dataclass
class WakeRow:
    """Interrupts of a vector that ended an idle time, and after which `process` ran (None: nobody,
    the processor was idle again)."""

    process: int | None
    vector: int
    latencies: list = dataclasses.field(default_factory=list)


def wake_ups(line):
    """Gives [WakeRow], the most frequent first. The latency is from the exit of the interrupt to
    where the process runs; of nobody it is the time until HLT."""
    rows = {}
    for number, intervals in line.processors.items():
        times = [record.time for record in line.records[number]]
        woken = None  # (time, vector) of the interrupt
        for place, interval in enumerate(intervals):
            if interval.state == "running" and woken:
                note_wake(rows, interval.process, woken, interval.start)
                woken = None
            elif interval.state == "idle" and interval.detail != "awake":
                if woken:
                    note_wake(rows, None, woken, interval.start)
                woken = None
                after = intervals[place + 1] if place + 1 < len(intervals) else None
                if after is not None and after.state == "root":
                    record = line.records[number][bisect.bisect_left(times, after.start)]
                    woken = (record.time, record.vector) if record.vector else None
            elif interval.state == "unknown":
                woken = None
    return sorted(rows.values(), key=lambda row: -len(row.latencies))


def note_wake(rows, process, woken, now):
    row = rows.setdefault((process, woken[1]), WakeRow(process, woken[1]))
    row.latencies.append(now - woken[0])


@dataclasses.dataclass
class ExitRow:
    """Exits of one reason: the paper's table V. `share` is percent of the processors' time."""

    reason: str
    count: int
    per_second: float
    time: int
    longest: int
    share: float


def exits(line):
    """Gives [ExitRow], the most time in root mode first."""
    found = collections.defaultdict(list)
    for shown in line.records.values():
        for record in shown:
            found[record.reason].append(record.root_time)
    whole = sum(
        intervals[-1].end - intervals[0].start
        for intervals in line.processors.values()
        if intervals
    )
    rows = [
        ExitRow(
            reason,
            len(took),
            len(took) * 1e9 / line.end if line.end else 0.0,
            sum(took),
            max(took),
            share(sum(took), whole),
        )
        for reason, took in found.items()
    ]
    return sorted(rows, key=lambda row: -row.time)
