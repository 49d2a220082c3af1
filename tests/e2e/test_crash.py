# SPDX-License-Identifier: BSD-2-Clause
# test_crash.py: what is left of a machine that hung, faulted or shut down, where nobody has a
# serial line: the log that the next start finds in memory and writes to a file, that of a start
# which was refused, and the boot menu's guard, which takes the native entry then.

import pytest

from testbed.boots import image
from testbed.machine import STATUS_POWEROFF, STATUS_TEXT, made
from tests.e2e import kernel
from tests.e2e.host import Plan, image_with_hooks
from tests.e2e.screen import Screen

LOG = "pmuvisor.log"
GUARD = "grubenv"
DIES = "now dies"
LIMIT = 4000  # millions of emulated instructions; two boots have some 900
# How it dies (tests/kernel/test_die.c), who resets the machine then, what the log has to say.
BUTTON = [f"reset_button 20 {DIES}"]
ENDS = {
    "guest-hangs": (0, BUTTON, "", ["starting the guest"]),
    "root-hangs": (1, BUTTON, "", ["starting the guest"]),
    "fault": (
        2,
        [],
        "fault=reset wait=1",
        ["fault in root mode: asked for by the guest", "VMCALL", "---- reset in 1"],
    ),
    "fault-halts": (
        2,
        BUTTON,
        "",
        ["fault in root mode: asked for by the guest", "---- stopped ----"],
    ),
    "triple-fault": (3, [], "", ["shut down (triple fault)", "RIP ffffffff8", "TRIPLE_FAULT  "]),
}


def block(guard):
    """GRUB's environment block."""
    return f"# GRUB Environment Block\nguard={guard}\n".ljust(1024, "#").encode()


def guard_of(boot):
    lines = boot.files[GUARD].decode().splitlines()
    return next(line.split("=", 1)[1] for line in lines if line.startswith("guard="))


def run(lab, name, plan, config="", guard="", payload=None, **more):
    """A boot of the test kernel, or with `payload` of Linux with these jobs, under the guard."""
    more |= {
        "config": f"console=none {config}".strip(),
        "read": (LOG, GUARD),
        "limit": LIMIT,
        "add": {f"/EFI/pmuvisor/{GUARD}": block(guard)},
    }
    if payload:
        return lab.emulator(name, jobs=payload, knobs="\n".join(plan.knobs) + "\n", **more)
    return kernel.run(lab, name, plan, **more)


def died(lab, name):
    """The machine dies, is reset, and its menu goes the native way, with nobody at the keys."""
    kind, knobs, config, _ = ENDS[name]
    plan = Plan("allow_resets 1", *knobs).add(f"die:{kind}")
    return run(lab, f"crash-{name}", plan, config, efi=image_with_hooks(config))


FULL_ENDS = {"fault-halts"}  # as two others, once more with a button


def ends(what):
    return [
        pytest.param(
            name, id=f"{name}-{what}", marks=[pytest.mark.full] if name in FULL_ENDS else []
        )
        for name in ENDS
    ]


@pytest.mark.parametrize("name", ends("log"))
def test_log(lab, name):
    """The next start writes the log to a file: all of it, though no serial line was there."""
    boot = died(lab, name)
    assert DIES in boot.console, boot.last_line()
    assert "starting the guest" not in boot.console, "there was a serial line"
    log = boot.files[LOG]
    assert log, f"no {LOG} on the disk (exit status {boot.status}); {boot.last_line()}"
    text = log.decode("ascii")
    assert "leaving firmware" in text and "parts may be wrong" not in text, text[:300]
    position = 0
    for fragment in ENDS[name][3]:
        found = text.find(fragment, position)
        assert found >= 0, f"'{fragment}' is not in: {text[-600:]}"
        position = found


@pytest.mark.parametrize("name", ends("menu"))
def test_guard(lab, name):
    """The menu takes the native entry after that; what it noted, and how far the start came."""
    boot = died(lab, name)
    boot.expect_status(STATUS_POWEROFF)
    assert guard_of(boot) == "failed"
    assert "ok 1 - die" in boot.console and "# SKIP" in boot.console, boot.console[-500:]


def test_reset_in_order(lab):
    """The guest's own reset is an end in order, of which no log is saved; nobody said that it was
    up."""
    boot = run(
        lab,
        "crash-reset",
        Plan("allow_resets 1"),
        payload="efivars",
        end="reboot",
        until="`Linux: native'",
    )
    boot.expect_status(STATUS_TEXT)
    assert boot.job_status("efivars") == 0
    assert guard_of(boot) == "failed", "nobody said that the guest is up, and it is believed"
    assert boot.files[LOG] is None, boot.files[LOG][-300:]


@pytest.mark.full
def test_was_up(lab):
    """Once a guest was up the guard tries again."""
    boot = run(lab, "crash-was-up", Plan(), payload="efivars", guard="up")
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("efivars") == 0
    assert guard_of(boot) == "trying"


REFUSED = "this processor shows no VMX"


def test_refusal(lab):
    """A refusal stays on the screen until a key, and its log is in a file."""
    lab.once("crash-refusal", lambda: refusal(lab)).wait()


def refusal(lab):
    with Screen(lab, "crash-refusal", made(image()), "wait=3600") as machine:
        machine.await_(lambda: "a key, or 3600 seconds" in machine.console(), "the wait")
        assert machine.shows("PMUvisor refuses to start: " + REFUSED[:20]), "not on the screen"
        assert "reset the machine" not in machine.console(), "GRUB went on without a key"
        machine.press("ret")
        machine.await_(
            lambda: "reset the machine" in machine.console()
            or machine.console().count("a key, or 3600 seconds") > 1,
            "the next entry",
        )
        log = machine.file(LOG).decode("ascii")
        assert "PMUvisor refuses to start: " in log and REFUSED in log, log[-300:]


# What makes the mutant fault there, and what comes before that in the log.
FAULTS = {
    "before-entry": ("stats=cycles", "leaving firmware"),
    "after-entry": ("", "starting the guest"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("before-entry", id="screen-before-entry", marks=pytest.mark.full),
        pytest.param("after-entry", id="screen-after-entry"),
    ],
)
def test_screen(lab, name):
    """The report of a fault is on the screen, before the first VM entry and after the guest has the
    screen; the reset button leaves the log to the next start."""
    lab.once(f"crash-screen-{name}", lambda: screen(lab, *FAULTS[name])).wait()


def screen(lab, config, before):
    with Screen(
        lab,
        f"crash-screen-{before.split()[0]}",
        made("build/mutants/blind_start.efi"),
        f"console=none pmu=off tick=0 wait=0 {config}".strip(),
    ) as machine:
        machine.await_(lambda: machine.shows("---- stopped ----"), "the report's end")
        assert machine.shows("pmuvisor: fault in root mode: exception 6, error code 0x0, at RIP")
        first = machine.console()
        assert "fault in root mode" not in first, "there was a serial line"
        machine.command("system_reset")
        machine.await_(
            lambda: "the last run's log is in pmuvisor.log" in machine.console()[len(first) :],
            "the second start",
        )
        log = machine.file(LOG).decode("ascii")
        assert before in log.split("fault in root mode: exception 6,")[0], log[-600:]
