# SPDX-License-Identifier: BSD-2-Clause
"""Writes the time line of a flow trace as JSON in Chrome's trace event format.

https://ui.perfetto.dev and Trace Compass open it. TRACE is a folder of CTF, a file of the program
flowtrace, or an image of memory with rings. One track for each processor, and one for each process.
"""

import json
import sys

from experiments.flow.analysis import command_line
from experiments.flow.analysis.lttng_events import numbers
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load

# The format's groups of tracks are "processes".
PROCESSORS, PROCESSES = 1, 2


def micro(ns):
    """The format's times are microseconds; the third decimal is the ns."""
    return round(ns / 1000, 3)


def named(kind, name, order, pid, tid=None):
    """Gives metadata: the name of a group, or of a track, and its place."""
    place = {"ph": "M", "pid": pid, **({"tid": tid} if tid is not None else {})}
    return [
        {**place, "name": f"{kind}_name", "args": {"name": name}},
        {**place, "name": f"{kind}_sort_index", "args": {"sort_index": order}},
    ]


def state_event(interval, name, pid, tid, args):
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": interval.state,
        "ts": micro(interval.start),
        "dur": micro(interval.end - interval.start),
        "args": args,
    }


def process_text(line, key):
    process = line.processes[key]
    return process.name + (f" [{process.pid}]" if process.pid is not None else "")


def processor_events(source, line, number):
    """Yields a processor's track: what runs has the process's name, all else its state's."""
    yield from named("thread", f"Processor {number}", number, PROCESSORS, number)
    for interval in line.processors[number]:
        args = {"state": interval.state}
        if interval.process is not None:
            args["process"] = process_text(line, interval.process)
            args["cr3"] = f"{interval.process:#x}"
        if interval.thread is not None and interval.thread in line.threads:
            args["thread"] = line.threads[interval.thread]
        if interval.detail:
            args["detail"] = interval.detail
        runs = interval.state == "running" and interval.process is not None
        yield state_event(
            interval, args["process"] if runs else interval.state, PROCESSORS, number, args
        )
    for time, count in losses(source, line, number):
        yield {
            "ph": "i",
            "s": "t",
            "pid": PROCESSORS,
            "tid": number,
            "ts": micro(time),
            "name": f"{count} records lost",
            "cat": "lost",
            "args": {"records": count},
        }


def losses(source, line, number):
    """Gives [(time in ns of the first record after, count)] of a processor's losses."""
    records = line.records[number]
    end = records[-1].time + records[-1].root_time if records else 0
    return [
        (records[index].time if index < len(records) else end, count)
        for index, count in sorted(source.gaps.get(number, {}).items())
    ]


def process_events(line, key, tid, order):
    yield from named("thread", process_text(line, key), order, PROCESSES, tid)
    for interval in line.processes[key].intervals:
        args = {"state": interval.state, "cr3": f"{key:#x}"}
        if interval.process is not None:
            args["by"] = process_text(line, interval.process)
        yield state_event(interval, interval.state, PROCESSES, tid, args)


def events(source, line):
    """Takes a trace_source.Source and its Timeline; yields the format's events."""
    yield from named("process", "Processors", 0, PROCESSORS)
    yield from named("process", "Processes", 1, PROCESSES)
    for number in line.processors:
        yield from processor_events(source, line, number)
    tids = numbers(line)
    for order, key in enumerate(line.processes):
        yield from process_events(line, key, tids[key][1], order)


def write(source, out, line, title=""):
    """Writes the JSON. Takes a Source, a file for text and the Timeline."""
    out.write('{"displayTimeUnit": "ns", "otherData": ')
    json.dump(
        {
            "tracer": "PMUvisor",
            "trace": title,
            "tsc_khz": line.tsc_khz,
            "lost_records": line.lost,
            "complaints": line.complaints,
        },
        out,
    )
    out.write(', "traceEvents": [')
    before = "\n"
    for event in events(source, line):
        out.write(before + json.dumps(event, separators=(",", ":")))
        before = ",\n"
    out.write("\n]}\n")


def main():
    options = command_line.parser(__doc__, "FILE").parse_args()
    try:
        source = load(options.trace)
        line = timeline(source, options.names)
        with open(options.out, "w", encoding="utf-8") as out:
            write(source, out, line, options.trace)
    except (BadTrace, ValueError, OSError) as error:
        sys.exit(f"chrome.py: {error}")


if __name__ == "__main__":
    main()
