# SPDX-License-Identifier: BSD-2-Clause
# test_tools_columns.py: the tools that people use, each in every column of guest/tools/tools.ini.
# It judges nothing but that the boot was made: what came out is kept for the page TOOLS.md and for
# the report (make tools).
import os

import pytest

from experiments.counters.analysis import tools_results
from experiments.counters.tests import tools, tools_table

SHOWN = 6  # differences of one column that are kept
PLACES = [
    (row, name) for row, tool in tools_table.read().items() for name in tools.columns_of(tool)
]


def cell(tool, column, native, boot):
    """Of one boot, beside {case: Case} of native's (None: it is native's)."""
    found = tools.cases_of(boot, tool)
    base = (
        found
        if native is None
        else {name: native[name] for name in tools.cases_in(tool, column) if name in native}
    )
    wrong = tools.differences(tool, base, found) if native is not None else []
    numbers = [one.part for one in wrong if one.part is not None]
    pmu, every, pmis = tools.exits_of(boot, found)
    return {
        "cases": len(base),
        "ended": sum(case.status >= 0 for case in found.values()),
        "good": sum(case.status == 0 for case in found.values()),
        "alike": sum(
            name in found and found[name].status == case.status for name, case in base.items()
        ),
        "lines": sum(len(tools.said(tool, case.lines)) for case in base.values()),
        "numbers": len(numbers),
        "part": max(numbers, default=0.0),
        "others": len(wrong) - len(numbers),
        "shown": [[one.case, one.native, one.found] for one in wrong[:SHOWN]],
        "pmu": pmu,
        "exits": every,
        "pmis": pmis,
        "end": boot.status,
        "seconds": boot.seconds,
    }


@pytest.mark.full
@pytest.mark.skipif(not os.environ.get("DRAW"), reason="takes hours: make tools")
@pytest.mark.parametrize("row, column", PLACES)
def test_column(lab, row, column):
    tool = tools_table.read()[row]
    native, boot = (tools.boot_of(lab, tool, name) for name in (tools.NATIVE, column))
    wanted = None if column == tools.NATIVE else tools.cases_of(native, tool)
    found = cell(tool, column, wanted, boot)
    tools_results.keep(row, column, found)
    return tools_results.short(found)
