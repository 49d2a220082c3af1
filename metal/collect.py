# SPDX-License-Identifier: BSD-2-Clause
# collect.py: makes results.json and report.html of what bare machines measured and left on an EFI
# system partition, and copies the log that a start which failed left there. Reads ESP/EFI/pmuvisor,
# writes OUT. A column that is not whole yet counts with the jobs that are whole; a torn file counts
# as not there. Usage: python3 -m metal.collect ESP OUT
# ESP may be on another machine: [USER@]HOST:DIR.
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from bench import columns, importer, report, results
from bench.measurements import ALL

BENCH = "EFI/pmuvisor/bench"
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
    page = report.html_of(report.by_machine([found])[0])
    results.save(found, os.path.join(out, "results.json"))
    report.write(os.path.join(out, "report.html"), page)
    notes += [
        f"column {column}: {state['status']}: {state['why']}"
        for column, state in found["columns"].items()
        if state["status"] != "ok"
    ]
    for note in (*notes, f"{out}/results.json", f"{out}/report.html"):
        print(f"collect: {note}")
    return status


# What is read here, without the images. Debian lets only root read this partition.
REMOTE = """as=; [ "$(id -u)" = 0 ] || as="sudo -n"
$as tar -C {} -c --exclude=vmlinuz --exclude=initrd.img --exclude=*.bzImage --exclude=*.efi \\
    EFI/pmuvisor"""


def fetch(esp, copy):
    """The folder that has what is on this partition: its own, or `copy` if it is HOST:DIR, which
    ssh fills from there."""
    host, _, there = esp.partition(":")
    if not there or os.path.exists(esp):
        return esp
    with subprocess.Popen(
        ["ssh", host, REMOTE.format(shlex.quote(there))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as ssh:
        unpacked = subprocess.run(
            ["tar", "-x", "-C", copy], stdin=ssh.stdout, stderr=subprocess.DEVNULL, check=False
        )
        said = " ".join(ssh.stderr.read().decode(errors="replace").split())
    if ssh.returncode or unpacked.returncode:
        fail(f"ESP: '{esp}' cannot be read by ssh: {said or 'the copy is torn'}")
    return copy


def main():
    esp, out = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="pmuvisor-collect.") as copy:
        return collect_from(fetch(esp, copy), esp, out)


def collect_from(here, esp, out):
    """Collects from this folder, which has what is on that partition; the exit status."""
    if os.path.isdir(here) and not os.access(here, os.X_OK):
        fail(f"ESP: '{esp}' cannot be entered; be root")
    folder = os.path.join(here, BENCH)
    log = os.path.join(here, "EFI", "pmuvisor", "pmuvisor.log")
    left = bool(content(log))
    if left:
        os.makedirs(out, exist_ok=True)
        shutil.copy(log, out)
        print(f"A start that failed, or was ended by a reset, left: {out}/pmuvisor.log")
    try:
        if not os.path.isdir(folder):
            raise results.Trouble(
                f"'{os.path.join(esp, BENCH)}' is not there; was it installed? make install "
                f"ESP={esp} BENCH=auto"
            )
        return collect(folder, out)
    except results.Trouble as trouble:
        # What is left of a crash is enough.
        return 0 if left else fail(trouble)


if __name__ == "__main__":
    sys.exit(main())
