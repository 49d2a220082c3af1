# SPDX-License-Identifier: BSD-2-Clause
# collect.py: makes results.json and report.html of what bare machines measured and left on an EFI
# system partition, and copies the log that a start which failed left there. Reads ESP/EFI/pmuvisor,
# writes OUT. A column that is not whole yet counts with the jobs that are whole; a torn file counts
# as not there. Usage: python3 -m metal.collect ESP OUT
import hashlib
import os
import re
import shutil
import sys

from bench import columns, importer, report, results
from bench.measurements import ALL

JOBS = [name for name, one in ALL.experiments.items() if one.get("metal")]
COLUMNS = [name for name in columns.NAMES if name not in columns.PEERS]
OF_PART = re.compile(r"^bench: experiment=(?:ablation|machine) .*\n", re.MULTILINE)
# What the boot menu noted of a column without results (metal/bench.cfg).
REASONS = (
    (b"\nwhy=refused", "it refused to start; its entry of the boot menu shows why"),
    (b"\ntries=2", "it was started twice and found no partition to write to, or never came so far"),
)


def fail(text):
    sys.exit(f"collect.py: {text}")


def content(*names):
    """The bytes of a file; none where it cannot be read."""
    try:
        with open(os.path.join(*names), "rb") as source:
            return source.read()
    except OSError:
        return b""


def whole(*names):
    """A file without its last line, which has the sum of the others (metal/auto/auto.sh); "" where
    the file is torn or not there."""
    text, _, found = content(*names).rpartition(b"check: md5=")
    good = found.decode(errors="replace").strip() == hashlib.md5(text).hexdigest()
    return text.decode(errors="replace") if good else ""


def why_not(folder, column):
    """Why a column has no results; "no results yet" while they still may come."""
    block = content(folder, f"{column}.env")
    return next((why for note, why in REASONS if note in block), "no results yet")


def from_jobs(folder, column):
    """The results of a column of which only some jobs are there; "" where none is."""
    facts = whole(folder, column, "facts.txt")
    jobs = {job: whole(folder, column, f"{job}.txt") for job in JOBS}
    if not facts or not any(jobs.values()):
        return ""
    why = why_not(folder, column)
    parts = [
        text or f'bench: experiment={job} item=all skip="{why}"\n' for job, text in jobs.items()
    ]
    return "".join([facts, *parts, f"end: column={column} status=0\n"])


def with_parts(folder, column, text):
    """(a column's results with those of its parts, which were measured in boots of their own; the
    parts that lack)."""
    head, end, tail = text.rpartition("\nend: ")
    lacking = []
    for part in columns.PARTS.values():
        if part.on == column and " status=0" in tail:
            found = whole(folder, part.name, "exit.txt")
            head += "\n" + "".join(OF_PART.findall(found)).rstrip("\n")
            lacking += [] if found else [part.variant]
    return head + end + tail, lacking


def collect(folder, out):
    """Makes the results and the report; the exit status. results.Trouble: why there are none."""
    texts, partial, lacking = {}, [], []
    for column in COLUMNS:
        text = whole(folder, f"{column}.txt")
        if not text and (text := from_jobs(folder, column)):
            partial.append(column)
        if text:
            texts[column], parts = with_parts(folder, column, text)
            lacking += parts
    if not texts:
        raise results.Trouble(f"no column in '{folder}' has results yet")
    for what, names in (
        ("not all jobs are done yet of:", partial),
        ("no results yet of the ablation's parts:", lacking),
    ):
        if names:
            print(f"collect.py: {what} {' '.join(names)}", file=sys.stderr)
    found, notes, status = importer.run({f"{name}.txt": text for name, text in texts.items()})
    for column in set(COLUMNS) - set(texts):
        found["columns"][column]["why"] = why_not(folder, column)
    results.save(found, os.path.join(out, "results.json"))
    page = report.html_of(report.by_machine([found])[0])
    report.write(os.path.join(out, "report.html"), page)
    notes += [
        f"column {column}: {state['status']}: {state['why']}"
        for column, state in found["columns"].items()
        if state["status"] != "ok"
    ]
    for note in (*notes, f"{out}/results.json", f"{out}/report.html"):
        print(f"collect: {note}")
    return status


def main():
    esp, out = sys.argv[1:]
    if os.path.isdir(esp) and not os.access(esp, os.X_OK):
        fail(f"ESP: '{esp}' cannot be entered; be root")
    folder = os.path.join(esp, "EFI", "pmuvisor", "bench")
    log = os.path.join(esp, "EFI", "pmuvisor", "pmuvisor.log")
    left = bool(content(log))
    if left:
        os.makedirs(out, exist_ok=True)
        shutil.copy(log, out)
        print(f"A start that failed, or was ended by a reset, left: {out}/pmuvisor.log")
    try:
        if not os.path.isdir(folder):
            raise results.Trouble(
                f"'{folder}' is not there; was it installed? make install ESP={esp} BENCH=auto"
            )
        return collect(folder, out)
    except results.Trouble as trouble:
        # What is left of a crash is enough.
        return 0 if left else fail(trouble)


if __name__ == "__main__":
    sys.exit(main())
