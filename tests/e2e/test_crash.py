# SPDX-License-Identifier: BSD-2-Clause
# test_crash.py: what is left of a machine that hung, faulted or shut down, where nobody has a serial
# line: the log that the next start finds in memory and writes to a file, the line in an EFI
# variable, and the boot menu's guard, which takes the native entry then.
import os
import tempfile

import kernel
from host import Plan, image_with_hooks
from machine import STATUS_POWEROFF, STATUS_TEXT, path
import pytest
import scripts
from screen import Screen

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


def run(lab, name, plan, config="", guard="", payload=None, **more):
    """A boot of the test kernel, or with `payload` of Linux with these jobs, under the guard."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-crash.") as work:
        file = os.path.join(work, GUARD)
        with open(file, "wb") as out:
            out.write(block(guard))
        more |= {"config": f"console=none {config}".strip(), "read": (LOG, GUARD), "limit": LIMIT,
                 "add": [f"{file}=/EFI/pmuvisor/{GUARD}"]}
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
    return [pytest.param(name, id=f"{name}-{what}",
                         marks=[pytest.mark.full] if name in FULL_ENDS else [])
            for name in ENDS]


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


def test_steps(lab):
    """A start that came up: the guest finds the last step in the variable. Its own reset is an end
    in order, of which no log is saved."""
    boot = run(lab, "crash-steps", Plan("allow_resets 1"), payload="efivars", end="reboot",
               until="`Linux: native'")
    boot.expect_status(STATUS_TEXT)
    last = [line["last"] for line in boot.lines("efivars") if "last" in line]
    assert last == ["PMUvisor 0.1.0: VMLAUNCH: the guest starts"], last
    assert boot.job_status("efivars") == 0
    assert guard_of(boot) == "failed", "nobody said that the guest is up, and it is believed"
    assert boot.files[LOG] is None, boot.files[LOG][-300:]


@pytest.mark.full
def test_no_marks(lab):
    """Once a guest was up the steps are not noted any more."""
    boot = run(lab, "crash-no-marks", Plan(), payload="efivars", guard="up")
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("efivars") == 0
    assert not [line for line in boot.lines("efivars") if "last" in line], "noted"
    assert guard_of(boot) == "trying"


UP = path("boot", "up.sh")
LEAF = 0x40000000  # the first of a hypervisor's, where the driver cpuid is read
VARIABLE = "PMUvisorLast-34146edf-63a9-4549-acaa-f03b0b4a4ef8"


def system(work):
    """An EFI system partition with PMUvisor, a system's root folder, its efivars."""
    esp, root = os.path.join(work, "esp"), os.path.join(work, "root")
    efivars = os.path.join(root, "sys", "firmware", "efi", "efivars")
    for folder in (os.path.join(esp, "EFI", "pmuvisor"), efivars, os.path.join(root, "proc"),
                   os.path.join(root, "dev", "cpu", "0"),
                   os.path.join(root, "etc", "systemd", "system")):
        os.makedirs(folder)
    return esp, root, efivars


def write(text, *names):
    with open(os.path.join(*names), "w", encoding="ascii") as out:
        out.write(text)


def grubenv(esp):
    """As GRUB's own tool reads it."""
    return scripts.run("grub-editenv", os.path.join(esp, "EFI", "pmuvisor", GUARD), "list").stdout


