#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the time line of a flow trace as one HTML page that needs nothing else.

TRACE is a folder of CTF, a file of the program flowtrace, or an image of memory with rings. Rows are
processors and processes; the wheel, the keys and the buttons zoom, and the pointer shows records.
"""

import json
import pathlib
import sys
from html import escape

import flow_path  # noqa: F401, first of all
import analyses
import chrome
import command_line
import page
from cr3 import PTI_USER_TABLE, TABLE_MASK
from states import timeline
from trace_source import BadTrace, load

HERE = pathlib.Path(__file__).resolve().parent

STATES = ("running", "root", "idle", "waiting", "preempted", "unknown")
MEANING = {
    "running": "a process runs, in user space or in the kernel",
    "root": "the hypervisor runs for it", "idle": "HLT, and what the kernel does around it",
    "waiting": "the process left by itself, for an event", "preempted":
    "the process was made to leave, and could run", "unknown": "there are no records of it"}


class Table:
    """Values by number, in the order in which they first come."""

    def __init__(self):
        self.places = {}

    def __call__(self, value):
        return self.places.setdefault(value, len(self.places))

    def values(self):
        return list(self.places)


def row(label, kind, number, intervals, places, texts):
    """Gives a row; `places`: key of a process -> its index. Intervals are as differences: from the
    end of the last one to the start, and the length."""
    found = {"label": label, "kind": kind, "number": number, "gap": [], "length": [], "state": [],
             "who": [], "text": []}
    at = 0
    for interval in intervals:
        found["gap"].append(interval.start - at)
        found["length"].append(interval.end - interval.start)
        found["state"].append(STATES.index(interval.state))
        found["who"].append(places.get(interval.process, -1))
        found["text"].append(texts(interval.detail or ""))
        at = interval.end
    return found


def columns(records, tables):
    """Gives a processor's records by field."""
    reasons, rips, cr3s = tables
    found = {"time": [], "reason": [], "rip": [], "cr3": [], "vector": [], "detail": [], "root": []}
    at = 0
    for record in records:
        found["time"].append(record.time - at)
        at = record.time
        found["reason"].append(reasons(record.reason))
        found["rip"].append(rips(record.rip))
        found["cr3"].append(cr3s(record.cr3))
        found["vector"].append(record.vector or 0)
        found["detail"].append(record.detail)
        found["root"].append(record.root_time)
    return found


def process_of(cr3, places):
    """Gives the index of the process that a record's CR3 is, or -1. With page-table isolation keys
    are without the bit of the user's table."""
    table = cr3 & TABLE_MASK
    return places.get(table, places.get(table & ~PTI_USER_TABLE, -1))


def page_data(source, line):
    """Takes a trace_source.Source and its Timeline; gives what timeline.js reads."""
    order = [found.key for found in analyses.processes(line)]  # who ran longest first
    places = {key: place for place, key in enumerate(order)}
    texts, tables = Table(), (Table(), Table(), Table())
    texts("")
    rows = [row(f"Processor {number}", "processor", number, intervals, places, texts)
            for number, intervals in line.processors.items()]
    rows += [row(chrome.process_text(line, key), "process", places[key],
                 line.processes[key].intervals, places, texts) for key in order]
    records = {number: columns(found, tables) for number, found in line.records.items()}
    reasons, rips, cr3s = tables
    return {
        "end": line.end, "states": STATES, "rows": rows, "records": records,
        "texts": texts.values(), "reasons": reasons.values(),
        "rips": [f"{rip:#x}" for rip in rips.values()],
        "cr3s": [[f"{cr3:#x}", process_of(cr3, places)] for cr3 in cr3s.values()],
        "processes": [{"label": chrome.process_text(line, key)} for key in order],
        "losses": [[number, time, count] for number in line.processors
                   for time, count in chrome.losses(source, line, number)]}


# ---- HTML ----

