# SPDX-License-Identifier: BSD-2-Clause
# test_counted.py: what the counters of a guest count around each operation, against the bare
# machine and against the emulator's ledger. DRAW=1: results/answers/counted.json, the picture and
# the page's table anew (make counted). The column of BitVisor wants BITVISOR=FOLDER, of a BitVisor
# that was built by hand; without, it stays as it was kept.
import os

import pytest

from experiments.counted.analysis import counted
from experiments.counted.analysis import counted_kept as kept
from experiments.counted.analysis import counted_reasons as reasons
from experiments.counted.tests import counted_boots as boots

CHEAP = ("native", "msr+nmi")
LEFT_OUT = 1


def explained(found, columns, **besides):
    """Every cell of these columns is as its reason says."""
    wrong = reasons.unexplained(found, columns, **besides)
    assert not wrong, "\n".join(wrong)
    return (
        f"{sum(cell.instructions != 0 or cell.branches != 0 for cell in found.values())} of "
        f"{len(found)} cells "
        "differ from the bare machine"
    )


def cells(lab, columns, **how):
    return counted.cells({column: boots.counts(lab, column, **how) for column in columns})


def test_cheap(lab):
    """Natively and under msr+nmi: an instruction that root mode completes is not counted, all else
    is."""
    return explained(cells(lab, CHEAP), CHEAP)


@pytest.mark.full
def test_event_left_out(lab):
    """The method without its event for instructions of CPL 0: the answer is another one, and is
    found out."""
    found = cells(lab, CHEAP, left_out=LEFT_OUT)
    wrong = reasons.unexplained(found, CHEAP)
    assert any(line.startswith("cpuid, msr+nmi") for line in wrong), wrong
    return f"{len(wrong)} cells are not as explained"


@pytest.mark.full
def test_second_processor(lab):
    """The same on the second of two processors: WBINVD exits there as well, and nothing else
    differs. With several processors the emulator takes no interrupt in the middle of a string."""
    return explained(
        cells(lab, CHEAP, cpus=2), CHEAP, besides=reasons.SECOND, without={"string_split"}
    )


@pytest.mark.full
def test_answer(lab):
    """Every column: each cell that is not 0 has its reason, and the page, the picture and the file
    are of it."""
    columns, hosts = boots.all_counts(lab)
    told = explained(counted.cells(columns), tuple(columns))
    if os.environ.get("DRAW"):
        columns = {
            column: columns.get(column) or kept.columns()[column] for column in counted.COLUMNS
        }
        kept.write(columns, {**kept.hosts(), **hosts})
    was = kept.columns()
    assert {
        column: was[column] for column in columns
    } == columns, "counted.json is of other boots: make counted"
    return told
