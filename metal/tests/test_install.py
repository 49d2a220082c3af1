# SPDX-License-Identifier: BSD-2-Clause
# test_install.py: what `make install` and `make usb` take and say on systems that are not this one,
# by made-up roots of each distribution; what is in the measuring initramfs. No boot is made.
import os
import re

import pytest

from metal.tests.made_up import (
    INSTALLED,
    append,
    complaints,
    content,
    make,
    new_esp,
    path_with,
    path_without,
    put,
)
from testbed.boots import image as image_of
from testbed.boots import initrd, kernel
from testbed.machine import TOP, made, path, tool
from tests.e2e.scripts import expect_line, run

INSTALL = path("metal", "install.sh")
RELEASE = "6.5.0-14-generic"
OLD = "5.15.0-91-generic"
SETUP_HEADER = 0x202  # Linux, Documentation/arch/x86/boot.rst, "header", and "kernel_version" below
KERNEL_VERSION = 0x20E
# Of common machines; which the initramfs has is a question of what the kernel has.
DISKS = (
    "ahci ata_piix nvme vmd virtio_blk virtio_scsi usb-storage uas xhci-pci megaraid_sas mpt3sas "
    "mpi3mr smartpqi hpsa aacraid isci pm80xx mvsas arcmsr hv_storvsc usbhid vfat"
).split()
# Of each distribution: the kernel's and the initrd's files, what else there is, GRUB's folder.
RESCUE = ("boot/grub/splash.xpm.gz", "boot/vmlinuz-0-rescue-1f", "boot/initramfs-0-rescue-1f.img")
GRUB2 = "boot/grub2/grub.cfg"
ROOTS = {
    "debian": ("boot/vmlinuz-{}", "boot/initrd.img-{}", ["boot/grub/grub.cfg"], "/boot/grub"),
    "fedora": ("boot/vmlinuz-{}", "boot/initramfs-{}.img", [GRUB2, *RESCUE], "/boot/grub2"),
    "modules": ("lib/modules/{}/vmlinuz", "boot/initramfs-{}.img", [GRUB2], "/boot/grub2"),
    "opensuse": ("boot/vmlinuz-{}", "boot/initrd-{}", [GRUB2], "/boot/grub2"),
    "kernel-install": ("efi/0a1b/{}/linux", "efi/0a1b/{}/initrd", [], None),
    "entry": ("boot/here/bzImage-{}", "boot/here/ram-{}", ["lib/modules/{}/modules.dep"], None),
}


def kernel_file(release):
    """As much of a kernel as says its release."""
    data = bytearray(0x400)
    data[SETUP_HEADER : SETUP_HEADER + 4] = b"HdrS"
    data[KERNEL_VERSION : KERNEL_VERSION + 2] = (0x300 - 0x200).to_bytes(2, "little")
    text = f"{release} (someone@somewhere) #1 SMP\0".encode()
    data[0x300 : 0x300 + len(text)] = text
    return bytes(data)


def make_root(root, kind, releases):
    kernel, initrd, others, _ = ROOTS[kind]
    for release in releases:
        put(root, kernel.format(release), kernel_file(release))
        put(root, initrd.format(release), f"initrd of {release}".encode())
        for name in others:
            put(root, name.format(release), kernel_file("0-rescue"))
    if kind == "entry":
        for release in releases:
            put(
                root,
                f"boot/loader/entries/0a1b-{release}.conf",
                f"title Linux\nversion {release}\nlinux /here/bzImage-{release}\n"
                f"initrd /here/ram-{release} $tuned_initrd\noptions root=/dev/sda1\n".encode(),
            )


@pytest.mark.parametrize("kind", ROOTS)
def test_finds_kernels(tmp_path, kind):
    """Each distribution's newest kernel and its own initrd; the hint names GRUB's own folder."""
    root = str(tmp_path / "root")
    esp, folder = new_esp(tmp_path)
    make_root(root, kind, (OLD, RELEASE))
    where = ["--root", root, "--append", "root=/dev/sda1 quiet"]
    done = run(INSTALL, *where, esp, made(image_of()))
    assert done.returncode == 0, done.stderr
    assert content(folder, "vmlinuz").find(RELEASE.encode()) >= 0, "the kernel"
    assert content(folder, "initrd.img") == f"initrd of {RELEASE}".encode()
    assert content(folder, "pmuvisor.cfg").endswith(b"append=root=/dev/sda1 quiet\n")
    grub = ROOTS[kind][3]
    said = re.findall(r"into (\S+)/custom.cfg", done.stdout)
    assert said == ([grub] if grub else []), done.stdout
    assert grub or "has no GRUB" in done.stdout, done.stdout
    # Of an older kernel, named alone, its own initrd.
    older = os.path.join(root, ROOTS[kind][0].format(OLD))
    done = run(INSTALL, *where, esp, made(image_of()), older)
    assert done.returncode == 0, done.stderr
    assert content(folder, "initrd.img") == f"initrd of {OLD}".encode()
    os.remove(os.path.join(root, ROOTS[kind][1].format(OLD)))
    done = run(INSTALL, *where, esp, made(image_of()), older)
    expect_line(done, "no initrd of Linux " + OLD, older, "INITRD=FILE")


