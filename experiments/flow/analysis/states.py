# SPDX-License-Identifier: BSD-2-Clause
# states.py: the time line of a trace: what each processor did, and each process. The rules are in
# walk.py and timeline.md, "States"; here processors are put together.
#
#   line = timeline("build/trace/ctf", names="build/trace/demo.ptrace.names.json")
#   line.processors[0][0].state
import collections
import dataclasses

from experiments.flow.analysis.exit_reasons import name as reason_name
from experiments.flow.analysis.identity import Identity, read_names, stack_text
from experiments.flow.analysis.trace_source import load
from experiments.flow.analysis.walk import (
    Walk,
    find_tables,
    find_waits,
    find_ways,
    sees_processes,
    vector,
    walk_processor,
)
from experiments.shared.analysis.records import TICKS_PER_MS

# Of a processor: running (a process), root, idle, unknown. Of a process: running, root, waiting,
# preempted.
Interval = collections.namedtuple("Interval", "start end state process thread detail")
# A record for who points at the time line; `time` as in Interval, root_time in ns.
Shown = collections.namedtuple("Shown", "time reason rip cr3 vector detail root_time")
# A process leaves a processor; `to` is who comes, or None.
Left = collections.namedtuple("Left", "time processor process to preempted")


@dataclasses.dataclass
class Process:
    """One address space. `intervals` has what the process did from its first record on; of a
    preempted one `process` is the key of who runs in its place. Who ended looks as if waiting."""

    cr3: int
    name: str
    pid: int | None
    intervals: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Timeline:
    """All times are whole ns from the first record of the trace."""

    processors: dict = dataclasses.field(default_factory=dict)  # number -> [Interval]
    processes: dict = dataclasses.field(default_factory=dict)  # key -> Process
    records: dict = dataclasses.field(default_factory=dict)  # number -> [Shown]
    leaves: list = dataclasses.field(default_factory=list)  # [Left], by time
    threads: dict = dataclasses.field(default_factory=dict)  # Thread -> its name
    borrowers: set = dataclasses.field(default_factory=set)  # Threads without an own table
    # key -> [(name, pid)], it may be one
    candidates: dict = dataclasses.field(default_factory=dict)
    lost: int = 0
    complaints: list = dataclasses.field(default_factory=list)
    start_tick: int = 0
    tsc_khz: int = 0
    flow: bool = False
    end: int = 0

    def ns(self, tick):
        """Takes a value of the TSC; gives the time, in ns from the start of the trace."""
        ticks = tick - self.start_tick
        return ticks * TICKS_PER_MS // self.tsc_khz if self.tsc_khz else ticks

    def tick(self, time):
        """Takes a time in ns; gives the value of the TSC: the inverse of ns(), to within a tick."""
        ticks = -(-time * self.tsc_khz // TICKS_PER_MS) if self.tsc_khz else time
        return ticks + self.start_tick


def timeline(source, names=None, by_next=False):
    """Takes a CTF folder or a file of records.py by path, or what records.py gave; `names`: path or
    JSON of a names file; `by_next`: where changes of process have no records, the time between two
    exits is the later one's and not, as in the paper, the earlier one's. Gives a Timeline. Raises
    trace_source.BadTrace, or ValueError for the names."""
    source = load(source)
    identity = Identity(source.processors, read_names(names))
    flow = sees_processes(source, identity)
    walks = {
        number: Walk(found, flow, source.gaps.get(number, {}), by_next)
        for number, found in sorted(source.processors.items())
    }
    for walk in walks.values():
        find_tables(walk, identity)
    ways = find_ways(walks, identity.kernel_threads)
    line = Timeline(
        tsc_khz=source.tsc_khz, flow=flow, lost=source.lost(), complaints=list(source.complaints)
    )
    line.borrowers, line.candidates = ways.kernel_stacks, identity.candidates
    line.start_tick = min(
        (found[0].tsc for found in source.processors.values() if found), default=0
    )
    for walk in walks.values():
        walk_processor(walk, ways)
    find_waits(walks)
    for number, walk in walks.items():
        line.borrowers.add(walk.idle_stack)
        line.complaints += [f"processor {number}: {text}" for text in walk.complaints]
        line.processors[number] = processor_intervals(line, walk)
        line.records[number] = [shown(line, record) for record in walk.records]
        line.leaves += [
            Left(line.ns(leave.tick), number, leave.process, leave.to, leave.preempted)
            for leave in walk.leaves
        ]
        for span in walk.spans:
            if span.thread is not None and span.thread not in line.threads:
                line.threads[span.thread] = identity.threads.get(
                    span.thread, (stack_text(span.thread), None)
                )[0]
    line.leaves.sort(key=lambda left: left.time)
    line.end = max(
        (intervals[-1].end for intervals in line.processors.values() if intervals), default=0
    )
    if line.lost:
        line.complaints.append(f"{line.lost} records are lost")
    for number, intervals in line.processors.items():
        for interval in intervals:
            if interval.process is not None and interval.process not in line.processes:
                name, pid = identity.process(interval.process)
                line.processes[interval.process] = Process(interval.process, name, pid)
    for key, process in line.processes.items():
        process.intervals = process_intervals(line, key)
    return line


def shown(line, record):
    """Gives a record as the time line shows it."""
    tick = line.tsc_khz or TICKS_PER_MS
    return Shown(
        line.ns(record.tsc),
        reason_name(record.reason),
        record.rip,
        record.cr3,
        vector(record),
        record.detail,
        record.root_time * TICKS_PER_MS // tick,
    )


def processor_intervals(line, walk):
    """Gives what a processor did, without gaps, from its first record to its last; before its first
    one, and where records are missing, it is unknown."""
    found = []
    if walk.records and walk.records[0].tsc > line.start_tick:
        found.append(
            Interval(
                0, line.ns(walk.records[0].tsc), "unknown", None, None, "before the first record"
            )
        )
    for index, record in enumerate(walk.records):
        detail = reason_name(record.reason)
        if vector(record):
            detail += f", vector {vector(record):#x}"
        end = record.tsc + record.root_time
        span = walk.spans[index] if index < len(walk.spans) else None
        if span is not None:
            end = span.start
        add(
            found,
            Interval(line.ns(record.tsc), line.ns(end), "root", walk.roots[index], None, detail),
        )
        if span is not None:
            switch = line.ns(span.start + span.awake)
            add(found, Interval(line.ns(span.start), switch, "idle", None, None, "awake"))
            add(
                found,
                Interval(
                    switch, line.ns(span.end), span.state, span.process, span.thread, span.detail
                ),
            )
    return found


def add(found, interval):
    """Adds an interval that is not empty and not before the last one's end."""
    if found and interval.start < found[-1].end:
        interval = interval._replace(start=found[-1].end)
    if interval.end > interval.start:
        found.append(interval)


def process_intervals(line, key):
    """Gives what a process did, of all processors together. It runs where it runs on any. Between,
    it waits or is preempted, as its last leave says."""
    edges = []
    for number, intervals in line.processors.items():
        for interval in intervals:
            if interval.process == key:
                edges.append((interval.start, 1, interval.state))
                edges.append((interval.end, -1, interval.state))
    edges.sort(key=lambda edge: edge[0])
    leaves = [left for left in line.leaves if left.process == key]
    found = []
    active = {"running": 0, "root": 0}
    since = edges[0][0]
    place = 0
    for time, change, state in edges:
        if time > since:
            while place < len(leaves) and leaves[place].time <= since:
                place += 1
            join(found, state_of(active, leaves[place - 1] if place else None, since, time))
            since = time
        active[state] += change
    if line.end > since:
        last = leaves[-1] if leaves else None
        join(found, state_of(active, last, since, line.end))
    return found


def state_of(active, left, start, end):
    """Gives the interval of a process that runs on active["running"] processors."""
    if active["running"]:
        return Interval(start, end, "running", None, None, "")
    if active["root"]:
        return Interval(start, end, "root", None, None, "")
    if left is not None and left.preempted:
        return Interval(start, end, "preempted", left.to, None, "")
    return Interval(start, end, "waiting", None, None, "")


def join(found, interval):
    """Adds an interval, or makes the last one longer where it says the same."""
    if found and found[-1][2:] == interval[2:] and found[-1].end == interval.start:
        interval = interval._replace(start=found.pop().start)
    found.append(interval)
