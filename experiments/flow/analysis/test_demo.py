# SPDX-License-Identifier: BSD-2-Clause
# test_demo.py: what demo.py makes of a guest's files, without the boot:
# experiments/flow/tests/test_make_trace.py has that.
import json
import shutil
import subprocess

import pytest

from experiments.flow.analysis import demo
from experiments.flow.analysis.hand_made import A, B, source, trace
from experiments.flow.analysis.trace_source import TRACE_FLOW
from experiments.shared.analysis import demo_boot, records

pytest.importorskip("bt2", reason="python3-bt2 is not installed")

NAMES = {
    "pti": False,
    "tasks": [
        {"pid": 71, "tid": 71, "comm": "calm", "pgd": hex(A), "stack": None},
        {"pid": 72, "tid": 72, "comm": "hasty", "pgd": hex(B), "stack": None},
    ],
}
FLOW = trace(
    "1000 load A B; 1500 tick A; 1600 load B A; 2000 halt B; 3000 wake B; 3100 load A idle; "
    "3500 tick A"
)
KHZ = 1_000_000


def guest_files():
    return {
        "ptrace": records.packed(source(TRACE_FLOW, FLOW, tsc_khz=KHZ)),
        "names": json.dumps(NAMES).encode(),
    }


def test_outputs(tmp_path):
    """All of them are there and hold the trace; a second run takes the place of the first."""
    for _ in range(2):
        trace = demo.fetch(tmp_path, guest_files())
        line = demo.render(tmp_path, trace)
    assert [len(found) for found in records.read(trace).processors.values()] == [len(FLOW)]
    events = json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]
    assert {"calm", "hasty"} <= {
        word for event in events for word in str(event.get("args", {}).get("name", "")).split()
    }
    page = (tmp_path / "timeline.html").read_text()
    assert "calm" in page and "hasty" in page and "src=" not in page
    text = "\n".join(demo.summary(tmp_path, line))
    assert f"{len(FLOW)} records of 1 processors" in text and "0 lost" in text
    assert all(f"{name} " in text for name in ("calm", "hasty")), text
    if shutil.which("babeltrace2"):
        read = subprocess.run(
            ["babeltrace2", tmp_path / "ctf"],
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert read.stderr == "" and read.stdout.count("kvm_x86_exit") == len(FLOW)


def test_guest_without_files(tmp_path):
    """Each thing that is not there is one line, and nothing is drawn."""
    with pytest.raises(demo_boot.DemoFailed, match="no file 'ptrace'"):
        demo.fetch(tmp_path, {})
    with pytest.raises(demo_boot.DemoFailed, match="no file 'names'"):
        demo.fetch(tmp_path, {"ptrace": records.packed(source(TRACE_FLOW, FLOW, tsc_khz=KHZ))})
    assert not (tmp_path / "timeline.html").exists()


def test_boot_that_fails(tmp_path, monkeypatch):
    """A boot that does not end well is told with its reason, not drawn."""
    monkeypatch.setattr(demo_boot, "made", lambda target: tmp_path / "none")
    with pytest.raises(demo_boot.DemoFailed, match="unknown backend 'nowhere'"):
        demo_boot.boot(tmp_path, "flowdemo", "trace=flow", 1, 10, "nowhere")
