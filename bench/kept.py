# SPDX-License-Identifier: BSD-2-Clause
# kept.py: tables that experiments bring (added.py, Measured): made of boots once, and from then on
# data of the results, so that a report needs no boot. Each is a table, or the reason why there is
# none.
import dataclasses
import functools

from bench.cells import Cell, Row, Table
from bench.results import Trouble, need
from testbed.machine import Skip

QUICK = "a quick run leaves it out"


def as_data(table):
    """What JSON can say of it."""
    return dataclasses.asdict(table)


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
        "table": as_data(table) if table else None,
    }


def make(wanted, lab, machine, quick):
    """(an entry, whether it failed). Whatever stops it is its own reason, and the others go on."""
    if quick and not wanted.quick:
        return entry(wanted, why=QUICK), False
    try:
        return entry(wanted, wanted.table(lab, machine)), False
    except Skip as reason:
        return entry(wanted, why=str(reason)), False
    except AssertionError as trouble:
        return (
            entry(wanted, why=(str(trouble).splitlines() or ["an assertion without words"])[0]),
            True,
        )
    except Exception as trouble:
        return entry(wanted, why=f"{type(trouble).__name__}: {trouble}".splitlines()[0]), True


def gather(lab, wanted, machine, quick, say):
    """(an entry for each of these Measured, the keys of those that failed, whether it was
    interrupted)."""
    calls = lab.plan([functools.partial(make, one, lab, machine, quick) for one in wanted])
    entries, failed, interrupted = [], [], False
    try:
        for one, call in zip(wanted, calls):
            made, bad = call.future.result()
            entries.append(made)
            failed += [one.key] if bad else []
            say(f"bench: table {one.key}: {'not run: ' + made['why'] if made['why'] else 'made'}")
    except KeyboardInterrupt:
        say("bench: interrupted; what has ended is kept")
        interrupted = True
    lab.close()
    return entries, failed, interrupted


def parts(experiment):
    """What a section of the report has of an experiment: its tables, each with its command."""

    def found(machine):
        out = []
        for one in machine.results.get("tables", []):
            if one["experiment"] == experiment:
                out += (
                    [as_table(one["table"])]
                    if one["table"]
                    else [
                        Table(
                            one["key"],
                            one["title"],
                            "",
                            [],
                            [],
                            reading=[f"Not run: {one['why']}."],
                        )
                    ]
                )
                out[-1].command = one["command"]
        return out

    return found
