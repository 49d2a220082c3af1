# SPDX-License-Identifier: BSD-2-Clause
# test_guard.py: the guard of the boot menu on Linux's side, and what collect.sh takes along of a
# start that failed. No boot is made: tests/e2e/test_crash.py has what the menu does.
import os
import tempfile

from machine import path
import scripts

LOG = "pmuvisor.log"
GUARD = "grubenv"
GUARD_SCRIPT = path("metal", "guard.sh")
LEAF = 0x40000000  # the first of a hypervisor's, where the driver cpuid is read


def system(work):
    """An EFI system partition with PMUvisor, and a system's root folder."""
    esp, root = os.path.join(work, "esp"), os.path.join(work, "root")
    for folder in (
        os.path.join(esp, "EFI", "pmuvisor"),
        os.path.join(root, "proc"),
        os.path.join(root, "dev", "cpu", "0"),
        os.path.join(root, "etc", "systemd", "system"),
    ):
        os.makedirs(folder)
    return esp, root


def write(text, *names):
    with open(os.path.join(*names), "w", encoding="ascii") as out:
        out.write(text)


def grubenv(esp):
    """As GRUB's own tool reads it."""
    return scripts.run("grub-editenv", os.path.join(esp, "EFI", "pmuvisor", GUARD), "list").stdout


def test_up():
    """guard.sh: the guard in GRUB's own eyes. Only a guest says that it is up, and only once the
    menu has started it."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-up.") as work:
        esp, root = system(work)
        program = os.path.join(root, "usr", "local", "sbin", "pmuvisor-up")

        def up(*arguments, script=GUARD_SCRIPT):
            done = scripts.run(script, *arguments, esp, GUARD_ROOT=root)
            assert done.returncode == 0 and not done.stderr, done
            return grubenv(esp)

        assert up("--install") == "guard=\n"
        unit = os.path.join(root, "etc/systemd/system/multi-user.target.wants/pmuvisor-up.service")
        with open(unit, encoding="ascii") as source:
            assert f"ExecStart=/usr/local/sbin/pmuvisor-up {esp}\n" in source.read()
        file = os.path.join(esp, "EFI", "pmuvisor", GUARD)
        assert os.path.getsize(file) == 1024, "not the size that GRUB wants"
        # As natively, under another hypervisor, and under PMUvisor, whether the bit is set or not.
        for signature, guard, after in (
            (b"\x08\0\0\0" * 3, "trying", "trying"),
            (b"KVMKVMKVM\0\0\0", "trying", "trying"),
            (b"PMUvisorPMUv", "", ""),
            (b"PMUvisorPMUv", "failed", "failed"),
            (b"PMUvisorPMUv", "trying", "up"),
        ):
            with open(os.path.join(root, "dev", "cpu", "0", "cpuid"), "wb") as device:
                device.seek(LEAF)
                device.write(b"\1\0\0\x40" + signature)
            scripts.run("grub-editenv", file, "set", f"guard={guard}")
            assert up(script=program) == f"guard={after}\n", (signature, guard)
        assert up("--again") == "guard=\n"
        assert scripts.run(GUARD_SCRIPT, "--remove", esp, GUARD_ROOT=root).returncode == 0
        left = [name for _, _, names in os.walk(work) for name in names]
        assert left == ["cpuid"], left
        scripts.expect_line(
            scripts.run(GUARD_SCRIPT, "--install", work), f"{work}/EFI/pmuvisor", "make install"
        )
        scripts.expect_line(scripts.run(GUARD_SCRIPT, "--often", esp), "--often", "wanted --again")
        scripts.expect_line(scripts.run(GUARD_SCRIPT), "no ESP", "/boot/efi")


def test_collect():
    """make collect takes the log along, whether anything was measured or not."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-collect.") as work:
        esp, _ = system(work)
        out = os.path.join(work, "out")
        collect = path("metal", "collect.sh")
        scripts.expect_line(scripts.run(collect, esp, out), "bench", "is not there")
        write("the last words\n", esp, "EFI", "pmuvisor", LOG)
        done = scripts.run(collect, esp, out)
        assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
        with open(os.path.join(out, LOG), encoding="ascii") as source:
            assert source.read() == "the last words\n"
