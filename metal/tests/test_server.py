# SPDX-License-Identifier: BSD-2-Clause
# test_server.py: machines without anybody at the screen (docs/server.md), as QEMU's PC without VMX
# and with OVMF: Debian's own GRUB, whose one-time entry starts PMUvisor, and the network's ways to
# start it. There every start ends with PMUvisor's refusal.
import os
import shutil
import sys
import tempfile

import pytest

from metal.tests.made_up import append, content, mtools, new_esp, put, put_whole
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
NO_VOLUME = "the volume that pmuvisor.efi was loaded from cannot be opened"
GUARD, INSTALL, USB = (path("metal", f"{name}.sh") for name in ("guard", "install", "usb"))


def pc(*devices, memory="512"):
    words = f"-M q35 -cpu Skylake-Server -m {memory} -nodefaults".split()
    return emulated_pc.command(*words, *devices)


def installed(work, *options):
    """An EFI system partition with what `make install` copies; PMUvisor does not wait for a key."""
    esp, folder = new_esp(work)
    files = (os.path.join(parts(work), name) for name in ("vmlinuz", "initrd.img"))
    tool([INSTALL, "--quiet", "--append", "quiet", *options, esp, made(image_of()), *files])
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


def server(work, measured=None):
    """A server's disk with Debian's GRUB, on which guard.sh was run as docs/server.md says: to
    start PMUvisor once, or to measure this column, which has its results."""
    grub = f"{MODULES}/monolithic/grubx64.efi"
    for file in (grub, "/etc/grub.d/00_header"):
        if not os.path.exists(file):
            raise Skip(f"{file} is missing; run: testbed/deps.sh run")
    if shutil.which("grub-reboot") is None:
        raise Skip("grub-reboot is missing; run: testbed/deps.sh more")
    root = os.path.join(work, "root")
    tool(["grub-editenv", debian_grub(root), "create"])
    esp = installed(work, *(("--bench", parts(work), "--plan", "thesis") if measured else ()))
    if measured:
        folder = os.path.join(esp, "EFI", "pmuvisor")
        put_whole(folder, "plan.cfg", f'set bench_plan="1.{measured}"\n')
        put(folder, f"bench/1.{measured}.ok")
    for option in ("--server", *(() if measured else ("--once",))):
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
    for text in (DEBIAN, *emulated_pc.GIVEN_UP):
        assert squeeze(text) not in refused, "it did not restart by itself"
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


def test_measured(lab):
    """A server that measures goes back to Debian when there is nothing left to measure."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-server.", dir=SCRATCH) as work:
        disk = server(work, measured="native")
        keep = os.path.join(lab.keep, "server-measured.console")
        said = emulated_pc.talk(pc(*disk_device(disk)), [DEBIAN, "Booting `Linux"], keep)
    expect_order(said, "Measurements complete", "Booting `Debian'", DEBIAN)


# ---- the network ----

# In a network namespace of its own: a card that QEMU's machine is on, a web server, dnsmasq as the
# page has it, and then QEMU, with which the others end.
NETWORK = """
ip link set lo up
ip tuntap add dev eth0 mode tap
ip address add 10.9.0.1/24 dev eth0
ip link set eth0 up
"$1" -m http.server --bind 10.9.0.1 --directory "$2" 80 > "$2/http.log" 2>&1 &
http=$!
dnsmasq --no-daemon --port=0 --conf-file="$2/dnsmasq.conf" \\
    --dhcp-leasefile="$2/leases" --pid-file= > "$2/dnsmasq.log" 2>&1 &
