# SPDX-License-Identifier: BSD-2-Clause
# run.py: measures every column on this machine, or imports what was measured elsewhere, and writes
# bench/out/results.json. README.md beside it says what is in there; report.py makes the tables.
# Debian's Python, for pytest, whose tests make tables of experiments.
import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

from bench import added, environment, facts, importer, kept, launch, plan, pool, results, schedule
from bench.cells import Machine
from bench.columns import PEERS, is_pmuvisor

RESULTS = "results.json"
PART = "part.json"  # instead of it, where a whole run's is there
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What a run of every boot may take in the emulator, in minutes, with so many processors.
MINUTES, QUICK_MINUTES, PROCESSORS = 50, 15, 2
STATUS_OK, STATUS_FAILED, STATUS_USAGE, STATUS_INTERRUPTED = 0, 1, 2, 130


def say(text):
    print(text, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Measures PMUvisor (bench/README.md).")
    parser.add_argument("--quick", action="store_true", help="shorter loads")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="boots at once (default: in the emulator one for each processor, as "
        "far as memory goes; else 1, so that none disturbs another's times)",
    )
    parser.add_argument(
        "--boots",
        type=int,
        default=1,
        metavar="N",
        help="boots of what does not repeat (nginx), in each column (default 1)",
    )
    parser.add_argument(
        "--columns",
        default=",".join(results.COLUMNS),
        metavar="C,C",
        help=f"default: {','.join(results.COLUMNS)}",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="WORD,WORD",
        help="boots and tables whose name has one of these words",
    )
    parser.add_argument("--out", default=os.path.join(HERE, "out"), metavar="DIR")
    parser.add_argument(
        "--kind",
        choices=("auto", "emulator", "nested"),
        default="auto",
        help="where to run (default: what this machine can)",
    )
    parser.add_argument("--plan", action="store_true", help="print the boots and end")
    parser.add_argument(
        "--import",
        nargs="+",
        default=[],
        metavar="FILE",
        dest="files",
        help="make the results of these console logs or files, boot nothing",
    )
    parser.add_argument(
        "--ledger",
        action="append",
        default=[],
        metavar="COLUMN=FILE",
        help="the emulator's ledger of an imported column",
    )
    arguments = parser.parse_args()
    arguments.columns = [name for name in arguments.columns.split(",") if name]
    for name in arguments.columns:
        if name not in results.COLUMNS:
            parser.error(f"unknown column '{name}', wanted some of {', '.join(results.COLUMNS)}")
    if arguments.jobs is not None and arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs}: wanted 1 or more")
    if arguments.boots != 1 and arguments.boots < pool.FEWEST:
        parser.error(
            f"--boots {arguments.boots}: wanted 1, or {pool.FEWEST} or more: several boots "
            "have one run each"
        )
    return arguments


def is_whole(arguments):
    return not arguments.only and set(arguments.columns) == set(results.COLUMNS)


def whole_set(name):
    """Whether the results there are those of a whole run, or of a bare machine."""
    try:
        known = results.load(name)
    except results.Trouble:
        return False
    return known.get("run", {}).get("whole", False) or known["environment"]["kind"] == "metal"


def protect(arguments):
    """A whole set of results is not replaced by a part of one."""
    name = os.path.join(arguments.out, RESULTS)
    part = bool(arguments.files) or not is_whole(arguments)
    if part and not arguments.plan and whole_set(name):
        raise results.Trouble(
            f"{os.path.relpath(name)}: found results of a whole run, which these "
            "would replace; give another folder with --out (make: BENCH_OUT=), "
            "or remove it"
        )


def took(run, quick, kind, boots=1):
    """The line about the run's time, which says nothing of the figures."""
    text = f"took {run['seconds'] / 60:.1f} min"
    if kind != "emulator" or not run["whole"] or run["processors"] < PROCESSORS or boots > 1:
        return text
    limit = QUICK_MINUTES if quick else MINUTES
    return f"{text}, wanted at most {limit}" + (": too long" if run["seconds"] > limit * 60 else "")


