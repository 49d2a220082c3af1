# SPDX-License-Identifier: BSD-2-Clause
# test_gdb_pt.py: gdb's `record btrace pt`, Debian's gdb as it is, on a processor with Intel PT. Its
# row of TOOLS.md is on one without.
import re

import pytest

from testbed.machine import STATUS_POWEROFF, path
from tests.e2e.policies import NMI

FORMAT = "Recording format: Intel Processor Trace."
PROCESS = re.compile(r"process \d+")


def said(lab, entry):
    done = lab.emulator(
        f"gdb-pt-{entry}",
        entry=entry,
        jobs="tool",
        config="console=none",
        memory=512,
        initrd=path("build/payload/tool-perf-mem-cloud.img"),
        append="norandmaps pmv.cases=gdb/pt",
        knobs="pt on\n",
    )
    done.expect_status(STATUS_POWEROFF)
    prefix = "tool-said: gdb/pt: "
    return done, [
        line[len(prefix) :] for line in done.console.splitlines() if line.startswith(prefix)
    ]


@pytest.mark.full
def test_gdb(lab):
    """It records a function, and shows its calls and instructions: natively and in the guest the
    same."""
    (_, native), (done, guest) = (said(lab, entry) for entry in ("native", "msr+nmi"))
    assert [PROCESS.sub("", line) for line in guest] == [
        PROCESS.sub("", line) for line in native
    ], guest
    recorded = next((line for line in guest if line.startswith("Recorded ")), "")
    assert FORMAT in guest and re.match(
        r"Recorded \d+ instructions in 3 functions \(0 gaps\)", recorded
    ), guest
    assert {"1\tbb", "2\t  bbb", "3\tbb"} <= set(guest), guest
    assert NMI not in done.ledger["exits"], done.ledger["exits"]
    return recorded
