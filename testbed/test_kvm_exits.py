# SPDX-License-Identifier: BSD-2-Clause
# test_kvm_exits.py: KVM's counts of its exits, and `make run` and `make nested` if KVM has nested
# VMX, with doubles of tracefs and of run-qemu.sh. tests/e2e/test_nested.py:test_exits uses a real
# KVM.
import os
import shutil

import pytest

from testbed import ledger
from testbed.machine import TOP, path
from tests.commands import run

COUNTS = {
    "kvm_exit": {"exit_reason": {10: 3705, 24: 748, 0x80000021: 1}},
    "kvm_nested_vmexit": {"exit_reason": {10: 728}},
    "kvm_nested_vmexit_inject": {"exit_code": {10: 728, 37: 1}},
}
# The kernel's tracefs makes an instance's files, and removes them with its folder.
DOUBLES = {
    "mkdir": 'case $1 in */instances/*) cp -r "$TRACEFS/new" "$1" ;; *) /bin/mkdir "$@" ;; esac',
    "rmdir": 'mv "$1" "$TRACEFS/gone"',
}
# run-qemu.sh where KVM has nested VMX.
RUN_QEMU = """case "$*" in
    --probe) echo "${DOUBLE:-kvm}"; echo "run-qemu.sh: backend kvm: it is a double" >&2 ;;
    *) echo "arguments: $*"; exit "${STATUS:-0}" ;;
esac"""


def program(file, text):
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def histogram(counts, dropped=0):
    """As Linux prints one."""
    ((key, rows),) = counts.items()
    lines = [f"{{ {key}: {reason:>10} }} hitcount: {count:>10}" for reason, count in rows.items()]
    total = f"Totals:\n    Hits: {sum(rows.values())}\n    Entries: {len(rows)}\n"
    return "\n".join(["# event histogram", "", *lines, "", f"{total}    Dropped: {dropped}\n"])


@pytest.fixture(name="kernel")
def fixture_kernel(tmp_path, monkeypatch):
    """A tracefs and a debugfs with KVM's files, for kvm_exits.sh; gives their folder."""
    for place in ("events", "new/events"):
        for event, counts in COUNTS.items():
            folder = tmp_path / place / "kvm" / event
            folder.mkdir(parents=True)
            (folder / "hist").write_text(histogram(counts))
    for folder in ("instances", "machines", "bin"):
        (tmp_path / folder).mkdir()
    for name, text in DOUBLES.items():
        program(tmp_path / "bin" / name, text)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TRACEFS", str(tmp_path))
    monkeypatch.setenv("KVM_DEBUGFS", str(tmp_path / "machines"))
    return tmp_path


def count(file, *command):
    return run(path("testbed", "kvm_exits.sh"), str(file), *command)


def test_counts(kernel):
    """The command's status, a table of what was counted, and nothing left in the kernel."""
    file = kernel / "exits.txt"
    assert count(file, "sh", "-c", "echo ran; exit 7") == (7, "ran\n")
    for event, counts in COUNTS.items():
        trigger = kernel / "gone" / "events" / "kvm" / event / "trigger"
        assert trigger.read_text() == f"hist:keys={next(iter(counts))}\n"
    assert not os.listdir(kernel / "instances")
    status, said = run(path("testbed", "ledger.py"), "--kvm", str(file))
    assert status == 0, said
    rows = [line.split() for line in said.splitlines()]
    assert ["10", "CPUID", "3705", "728", "728"] in rows, said
    assert ["33", "ENTRY_FAILURE_GUEST_STATE", "1", "0", "0"] in rows, said
    assert ["37", "MONITOR_TRAP_FLAG", "0", "0", "1"] in rows, said
    assert "exits to KVM: 4454; 728 came from PMUvisor's guest" in said, said


def test_refusals(kernel):
    """No counts where they could not be had, or would be another machine's too."""
    command = ["sh", "-c", "echo ran"]
    (kernel / "machines" / "4711-13").mkdir()
    status, said = count(kernel / "exits.txt", *command)
    assert status == 1 and "another virtual machine" in said and "ran" not in said, said
    shutil.rmtree(kernel / "machines")
    assert "debugfs" in count(kernel / "exits.txt", *command)[1]
    (kernel / "events" / "kvm" / "kvm_exit" / "hist").unlink()
    assert "tracefs" in count(kernel / "exits.txt", *command)[1]


def test_incomplete_counts():
    whole = "".join(f"event {event}\n{histogram(counts)}" for event, counts in COUNTS.items())
    assert [one.total() for one in ledger.kvm_counts(whole)] == [4454, 728, 729]
    for bad in (
        whole.replace("Dropped: 0", "Dropped: 2", 1),
        whole.partition("event kvm_n")[0],
        "",
    ):
        with pytest.raises(ValueError, match="count"):
            ledger.kvm_counts(bad)


@pytest.fixture(name="make")
def fixture_make(tmp_path):
    """make in a copy of the tree's top, where run-qemu.sh is the double."""
    top = tmp_path / "top"
    top.mkdir()
    for name in os.listdir(TOP):
        (top / name).symlink_to(path(name))
    (top / "run-qemu.sh").unlink()
    program(top / "run-qemu.sh", RUN_QEMU)
    environment = {
        key: os.environ[key] for key in os.environ if not key.startswith(("MAKE", "MFL"))
    }

    def make(*words, **more):
        return run("make", "--no-print-directory", *words, cwd=top, env={**environment, **more})

    return make


@pytest.mark.parametrize("machines, said", [([], "exits to KVM: 4454;"), (["1-2"], "not counted")])
def test_make_run(kernel, make, machines, said):
    """make run counts KVM's exits; where that cannot be, it says why, and runs all the same."""
    for name in machines:
        (kernel / "machines" / name).mkdir()
    folder = kernel / "run"
    more = {"TRACEFS": str(kernel), "PATH": os.environ["PATH"]}
    status, text = make("run-guest", f"RUN={folder}", "CONFIG=tick=0", **more)
    assert f"arguments: --config tick=0 --serial {folder}/console.txt" in text, text
    assert said in text, text
    assert status != 0, f"the double's guest did not come to its end: {text}"


@pytest.mark.parametrize(
    "sources, commands",
    [(["cpu_core"], ["run", "bench QUICK=1"]), ([], ["run CONFIG=pmu=off APPEND=pmv.run=report"])],
)
def test_make_nested(make, tmp_path, sources, commands):
    """make nested measures on a machine with a PMU. On another it starts PMUvisor alone."""
    for name in ("software", *sources):
        (tmp_path / "sources" / name).mkdir(parents=True)
    status, text = make("nested", f"EVENT_SOURCES={tmp_path / 'sources'}", "MAKE=echo make")
    found = [line for line in text.splitlines() if line.startswith("make --")]
    assert (status, found) == (0, [f"make --no-print-directory {one}" for one in commands]), text
    assert ("no PMU" in text) == (not sources), text


def test_make_nested_without_vmx(make):
    """It says that nothing was run, and ends well."""
    status, text = make("nested", "MAKE=echo make", DOUBLE="emulator")
    assert status == 0 and "nothing was run" in text and "make --" not in text, text
