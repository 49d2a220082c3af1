# SPDX-License-Identifier: BSD-2-Clause
# judge.py: what one boot brought, held against what the plan wants of it. A boot that did not end
# well brings nothing; one that did, its good cells, and an error for each cell that is missing.
import dataclasses
import re

from bench import convert, lines
from testbed.machine import STATUS_POWEROFF

ENOUGH_RUNS = 30  # for the median and the 95th percentile of a time


@dataclasses.dataclass
class Outcome:
    """Of one boot of the plan."""

    boot: object
    seconds: float = 0.0
    failure: str = ""  # why it brought nothing
    errors: list = dataclasses.field(default_factory=list)
    measurements: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)
    console: str = ""
    notes: list = dataclasses.field(default_factory=list)  # no errors, but worth a line

    @property
    def ok(self):
        return not self.failure and not self.errors


def cells(boot):
    """The cells that the plan names, of a boot that may not have run."""
    return [
        {"column": boot.column, "experiment": experiment, "item": item}
        for experiment, items in boot.cells.items()
        for item in items or ()
    ]


def failed(boot, why, seconds=0.0, console=""):
    return Outcome(
        boot, seconds, why, [], [], [{**cell, "why": why} for cell in cells(boot)], console
    )


def program_errors(boot, console):
    """What the programs themselves complained of."""
    if boot.program in ("kernel", "kvm"):
        for line in console.splitlines():
            if re.match(r"not ok|Bail out!", line.strip()):
                yield f"the test kernel said: {line.strip()}"
        if not re.search(r"^1\.\.\d+\s*$", console, re.MULTILINE):
            yield "the test kernel's plan is missing: it did not come to its end"
    for job in boot.jobs + boot.inner:
        match = re.search(rf"^job: name={job} status=(\d+)", console, re.MULTILINE)
        if not match:
            yield f"job {job} did not end"
        elif match[1] != "0":
            yield f"job {job} ended with status {match[1]}"


def few_runs(measurements):
    """A line that lists the times of hardware that come from too few runs; or nothing."""
    few = [
        entry
        for entry in measurements
        if entry["unit"] in ("cycles", "ns") and "p95" in entry and entry["n"] < ENOUGH_RUNS
    ]
    if not few:
        return ""
    return f"fewer than {ENOUGH_RUNS} runs are behind " + ", ".join(
        f"{entry['column']} {entry['experiment']}/{entry['item']} (n={entry['n']})" for entry in few
    )


def as_planned(found, boot):
    """What a boot brought, by the names of the plan: of a boot with other bookkeeping or in another
    configuration only what the plan wants of it."""
    for entry in found:
        experiment, item = boot.rename.get(entry["experiment"], entry["experiment"]), entry["item"]
        if boot.config_name:
            experiment, item = "config", f"{experiment}.{item}@{boot.config_name}"
        elif boot.variant:
            item = f"{item}@{boot.variant}"
        if not (boot.config_name or boot.variant) or item in (boot.cells.get(experiment) or ()):
            yield {**entry, "experiment": experiment, "item": item}


def judge(boot, run, kind):
    """The outcome of a boot of the plan from what machine.py gave."""
    if run.status != STATUS_POWEROFF:
        said = run.errors.strip().splitlines() or ["none"]
        reason = (
            f"over the limit of {boot.limit} s"
            if run.status == 124
            else f"exit status {run.status}"
        )
        return failed(
            boot,
            f"{reason}; error line: {said[-1][:160]}; last line of the console: "
            f"{run.last_line()}",
            run.seconds,
            run.console,
        )
    parsed, errors = lines.parse(run.console)
    errors += program_errors(boot, run.console)
    got = convert.convert(parsed, run.ledger, boot.column, kind)
    errors += got.errors
    measurements, skipped = (
        list(as_planned(found, boot)) for found in (got.measurements, got.skipped)
    )
    there = {(entry["experiment"], entry["item"]) for entry in measurements + skipped}
    for experiment, items in boot.cells.items():
        missing = [item for item in items or () if (experiment, item) not in there]
        if not any(known[0] == experiment for known in there):
            errors.append(f"nothing of experiment {experiment}")
        elif missing:
            errors.append(f"experiment {experiment} lacks {', '.join(missing)}")
        skipped += [
            {
                "column": boot.column,
                "experiment": experiment,
                "item": item,
                "why": "the program printed no line for it",
            }
            for item in missing
        ]
    unknown = sorted({experiment for experiment, _ in there} - set(boot.cells))
    if unknown:
        errors.append(f"experiments that were not asked for: {', '.join(unknown)}")
        measurements = [entry for entry in measurements if entry["experiment"] in boot.cells]
        skipped = [entry for entry in skipped if entry["experiment"] in boot.cells]
    few = few_runs(measurements) if kind != "emulator" else ""
    return Outcome(
        boot, run.seconds, "", errors, measurements, skipped, run.console, [few] if few else []
    )
