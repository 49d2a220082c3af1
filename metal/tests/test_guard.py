# SPDX-License-Identifier: BSD-2-Clause
# test_guard.py: the guard of the boot menu on Linux's side, and what collect.sh takes along of a
# start that failed. No boot is made: tests/e2e/test_crash.py has what the menu does.
import os

from metal.tests.made_up import content, new_esp, put
from testbed.machine import path
from tests.e2e.scripts import expect_line, run

LOG = "pmuvisor.log"
GUARD = path("metal", "guard.sh")
LEAF = 0x40000000  # the first of a hypervisor's, where the driver cpuid is read


def system(work):
    """(an EFI system partition with PMUvisor, its folder there, a system's root folder)."""
    (esp, folder), root = new_esp(work), os.path.join(work, "root")
    for name in ("proc", "dev/cpu/0", "etc/systemd/system"):
        os.makedirs(os.path.join(root, name))
    os.mkdir(folder)
    return esp, folder, root


def test_up(tmp_path):
    """guard.sh: the guard in GRUB's own eyes. Only a guest says that it is up, and only once the
    menu has started it."""
    esp, folder, root = system(tmp_path)
    grubenv = os.path.join(folder, "grubenv")
    program = os.path.join(root, "usr", "local", "sbin", "pmuvisor-up")

    def up(*arguments, script=GUARD):
        done = run(script, *arguments, esp, GUARD_ROOT=root)
        assert done.returncode == 0 and not done.stderr, done
        return run("grub-editenv", grubenv, "list").stdout

    assert up("--install") == "guard=\n"
    unit = "etc/systemd/system/multi-user.target.wants/pmuvisor-up.service"
    assert f"ExecStart=/usr/local/sbin/pmuvisor-up {esp}\n" in content(root, unit).decode()
    assert os.path.getsize(grubenv) == 1024, "not the size that GRUB wants"
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
        run("grub-editenv", grubenv, "set", f"guard={guard}")
        assert up(script=program) == f"guard={after}\n", (signature, guard)
    assert up("--again") == "guard=\n"
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    left = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert left == ["cpuid"], left
    expect_line(run(GUARD, "--install", tmp_path), f"{tmp_path}/EFI/pmuvisor", "make install")
    expect_line(run(GUARD, "--often", esp), "--often", "wanted --again")
    expect_line(run(GUARD), "no ESP", "/boot/efi")


def test_collect(tmp_path):
    """make collect takes the log along, whether anything was measured or not."""
    esp, folder, _ = system(tmp_path)
    collect, out = path("metal", "collect.sh"), str(tmp_path / "out")
    expect_line(run(collect, esp, out), "bench", "is not there")
    put(folder, LOG, b"the last words\n")
    done = run(collect, esp, out)
    assert done.returncode == 0 and not done.stderr and LOG in done.stdout, done
    assert content(out, LOG) == b"the last words\n"
