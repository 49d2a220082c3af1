# SPDX-License-Identifier: BSD-2-Clause
"""Boots Linux under trace=flow with a load, and shows what its trace tells.

The load (guest/demo/): calm and hasty compete for a processor, client asks server, then
nobody does anything. FOLDER gets the trace, the names, CTF, Chrome's JSON and the page.
"""

import json
import shutil

from experiments.flow.analysis import analyses, chrome, ctf, timeline_page
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load
from experiments.shared.analysis import demo_boot

TITLE = "Execution flow of a guest: two that compete, a client and a server, nobody"
SHOWN = 6  # processes of the summary, those that ran longest


def fetch(folder, found):
    """Writes the trace and the names, of the guest's files; gives the trace's path."""
    trace = folder / "demo.ptrace"
    trace.write_bytes(demo_boot.file_of(found, "ptrace", folder))
    names = demo_boot.file_of(found, "names", folder)
    json.loads(names)
    (folder / "demo.ptrace.names.json").write_bytes(names)
    return trace


def render(folder, trace, where=""):
    """Writes CTF, Chrome's JSON and the page; gives the Timeline."""
    names = f"{trace}.names.json"
    source = load(trace)
    line = timeline(source, names)
    shutil.rmtree(folder / "ctf", ignore_errors=True)  # an earlier run's
    ctf.write(source, folder / "ctf", names, line)
    with open(folder / "chrome.json", "w", encoding="utf-8") as out:
        chrome.write(source, out, line, TITLE)
    (folder / "timeline.html").write_text(
        timeline_page.html(source, line, TITLE, where), encoding="utf-8"
    )
    return line


def summary(folder, line):
    """Gives the lines to print."""
    count = sum(map(len, line.records.values()))
    rows = [
        f"{count} records of {len(line.processors)} processors in "
        f"{line.end / 1e6:.1f} ms, {line.lost} lost",
        "",
        "{:<22}".format("ms") + "".join(f"{state:>11}" for state in analyses.STATES),
    ]
    for found in analyses.processes(line)[:SHOWN]:
        rows.append(
            f"{line.label(found.key):<22}"
            + "".join(f"{found.times[state] / 1e6:11.1f}" for state in analyses.STATES)
        )
    idle = [times["idle"] / 1e6 for _, times in analyses.processors(line).items()]
    rows += [f"idle, by processor: {', '.join(f'{ms:.1f}' for ms in idle)} ms", ""]
    return rows + demo_boot.paths(
        folder,
        (
            ("timeline.html", "any browser"),
            ("chrome.json", "Perfetto, Trace Compass"),
            ("ctf", "babeltrace2, Trace Compass"),
            ("demo.ptrace", "python3 -m experiments.flow.analysis.analyse"),
        ),
    )


def write_all(folder, found, where):
    return summary(folder, render(folder, fetch(folder, found), where))


if __name__ == "__main__":
    demo_boot.main(__doc__, "flowdemo", "trace=flow", write_all, [BadTrace])
