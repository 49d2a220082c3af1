# SPDX-License-Identifier: BSD-2-Clause
"""Says what a flow trace shows: processes, threads, states, preemption, wake-ups, exits.

TRACE is a folder of CTF (as `make trace` writes it, or kvm_trace.py), or a file of the program
flowtrace, or an image of memory with rings. How each figure comes about:
experiments/flow/timeline.md.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys

from experiments.flow.analysis import analyses, exit_reasons
from experiments.flow.analysis.identity import Identity, read_names
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load

MICRO = 1000  # ns
SHOWN = 20  # rows of a table; --all shows the others


def milliseconds(ns):
    return f"{ns / 1e6:.3f}"


def table(title, head, rows, limit):
    """Lines of a table, the first column on the left, the others on the right."""
    yield ""
    yield title
    if not rows:
        yield "  none"
        return
    cells = [head] + [[str(cell) for cell in row] for row in rows[:limit]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        yield "  " + "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        ).rstrip()
    if len(rows) > len(cells) - 1:
        yield f"  ... and {len(rows) - len(cells) + 1} more (--all)"


def name_of(line, key):
    """Gives a process as text, as far as it is known."""
    if key is None:
        return "nobody"
    process = line.processes[key]
    return process.name + (f" [{process.pid}]" if process.pid is not None else "")


def report(line, found, limit):
    """Takes a Timeline and what analyse() gave; yields the lines of the report."""
    level = (
        "each change of process has its record"
        if line.flow
        else "changes of process are seen at the next exit only"
    )
    records = sum(map(len, line.records.values()))
    yield (
        f"{records} records of {len(line.processors)} processors, {milliseconds(line.end)} ms; "
        f"{level}"
    )
    if not line.tsc_khz:
        yield "the trace does not say how fast its clock is: a tick is taken for 1 ns"
    yield f"lost records: {line.lost}"
    for complaint in line.complaints:
        yield f"note: {complaint}"
    yield from table(
        "Processors, ms",
        ["processor", *analyses.PROCESSOR_STATES],
        [
            [number, *map(milliseconds, times.values())]
            for number, times in found["processors"].items()
        ],
        limit,
    )
    yield from table(
        "Processes, ms",
        ["process", "cr3", *analyses.STATES, "threads", "on"],
        [
            [
                name_of(line, row.key),
                f"{row.key:#x}",
                *map(milliseconds, row.times.values()),
                row.threads,
                ",".join(map(str, row.on)),
            ]
            for row in found["processes"]
        ],
        limit,
    )
    yield from table(
        "Stacks: threads by what their exits showed",
        ["process", "stack or thread", "records"],
        [
            [name_of(line, row.key), stack, count]
            for row in found["processes"]
            for stack, count in row.stacks.items()
        ],
        limit,
    )
    yield from table(
        "Preemption",
        ["process", "by", "times", "ms", "longest ms"],
        [
            [
                name_of(line, row.process),
                name_of(line, row.by),
                row.count,
                milliseconds(row.time),
                milliseconds(row.longest),
            ]
            for row in found["preemptions"]
        ],
        limit,
    )
    yield from table(
        "Wake-ups from idle: from the interrupt to the process, us",
        ["process", "vector", "times", "min", "median", "max"],
        [
            [
                name_of(line, row.process),
                f"{row.vector:#x}",
                len(row.latencies),
                *(
                    f"{value / MICRO:.1f}"
                    for value in (
                        min(row.latencies),
                        statistics.median(row.latencies),
                        max(row.latencies),
                    )
                ),
            ]
            for row in found["wake_ups"]
        ],
        limit,
    )
    yield from table(
        "Exits",
        ["reason", "count", "a second", "ms", "longest ms", "% of time"],
        [
            [
                row.reason,
                row.count,
                f"{row.per_second:.0f}",
                milliseconds(row.time),
                milliseconds(row.longest),
                f"{row.share:.3f}",
            ]
            for row in found["exits"]
        ],
        limit,
    )
    if found["levels"]:
        yield from table(
            "Levels of virtualization (ADA), ms",
            ["processor", "state", "level", "ms"],
            found["levels"],
            limit,
        )


def levels(source, line, names):
    """Gives rows of processor, state, level and ms, where the trace has a guest that runs guests
    of its own (exits by VMRESUME or VMLAUNCH); else none."""
    launches = (exit_reasons.VMRESUME, exit_reasons.VMLAUNCH)
    rows = []
    for number, records in source.processors.items():
        if not any(record.reason in launches for record in records):
            continue
        from experiments.flow.analysis import levels as ada

        mask = Identity(source.processors, names).mask
        for (state, level), ticks in ada.times(ada.of_records(records, mask).intervals).items():
            rows.append(
                [
                    number,
                    state,
                    "-" if level is None else level,
                    milliseconds(line.ns(line.start_tick + ticks)),
                ]
            )
    return rows


def analyse(source, names=None):
    """Takes what states.timeline() takes; gives the Timeline and {analysis: rows}."""
    source = load(source)
    names = read_names(names)
    line = timeline(source, names)
    return line, {
        "processors": analyses.processors(line),
        "processes": analyses.processes(line),
        "preemptions": analyses.preemptions(line),
        "wake_ups": analyses.wake_ups(line),
        "exits": analyses.exits(line),
        "levels": levels(source, line, names),
    }


def plain(rows):
    """Rows as JSON has them."""
    if isinstance(rows, dict):
        return {str(key): value for key, value in rows.items()}
    return [dataclasses.asdict(row) if dataclasses.is_dataclass(row) else row for row in rows]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument(
        "--names", metavar="FILE", help="who is who; else TRACE.names.json, if it is there"
    )
    parser.add_argument("--json", action="store_true", help="all of it, times in ns")
    parser.add_argument("--all", action="store_true", help=f"all rows, not {SHOWN} of each table")
    arguments = parser.parse_args()
    beside = f"{arguments.trace}.names.json"
    names = arguments.names or (beside if os.path.exists(beside) else None)
    try:
        line, found = analyse(arguments.trace, names)
    except (BadTrace, OSError, ValueError) as error:
        print(f"analyse.py: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(
            json.dumps(
                {
                    "end": line.end,
                    "lost": line.lost,
                    "flow": line.flow,
                    "complaints": line.complaints,
                    **{name: plain(rows) for name, rows in found.items()},
                }
            )
        )
    else:
        print("\n".join(report(line, found, None if arguments.all else SHOWN)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
