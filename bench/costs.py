# SPDX-License-Identifier: BSD-2-Clause
# costs.py: what one operation costs, of what boots of the tests have left in a folder: a console
# and a ledger for each column, PREFIX-COLUMN.console and .json. nested_costs.py, and experiments,
# say which boots and which operations.
import json
import os
import sys

from bench import convert, lines, textpage
from bench.cells import Cell, Row, Table, number

BOOTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "e2e")


def left(folder, prefix, column):
    """(console, ledger) of a column's boot; None: there was no such boot."""
    name = os.path.join(folder, prefix + column)
    try:
        with open(f"{name}.console", encoding="utf-8", errors="replace") as source:
            console = source.read().replace("\r", "")
        with open(f"{name}.json", encoding="utf-8") as source:
            return console, json.load(source)
    except OSError:
        return None


def measured(folder, prefix, column):
    """The measurements of a column's boot, by (experiment, item), each a dictionary by metric;
    None: there was no such boot. ValueError: a line or a ledger that is not understood."""
    boot = left(folder, prefix, column)
    if boot is None:
        return None
    found, errors = lines.parse(boot[0])
    got = convert.convert(found, boot[1], column, "emulator")
    if errors or got.errors or not got.measurements:
        raise ValueError(
            f"{os.path.join(folder, prefix + column)}: "
            f"{(errors + got.errors + ['no measurement'])[0]}"
        )
    out = {}
    for entry in got.measurements:
        out.setdefault((entry["experiment"], entry["item"]), {})[entry["metric"]] = entry["value"]
    return out


def of_operation(found, experiment, item, less, metrics):
    """{metric: value of one operation}; None: not measured. `less`: None, or (the item to subtract,
    how many operations the difference is of, which may be a function of what was found)."""
    values = found.get((experiment, item))
    if values is None or "root_instructions" not in values:
        return None
    if less is None:
        return {metric: values[metric] for metric, _ in metrics}
    base, count = found[experiment, less[0]], less[1]
    if callable(count):
        count = count(found)
    return {metric: (values[metric] - base[metric]) / count for metric, _ in metrics}


def table(key, title, reading, columns, rows, metrics, cost):
    """The table; without heads where there is no boot. `columns`: {column: its head} of the boots
    that are there; `rows`: (label, experiment, item, less); `cost`: (column, experiment, item,
    less) -> what of_operation() gives."""
    made = Table(
        key,
        title,
        "count",
        [head for _ in columns for _, head in metrics],
        [(head, len(metrics)) for head in columns.values()],
        reading=[reading],
    )
    for label, *what in rows:
        cells = []
        for column in columns:
            found = cost(column, *what)
            cells += [
                Cell("-", "missing") if found is None else Cell(number(round(found[metric], 1)))
                for metric, _ in metrics
            ]
        made.rows.append(Row(label, cells))
    return made


def main(make, program, prefix, command):
    """Prints the table that `make` makes of the folder that the command line names."""
    folder = sys.argv[1] if len(sys.argv) > 1 else BOOTS
    try:
        made = make(folder)
    except ValueError as trouble:  # a ledger that a boot has not written yet is one
        sys.exit(
            f"{program}: {folder}: found {trouble}, wanted consoles and ledgers of boots that "
            f"ended; make them again: {command}"
        )
    if not made.heads:
        sys.exit(f"{program}: no {prefix}* in {folder}; make them: {command}")
    print("\n".join(textpage.lines_of(made)))
