# SPDX-License-Identifier: BSD-2-Clause
# test_guard.py: the guard of the boot menu on Linux's side. No boot is made:
# tests/e2e/test_crash.py has what the menu does.
import os

import pytest

from metal.tests.made_up import content, new_esp, put
from testbed.machine import path
from tests.e2e.scripts import expect_line, run

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


# What a system has before guard.sh --server, besides PMUvisor's own files.
GRUB_CFG = b'if [ "${next_entry}" ] ; then\nsource ${config_directory}/custom.cfg\nfi\n'
OPTIONS = b"policy=msr\nappend=quiet\nappend=root=/dev/sda1 quiet\n"


def files_of(folder):
    return {
        os.path.relpath(os.path.join(where, name), folder): content(where, name)
        for where, _, names in os.walk(folder)
        for name in names
    }


def parts_between(text):
    """A file's own lines, and those that guard.sh added."""
    own, _, rest = text.partition("# From here on by PMUvisor's guard.sh --server.\n")
    added, _, more = rest.partition("# Up to here by PMUvisor's guard.sh --server.\n")
    return own + more, added


@pytest.mark.parametrize("bench", [b"", b"set bench=thesis\n"], ids=["menu", "measures"])
def test_server(tmp_path, bench):
    """guard.sh --server: a reset after a fault or a panic, and GRUB's own entry, or without one the
    measurements; said a second time it changes nothing, and --remove leaves what was there."""
    esp, folder, root = system(tmp_path)
    put(folder, "pmuvisor.cfg", OPTIONS)
    put(folder, "local.cfg", b"set append='quiet'\n" + bench)
    put(root, "boot/grub/custom.cfg", b"# mine\n")
    expect_line(run(GUARD, "--server", esp, GUARD_ROOT=root), "boot/grub/grub.cfg", "update-grub")
    put(root, "boot/grub/grub.cfg", GRUB_CFG)
    put(root, "sys/class/watchdog/watchdog0/identity", b"Software Watchdog\n")
    grubenv = os.path.join(root, "boot", "grub", "grubenv")
    run("grub-editenv", grubenv, "create")
    before = files_of(tmp_path)
    wanted = "each start measures: restart" if bench else "no entry 'pmuvisor'"
    expect_line(run(GUARD, "--once", esp, GUARD_ROOT=root), wanted, "guard.sh --server")

    def server():
        done = run(GUARD, "--server", esp, GUARD_ROOT=root)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout, files_of(tmp_path)

    (said, after), (_, again) = server(), server()
    assert again == after, "a second time adds more"
    assert "none in hardware" in said, said
    changed = [name for name in after if after[name] != before.get(name)]
    assert all(name in said for name in changed if ".wants/" not in name), (changed, said)
    own, added = parts_between(content(folder, "pmuvisor.cfg").decode())
    assert own == OPTIONS.decode().replace("quiet\n", "quiet panic=10\n"), own
    assert added.startswith("fault=reset\n"), added
    _, added = parts_between(content(folder, "local.cfg").decode())
    assert added.startswith('set append="$append panic=10"\n') and bool(bench) == (
        "menuentry" not in added
    ), added
    own, added = parts_between(content(root, "boot/grub/custom.cfg").decode())
    assert own == "# mine\n" and bool(bench) == ("menuentry" not in added), added
    assert run("grub-script-check", os.path.join(root, "boot/grub/custom.cfg")).returncode == 0
    assert b"RuntimeWatchdogSec=" in content(root, "etc/systemd/system.conf.d/pmuvisor.conf")
    put(root, "sys/class/watchdog/watchdog0/identity", b"iTCO_wdt\n")
    assert "Watchdog: iTCO_wdt\n" in server()[0]
    put(root, "sys/class/watchdog/watchdog0/identity", b"Software Watchdog\n")
    run("grub-editenv", grubenv, "set", "next_entry=pmuvisor")
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    assert files_of(tmp_path) == before
    # The user's own word.
    put(folder, "pmuvisor.cfg", b"append=quiet panic=10")
    server()
    assert content(folder, "pmuvisor.cfg").startswith(b"append=quiet panic=10\n#")
    assert run(GUARD, "--remove", esp, GUARD_ROOT=root).returncode == 0
    assert content(folder, "pmuvisor.cfg") == b"append=quiet panic=10\n"
