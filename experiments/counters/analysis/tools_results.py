# SPDX-License-Identifier: BSD-2-Clause
# tools_results.py: what make tools keeps: of each tool in each column what it did, as JSON can say it, and the
# sentences of the page and of the report's table. Touches only its own file.
import json
import os

import tools
from machine import STATUS_POWEROFF, path

FILE = ("build", "tools", "results.json")
SHOWN = 6  # differences of one column that the page shows


def cell(tool, native, boot):
    """Of one boot, beside {case: Case} of native's (None: it is native's)."""
    found = tools.cases_of(boot, tool)
    base = native if native is not None else found
    wrong = tools.differences(tool, base, found) if native is not None else []
    numbers = [one.part for one in wrong if one.part is not None]
    pmu, every, pmis = tools.exits_of(boot, found)
    return {"cases": len(base), "ended": sum(case.status >= 0 for case in found.values()),
            "good": sum(case.status == 0 for case in found.values()),
            "alike": sum(name in found and found[name].status == case.status for name, case in base.items()),
            "lines": sum(len(tools.said(tool, case.lines)) for case in base.values()),
            "numbers": len(numbers), "part": max(numbers, default=0.0),
            "others": len(wrong) - len(numbers),
            "shown": [[one.case, one.native, one.found] for one in wrong[:SHOWN]],
            "pmu": pmu, "exits": every, "pmis": pmis, "end": boot.status, "seconds": boot.seconds}


def ran(one):
    """What it did, in a few words."""
    if one["end"] != STATUS_POWEROFF:
        return f"the run ended with status {one['end']} after {one['ended']} of {one['cases']} cases"
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
    """What its user notices: by the table, where it says so and there is something to notice."""
    differs = one["others"] or one["alike"] != one["cases"] or one["end"] != STATUS_POWEROFF
    if column in tool.expect and (differs or one["numbers"]):
        return tool.expect[column]
    if differs:
        return "see below"
    return f"counts that are {100 * one['part']:.2g} % off" if one["numbers"] else "nothing"


def short(one):
    """A cell of the one table: did it work, and what the PMU cost."""
    if one["end"] != STATUS_POWEROFF or one["alike"] != one["cases"]:
        return ran(one)
    return f"{compared(one)}; {one['pmu']:,} exits"


def keep(rows):
    """{tool: {column: cell or sentence}} into the file."""
    target = path(*FILE)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(f"{target}.part", "w", encoding="ascii") as out:
        json.dump(rows, out, indent=1, sort_keys=True)
    os.replace(f"{target}.part", target)


def kept():
    """The same; {}: make tools has not run."""
    try:
        with open(path(*FILE), encoding="ascii") as source:
            return json.load(source)
    except (OSError, ValueError):
        return {}
