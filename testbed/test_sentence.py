# SPDX-License-Identifier: BSD-2-Clause
# test_sentence.py: what `make run` says at its end, of boots of each kind, and of ends that no boot
# here comes to.
import os
import re
import subprocess
import sys

import pytest

from testbed import ledger as ledgers
from testbed.machine import (
    STATUS_LIMIT,
    STATUS_POWEROFF,
    STATUS_REFUSED,
    STATUS_RESET,
    STATUS_TEXT,
    STATUS_TIMEOUT,
    path,
)
from testbed.sentence import sentence

END = "init: done failed={} end=poweroff\n"
ROW = "a1: region={} N=100000 M=100 expected={} pmis={} nmis=0 count=100005 ns=5\n"


def region(exits, pmis):
    return {"exits": {"10": {"count": exits}}, "pmi": {"raised": pmis}}


def said(boot):
    return sentence(boot.status, boot.console, boot.ledger)


@pytest.mark.more
@pytest.mark.parametrize(
    "policy, each",
    [
        ("msr+nmi", "and no exit was taken for one"),
        ("msr", "and each took 1 exit"),
        ("intercept", "and each took 8 exits"),
    ],
)
def test_policy(lab, policy, each):
    """Of boots: the PMIs, and how many exits one took."""
    boot = lab.emulator(f"sentence-{policy}", entry=policy, jobs="a1,report")
    assert said(boot) == f"The guest ran to its end: program A.1 got its 1110 PMIs, {each}."
    # And the ledger says it in no other place.
    assert (
        sentence(boot.status, boot.console)
        == "The guest ran to its end: program A.1 got its 1110 PMIs; only the emulator counts "
        "the exits of one PMI."
    )
    return said(boot)


@pytest.mark.more
def test_reboot(lab):
    boot = lab.emulator("sentence-reboot", jobs="report", end="reboot", append="reboot=acpi")
    assert boot.status == STATUS_RESET and said(boot) == "The guest ran to its end."
    assert sentence(STATUS_POWEROFF, boot.console).startswith("The machine was switched off before")


@pytest.mark.more
def test_failed_job(lab):
    boot = lab.emulator("sentence-failed", jobs="absent,perf")
    assert said(boot).startswith(
        "The guest ran to its end, but the job absent failed with status 127; "
        "the job perf failed with status 1"
    ), said(boot)


def test_refused(lab):
    boot = lab.emulator("sentence-refused", config="tick=soon")
    assert (
        said(boot).startswith("PMUvisor refused to start, and the guest did not run: ")
        and "found 'soon'" in said(boot)
        and said(boot).endswith("correct or remove it")
    ), said(boot)


def test_refusal_alone(tmp_path):
    """--refusal prints PMUvisor's sentence, without what GRUB says after it; nothing of another
    console."""
    console = tmp_path / "console"
    for text, wanted in (
        (
            "\x1b[0mPMUvisor refuses to start: no VM\r\nX here\r\nerror: unknown error.\r\n\r\n   "
            "Fal",
            "PMUvisor refuses to start: no VMX here\n",
        ),
        ("Welcome to GRUB!\n", ""),
    ):
        console.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "testbed.sentence", "--refusal", console],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.stdout == wanted, done.stdout


def test_panic():
    """A panic of the guest's kernel, with its last lines, whatever has ended the run; but for one
    after which a crash kernel has come to its end."""
    lines = [f"[    1.{number}] line {number}" for number in range(20)]
    console = "\n".join(
        [
            *lines,
            "[    2.0] Kernel panic - not syncing: No working init found.\r",
            "[    2.1] ---[ end Kernel panic - not syncing: No working init found. ]---\r",
        ]
    )
    for status in (STATUS_TEXT, STATUS_RESET, STATUS_TIMEOUT):
        said = sentence(status, console, None)
        assert said.startswith(
            "The guest's kernel panicked: No working init found.; its last lines:\n"
        ), said
        assert "line 19\n" in said and "line 2\n" not in said and said.endswith(" ]---"), said
    assert sentence(STATUS_POWEROFF, console + "\n" + END.format(0)).startswith(
        "The guest ran to its end"
    )


def test_backend():
    """The sentence says where the run was, and why there."""
    for backend, wanted in (
        ("emulator: no VMX", "It ran in the emulator: no VMX."),
        ("kvm: it works", "It ran under KVM: it works."),
    ):
        said = sentence(
            STATUS_POWEROFF, END.format(0), None, [], f"run-qemu.sh: backend {backend}\n"
        )
        assert said.startswith("The guest ran to its end") and said.endswith(wanted), said
    assert sentence(1, "", None, [], "run-qemu.sh: backend emulator: no VMX").endswith("says why.")


@pytest.mark.more
def test_no_end(lab):
    """Cut off, as a run whose guest hangs is."""
    boot = lab.emulator("sentence-limit", jobs="a1,report", limit=1200, fork=False)
    assert boot.status == STATUS_LIMIT
    text = said(boot)
    assert text.startswith(
        "The run failed with exit status 5 before the guest had come to its end"
    ), text
    text = sentence(STATUS_TIMEOUT, boot.console)
    assert text.startswith("The guest did not end in time; the last line on its console: "), text


