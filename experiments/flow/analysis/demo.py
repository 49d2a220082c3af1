# SPDX-License-Identifier: BSD-2-Clause
"""Boots Linux under trace=flow with a load, and shows what its trace tells.

The load (guest/demo/): calm and hasty compete for a processor, client asks server, then
nobody does anything. FOLDER gets the trace, the names, CTF, Chrome's JSON and the page.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

from experiments.flow.analysis import analyses, chrome, ctf, timeline_page
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import BadTrace, load
from experiments.shared.analysis import demo_boot
from experiments.shared.analysis.console_files import BadFile
from experiments.shared.analysis.demo_boot import DemoFailed

TITLE = "Execution flow of a guest: two that compete, a client and a server, nobody"
SHOWN = 6  # processes of the summary, those that ran longest


def boot(folder, cpus, seconds, backend):
    """Boots, with the console in FOLDER/console; gives the guest's files."""
    return demo_boot.boot(folder, "flowdemo", "trace=flow", cpus, seconds, backend)


def fetch(folder, found):
    """Writes the trace and the names, of the guest's files; gives the trace's path."""
    for name in ("ptrace", "names"):
        if name not in found:
            raise DemoFailed(f"the guest left no file '{name}' (see {folder / 'console'})")
    trace = folder / "demo.ptrace"
    trace.write_bytes(found["ptrace"])
    json.loads(found["names"])
    (folder / "demo.ptrace.names.json").write_bytes(found["names"])
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
            f"{chrome.process_text(line, found.key):<22}"
            + "".join(f"{found.times[state] / 1e6:11.1f}" for state in analyses.STATES)
        )
    idle = [times["idle"] / 1e6 for _, times in analyses.processors(line).items()]
    rows += [f"idle, by processor: {', '.join(f'{ms:.1f}' for ms in idle)} ms", ""]
    rows += [
        f"{path:<34} {what}"
        for path, what in (
            (os.path.relpath(folder / "timeline.html"), "any browser"),
            (os.path.relpath(folder / "chrome.json"), "Perfetto, Trace Compass"),
            (os.path.relpath(folder / "ctf"), "babeltrace2, Trace Compass"),
            (
                os.path.relpath(folder / "demo.ptrace"),
                "python3 -m experiments.flow.analysis.analyse",
            ),
        )
    ]
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=1200, metavar="S")
    parser.add_argument("--backend", default="auto", help="as run-qemu.sh has it")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = boot(folder, options.cpus, options.timeout, options.backend)
        line = render(folder, fetch(folder, found), demo_boot.where(options.backend))
    except (
        DemoFailed,
        BadFile,
        BadTrace,
        ctf.CannotWrite,
        subprocess.CalledProcessError,
        ValueError,
        OSError,
    ) as error:
        sys.exit(f"demo.py: {error}")
    print("\n".join(summary(folder, line)))


if __name__ == "__main__":
    main()
