# SPDX-License-Identifier: BSD-2-Clause
# collect.py: makes results.json and report.html of what bare machines measured and left on an EFI
# system partition, and copies the log that a start which failed left there. Reads ESP/EFI/pmuvisor,
# writes OUT. A column that is not whole yet counts with the jobs that are whole; a torn file counts
# as not there. Last it makes OUT/machine.json, the file to send (bench/machine_file.py). Usage:
# python3 -m metal.collect ESP OUT
# ESP may be on another machine: [USER@]HOST:DIR.
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from bench import columns, estimate_check, importer, machine_file, report, results
from bench.measurements import ALIKE, ALL

BENCH = "EFI/pmuvisor/bench"
JOBS = [name for name, one in ALL.experiments.items() if one.get("metal")]
PARTS = {**columns.ALL_PARTS, **columns.CONFIGS}
OF_PART = re.compile(
    r"^(?:sample: |bench: experiment=(?:ablation|config|machine) ).*\n", re.MULTILINE
)
PLAN = re.compile(rb"^# plan ([a-z]+)$", re.MULTILINE)
STARTS = re.compile(rb'^set bench_plan="(.*)"$', re.MULTILINE)
# ROUND.NAME: a start, by its files and its folder.
START = re.compile(r"([1-9]\d*)\.([a-z0-9_+-]+?)(?:\.(?:txt|ok|env))?")
# Of a job that was begun, and did not end well (metal/auto/auto.sh).
FAILED = re.compile(r'^auto: (job=\S+) status=\d+ (why=".*")$', re.MULTILINE)
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


def why_not(folder, start):
    """Why a start has no results; "no results yet" while they still may come."""
    block, plan = content(folder, f"{start}.env"), planned(folder)
    other = "the plan leaves it out" if plan and start not in plan else "no results yet"
    return next((why for note, why in REASONS if note in block), other)


def planned(folder):
    """The starts of the plan that is on the partition; none: there is no plan."""
    found = STARTS.search(content(folder, "plan.cfg"))
    return found[1].decode().split() if found else []


def jobs_of(folder):
    """The jobs of a column in the plan that is on the partition."""
    found = PLAN.search(content(folder, "plan.cfg"))
    words = ALL.sections["plans"].get(found[1].decode(), "") if found else ""
    jobs = dict(word.partition("=")[::2] for word in words.split()).get("jobs", "all")
    return JOBS if jobs == "all" else [job.partition(":")[0] for job in jobs.split(",")]


def from_jobs(folder, start):
    """The results of a start of which only some jobs are there; "" where none is."""
    facts = whole(folder, start, "facts.txt")
    jobs = {job: whole(folder, start, f"{job}.txt") for job in jobs_of(folder)}
    if not facts or not any(jobs.values()):
        return ""
    why = why_not(folder, start)
    parts = [
        text or f'bench: experiment={job} item=all skip="{why}"\n' for job, text in jobs.items()
    ]
    column = start.partition(".")[2]
    return "".join([facts, *parts, f"end: column={column} status=0\n"])


def starts_in(folder):
    """(round, name) of each start that has left something, in the order of rounds and columns."""
    names = [*columns.COLUMNS, *PARTS]
    found = {
        (int(match[1]), match[2])
        for match in map(START.fullmatch, os.listdir(folder))
        if match and match[2] in names
    }
    return sorted(found, key=lambda start: (start[0], names.index(start[1])))


def unlike(text, part, name):
    """What must be alike of a column and a part of it, and differs: a line for each. The two of a
    pair with and without mitigations differ in those."""
    own, its = (dict(importer.ENV.findall(one)) for one in (text, part))
    return [
        f"{one.words} ({key}): '{its[key]}', the column's '{own[key]}'"
        for key, one in ALIKE.items()
        if one.refuse and own.get(key) and its.get(key) and own[key] != its[key]
        if not (key == "root_mitigations" and name in columns.CONFIGS)
    ]


def with_part(text, part):
    """A column's results with those of a part of it, which was measured in a start of its own."""
    head, end, tail = text.rpartition("\nend: ")
    return "\n".join([head, "".join(OF_PART.findall(part)).rstrip("\n")]) + end + tail


def collect(folder, out):
    """Makes the results and the report; the exit status. results.Trouble: why there are none."""
    texts, partial, lacking, failed, different = {}, [], [], [], []
    for round_number, name in starts_in(folder):
        start = f"{round_number}.{name}"
        text, on = whole(folder, f"{start}.txt"), PARTS[name].on if name in PARTS else name
        failed += [f"{start} {' '.join(found)}" for found in FAILED.findall(text)]
        if name in PARTS:
            column = f"{round_number}.{on}"
            if text and " status=0" in texts.get(column, ""):
                found = unlike(texts[column], text, name)
                different += [f"{start}: {one}" for one in found]
                if not found:
                    texts[column] = with_part(texts[column], text)
            elif start in planned(folder):
                lacking.append(start)
            continue
        if not text and (text := from_jobs(folder, start)):
            partial.append(start)
        if text:
            texts[start] = text
    if not texts:
        raise results.Trouble(f"no column in '{folder}' has results yet")
    for what, names in (
        ("not all jobs are done yet of:", partial),
        ("no results yet of these parts or their columns:", lacking),
    ):
        if names:
            print(f"collect.py: {what} {' '.join(names)}", file=sys.stderr)
    for text in different:
        print(f"collect.py: left out, because it is not like its column, {text}", file=sys.stderr)
    for text in failed:
        print(f"collect.py: a run failed: {text}", file=sys.stderr)
    found, notes, status = importer.run({f"{start}.txt": text for start, text in texts.items()})
    for column in {*columns.NAMES} - {start.partition(".")[2] for start in texts}:
        found["columns"][column]["why"] = why_not(folder, f"1.{column}")
    results.save(found, os.path.join(out, "results.json"))
    machines, _ = report.by_machine([found])
    report.write(os.path.join(out, "report.html"), report.html_of(machines))
    notes += [
        f"column {column}: {state['status']}: {state['why']}"
        for column, state in found["columns"].items()
        if state["status"] != "ok"
    ]
    notes += [f"{out}/results.json", f"{out}/report.html", *to_send(found, out)]
    for line in estimate_check.lines(machines[0]):
        print(line)
    for note in notes:
        print(f"collect: {note}".rstrip())
    return status


def to_send(found, out):
    """Makes the one file to send; the lines that say what is in it, or why there is none."""
    file = os.path.join(out, "machine.json")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file)
    try:
        return machine_file.make(found, file)
    except results.Trouble as trouble:
        return [f"no file to send: {trouble}"]


# What is read here, without the images. Debian lets only root read this partition.
REMOTE = """as=; [ "$(id -u)" = 0 ] || as="sudo -n"
$as tar -C {} -c --exclude='vmlinuz*' --exclude='initrd*' --exclude=*.bzImage --exclude=*.efi \\
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
                f"ESP={esp} BENCH=thesis"
            )
        return collect(folder, out)
    except results.Trouble as trouble:
        # What is left of a crash is enough.
        return 0 if left else fail(trouble)


if __name__ == "__main__":
    sys.exit(main())
