# SPDX-License-Identifier: BSD-2-Clause
# kept.py: tables that experiments bring (added.py, Measured): made of boots once, and from then on
# data of the results, so that a report needs no boot. Each is a table, or the reason why there is
# none.
import dataclasses
import functools
import json
import os

from bench import environment
from bench.cells import Cell, Row, Table
from bench.measurements import TOP
from bench.results import Trouble, need
from testbed.machine import Skip, call_all

QUICK = "a quick run leaves it out"


def as_table(data, where="table"):
    """The Table; raises Trouble where it is none."""
    try:
        rows = [
            Row(row["label"], [Cell(**cell) for cell in row["cells"]], row["kind"])
            for row in data["rows"]
        ]
        table = Table(
            **{**data, "rows": rows, "groups": [tuple(group) for group in data["groups"]]}
        )
    except (KeyError, TypeError) as trouble:
        raise Trouble(
            f"{where}: found no table: {trouble}; wanted what bench/kept.py writes"
        ) from None
    for row in table.rows:
        if row.kind != "group":
            need(
                len(row.cells) == len(table.heads),
                f"{where}, row '{row.label}'",
                len(row.cells),
                f"{len(table.heads)} cells",
            )
        need(
            all(0 <= cell.note <= len(table.notes) for cell in row.cells),
            f"{where}, row '{row.label}'",
            [cell.note for cell in row.cells],
            "numbers of its notes",
        )
    need(
        sum(span for _, span in table.groups) == len(table.heads),
        f"{where}: groups",
        table.groups,
        f"spans of {len(table.heads)} columns",
    )
    return table


def entry(wanted, table=None, why=""):
    return {
        "experiment": wanted.experiment,
        "key": wanted.key,
        "title": wanted.title,
        "command": wanted.command,
        "why": why,
        "table": dataclasses.asdict(table) if table else None,
    }


def of_this_code(wanted, folder=os.path.join(TOP, "results", "answers")):
    """Whether results/answers/ has this table, measured with the code of now."""
    if not wanted.kept:
        return False
    with open(os.path.join(folder, f"{wanted.experiment}.json"), encoding="utf-8") as source:
        return json.load(source).get("sources") == environment.sources()


def without_boots(measured, *folder):
    """The same Measured. Those that results/answers/ has of this code are taken from there."""
    return [
        (
            dataclasses.replace(one, table=lambda *_, kept=one.kept: kept(), quick=True)
            if of_this_code(one, *folder)
            else one
        )
        for one in measured
    ]


def make(wanted, lab, machine, quick):
    """(an entry, whether it failed). Whatever stops it is its own reason, and the others go on."""
    if quick and not wanted.quick:
        return entry(wanted, why=QUICK), False
    try:
        return entry(wanted, wanted.table(lab, machine)), False
    except Skip as reason:
        return entry(wanted, why=str(reason)), False
    except AssertionError as trouble:
        why = str(trouble) or "an assertion without words"
    except Exception as trouble:
        why = f"{type(trouble).__name__}: {trouble}"
    return entry(wanted, why=why.splitlines()[0]), True


def gather(lab, jobs, wanted, machine, quick, say):
    """(an entry for each of these Measured, the keys of those that failed, whether it was
    interrupted)."""

    def make_one(one):
        made, bad = make(one, lab, machine, quick)
        say(f"bench: table {one.key}: {'not run: ' + made['why'] if made['why'] else 'made'}")
        return made, bad

    results, interrupted = call_all([functools.partial(make_one, one) for one in wanted], jobs)
    if interrupted:
        say("bench: interrupted; what has ended is kept")
    ended = [(one, *result) for one, result in zip(wanted, results) if result]
    return [made for _, made, _ in ended], [one.key for one, _, bad in ended if bad], interrupted


def parts(experiment, machine):
    """What a section of the report has of an experiment: its tables, each with its command."""
    out = []
    for one in machine.results.get("tables", []):
        if one["experiment"] == experiment:
            why = [f"Not run: {one['why']}."]
            absent = Table(one["key"], one["title"], "", [], [], reading=why)
            out.append(as_table(one["table"]) if one["table"] else absent)
            out[-1].command = one["command"]
    return out
