# SPDX-License-Identifier: BSD-2-Clause
# test_install.py: what `make install` and `make usb` take and say on systems that are not this one,
# by made-up roots of each distribution; what is in the measuring initramfs. No boot is made.
import os
import re
import subprocess
import tempfile

import pytest

from boots import image as image_of, initrd, kernel
from machine import TOP, made, path, tool
from scripts import expect_line, run

INSTALL = path("metal", "install.sh")
RELEASE = "6.5.0-14-generic"
OLD = "5.15.0-91-generic"
SETUP_HEADER = 0x202  # Linux, Documentation/arch/x86/boot.rst, "header", and "kernel_version" below
KERNEL_VERSION = 0x20E
# Of common machines; which the initramfs has is a question of what the kernel has.
DISKS = (
    "ahci",
    "ata_piix",
    "nvme",
    "vmd",
    "virtio_blk",
    "virtio_scsi",
    "usb-storage",
    "uas",
    "xhci-pci",
    "megaraid_sas",
    "mpt3sas",
    "mpi3mr",
    "smartpqi",
    "hpsa",
    "aacraid",
    "isci",
    "pm80xx",
    "mvsas",
    "arcmsr",
    "hv_storvsc",
    "usbhid",
    "vfat",
)
# Of each distribution: the kernel's and the initrd's files, what else there is, GRUB's folder.
ROOTS = {
    "debian": ("boot/vmlinuz-{}", "boot/initrd.img-{}", ("boot/grub/grub.cfg",), "/boot/grub"),
    "fedora": (
        "boot/vmlinuz-{}",
        "boot/initramfs-{}.img",
        (
            "boot/grub2/grub.cfg",
            "boot/grub/splash.xpm.gz",
            "boot/vmlinuz-0-rescue-1f",
            "boot/initramfs-0-rescue-1f.img",
        ),
        "/boot/grub2",
    ),
    "modules": (
        "lib/modules/{}/vmlinuz",
        "boot/initramfs-{}.img",
        ("boot/grub2/grub.cfg",),
        "/boot/grub2",
    ),
    "opensuse": ("boot/vmlinuz-{}", "boot/initrd-{}", ("boot/grub2/grub.cfg",), "/boot/grub2"),
    "kernel-install": ("efi/0a1b/{}/linux", "efi/0a1b/{}/initrd", (), None),
    "entry": ("boot/here/bzImage-{}", "boot/here/ram-{}", ("lib/modules/{}/modules.dep",), None),
}


def put(root, name, data=b""):
    full = os.path.join(root, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as out:
        out.write(data)
    return full


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


def with_uname(work, release):
    """A PATH on which the running kernel is this one."""
    tools = os.path.join(work, "tools")
    uname = put(tools, "uname", f"#!/bin/sh\necho {release}\n".encode())
    os.chmod(uname, 0o755)
    return f"{tools}:{os.environ['PATH']}"


def content(name):
    with open(name, "rb") as source:
        return source.read()


@pytest.mark.parametrize("kind", ROOTS)
def test_finds_kernels(kind):
    """Each distribution's newest kernel and its own initrd; the hint names GRUB's own folder."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-root.") as work:
        root, esp = os.path.join(work, "root"), os.path.join(work, "esp")
        make_root(root, kind, (OLD, RELEASE))
        os.makedirs(os.path.join(esp, "EFI"))
        where = ["--root", root, "--append", "root=/dev/sda1 quiet"]
        done = run(INSTALL, *where, esp, made(image_of()))
        assert done.returncode == 0, done.stderr
        folder = os.path.join(esp, "EFI", "pmuvisor")
        assert content(os.path.join(folder, "vmlinuz")).find(RELEASE.encode()) >= 0, "the kernel"
        assert content(os.path.join(folder, "initrd.img")) == f"initrd of {RELEASE}".encode()
        assert content(os.path.join(folder, "pmuvisor.cfg")).endswith(
            b"append=root=/dev/sda1 quiet\n"
        )
        grub = ROOTS[kind][3]
        said = re.findall(r"into (\S+)/custom.cfg", done.stdout)
        assert said == ([grub] if grub else []), done.stdout
        assert grub or "has no GRUB" in done.stdout, done.stdout
        # Of an older kernel, named alone, its own initrd.
        older = os.path.join(root, ROOTS[kind][0].format(OLD))
        done = run(INSTALL, *where, esp, made(image_of()), older)
        assert done.returncode == 0, done.stderr
        assert content(os.path.join(folder, "initrd.img")) == f"initrd of {OLD}".encode()
        os.remove(os.path.join(root, ROOTS[kind][1].format(OLD)))
        expect_line(
            run(INSTALL, *where, esp, made(image_of()), older),
            "no initrd of Linux " + OLD,
            older,
            "INITRD=FILE",
        )


def test_says_the_verdict():
    """What pmuvisor-check says of this machine is in what is said at the end, and a refusal is no
    reason to fail: another kernel, or other firmware settings, may follow."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-root.") as work:
        esp, check = os.path.join(work, "esp"), os.path.join(work, "check")
        os.makedirs(os.path.join(esp, "EFI"))
        put(
            work,
            "check",
            b'#!/bin/sh\n[ "$*" = "--brief --esp $ESP" ] || exit 9\n'
            b"echo refuses: no VMX\nexit 2\n",
        )
        os.chmod(check, 0o755)
        files = (esp, made(image_of()), kernel(), made(initrd()))
        done = run(INSTALL, *files, PMUVISOR_CHECK=check, ESP=esp)
        assert done.returncode == 0 and "\nOn this machine: refuses: no VMX\n" in done.stdout, done
        done = run(INSTALL, *files, PMUVISOR_CHECK="/absent")
        assert done.returncode == 0 and "On this machine" not in done.stdout, done


