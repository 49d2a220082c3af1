# SPDX-License-Identifier: BSD-2-Clause
"""Writes the time line of a flow trace as one HTML page that needs nothing else.

TRACE is a folder of CTF, a file of the program flowtrace, or an image of memory with rings. Rows
are processors and processes. Dragging, the wheel, the keys and the buttons zoom, and the tables
have the totals of what is in view. The pointer shows records.
"""

import pathlib
import sys

from bench import page
from experiments.flow.analysis import analyses, chrome, command_line, known
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load
from experiments.shared.analysis import trace_page
from experiments.shared.analysis.cr3 import PTI_USER_TABLE, TABLE_MASK

HERE = pathlib.Path(__file__).resolve().parent

# state: (meaning, colour, colour on a dark page). The colours are Okabe's and Ito's, which
# colour-blind readers can tell apart.
STATES = {
    "running": ("a process runs, in user space or in the kernel", "#0072b2", "#2f97d6"),
    "root": ("the hypervisor runs for it", "#d55e00", "#e8742a"),
    "idle": ("HLT, and what the kernel does around it", "#d8dde3", "#343b44"),
    "waiting": ("the process left by itself, for an event", "#b9dff5", "#27475c"),
    "preempted": ("the process was made to leave, and could run", "#e69f00", "#e6b23c"),
    "unknown": ("there are no records of it", "#8a8a8a", "#7d858e"),
}
MARKS = {**STATES, "lost": ("records were lost here", "#b42318", "#ff9d8f")}


class Table:
    """Values by number, in the order in which they first come."""

    def __init__(self):
        self.places = {}

    def __call__(self, value):
        return self.places.setdefault(value, len(self.places))

    def values(self):
        return list(self.places)


def differences(times):
    return [time - before for before, time in zip([0, *times], times)]


def row(label, kind, number, intervals, places, texts):
    """Gives a row; `places`: key of a process -> its index. Times are differences: from the end of
    an interval to the start of the next, and the length."""
    ends = [interval.end for interval in intervals]
    return {
        "label": label,
        "kind": kind,
        "number": number,
        "gap": [interval.start - end for end, interval in zip([0, *ends], intervals)],
        "length": [interval.end - interval.start for interval in intervals],
        "state": [list(STATES).index(interval.state) for interval in intervals],
        "who": [places.get(interval.process, -1) for interval in intervals],
        "text": [texts(interval.detail or "") for interval in intervals],
    }


def columns(records, reasons, rips, cr3s):
    """Gives a processor's records by field."""
    return {
        "time": differences([record.time for record in records]),
        "reason": [reasons(record.reason) for record in records],
        "rip": [rips(record.rip) for record in records],
        "cr3": [cr3s(record.cr3) for record in records],
        "vector": [record.vector or 0 for record in records],
        "detail": [record.detail for record in records],
        "root": [record.root_time for record in records],
    }


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


def page_data(source, line, where):
    """Takes a records.Trace, its Timeline, and what is to stand beside each time. Gives what
    timeline.js reads."""
    order = [found.key for found in analyses.processes(line)]  # who ran longest first
    places = {key: place for place, key in enumerate(order)}
    facts = facts_of(line, order)
    texts, reasons, rips, cr3s = Table(), Table(), Table(), Table()
    rows = [
        row(f"Processor {number}", "processor", number, intervals, places, texts)
        for number, intervals in line.processors.items()
    ]
    for place, key in enumerate(order):
        label, intervals = line.label(key), line.processes[key].intervals
        facts_text = zip(known.HEADS, facts.get(key, ()))
        rows.append(
            {
                **row(label, "process", place, intervals, places, texts),
                "cr3": f"{key:#x}",
                "known": "; ".join(f"{head}: {fact}" for head, fact in facts_text),
            }
        )
    records = {
        number: columns(found, reasons, rips, cr3s) for number, found in line.records.items()
    }
    return {
        "end": line.end,
        "where": where,
        "states": list(STATES),
        "process_states": analyses.STATES,
        "processor_states": analyses.PROCESSOR_STATES,
        "rows": rows,
        "records": records,
        "texts": texts.values(),
        "reasons": reasons.values(),
        "rips": [f"{rip:#x}" for rip in rips.values()],
        "cr3s": [[f"{cr3:#x}", process_of(cr3, places)] for cr3 in cr3s.values()],
        "known_heads": [head.replace(", ms", f", ms{where}") for head in known.HEADS],
        "known_meaning": known.MEANING,
        "nameless": [[places[key], facts[key]] for key in order if key in facts],
        "losses": [
            [number, time, count]
            for number in line.processors
            for time, count in chrome.losses(source, line, number)
        ],
    }