def test_says_the_verdict(tmp_path):
    """What pmuvisor-check says of this machine is in what is said at the end, and a refusal is no
    reason to fail: another kernel, or other firmware settings, may follow."""
    esp, _ = new_esp(tmp_path)
    script = b'[ "$*" = "--brief --esp $ESP" ] || exit 9\necho refuses: no VMX\nexit 2\n'
    check = put(tmp_path, "check", b"#!/bin/sh\n" + script, 0o755)
    files = (esp, made(image_of()), kernel(), made(initrd()))
    done = run(INSTALL, *files, PMUVISOR_CHECK=check, ESP=esp)
    assert done.returncode == 0 and "\nOn this machine: refuses: no VMX\n" in done.stdout, done
    done = run(INSTALL, *files, PMUVISOR_CHECK="/absent")
    assert done.returncode == 0 and "On this machine" not in done.stdout, done


def test_refusals(tmp_path):
    """What the installer cannot do is one line: nothing there, no text for another system, and an
    ESP without room, before anything is copied."""
    esp, _ = new_esp(tmp_path)
    root = str(tmp_path / "root")
    os.mkdir(root)
    end, quiet = (esp, made(image_of())), ("--append", "quiet")

    def refused(words, *fragments, **environment):
        expect_line(run(INSTALL, *words, *end, **environment), *fragments)

    refused(["--root", root], "--root wants --append")
    refused(["--root", "/absent", *quiet], "/absent")
    refused(["--append", "it's"], "single quote")
    refused(["--root", root, *quiet], "no kernel of Linux", "there: none", "KERNEL=FILE")
    other = path_with(tmp_path / "other", "uname", b"echo 1.2.3-none\n")
    refused([], "no kernel of Linux 1.2.3-none", PATH=other)
    make_root(root, "debian", (RELEASE,))
    script = b"case $1 in -f) echo '1 * 4096' ;; *) exec /usr/bin/stat \"$@\" ;; esac\n"
    full = path_with(tmp_path / "full", "stat", script)
    refused(["--root", root, *quiet], "MiB needed, 0 MiB free", esp, PATH=full)
    assert os.listdir(os.path.join(esp, "EFI")) == [], "something was copied"


def test_without_debians_tools(tmp_path):
    """make install on another distribution: without the measurements, which are Debian's packages,
    and BENCH=thesis says so."""
    made(image_of())
    root = str(tmp_path / "root")
    esp, folder = new_esp(tmp_path)
    make_root(root, "fedora", (RELEASE,))
    kernel, initrd = (os.path.join(root, name.format(RELEASE)) for name in ROOTS["fedora"][:2])
    tools = path_without(tmp_path, "apt", "dpkg")
    words = ("install", f"ESP={esp}", f"KERNEL={kernel}", f"INITRD={initrd}")
    done = make(*words, PATH=tools)
    assert done.returncode == 0, done.stderr
    assert "not a Debian system" in done.stderr, done.stderr
    assert sorted(os.listdir(folder)) == INSTALLED
    lines = complaints(make(*words, "BENCH=thesis", PATH=tools))
    assert len(lines) == 1 and "make usb" in lines[0], lines


@pytest.mark.more
@pytest.mark.parametrize("goal", ["install", "usb"])
@pytest.mark.parametrize("words, wanted", [((), "stock"), (("GUEST=cloud",), "cloud")])
def test_measuring_kernel(monkeypatch, goal, words, wanted):
    """A bare machine's is the stock one, with real disks' drivers, unless somebody says
    otherwise."""
    monkeypatch.delenv("GUEST", raising=False)
    done = make("-n", goal, "ESP=none", *words)
    assert f"--bench build/auto/{wanted} " in done.stdout, done


def initramfs(flavour):
    """(names in the measuring initramfs, its list of modules in order, the kernel's modules)."""
    archive = f"lz4 -qdc '{made(f'build/payload/auto-{flavour}.img')}' | cpio --quiet"
    order, names = (
        tool(["sh", "-c", f"{archive} {words}"]).split()
        for words in ("-i --to-stdout lib/modules/storage.order", "-t")
    )
    modules = tool([path("programs", "kernel.sh"), flavour]).split()[1]
    return set(names), order, modules