def test_refusals():
    """What the installer cannot do is one line: nothing there, no text for another system, and an
    ESP without room, before anything is copied."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-root.") as work:
        root, esp = os.path.join(work, "root"), os.path.join(work, "esp")
        os.makedirs(os.path.join(esp, "EFI"))
        os.makedirs(root)
        append = ("--append", "quiet")
        expect_line(run(INSTALL, "--root", root, esp, made(image_of())), "--root wants --append")
        expect_line(run(INSTALL, "--root", "/absent", *append, esp, made(image_of())), "/absent")
        expect_line(run(INSTALL, "--append", "it's", esp, made(image_of())), "single quote")
        expect_line(
            run(INSTALL, "--root", root, *append, esp, made(image_of())),
            "no kernel of Linux",
            "there: none",
            "KERNEL=FILE",
        )
        expect_line(
            run(INSTALL, esp, made(image_of()), PATH=with_uname(work, "1.2.3-none")),
            "no kernel of Linux 1.2.3-none",
        )
        make_root(root, "debian", (RELEASE,))
        tools = os.path.join(work, "tools")
        stat = put(
            tools,
            "stat",
            b"#!/bin/sh\ncase $1 in -f) echo '1 * 4096' ;; "
            b'*) exec /usr/bin/stat "$@" ;; esac\n',
        )
        os.chmod(stat, 0o755)
        expect_line(
            run(
                INSTALL,
                "--root",
                root,
                *append,
                esp,
                made(image_of()),
                PATH=f"{tools}:{os.environ['PATH']}",
            ),
            "MiB needed, 0 MiB free",
            esp,
        )
        assert os.listdir(os.path.join(esp, "EFI")) == [], "something was copied"


def without_debian(work):
    """A PATH that has none of Debian's tools."""
    tools = os.path.join(work, "bin")
    os.mkdir(tools)
    for folder in ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if not name.startswith(("apt", "dpkg")) and not os.path.lexists(
                os.path.join(tools, name)
            ):
                os.symlink(os.path.join(folder, name), os.path.join(tools, name))
    return tools