# ---- HTML ----

KEYS = (
    "Time line. Keys: plus and minus zoom, the arrows move, Home shows all. The totals of what is "
    "in view are in the tables below."
)
CHART = f"""<div class="tools">
<button type="button" data-action="in" aria-label="Zoom in">+</button>
<button type="button" data-action="out" aria-label="Zoom out">\u2212</button>
<button type="button" data-action="left" aria-label="Earlier">\u2190</button>
<button type="button" data-action="right" aria-label="Later">\u2192</button>
<button type="button" data-action="whole">Whole trace</button>
<input type="search" id="filter" placeholder="Filter processes"
aria-label="Filter processes by name or CR3; commas between several">
<output id="shown"></output><output id="count"></output></div>
<div id="chart" tabindex="0" role="group" aria-label="{KEYS}"></div>
<div id="tip" role="status"></div>"""
HINT = (
    "Drag to zoom, double-click to see the whole trace; the tables have the totals of what is in "
    "view. A click on the head of a column sorts by it; the time line's processes have the order "
    "of their table. The page's address keeps the view, the order and the filter."
)


def style():
    light = " ".join(f"--{name}: {colour};" for name, (_, colour, _) in MARKS.items())
    dark = " ".join(f"--{name}: {colour};" for name, (_, _, colour) in MARKS.items())
    return f""":root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
#tip {{ position: fixed; left: 0; right: 0; bottom: 0; max-height: calc(50vh - 1.5rem);
  overflow: hidden; pointer-events: none; z-index: 2; padding: 0 1rem; background: var(--page);
  border: solid var(--line); border-width: 1px 0; font-size: .8rem; overflow-wrap: anywhere; }}
#tip.above {{ top: 0; bottom: auto; }}
#tip:empty {{ display: none; }}
#tip p {{ margin: 0; max-width: none; }}
#tip td, #tip th {{ text-align: left; white-space: normal; }}"""


def html(source, line, title, where=""):
    """Takes a Trace, its Timeline, a title and what is to stand beside each time; gives the
    page."""
    count = sum(map(len, line.records.values()))
    level = (
        "each change of process has its record"
        if line.flow
        else "a change of process is seen at the next exit only"
    )
    body = [
        page.paragraph(
            f"{count} records of {len(line.processors)} processors, "
            f"{line.end / 1e6:.3f} ms{where}; {level}. {line.lost} records are lost.",
            "lead",
        )
    ]
    if not line.tsc_khz:
        body.append(
            page.paragraph(
                "The trace does not say how fast its clock is: a tick is taken for 1 ns."
            )
        )
    body += [page.paragraph(f"Note: {text}.", "lead") for text in line.complaints]
    body += [
        CHART,
        trace_page.legend(
            [(f"var(--{name})", f"{name}: {text}") for name, (text, _, _) in MARKS.items()]
        ),
        page.paragraph(HINT, "hint"),
        '<div id="tables"></div>',
    ]
    data = page_data(source, line, where)
    return trace_page.html(title, body, data, HERE / "timeline.js", style())


def main():
    parser = command_line.parser(__doc__, "FILE")
    parser.add_argument("--title", default="Execution flow of a guest")
    trace_page.add_where(parser)
    options = parser.parse_args()
    try:
        source = load(options.trace)
        made = html(source, timeline(source, options.names), options.title, options.where)
        pathlib.Path(options.out).write_text(made, encoding="utf-8")
    except (BadTrace, ValueError, OSError) as error:
        sys.exit(f"timeline_page.py: {error}")


if __name__ == "__main__":
    main()
