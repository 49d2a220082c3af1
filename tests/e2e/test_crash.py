# SPDX-License-Identifier: BSD-2-Clause
# test_crash.py: what is left of a machine that hung, faulted or shut down, where nobody has a serial
# line: the log that the next start finds in memory and writes to a file, the line in an EFI
# variable, and the boot menu's guard, which takes the native entry then.
import os
import tempfile

import kernel
from host import Plan, image_with_hooks
from machine import STATUS_POWEROFF, STATUS_RESET
import pytest

LOG = "pmuvisor.log"
GUARD = "grubenv"
DIES = "now dies"
LIMIT = 4000  # millions of emulated instructions; two boots have some 900
# How it dies (tests/kernel/test_die.c), who resets the machine then, what the log has to say.
BUTTON = [f"reset_button 20 {DIES}"]
ENDS = {
    "guest-hangs": (0, BUTTON, "", ["starting the guest"]),
    "root-hangs": (1, BUTTON, "", ["starting the guest"]),
    "fault": (2, [], "fault=reset wait=1", ["fault in root mode: asked for by the guest",
                                           "VMCALL", "---- reset in 1"]),
    "fault-halts": (2, BUTTON, "", ["fault in root mode: asked for by the guest",
                                    "---- stopped ----"]),
    "triple-fault": (3, [], "", ["shut down (triple fault)", "RIP ffffffff8",
                                       "TRIPLE_FAULT  "]),
}


def block(guard):
    """GRUB's environment block."""
    return f"# GRUB Environment Block\nguard={guard}\n".ljust(1024, "#").encode()


def guard_of(boot):
    lines = boot.files[GUARD].decode().splitlines()
    return next(line.split("=", 1)[1] for line in lines if line.startswith("guard="))


def run(lab, name, plan, config="", guard="", **more):
    with tempfile.TemporaryDirectory(prefix="pmuvisor-crash.") as work:
        grubenv = os.path.join(work, GUARD)
        with open(grubenv, "wb") as out:
            out.write(block(guard))
        return kernel.run(lab, name, plan, config=f"console=none {config}".strip(),
                          add=[f"{grubenv}=/EFI/pmuvisor/{GUARD}"], read=(LOG, GUARD),
                          limit=LIMIT, **more)


def died(lab, name):
    """The machine dies, is reset, and its menu goes the native way, with nobody at the keys."""
    kind, knobs, config, _ = ENDS[name]
    plan = Plan("allow_resets 1", *knobs).add(f"die:{kind}")
    return run(lab, f"crash-{name}", plan, config, efi=image_with_hooks())


@pytest.mark.parametrize("name", ENDS, ids=[f"{name}-log" for name in ENDS])
def test_log(lab, name):
    """The next start writes the log to a file: all of it, though no serial line was there."""
    boot = died(lab, name)
    assert DIES in boot.console, boot.last_line()
    assert "starting the guest" not in boot.console.replace(LOG, ""), "there was a serial line"
    log = boot.files[LOG]
    assert log, f"no {LOG} on the disk (exit status {boot.status}); {boot.last_line()}"
    text = log.decode("ascii")
    assert "leaving firmware" in text and "parts may be wrong" not in text, text[:300]
    position = 0
    for fragment in ENDS[name][3]:
        found = text.find(fragment, position)
        assert found >= 0, f"'{fragment}' is not in: {text[-600:]}"
        position = found


@pytest.mark.parametrize("name", ENDS, ids=[f"{name}-menu" for name in ENDS])
def test_guard(lab, name):
    """The menu takes the native entry after that; what it noted, and how far the start came."""
    boot = died(lab, name)
    boot.expect_status(STATUS_POWEROFF)
    assert guard_of(boot) == "failed"
    assert "ok 1 - die" in boot.console and "# SKIP" in boot.console, boot.console[-500:]