def broken(found):
    """A line for each thing that must hold and does not."""
    if found["environment"]["kind"] != "emulator":
        return []
    return [
        f"does not hold: {what}: found {there}, wanted {wanted}"
        for what, wanted, there, verdict in facts.must_hold(Machine(found))
        if verdict == facts.BROKEN
    ]


def unlike(found):
    """A line if columns differ in what must be alike."""
    try:
        results.check_alike(found)
    except results.Trouble as trouble:
        return [str(trouble)]
    return []


def columns_of(kind, outcomes, asked, impossible):
    """The state of each column: ok where any of its boots brought something."""
    columns = {}
    for name in results.COLUMNS:
        mine = [outcome for outcome in outcomes if outcome.boot.column == name]
        good = [outcome for outcome in mine if not outcome.failure and outcome.measurements]
        if good:
            detail = "; ".join(
                dict.fromkeys(outcome.boot.title for outcome in good if not outcome.boot.variant)
            )
            if name in PEERS:
                detail += "; " + environment.kvm_version(good[0].console)
            if kind == "nested":
                detail += "; " + (results.ONE_LEVEL if name == "kvm" else results.TWO_LEVELS)
            columns[name] = {"status": "ok", "why": "", "detail": detail}
            continue
        why = impossible.get(name, "")
        if not why and mine:
            why = mine[0].failure or (mine[0].errors or ["it brought no figure"])[0]
        if not why:
            why = "no boot of it was asked for" if name in asked else "not asked for"
        columns[name] = {"status": results.NOT_RUN, "why": why, "detail": ""}
    return columns


def assemble(kind, arguments, outcomes, launcher, impossible):
    kernel = launch.kernel_release(launcher.kernel("linux"))
    found = results.empty(kind, launch.version(), arguments.quick)
    found["tool"]["sources"] = environment.sources()
    found["environment"] |= environment.collect(kind, kernel, launch.MODEL, launch.MITIGATIONS)
    if kind == "nested" and "kvm" in arguments.columns:
        found["environment"]["kvm"] = environment.host_kvm()
    later = []
    for outcome in outcomes:
        if outcome.boot.column == "kvm" and not found["environment"]["kvm"]:
            found["environment"]["kvm"] = environment.kvm_version(outcome.console)
        if outcome.boot.first:
            later += outcome.measurements
        else:
            found["measurements"] += outcome.measurements
            found["skipped"] += outcome.skipped
    found["skipped"] = pool.without_measured(found["skipped"], found["measurements"])
    found["measurements"] = pool.pooled(pool.compared(found["measurements"], later))
    found["environment"]["root_mitigations"] = environment.root_mitigations(
        [
            outcome.console
            for outcome in outcomes
            if is_pmuvisor(outcome.boot.column)
            and not outcome.boot.config_name
            and outcome.measurements
        ]
    )
    found["columns"] = columns_of(kind, outcomes, arguments.columns, impossible)
    return found


