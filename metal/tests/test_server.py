# SPDX-License-Identifier: BSD-2-Clause
# test_server.py: machines without anybody at the screen (docs/server.md), as QEMU's PC without VMX
# and with OVMF: Debian's own GRUB, whose one-time entry starts PMUvisor, and the network's ways to
# start it. There every start ends with PMUvisor's refusal.
import os
import shutil
import tempfile

import pytest

from metal.tests.made_up import append, content, mtools, new_esp, put
from metal.tests.test_secure import FIRST, REFUSAL, expect_order, parts, squeeze
from testbed.boots import image as image_of
from testbed.machine import SCRATCH, Skip, made, path, tool
from tests.e2e import emulated_pc
from tests.e2e.scripts import run

pytestmark = pytest.mark.more

MODULES = "/usr/lib/grub/x86_64-efi"
DEBIAN = "Debian's own system starts"
# On the disk: GRUB's own environment block, and the guard's.
GRUBS, GUARDS = "::/boot/grub/grubenv", "::/EFI/pmuvisor/grubenv"
GUARD, INSTALL = (path("metal", f"{name}.sh") for name in ("guard", "install"))


def pc(*devices, memory="512"):
    words = f"-M q35 -cpu Skylake-Server -m {memory} -nodefaults".split()
    return emulated_pc.command(*words, *devices)


def installed(work):
    """An EFI system partition with what `make install` copies; PMUvisor does not wait for a key."""
    esp, folder = new_esp(work)
    files = (os.path.join(parts(work), name) for name in ("vmlinuz", "initrd.img"))
    tool([INSTALL, "--quiet", "--append", "quiet", esp, made(image_of()), *files])
    append(os.path.join(folder, "pmuvisor.cfg"), b"wait=0\n")
    append(os.path.join(folder, "local.cfg"), b"set timeout=0\n")
    return esp


def disk_device(image, order=1):
    return [
        "-drive",
        f"if=none,id=disk,format=raw,file={image}",
        "-device",
        f"virtio-blk-pci,drive=disk,bootindex={order}",
    ]


# ---- Debian's GRUB ----


def debian_grub(root):
    """/boot/grub of a Debian system, by GRUB's own scripts. Its default entry says that it was
    started. Returns the path of its environment block."""
    words = {"pkgdatadir": "/usr/share/grub", "grub_probe": "false", "GRUB_TIMEOUT": "1"}
    text = run("sh", "/etc/grub.d/00_header", **words).stdout
    assert "next_entry" in text, text
    text += f'menuentry Debian {{\n    echo "{DEBIAN}"\n    halt\n}}\n'
    text += run("sh", "/etc/grub.d/41_custom").stdout
    put(root, "boot/grub/grub.cfg", text.encode())
    os.makedirs(os.path.join(root, "etc", "systemd", "system"))
    return os.path.join(root, "boot", "grub", "grubenv")


def server(work):
    """A server's disk with Debian's GRUB, on which guard.sh was run as docs/server.md says."""
    grub = f"{MODULES}/monolithic/grubx64.efi"
    for file in (grub, "/etc/grub.d/00_header"):
        if not os.path.exists(file):
            raise Skip(f"{file} is missing; run: testbed/deps.sh run")
    if shutil.which("grub-reboot") is None:
        raise Skip("grub-reboot is missing; run: testbed/deps.sh more")
    root = os.path.join(work, "root")
    tool(["grub-editenv", debian_grub(root), "create"])
    esp = installed(work)
    for option in ("--server", "--once"):
        done = run(GUARD, option, esp, GUARD_ROOT=root)
        assert done.returncode == 0, done  # grub-probe does not know the tests' file system
    put(esp, "EFI/BOOT/BOOTX64.EFI", content(grub))
    put(work, "debian/grub.cfg", b"set prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n")
    out = os.path.join(work, "disk.img")
    added = ("--add", f"{root}/boot=/", "--add", f"{work}/debian=/EFI/")
    tool([path("testbed", "disk.sh"), "--tree", esp, *added, "--out", out])
    return out


def starts(lab):
    """What a server said at a start that was refused, at the next one, and at one of a GRUB that
    could not clear its one-time entry after the first; and the guard after each."""

    def boot():
        said, guards = [], []

        def start(name):
            keep = os.path.join(lab.keep, f"server-{name}.console")
            until = [DEBIAN, "Booting `Linux: native'"]
            said.append(emulated_pc.talk(pc(*disk_device(disk)), until, keep))
            guards.append(mtools("mtype", disk, GUARDS).split(b"\n")[1])

        with tempfile.TemporaryDirectory(prefix="pmuvisor-server.", dir=SCRATCH) as work:
            disk = server(work)
            once = put(work, "once", mtools("mtype", disk, GRUBS))
            start("refused")
            trying = put(work, "trying", mtools("mtype", disk, GUARDS))
            start("after")
            for block, name in ((once, GRUBS), (trying, GUARDS)):
                mtools("mcopy", disk, "-o", block, name)
            start("loop")
        return said, guards

    return lab.once("server-starts", boot)


def test_refused_start(lab):
    """The one-time entry starts PMUvisor, which refuses; a restart follows without a key, and the
    next start is Debian's own, after the menu has noted how the one before ended."""
    (refused, after, _), guards = starts(lab)
    expect_order(refused, "Booting `PMUvisor'", FIRST, REFUSAL, "Restart: this machine's")
    assert squeeze(DEBIAN) not in refused, refused[-600:]
    expect_order(after, FIRST, "Booting `Debian'", DEBIAN)
    assert squeeze(REFUSAL) not in after, "PMUvisor was started again"
    assert guards[:2] == [b"guard=trying", b"guard=failed"], guards


def test_entry_that_stays(lab):
    """Where GRUB cannot clear its one-time entry the guard ends the loop: PMUvisor's menu starts
    Linux natively."""
    (*_, loop), guards = starts(lab)
    expect_order(loop, FIRST, "Booting `PMUvisor'", "Booting `Linux: native'")
    assert squeeze(REFUSAL) not in loop, "PMUvisor was started again"
    assert guards[2] == b"guard=failed", guards
