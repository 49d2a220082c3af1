# SPDX-License-Identifier: BSD-2-Clause
# test_make_trace.py: the demo of `make trace`, booted in the emulator: its outputs hold the load.
import json
import os
import re
import shutil
import subprocess

import pytest

from experiments.shared.analysis import records
from experiments.shared.tests import demos

CR_ACCESS, HLT = 28, 12
COMPETITORS = 2
IDLE_MS = 25  # of the 30 at the load's end: IDLE_NS of guest/demo/main.c


def test_demo(lab):
    """Two compete, two talk, nobody runs: each is in the trace, and no record is lost."""
    pytest.importorskip("bt2", reason="python3-bt2 is not installed")
    if not shutil.which("babeltrace2"):
        pytest.skip("babeltrace2 is not installed")
    done = demos.demo(lab, "make-trace", "experiments.flow.analysis.demo", "flowdemo")
    out = done.folder
    trace = records.read(os.path.join(out, "demo.ptrace"))
    assert trace.lost == 0 and not trace.complaints, trace.complaints
    found = trace.processors[0]
    assert {CR_ACCESS, HLT} <= {record.reason for record in found}
    read = subprocess.run(
        ["babeltrace2", os.path.join(out, "ctf")],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert read.stderr == "" and read.stdout.count("kvm_x86_exit:") == len(found)
    with open(os.path.join(out, "chrome.json"), encoding="utf-8") as source:
        events = json.load(source)["traceEvents"]
    preempted = {event["tid"] for event in events if event.get("name") == "preempted"}
    assert len(preempted) >= COMPETITORS, preempted
    idle = re.search(r"idle, by processor: ([0-9.]+) ms", done.said)
    assert idle and float(idle[1]) >= IDLE_MS, done.said
    return f"{len(found)} records"
