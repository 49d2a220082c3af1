# SPDX-License-Identifier: BSD-2-Clause
# test_gdb_pt.py: gdb's `record btrace pt`, Debian's gdb as it is, on a processor with Intel PT. Its
# row of TOOLS.md is on one without.
import re

import pytest

from experiments.counters.tests import tools, tools_table
from tests.e2e.policies import NMI

GDB = tools_table.read()["gdb"]
FORMAT = "Recording format: Intel Processor Trace."
# Not as the row: one processor, with Intel PT, and the same addresses each time.
HOW = {"knobs": "pt on\n", "cpus": 1, "append": "norandmaps pmv.cases=gdb/pt"}


@pytest.mark.full
def test_gdb(lab):
    """It records a function, and shows its calls and instructions: natively and in the guest the
    same."""
    native, done = (
        tools.boot_of(lab, GDB, entry, ["pt"], "-pt", **HOW) for entry in ("native", "msr+nmi")
    )
    wanted, found = (tools.ended(boot, GDB, ["pt"]) for boot in (native, done))
    guest = found["pt"].lines
    assert not tools.differences(GDB, wanted, found), guest
    recorded = next((line for line in guest if line.startswith("Recorded ")), "")
    assert FORMAT in guest and re.match(
        r"Recorded \d+ instructions in 3 functions \(0 gaps\)", recorded
    ), guest
    assert {"1\tbb", "2\t  bbb", "3\tbb"} <= set(guest), guest
    assert NMI not in done.ledger["exits"], done.ledger["exits"]
    return recorded