def state_table(name, title, first, states, rows):
    """A table of times in each state, in ms and percent of the time of the row. `rows`: (label,
    {state: ns})."""
    out = [f'<h2 id="{name}">{title}</h2>',
           f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}"><table '
           f'data-table="{name}"><thead><tr><th scope="col" class="text">{first}</th>']
    out += [f'<th scope="col">{state}, ms</th><th scope="col">%</th>' for state in states]
    out.append("</tr></thead><tbody>")
    for label, times in rows:
        out.append(f'<tr class="main"><th scope="row">{escape(label)}</th>')
        total = sum(times.values())
        for state in states:
            out.append(f"<td>{times[state] / 1e6:.3f}</td>"
                       f"<td>{analyses.share(times[state], total):.1f}</td>")
        out.append("</tr>")
    return "".join(out) + "</tbody></table></div>"


def legend():
    marks = []
    for state in STATES:
        colour = f"var(--{state})"
        if state == "unknown":
            colour = (f"repeating-linear-gradient(135deg, {colour} 0 2px, transparent 2px 5px)")
        marks.append(f'<li><i style="background:{colour}"></i>{state}: {MEANING[state]}</li>')
    marks.append('<li><i style="background:var(--lost)"></i>mark: records were lost here</li>')
    return f'<ul class="legend">{"".join(marks)}</ul>'


def chart():
    buttons = "".join(
        f'<button type="button" data-action="{action}" aria-label="{words}">{text}</button>'
        for action, text, words in (("in", "+", "Zoom in"), ("out", "\u2212", "Zoom out"),
                                    ("left", "\u2190", "Earlier"), ("right", "\u2192", "Later"),
                                    ("whole", "Whole trace", "Whole trace")))
    return (f'<div class="tools">{buttons}<button type="button" id="more"></button>'
            '<output id="range"></output></div>'
            '<div id="chart"><ul id="labels" aria-label="Rows"></ul>'
            '<div id="view" tabindex="0" role="group" aria-label="Time line. Keys: plus and minus zoom, '
            'the arrows move, Home shows all. Its sums are in the tables below.">'
            '<canvas></canvas></div><div id="tip" role="status" hidden></div></div>')


def html(source, line, title):
    """Takes a Source, its Timeline and a title; gives the page."""
    count = sum(map(len, line.records.values()))
    level = "each change of process has its record" if line.flow else \
        "a change of process is seen at the next exit only"
    body = [f"<style>{(HERE / 'timeline.css').read_text(encoding='utf-8')}</style>",
            f"<h1>{escape(title)}</h1>",
            page.paragraph(f"{count} records of {len(line.processors)} processors, "
                           f"{line.end / 1e6:.3f} ms; {level}. {line.lost} records are lost.",
                           "lead")]
    if not line.tsc_khz:
        body.append(page.paragraph("The trace does not say how fast its clock is: a tick is taken "
                                   "for 1 ns."))
    body += [page.paragraph(f"Note: {text}.", "lead") for text in line.complaints]
    body += [chart(), legend(),
             state_table("processes", "Processes", "process", analyses.STATES,
                         [(chrome.process_text(line, found.key), found.times)
                          for found in analyses.processes(line)]),
             state_table("processors", "Processors", "processor", analyses.PROCESSOR_STATES,
                         [(f"Processor {number}", times)
                          for number, times in analyses.processors(line).items()])]
    # In a script "<" could begin the script's end.
    text = json.dumps(page_data(source, line), separators=(",", ":")).replace("<", "\\u003c")
    body += [f'<script type="application/json" id="data">{text}</script>',
             f"<script>{(HERE / 'timeline.js').read_text(encoding='utf-8')}</script>"]
    return page.page_html(title, body)


def main():
    parser = command_line.parser(__doc__, "FILE")
    parser.add_argument("--title", default="Execution flow of a guest")
    options = parser.parse_args()
    try:
        source = load(options.trace)
        made = html(source, timeline(source, options.names), options.title)
        pathlib.Path(options.out).write_text(made, encoding="utf-8")
    except (BadTrace, ValueError, OSError) as error:
        sys.exit(f"timeline_page.py: {error}")


if __name__ == "__main__":
    main()
