# SPDX-License-Identifier: BSD-2-Clause
# timeline_tables.py: the tables of the time line's page: sums of the whole trace, of which
# timeline_totals.js makes those of a range; and what is known of processes without a name.
from bench import page
from experiments.flow.analysis import analyses, chrome, known
from experiments.shared.analysis import traces_page

STYLES = {"after": "text", "may be": "wrap"}  # of columns of text


def table(name, title, heads, rows, words=""):
    """`heads`: (what timeline_totals.js calls the column, text). `rows`: (number in the page's
    data, texts). `words`: under the title, of a table whose rows are not totals of a range."""
    of = "" if words else ' <small class="of">whole trace</small>'
    return traces_page.table(
        name,
        title + of,
        [(text, key) for key, text in heads],
        rows,
        STYLES,
        page.paragraph(words, "hint") if words else "",
    )


def milliseconds(ns):
    return f"{ns / 1e6:.3f}"


def state_heads(states, where):
    """Of each state the time, and its percent of the row's. `where`: what stands beside a time."""
    return [
        head for state in states for head in ((state, f"{state}, ms{where}"), (f"{state}%", "%"))
    ]


def state_cells(times):
    total = sum(times.values())
    return [
        text
        for ns in times.values()
        for text in (milliseconds(ns), f"{analyses.share(ns, total):.1f}")
    ]


def processes(line, order, where):
    rows = []
    for number, key in enumerate(order):
        intervals = line.processes[key].intervals
        rows.append(
            (
                number,
                [
                    chrome.process_text(line, key),
                    str(analyses.runs(intervals)),
                    *state_cells(analyses.state_times(intervals, analyses.STATES)),
                    str(analyses.preempted(intervals)),
                ],
            )
        )
    return table(
        "processes",
        "Processes",
        [
            ("", "process"),
            ("runs", "runs"),
            *state_heads(analyses.STATES, where),
            ("preemptions", "preemptions"),
        ],
        rows,
    )


def processors(line, where):
    rows = [
        (
            number,
            [
                f"Processor {number}",
                str(analyses.switches(line.processors[number])),
                str(len(line.records[number])),
                *state_cells(times),
            ],
        )
        for number, times in analyses.processors(line).items()
    ]
    return table(
        "processors",
        "Processors",
        [
            ("", "processor"),
            ("switches", "switches"),
            ("exits", "exits"),
            *state_heads(analyses.PROCESSOR_STATES, where),
        ],
        rows,
    )


def exits(line, reasons, where):
    rows = [
        (
            reasons.index(row.reason),
            [
                row.reason,
                str(row.count),
                milliseconds(row.time),
                f"{row.longest / 1e3:.3f}",
                f"{row.share:.3f}",
            ],
        )
        for row in analyses.exits(line)
    ]
    return table(
        "exits",
        "Exits",
        [
            ("", "reason"),
            ("exits", "exits"),
            ("root", f"root, ms{where}"),
            ("longest", f"longest, \u00b5s{where}"),
            ("root%", "% of time"),
        ],
        rows,
    )


def nameless(facts, order, where):
    """`facts`: what known.of_nameless() gave."""
    if not facts:
        return ""
    return table(
        "nameless",
        "Processes without a name",
        [("", "process"), *((head, head.replace(", ms", f", ms{where}")) for head in known.HEADS)],
        [
            (number, (f"cr3 {key:#x}", *facts[key]))
            for number, key in enumerate(order)
            if key in facts
        ],
        known.MEANING,
    )