dns=$!
shift 2
"$@" || true
kill $http $dns
"""
THIS_MACHINE = "grub.cfg-01-52-54-00-12-34-56"  # its menu, by the MAC address that QEMU gives
NAMESPACE = ["unshare", "--map-root-user", "--net"]


def page_block(first):
    """The block of docs/server.md that has a line which begins with this."""
    blocks = content(path("docs", "server.md")).decode().split("```\n")
    (found,) = (block for block in blocks if f"\n{first}" in f"\n{block}")
    return found


def network_start(lab, name, served, settings, *devices, memory="512"):
    """start(), with a network card that firmware tries first, and a server as in these settings.
    The card is without its own program, which would take the place of firmware's."""
    for command in ("dnsmasq", "ip", "unshare"):
        if shutil.which(command) is None:
            raise Skip(f"{command} is missing; run: testbed/deps.sh more")
    if run(*NAMESPACE, "ip", "tuntap", "add", "dev", "eth0", "mode", "tap").returncode != 0:
        raise Skip("no network namespace, or no /dev/net/tun: no machine can be on a network")
    put(served, "dnsmasq.conf", settings.replace("/srv/tftp", served).encode())
    card = "tap,id=net,ifname=eth0,script=no,downscript=no"
    machine = pc(
        *["-netdev", card, "-device", "virtio-net-pci,netdev=net,bootindex=1,romfile="],
        *devices,
        memory=memory,
    )
    inside = [*NAMESPACE, "sh", "-ec", NETWORK, "sh", sys.executable, served]
    keep = os.path.join(lab.keep, f"server-{name}.console")
    return emulated_pc.talk(
        [*inside, *machine], [REFUSAL, "no such device", "Server response timeout"], keep
    )


def test_http_boot(lab):
    """Firmware loads a stick's image from a web server. Its GRUB starts PMUvisor, which reads its
    files from the image."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-server.", dir=SCRATCH) as work:
        served, tree = os.path.join(work, "served"), os.path.join(work, "tree")
        os.mkdir(served)
        image = os.path.join(served, "pmuvisor-usb.img")
        tool([USB, "--bench", parts(work), "--tree", tree, "--out", image, made(image_of())])
        # Smaller, and without a wait for a key.
        append(os.path.join(tree, "EFI", "pmuvisor", "local.cfg"), b"set timeout=0\n")
        disk = (path("testbed", "disk.sh"), "--gpt", "--size", "40", "--tree", tree)
        tool([*disk, "--out", image])
        # OvmfPkg/RUNTIME_CONFIG.md: firmware would first wait for an answer to PXE.
        no_pxe = [
            word
            for version in ("4", "6")
            for word in ("-fw_cfg", f"name=opt/org.tianocore/IPv{version}PXESupport,string=no")
        ]
        settings = page_block("dhcp-vendorclass=")
        said = network_start(lab, "http", served, settings, *no_pxe, memory="1024")
    expect_order(said, "Start HTTP Boot over IPv4", FIRST, "kernel vmlinuz:", REFUSAL)


@pytest.mark.parametrize(
    "menu, text", [(True, REFUSAL), (False, NO_VOLUME)], ids=["disk", "server"]
)
def test_pxe(lab, menu, text):
    """Firmware loads GRUB from a server, and GRUB this machine's menu, as the page has it, which
    starts PMUvisor from the machine's own disk. PMUvisor from the server finds no volume."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-server.", dir=SCRATCH) as work:
        served, disk = os.path.join(work, "served"), os.path.join(work, "disk.img")
        esp = installed(work)
        tool(page_block("grub-mknetdir").replace("/srv/tftp", served).split())
        shutil.copy(made(image_of()), served)
        put(served, "grub/grub.cfg", b"chainloader /pmuvisor.efi wait=0\nboot\n")
        if menu:
            put(served, f"grub/{THIS_MACHINE}", page_block("search ").encode())
        tool([path("testbed", "disk.sh"), "--tree", esp, "--out", disk])
        settings = page_block("enable-tftp")
        said = network_start(lab, f"pxe-{menu}", served, settings, *disk_device(disk, 2))
    expect_order(said, "Start PXE over IPv4", "Welcome to GRUB", FIRST, text)