def test_up():
    """up.sh: the guard in GRUB's own eyes. Only a guest says that it is up, and only once started by
    the menu; the variable goes then."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-up.") as work:
        esp, root, efivars = system(work)
        program = os.path.join(root, "usr", "local", "sbin", "pmuvisor-up")

        def up(*arguments, script=UP):
            done = scripts.run(script, *arguments, esp, UP_ROOT=root)
            assert done.returncode == 0 and not done.stderr, done
            return grubenv(esp)
        assert up("--install") == "guard=\n"
        unit = os.path.join(root, "etc/systemd/system/multi-user.target.wants/pmuvisor-up.service")
        with open(unit, encoding="ascii") as source:
            assert f"ExecStart=/usr/local/sbin/pmuvisor-up {esp}\n" in source.read()
        file = os.path.join(esp, "EFI", "pmuvisor", GUARD)
        assert os.path.getsize(file) == 1024, "not the size that GRUB wants"
        write("\x07\0\0\0a line", efivars, VARIABLE)
        # As natively, under another hypervisor, and under PMUvisor, whether the bit is set or not.
        for signature, guard, after in ((b"\x08\0\0\0" * 3, "trying", "trying"),
                                        (b"KVMKVMKVM\0\0\0", "trying", "trying"),
                                        (b"PMUvisorPMUv", "", ""),
                                        (b"PMUvisorPMUv", "failed", "failed"),
                                        (b"PMUvisorPMUv", "trying", "up")):
            with open(os.path.join(root, "dev", "cpu", "0", "cpuid"), "wb") as device:
                device.seek(LEAF)
                device.write(b"\1\0\0\x40" + signature)
            scripts.run("grub-editenv", file, "set", f"guard={guard}")
            assert up(script=program) == f"guard={after}\n", (signature, guard)
            assert os.path.exists(os.path.join(efivars, VARIABLE)) == (after != "up")
        assert up("--again") == "guard=\n"
        assert scripts.run(UP, "--remove", esp, UP_ROOT=root).returncode == 0
        left = [name for _, _, names in os.walk(work) for name in names]
        assert left == ["cpuid"], left
        scripts.expect_line(scripts.run(UP, "--install", work), f"{work}/EFI/pmuvisor", "make install")
        scripts.expect_line(scripts.run(UP, "--often", esp), "--often", "wanted --again")
        scripts.expect_line(scripts.run(UP), "no ESP", "/boot/efi")


def test_collect():
    """make collect takes the log and the variable along, whether anything was measured or not."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-collect.") as work:
        esp, _, efivars = system(work)
        out = os.path.join(work, "out")
        collect = path("boot", "collect.sh")
        scripts.expect_line(scripts.run(collect, esp, out, EFIVARS=efivars), "bench", "is not there")
        write("the last words\n", esp, "EFI", "pmuvisor", LOG)
        write("\x07\0\0\0a line\n", efivars, VARIABLE)
        done = scripts.run(collect, esp, out, EFIVARS=efivars)
        assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
        for name, text in ((LOG, "the last words\n"), ("pmuvisor-last.txt", "a line\n")):
            with open(os.path.join(out, name), encoding="ascii") as source:
                assert source.read() == text, name


REFUSED = "this processor shows no VMX"


def test_refusal(lab):
    """A refusal stays on the screen until a key, and is told by the next start."""
    with Screen(lab, "crash-refusal", lab.efi(), "wait=3600") as machine:
        machine.await_(lambda: "a key, or 3600 seconds" in machine.console(), "the wait")
        assert machine.shows("PMUvisor refuses to start: " + REFUSED[:20]), "not on the screen"
        assert "reset the machine" not in machine.console(), "GRUB went on without a key"
        machine.press("ret")
        # The menu's next entry resets the machine.
        machine.await_(lambda: "the last start left: " in machine.console(), "the second start")
        said = machine.console()
        assert REFUSED in said.split("the last start left: PMUvisor")[1].split("kernel ")[0], said


# What makes the mutant fault there, and what the variable has after it.
FAULTS = {
    "before-entry": ("stats=cycles", "fault in root mode: exception 6,"),
    "after-entry": ("", "VMLAUNCH: the guest starts"),
}


@pytest.mark.parametrize("name", [
    pytest.param("before-entry", id="screen-before-entry", marks=pytest.mark.full),
    pytest.param("after-entry", id="screen-after-entry")])
def test_screen(lab, name):
    """The report of a fault is on the screen, before the first VM entry and after the guest has the
    screen; the reset button leaves log and variable to the next start."""
    config, kept = FAULTS[name]
    with Screen(lab, f"crash-screen-{name}", path("build", "mutants", "blind_start.efi"),
                f"console=none marks=on pmu=off tick=0 wait=0 {config}".strip()) as machine:
        machine.await_(lambda: machine.shows("---- stopped ----"), "the report's end")
        assert machine.shows("pmuvisor: fault in root mode: exception 6, error code 0x0, at RIP")
        first = machine.console()
        assert "fault in root mode" not in first, "there was a serial line"
        machine.command("system_reset")
        machine.await_(lambda: "the last run's log is in pmuvisor.log" in
                       machine.console()[len(first):], "the second start")
        said = machine.console()[len(first):]
        assert kept in said.split("the last start left: PMUvisor")[1].split("the last run")[0], said
