# SPDX-License-Identifier: BSD-2-Clause
# test_demo.py: what demo.py makes of a guest's files, without the boot:
# experiments/flow/tests/test_make_trace.py has that.
import json
import shutil
import struct
import subprocess

import pytest

from experiments.flow.analysis import demo
from experiments.flow.analysis.hand_made import A_STACK, B_STACK, A, B, halt, load, tick, wake
from experiments.shared.analysis import demo_boot, records

pytest.importorskip("bt2", reason="python3-bt2 is not installed")

NAMES = {
    "pti": False,
    "tasks": [
        {"pid": 71, "tid": 71, "comm": "calm", "pgd": hex(A), "stack": None},
        {"pid": 72, "tid": 72, "comm": "hasty", "pgd": hex(B), "stack": None},
    ],
}
FLOW = [
    load(1000, A, B_STACK),
    tick(1500, A),
    load(1600, B, A_STACK),
    halt(2000, B),
    wake(3000, B),
    load(3100, A, 0x10),
    tick(3500, A),
]
KHZ = 1_000_000
MAGIC_FILE, MAGIC_CHUNK = b"PMUtrcfl", b"PMUchunk"


def trace_file(found):
    """A file of experiments/shared/guest/trace_file.h with one processor's records."""
    data = MAGIC_FILE + struct.pack("<IIQII24x", 1, 32, KHZ, 2, 1)
    data += MAGIC_CHUNK + struct.pack("<IIQQ", 0, len(found), 0, 0)
    for one in found:
        data += struct.pack(
            "<QQQII",
            one.tsc,
            one.rip,
            one.cr3 | one.reason << 48 | one.flags << 56,
            one.detail,
            one.root_time,
        )
    return data


def guest_files():
    return {"ptrace": trace_file(FLOW), "names": json.dumps(NAMES).encode()}


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
    with pytest.raises(demo.DemoFailed, match="no file 'ptrace'"):
        demo.fetch(tmp_path, {})
    with pytest.raises(demo.DemoFailed, match="no file 'names'"):
        demo.fetch(tmp_path, {"ptrace": trace_file(FLOW)})
    assert not (tmp_path / "timeline.html").exists()


def test_boot_that_fails(tmp_path, monkeypatch):
    """A boot that does not end well is told with its reason, not drawn."""
    monkeypatch.setattr(demo_boot, "made", lambda target: tmp_path / "none")
    with pytest.raises(demo.DemoFailed, match="unknown backend 'nowhere'"):
        demo.boot(tmp_path, 1, 10, "nowhere")