def make(*words, **environment):
    """The project's make, of which nothing comes from a make above."""
    kept = {key: "" for key in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")}
    return run("make", "-C", path(), "--no-print-directory", *words, **{**kept, **environment})


def test_without_debians_tools():
    """make install on another distribution: without the measurements, which are Debian's packages,
    and BENCH=auto says so."""
    made(image_of())
    with tempfile.TemporaryDirectory(prefix="pmuvisor-root.") as work:
        root, esp, tools = (os.path.join(work, name) for name in ("root", "esp", "bin"))
        make_root(root, "fedora", (RELEASE,))
        os.makedirs(os.path.join(esp, "EFI"))
        kernel, initrd = (os.path.join(root, name.format(RELEASE)) for name in ROOTS["fedora"][:2])
        without_debian(work)
        words = ("install", f"ESP={esp}", f"KERNEL={kernel}", f"INITRD={initrd}")
        done = make(*words, PATH=tools)
        assert done.returncode == 0, done.stderr
        assert "not a Debian system" in done.stderr, done.stderr
        assert sorted(os.listdir(os.path.join(esp, "EFI", "pmuvisor"))) == [
            "columns.cfg",
            "grub.cfg",
            "initrd.img",
            "local.cfg",
            "pmuvisor.cfg",
            "pmuvisor.efi",
            "vmlinuz",
        ]
        done = make(*words, "BENCH=auto", PATH=tools)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
        assert done.returncode != 0 and len(lines) == 1 and "make usb" in lines[0], done.stderr


def test_measuring_kernel():
    """A bare machine's is the stock one, with real disks' drivers, unless somebody says
    otherwise."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("GUEST", "MAKEFLAGS", "MAKELEVEL")
    }
    for goal in ("install", "usb"):
        for words, wanted in (((), "stock"), (("GUEST=cloud",), "cloud")):
            done = subprocess.run(
                ["make", "-n", "-C", path(), goal, "ESP=none", *words],
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
                env=clean,
            )
            assert (
                f"--bench build/auto/{wanted} " in done.stdout
            ), f"make {goal} {words}: {done.stdout} {done.stderr}"


def initramfs(flavour):
    """(names in the measuring initramfs, its list of modules in order, the kernel's modules)."""
    image = made(f"build/payload/auto-{flavour}.img")
    listing = subprocess.run(
        f"lz4 -qdc '{image}' | cpio --quiet -i --to-stdout " "lib/modules/storage.order",
        shell=True,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()
    names = subprocess.run(
        f"lz4 -qdc '{image}' | cpio --quiet -t",
        shell=True,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()
    modules = tool([path("programs", "kernel.sh"), flavour]).split()[1]
    return set(names), listing, modules


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


def test_processor_counts():
    """What the machine did besides a job: SMIs, frequency, time not halted; what cannot be read is
    left out."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-msr.") as work:

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
        assert lines("abl_lazy")[0] == line("ablation@lazy", "smis", "unit=count value=2")


def test_keeps_edits():
    """make install: refuses without an ESP; copies what the menu names; keeps the user's edits."""
    files = (kernel(), made(initrd()))
    expect_line(run(INSTALL, "", made(image_of())), "no ESP given")
    expect_line(run(INSTALL, "/absent", made(image_of())), "/absent", "not a folder")
    with tempfile.TemporaryDirectory(prefix="pmuvisor-esp.") as esp:
        expect_line(run(INSTALL, esp, made(image_of()), *files), "no folder EFI")
        os.mkdir(os.path.join(esp, "EFI"))
        expect_line(run(INSTALL, esp, made(image_of()), "/absent"), "/absent", "KERNEL=")
        folder = os.path.join(esp, "EFI", "pmuvisor")
        for _ in range(2):
            done = run(INSTALL, esp, made(image_of()), *files)
            assert done.returncode == 0, done.stderr
            assert sorted(os.listdir(folder)) == [
                "columns.cfg",
                "grub.cfg",
                "initrd.img",
                "local.cfg",
                "pmuvisor.cfg",
                "pmuvisor.efi",
                "vmlinuz",
            ]
            # The second time finds what the user wrote.
            with open(os.path.join(folder, "pmuvisor.cfg"), "a", encoding="ascii") as config:
                config.write("# mine\n")
        with open(os.path.join(folder, "pmuvisor.cfg"), encoding="ascii") as config:
            assert config.read().count("# mine") == 2, "the user's pmuvisor.cfg was replaced"
        with open(made(image_of()), "rb") as ours, open(
            os.path.join(folder, "pmuvisor.efi"), "rb"
        ) as copy:
            assert ours.read() == copy.read()