def test_exit_status(tmp_path):
    """What `make run` ends with where the machine has ended well: 1 if a job has not, and
    where that job's output is."""
    console = tmp_path / "console"
    for status in (0, 139):
        console.write_text(
            f"job: name=program status={status}\n" + END.format(int(status != 0)), encoding="utf-8"
        )
        done = subprocess.run(
            [sys.executable, "-m", "testbed.sentence", str(STATUS_POWEROFF), console],
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == int(status != 0)
        assert (f"; the output is above, and in {console}." in done.stdout) == (status != 0), done


def test_screen():
    """The console's copy does not clear the user's terminal, and else comes byte by byte."""
    given = b"\x1b[2J\x1b[01;01H\x1b[=3h\x1b[0mGRUB\r\n10% \x1b[2"
    with subprocess.Popen(
        [path("testbed", "screen.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as copy:
        for number in range(len(given)):
            os.write(copy.stdin.fileno(), given[number : number + 1])
        wanted = b"\x1b[0mGRUB\r\n10% "
        seen = b""
        while len(seen) < len(wanted):
            piece = os.read(copy.stdout.fileno(), 100)
            assert piece, seen
            seen += piece
        copy.stdin.write(b"Jend\x1b[")
        copy.stdin.close()
        assert seen + copy.stdout.read() == wanted + b"end\x1b["


def test_others():
    """PMIs that did not come, a machine that resets, programs of one's own, no word at all."""
    lost = sentence(
        STATUS_POWEROFF, ROW.format(4, 1000, 900) + "job: name=a1 status=1\n" + END.format(1)
    )
    assert (
        lost
        == "The guest ran to its end, but the job a1 failed with status 1; 900 PMIs came where "
        "1000 were wanted."
    )
    assert (
        sentence(STATUS_RESET, "Kernel panic\n")
        == "The machine was reset before the guest had come to its end; the last line on its "
        "console: "
        "Kernel panic"
    )
    assert sentence(1, "") == "The run did not begin, exit status 1: a line above says why."
    assert sentence(STATUS_TIMEOUT, "").endswith("its console is empty")
    assert (
        sentence(STATUS_REFUSED, "\x1b[0mPMUvisor refuses to start: no VM\r\nX here\x00")
        == "PMUvisor refused to start, and the guest did not run: no VMX here"
    )
    own = "program: status={} command=/program/mine 3\njob: name=program status={}\n" + END
    ledger = {"regions": {"7": region(3, 0), "100": region(9, 0)}}
    assert (
        sentence(STATUS_POWEROFF, own.format(0, 0, 0), ledger, ["out/a", "out/b"])
        == "The guest ran to its end: mine ended with status 0; its region 7 has 3 exits; it left "
        "out/a "
        "and out/b."
    )
    assert sentence(STATUS_POWEROFF, own.format(2, 2, 1)).startswith(
        "The guest ran to its end, but mine ended with status 2."
    )
    assert sentence(STATUS_POWEROFF, own.format(0, 1, 1)).startswith(
        "The guest ran to its end, but the job program failed with status 1; mine ended with "
        "status 0."
    )
    perf = (
        "program: status=0 command=/usr/bin/perf record -o perf.data -- /program/mine 3\n"
        "program: status=0 command=/usr/bin/perf report -i perf.data --stdio\n" + END.format(0)
    )
    assert sentence(STATUS_POWEROFF, perf) == "The guest ran to its end: mine ended with status 0."
    wrong = "program: status=129 command=/usr/bin/perf recrod -- /program/mine 3\n" + END.format(0)
    assert sentence(STATUS_POWEROFF, wrong).endswith("perf recrod of mine ended with status 129.")
    few = {"regions": {**{name: region(5, 0) for name in "123"}, "4": region(2005, 1000)}}
    assert sentence(STATUS_POWEROFF, ROW.format(4, 1000, 1000) + END.format(0), few).endswith(
        "program A.1 got its 1000 PMIs, and each took 2 exits."
    )


@pytest.mark.more
def test_ledger_names_msrs(lab):
    """The exits of RDMSR and WRMSR by MSR add up, each table is there once, and root mode says what
    is in it; a run without PMUvisor has none."""
    boot = lab.emulator("sentence-intercept", entry="intercept", jobs="a1,report")
    for reason in ("31", "32"):
        row = boot.ledger["exits"][reason]
        assert sum(row["msrs"].values()) == row["count"] > 0, row
    assert "msrs" not in boot.ledger["exits"]["10"]
    text = "\n".join(ledgers.ledger_lines(boot.ledger))
    # What Linux's handler writes for each PMI.
    assert re.search(r"^ +0x186 IA32_PERFEVTSEL0 +[1-9]\d* *$", text, re.MULTILINE), text
    assert len(re.findall(r"with PMUvisor's start and its report at the end", text)) == 1
    native = lab.emulator("sentence-native", entry="native", jobs="a1,report")
    assert "PMUvisor" not in "\n".join(ledgers.ledger_lines(native.ledger))
    assert said(native).endswith("program A.1 got its 1110 PMIs, and no exit was taken for one.")
