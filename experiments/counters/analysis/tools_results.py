# SPDX-License-Identifier: BSD-2-Clause
# tools_results.py: what make tools keeps: of each tool in each column what it did, as JSON can say
# it, and the sentences of the page and of the report's table. Touches only its own files.
import glob
import json
import os

from experiments.counters.tests import tools_table

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
FOLDER = os.path.join(TOP, "build", "tools")
POWEROFF = 0  # as testbed/machine.py has it, which a report does not need


def ended_well(one):
    return one["end"] == POWEROFF and one["alike"] == one["cases"]


def ran(one):
    """What it did, in a few words."""
    if one["end"] != POWEROFF:
        return (
            f"the run ended with status {one['end']} after {one['ended']} of {one['cases']} cases"
        )
    if one["alike"] != one["cases"]:
        return f"{one['cases'] - one['alike']} of {one['cases']} cases end otherwise"
    return f"{one['cases']} of {one['cases']}"


def compared(one):
    """Its lines and counts beside native's."""
    if not one["numbers"] and not one["others"]:
        return "same"
    said = []
    if one["others"]:
        said.append(f"{one['others']} of {one['lines']} lines differ")
    if one["numbers"]:
        said.append(f"{one['numbers']} counts by at most {100 * one['part']:.2g} %")
    return ", ".join(said)


def noticed(tool, column, one):
    """What its user notices by tools.ini, where there is something to notice; else ""."""
    if not one["others"] and not one["numbers"] and ended_well(one):
        return ""
    return tool.expect.get(column) or tool.expect.get(column.partition("-")[0], "")


def short(one):
    """A cell of the one table: did it work, and what the PMU cost."""
    if not ended_well(one):
        return ran(one)
    return f"{compared(one)}; {one['pmu']:,} exits"


def keep(row, column, one):
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, f"{row}@{column}.json"), "w", encoding="ascii") as out:
        json.dump(one, out, indent=1)


def kept():
    """{tool: {column: cell}}, in the table's order; {}: make tools has not run."""
    found = {}
    for row in tools_table.read():
        for file in sorted(glob.glob(os.path.join(FOLDER, f"{row}@*.json"))):
            column = os.path.basename(file).removesuffix(".json").partition("@")[2]
            with open(file, encoding="ascii") as source:
                found.setdefault(row, {})[column] = json.load(source)
    return found
