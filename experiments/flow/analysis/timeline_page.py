# SPDX-License-Identifier: BSD-2-Clause
"""Writes the time line of a flow trace as one HTML page that needs nothing else.

TRACE is a folder of CTF, a file of the program flowtrace, or an image of memory with rings. Rows
are processors and processes; the wheel, the keys and the buttons zoom, and the pointer shows
records. The tables have the totals of a range, and sort and filter the rows.
"""

import pathlib
import sys
from html import escape

from bench import page
from experiments.flow.analysis import analyses, chrome, command_line, known, timeline_tables
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load
from experiments.shared.analysis import traces_page
from experiments.shared.analysis.cr3 import PTI_USER_TABLE, TABLE_MASK

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "analysis"
STYLES = (SHARED / "pages.css", HERE / "timeline.css")
# In the order in which they need each other.
SCRIPTS = (
    SHARED / "tables.js",
    *(HERE / f"timeline_{name}.js" for name in ("data", "totals", "tip")),
    HERE / "timeline.js",
)

STATES = ("running", "root", "idle", "waiting", "preempted", "unknown")
MEANING = {
    "running": "a process runs, in user space or in the kernel",
    "root": "the hypervisor runs for it",
    "idle": "HLT, and what the kernel does around it",
    "waiting": "the process left by itself, for an event",
    "preempted": "the process was made to leave, and could run",
    "unknown": "there are no records of it",
}


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
    found = {
        "label": label,
        "kind": kind,
        "number": number,
        "gap": [],
        "length": [],
        "state": [],
        "who": [],
        "text": [],
    }
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


def facts_of(line, order):
    """Gives what known.py tells of those in `order` that have no name."""
    places = {key: place for place, key in enumerate(order)}

    def table_of(cr3):
        place = process_of(cr3, places)
        return order[place] if place >= 0 else None

    return known.of_nameless(line, table_of)


def process_data(line, key, facts):
    """What the page says of a process: its name, what else it is found by, and of one that has no
    name what is known of it."""
    text = "; ".join(f"{head}: {fact}" for head, fact in zip(known.HEADS, facts.get(key, ())))
    return {"label": chrome.process_text(line, key), "cr3": f"{key:#x}", "known": text}


def page_data(source, line, order, facts, where):
    """Takes a trace_source.Source, its Timeline, the keys of its processes and what facts_of()
    gave; gives what timeline_data.js reads."""
    places = {key: place for place, key in enumerate(order)}
    texts, tables = Table(), (Table(), Table(), Table())
    texts("")
    rows = [
        row(f"Processor {number}", "processor", number, intervals, places, texts)
        for number, intervals in line.processors.items()
    ]
    rows += [
        row(
            chrome.process_text(line, key),
            "process",
            places[key],
            line.processes[key].intervals,
            places,
            texts,
        )
        for key in order
    ]
    records = {number: columns(found, tables) for number, found in line.records.items()}
    reasons, rips, cr3s = tables
    return {
        "end": line.end,
        "where": where,
        "states": STATES,
        "rows": rows,
        "records": records,
        "texts": texts.values(),
        "reasons": reasons.values(),
        "rips": [f"{rip:#x}" for rip in rips.values()],
        "cr3s": [[f"{cr3:#x}", process_of(cr3, places)] for cr3 in cr3s.values()],
        "processes": [process_data(line, key, facts) for key in order],
        "losses": [
            [number, time, count]
            for number in line.processors
            for time, count in chrome.losses(source, line, number)
        ],
    }


# ---- HTML ----


def legend():
    marks = []
    for state in STATES:
        colour = f"var(--{state})"
        if state == "unknown":
            colour = f"repeating-linear-gradient(135deg, {colour} 0 2px, transparent 2px 5px)"
        marks.append(f'<li><i style="background:{colour}"></i>{state}: {MEANING[state]}</li>')
    marks.append('<li><i style="background:var(--lost)"></i>mark: records were lost here</li>')
    return f'<ul class="legend">{"".join(marks)}</ul>'


def button(action, text, words=None):
    label = f' aria-label="{words}"' if words else ""
    return f'<button type="button" data-action="{action}"{label}>{text}</button>'


KEYS = (
    "Time line. Keys: plus and minus zoom, the arrows move, Home shows all, r takes what is in "
    "view as the range, Escape takes the range away. Its sums are in the tables below."
)


def chart():
    buttons = [
        button(*words)
        for words in (
            ("in", "+", "Zoom in"),
            ("out", "\u2212", "Zoom out"),
            ("left", "\u2190", "Earlier"),
            ("right", "\u2192", "Later"),
            ("whole", "Whole trace"),
        )
    ]
    ranges = [
        button(*words)
        for words in (("choose", "View as range"), ("fit", "Zoom to range"), ("clear", "No range"))
    ]
    return (
        f'<div class="tools">{"".join(buttons)}<i></i>{"".join(ranges)}<i></i>'
        '<input type="search" id="filter" placeholder="Filter processes" '
        'aria-label="Filter processes by name or CR3; commas between several">'
        '<button type="button" id="more"></button></div><div class="tools">'
        '<output id="shown"></output><output id="range"></output><output id="count"></output></div>'
        '<div id="chart"><ul id="labels" aria-label="Rows"></ul>'
        f'<div id="view" tabindex="0" role="group" aria-label="{KEYS}"><canvas></canvas></div>'
        '<div id="tip" role="status" hidden></div></div>'
    )


HINT = (
    "Drag along the axis, or anywhere with Shift, to choose a range: the tables then have its "
    "totals. A click on the head of a column sorts by it; the time line's processes have the order "
    "of their table. The page's address keeps what is in view, the range, the order and the "
    "filter."
)


def html(source, line, title, where=""):
    """Takes a Source, its Timeline, a title and what is to stand beside each time; gives the
    page."""
    count = sum(map(len, line.records.values()))
    order = [found.key for found in analyses.processes(line)]  # who ran longest first
    facts = facts_of(line, order)
    data = page_data(source, line, order, facts, where)
    level = (
        "each change of process has its record"
        if line.flow
        else "a change of process is seen at the next exit only"
    )
    body = [
        *traces_page.styles(STYLES),
        f"<h1>{escape(title)}</h1>",
        page.paragraph(
            f"{count} records of {len(line.processors)} processors, "
            f"{line.end / 1e6:.3f} ms{where}; {level}. {line.lost} records are lost.",
            "lead",
        ),
    ]
    if not line.tsc_khz:
        body.append(
            page.paragraph(
                "The trace does not say how fast its clock is: a tick is taken for 1 ns."
            )
        )
    body += [page.paragraph(f"Note: {text}.", "lead") for text in line.complaints]
    body += [
        chart(),
        legend(),
        page.paragraph(HINT, "hint"),
        timeline_tables.processes(line, order, where),
        timeline_tables.nameless(facts, order, where),
        timeline_tables.processors(line, where),
        timeline_tables.exits(line, data["reasons"], where),
        *traces_page.scripts(data, SCRIPTS),
    ]
    return page.page_html(title, body)


def main():
    parser = command_line.parser(__doc__, "FILE")
    parser.add_argument("--title", default="Execution flow of a guest")
    traces_page.add_where(parser)
    options = parser.parse_args()
    try:
        source = load(options.trace)
        made = html(source, timeline(source, options.names), options.title, options.where)
        pathlib.Path(options.out).write_text(made, encoding="utf-8")
    except (BadTrace, ValueError, OSError) as error:
        sys.exit(f"timeline_page.py: {error}")


if __name__ == "__main__":
    main()