def measure(arguments):
    """Boots what the plan says; gives results and exit status."""
    begun = time.monotonic()
    kind, notes = environment.detect()
    if arguments.kind == "nested" and kind != "nested":
        raise results.Trouble(f"--kind nested cannot be had here: {environment.probe()[1]}")
    if arguments.kind not in ("auto", kind):
        kind, notes = arguments.kind, [f"bench: environment {arguments.kind}: asked for"]
    for note in notes:
        say(note)
    obstacle = environment.host_kvm_obstacle()
    if obstacle:
        say(obstacle + ("; the emulator's own KVM is" if kind == "emulator" else ""))
    impossible = plan.impossible(kind)
    columns = [name for name in arguments.columns if name not in impossible]
    only = [word for word in arguments.only.split(",") if word]
    boots = plan.make(kind, columns, arguments.quick, only, arguments.boots)
    # Those of experiments want the columns that they want, so all. What was asked for by name a
    # quick run has, too.
    everything = kind == "emulator" and set(arguments.columns) == set(results.COLUMNS)
    measured = added.measured() if everything else []
    if only:
        measured = [one for one in measured if any(word in one.key for word in only)]
    else:
        measured = kept.without_boots(measured)
    if arguments.plan:
        for boot in boots:
            say(f"{boot.name:24} {boot.column:9} {boot.title}: {', '.join(boot.cells)}")
        for one in measured:
            say(f"{one.key:24} {'table':9} {one.title}: {one.command}")
        return None, STATUS_OK
    if not boots and not measured:
        raise results.Trouble(
            "no boot or table has one of these words in its name: " + arguments.only
        )
    jobs = arguments.jobs or (environment.boots_at_once() if kind == "emulator" else 1)
    launcher = launch.Launcher(kind, os.path.join(arguments.out, "boots"), jobs)
    outcomes, interrupted = schedule.run(launcher, boots, kind, say)
    found = assemble(kind, arguments, outcomes, launcher, impossible)
    failed = []
    if measured and not interrupted:
        found["tables"], failed, interrupted = kept.gather(
            launcher.lab, jobs, measured, Machine(found), arguments.quick and not only, say
        )
    # From here on it is a matter of moments, and nothing of it shall be lost.
    ignore()
    found["run"] = {
        "seconds": round(time.monotonic() - begun, 1),
        "jobs": jobs,
        "processors": len(os.sched_getaffinity(0)),
        "whole": is_whole(arguments) and not interrupted,
        "second": sum(bool(outcome.boot.first and outcome.ok) for outcome in outcomes),
    }
    say(f"bench: {took(found['run'], arguments.quick, kind, arguments.boots)}")
    bad = [outcome.boot.name for outcome in outcomes if not outcome.ok]
    if bad:
        say(f"bench: {len(bad)} of {len(boots)} boots have errors: {', '.join(bad)}")
    if failed:
        say(f"bench: {len(failed)} of {len(measured)} tables are not there: {', '.join(failed)}")
    bad += failed
    status = STATUS_INTERRUPTED if interrupted else STATUS_FAILED if bad else STATUS_OK
    return found, status


def ignore():
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def interrupt(_number, _frame):
    """The first one ends what runs and keeps what has ended; another shall not stop that."""
    ignore()
    raise KeyboardInterrupt


def main():
    arguments = parse_arguments()
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        protect(arguments)
        if arguments.files:
            found, notes, status = importer.run(
                importer.read(arguments.files), importer.read_ledgers(arguments.ledger)
            )
            for note in notes:
                say(f"bench: {note}")
        else:
            found, status = measure(arguments)
        if found is None:
            return status
        name = os.path.join(arguments.out, RESULTS)
        if status == STATUS_INTERRUPTED and whole_set(name):
            say(f"bench: {os.path.relpath(name)}, of a whole run, is left as it is")
            name = os.path.join(arguments.out, PART)
        results.save(found, name)
        say(f"bench: {len(found['measurements'])} measurements in {os.path.relpath(name)}")
        for column, state in found["columns"].items():
            if state["status"] != "ok" and column in arguments.columns:
                say(f"bench: column {column}: {state['status']}: {state['why']}")
        wrong = broken(found) + unlike(found)
        for text in wrong:
            say(f"bench: {text}")
        return STATUS_FAILED if wrong and status == STATUS_OK else status
    except (results.Trouble, AssertionError) as trouble:
        print(f"bench: {trouble}", file=sys.stderr)
        return STATUS_USAGE
    except OSError as trouble:
        print(
            f"bench: {trouble.filename or arguments.out}: {trouble.strerror}; give a folder that "
            "can be written with --out",
            file=sys.stderr,
        )
        return STATUS_USAGE
    except KeyboardInterrupt:
        print("bench: interrupted before the first boot", file=sys.stderr)
        return STATUS_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
