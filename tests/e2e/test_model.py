# SPDX-License-Identifier: BSD-2-Clause
# test_model.py: the model of the NMI bookkeeping, checked on the host (tests/model/), and the
# kernel module of programs/module/ loaded into the guest.
import os

import pytest

from testbed.machine import STATUS_POWEROFF, Skip, path
from tests.commands import run
from tests.static.rooms import rooms

pytestmark = pytest.mark.more

STATUS_SKIPPED = 77


def explore():
    status, said = run(path("tests/model/run.sh"))
    lines = said.splitlines()
    if status == STATUS_SKIPPED:
        raise Skip(lines[-1])
    wrong = [line for line in lines if not line.startswith("PASS ")]
    assert status == 0 and lines and not wrong, wrong or status
    return f"{len(lines)} searches"


def test_bookkeeping_model(lab):
    """Every state of the model: whole it holds, without a mechanism it gives a counterexample."""
    name = "model-full" if os.environ.get("FULL") == "1" else "model"
    folders = ["tests/model", "tests/host", "include", *rooms()]
    inputs = [*map(path, folders), "spin", "gcc"]
    return lab.kept(name, explore, *inputs, kind="models")


def test_module(lab):
    """The module for unknown NMIs loads under PMUvisor and starts with its counters at 0."""
    boot = lab.emulator("guest-module", tools=True, jobs="module")
    boot.expect_status(STATUS_POWEROFF)
    rows = boot.lines("module")
    assert rows and rows[0]["handed_back"] == "0" and rows[0]["not_ours"] == "0", (
        rows or boot.last_line()
    )


def test_module_refuses(lab):
    """Without PMUvisor the module refuses to load and says why in one line."""
    boot = lab.emulator("native-module", tools=True, entry="native", jobs="module")
    boot.expect_status(STATUS_POWEROFF)
    assert "job: name=module status=0" in boot.console, boot.last_line()
    assert (
        "pmuvisor_nmi: hypervisor signature " in boot.console
        and "load it in PMUvisor's guest" in boot.console
    ), boot.last_line()