def check_initramfs(flavour):
    names, order, modules = initramfs(flavour)
    there, missing = [], []
    for root, _, files in os.walk(modules):
        there += [
            (name.partition(".ko")[0], os.path.join(root, name)) for name in files if ".ko" in name
        ]
    known = {name.replace("-", "_"): full for name, full in there}
    place = {name.replace("-", "_"): at for at, name in enumerate(order)}
    for name in DISKS:
        if name.replace("-", "_") in known and name.replace("-", "_") not in place:
            missing.append(name)
    assert not missing, f"the kernel has {missing}, the initramfs does not"
    for name in order:
        assert f"lib/modules/{name}.ko" in names, f"{name} is listed, and not there"
        info = content(known[name.replace("-", "_")])
        for need in re.search(rb"\0depends=([^\0]*)\0", info)[1].decode().split(","):
            assert (
                not need
                or place.get(need.replace("-", "_"), len(order)) < place[name.replace("-", "_")]
            ), f"{name} is loaded before {need}, which it needs"
    return [name for name in DISKS if name.replace("-", "_") in place]


@pytest.mark.full
def test_disk_drivers():
    """The measuring initramfs has each disk driver that its kernel has, after what that needs."""
    found = check_initramfs("cloud")
    assert {"virtio_blk", "mpi3mr"} <= set(found), found


@pytest.mark.full
def test_disk_drivers_of_the_stock_kernel():
    """Debian's stock kernel has all of them."""
    found = check_initramfs("stock")
    assert found == list(DISKS), sorted(set(DISKS) - set(found))
    return f"{len(found)} drivers"


@pytest.mark.parametrize(
    "log, wanted",
    [
        ("[ 0.0] tsc: Detected 2200.000 MHz processor", "2200.000 MHz"),
        (
            "[ 0.0] tsc: Detected 3200.000 MHz processor\n[ 0.0] tsc: Detected 3192.000 MHz TSC",
            "3192.000 MHz",
        ),
        ("[ 0.0] tsc: Fast TSC calibration failed", ""),
    ],
)
def test_frequency_is_that_of_the_tsc(log, wanted):
    facts = path("metal", "auto", "facts.sh")
    done = run("sh", "-euc", f"dmesg() {{ echo '{log}'; }}; . {facts}; frequency")
    assert (done.returncode, done.stdout.strip()) == (0, wanted), done


def test_processor_counts(tmp_path):
    """What the machine did besides a job: SMIs, frequency, time not halted; what cannot be read is
    left out."""
    work = str(tmp_path)

    def lines(column, missing=""):
        script = (
            f'measurements_top={TOP}; . {path("bench", "measurements.sh")}; '
            f'. {path("metal", "auto", "jobs.sh")}; '
            f'. {path("metal", "auto", "processor.sh")}; msr_device=/dev/null; '
            f"column={column}; "
            'dd() { case $4 in iflag=skip_bytes) cat "$folder/${5#skip=}" 2> /dev/null ;; '
            "esac; }; "
            f"folder={work}/before; processor_counts > {work}/1; "
            f"folder={work}/after; processor_counts > {work}/2; "
            f"processor_lines msr {work}/1 {work}/2"
        )
        for name, values in (
            ("before", (5, 1000, 500, 600)),
            ("after", (7, 2**40 + 1000, 2**39 + 500, 2**39 * 5 // 4)),
        ):
            for index, value in zip(("52", "16", "231", "232"), values):
                full = put(os.path.join(work, name), index, value.to_bytes(8, "little"))
                if index == missing:
                    os.remove(full)
        done = run("sh", "-euc", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def line(item, metric, value):
        return f"bench: experiment=machine item={item} metric={metric} {value}"

    clock = [
        line("msr", "aperf_per_mperf", "unit=percent value=124.9"),
        line("msr", "mperf_per_tsc", "unit=percent value=50.0"),
    ]
    assert lines("native") == [line("msr", "smis", "unit=count value=2"), *clock]
    assert lines("native", missing="52") == clock
    assert lines("native", missing="231") == [line("msr", "smis", "unit=count value=2")]
    assert lines("abl_none")[0] == line("ablation@none", "smis", "unit=count value=2")
    twin = lines("kvm_mitigated")[0]
    assert twin == line("config.msr@kvm_mitigated", "smis", "unit=count value=2")


def test_keeps_edits(tmp_path):
    """make install: refuses without an ESP; copies what the menu names; keeps the user's edits."""
    image, files = made(image_of()), (kernel(), made(initrd()))
    expect_line(run(INSTALL, "", image), "no ESP given")
    expect_line(run(INSTALL, "/absent", image), "/absent", "not a folder")
    expect_line(run(INSTALL, str(tmp_path), image, *files), "no folder EFI")
    esp, folder = new_esp(tmp_path)
    expect_line(run(INSTALL, esp, image, "/absent"), "/absent", "KERNEL=")
    for _ in range(2):
        done = run(INSTALL, esp, image, *files)
        assert done.returncode == 0, done.stderr
        assert sorted(os.listdir(folder)) == INSTALLED
        # The second time finds what the user wrote.
        append(os.path.join(folder, "pmuvisor.cfg"), b"# mine\n")
    assert content(folder, "pmuvisor.cfg").count(b"# mine") == 2, "pmuvisor.cfg was replaced"
    assert content(image) == content(folder, "pmuvisor.efi")
