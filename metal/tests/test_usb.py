# SPDX-License-Identifier: BSD-2-Clause
# test_usb.py: the stick that `make usb` makes, under QEMU without VMX, as a disk and as a stick.
# FULL=1: also in the emulator as a disk, with its own GRUB and menu as they are.
import os
import subprocess
import tempfile

import pytest

import emulated_pc
from boots import image as image_of
from machine import BACKSTOP_SECONDS, SCRATCH, STATUS_TEXT, environment, made, path, tool
from scripts import expect_line, run

VOLUME = "@@1M"  # where the image's partition begins, for mtools
PROMPT = "reboot -f restarts it."
REFUSAL = "PMUvisor refuses to start: this processor shows no VMX"
LIMIT = 30_000  # millions of instructions


def make_stick(lab, work, flavour="cloud", auto=False):
    """(image, tree)"""
    parts = os.path.dirname(made(f"build/auto/{flavour}/build.txt"))
    image, tree = os.path.join(work, "usb.img"), os.path.join(work, "tree")
    tool(
        [
            path("metal", "usb.sh"),
            *(["--auto"] if auto else []),
            "--bench",
            parts,
            "--tree",
            tree,
            "--out",
            image,
            made(image_of()),
        ]
    )
    return image, tree


def mtools(command, image, *words):
    done = subprocess.run(
        [command, "-i", image + VOLUME, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        env={**environment(), "MTOOLS_SKIP_CHECK": "1"},
    )
    assert done.returncode == 0, f"{command} {words}: {done.stderr.decode()}"
    return done.stdout


def add_lines(image, work, lines):
    """Lines after those of the stick's local.cfg."""
    name = os.path.join(work, "local.cfg")
    with open(name, "wb") as out:
        out.write(mtools("mtype", image, "::/EFI/pmuvisor/local.cfg"))
        out.write("".join(line + "\n" for line in lines).encode())
    mtools("mcopy", image, "-o", name, "::/EFI/pmuvisor/local.cfg")


@pytest.mark.full
def test_in_the_emulator(lab):
    """As a disk: firmware finds the partition, the stick's GRUB its menu, and the default entry
    ends in a shell under PMUvisor, on the screen and on the serial line."""

    def make():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
            image, tree = make_stick(lab, work)
            acpi = os.path.join(work, "acpi")
            tool([path("testbed", "acpi", "build.sh"), acpi, "1"])
            # The emulator's firmware has no tables of its own: nothing else is changed.
            tables = sorted(name for name in os.listdir(acpi) if name.endswith(".aml"))
            mtools("mcopy", image, "-s", acpi, "::/EFI/pmuvisor/acpi")
            add_lines(
                image,
                work,
                [
                    "set timeout=0",
                    "acpi --no-ebda " + " ".join(f"/EFI/pmuvisor/acpi/{name}" for name in tables),
                ],
            )
            for name in ("vmlinuz", "initrd.img", "pmuvisor.efi", "grub.cfg"):
                with open(os.path.join(tree, "EFI", "pmuvisor", name), "rb") as source:
                    assert source.read() == mtools("mtype", image, f"::/EFI/pmuvisor/{name}"), name
            return lab.watched(
                "usb",
                [
                    path("testbed", "run.sh"),
                    "--disk",
                    image,
                    "--memory",
                    "1024",
                    "--limit",
                    str(LIMIT),
                    "--until",
                    PROMPT,
                    "--timeout",
                    str(BACKSTOP_SECONDS),
                ],
            )

    boot = lab.once("usb-emulator", make, True)
    boot.expect_status(STATUS_TEXT)
    assert "running under PMUvisor, policy msr+nmi" in boot.console, boot.last_line()
    assert "M=100 expected=1000 pmis=1000" in boot.console, "A.1 was not run"


def qemu(lab, name, options, until):
    """The serial line of a machine without VMX, without its blanks: up to this text, or to its
    end."""
    return emulated_pc.talk(
        emulated_pc.command(
            "-M",
            "q35",
            "-cpu",
            "Skylake-Server",
            "-m",
            "1024",
            "-nodefaults",
            "-vga",
            "std",
            *options,
        ),
        [until],
        os.path.join(lab.keep, f"usb-{name}.console"),
    )


def stick_options(image):
    return [
        "-device",
        "qemu-xhci,addr=5",
        "-drive",
        f"if=none,id=stick,format=raw,file={image}",
        "-device",
        "usb-storage,drive=stick,bootindex=1",
    ]


def test_without_vmx(lab):
    """As a disk and as a stick, under other firmware: PMUvisor says what is missing. On a machine
    that has it installed as well, the stick's own menu is taken."""
    lab.once("usb-without-vmx", lambda: without_vmx(lab)).wait()


def without_vmx(lab):
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
        image, tree = make_stick(lab, work)
        add_lines(image, work, ["set timeout=0", "echo stick-of-its-own"])
        # The machine's own disk. GRUB sorts by the kind of device path: SCSI comes before USB.
        with open(os.path.join(tree, "EFI", "pmuvisor", "local.cfg"), "w", encoding="ascii") as out:
            out.write("set timeout=0\necho the-machines-disk\n")
        other = os.path.join(work, "other.img")
        tool([path("testbed", "disk.sh"), "--gpt", "--tree", tree, "--out", other])
        wanted = REFUSAL.replace(" ", "")
        disk = qemu(lab, "disk", ["-drive", f"file={image},format=raw,if=ide"], REFUSAL)
        assert disk.count(wanted) == 1, disk[-300:]
        stick = qemu(
            lab,
            "stick",
            [
                "-drive",
                f"if=none,id=own,format=raw,file={other}",
                "-device",
                "virtio-scsi-pci",
                "-device",
                "scsi-hd,drive=own,bootindex=2",
                *stick_options(image),
            ],
            REFUSAL,
        )
        assert stick.count(wanted) == 1, stick[-300:]
        assert (
            "stick-of-its-own" in stick and "the-machines-disk" not in stick
        ), "the stick's GRUB took another disk's menu"


@pytest.mark.full
def test_measures_onto_the_stick(lab):
    """BENCH=auto: the stock kernel finds the stick that it came from by USB, and its results are
    there."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
        image, _ = make_stick(lab, work, "stock", auto=True)
        add_lines(
            image,
            work,
            [
                "set timeout=0",
                'set bench_columns="native"',
                'set bench_words="pmv.jobs=exit pmv.runs=3 pmv.operations=10"',
            ],
        )
        said = qemu(lab, "measures", stick_options(image), "column=native done")
        assert "BENCHENDcolumn=native" in said, said[-300:]
        kept = mtools("mtype", image, "::/EFI/pmuvisor/bench/native.txt").decode()
    for line in ('env: kind="nested"', 'env: processors="1"', 'env: bios="', 'env: microcode="0x'):
        assert line in kept, f"no '{line}' in {kept}"


def test_refusals():
    """usb.sh and gpt.py: each in one line, and nothing that is not theirs is replaced."""
    script = path("metal", "usb.sh")
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.") as work:
        mine = os.path.join(work, "mine")
        os.mkdir(mine)
        out = os.path.join(work, "out.img")
        expect_line(run(script, "--fast"), "--fast", "--help")
        expect_line(run(script, "--bench", work, made(image_of())), "--tree")
        expect_line(
            run(script, "--bench", work, "--tree", mine, "--out", out, made(image_of()), "k"),
            "found 2 files",
            "INITRD=FILE",
        )
        expect_line(
            run(script, "--bench", work, "--tree", mine, "--out", out, made(image_of())),
            mine,
            "EFI/pmuvisor",
        )
        assert os.path.isdir(mine) and not os.path.exists(out)
        odd = os.path.join(work, "odd")
        with open(odd, "wb") as file:
            file.write(b"x" * 513)
        expect_line(run(path("testbed", "gpt.py"), odd, out), "513 bytes", "multiple of 512")
        expect_line(run(path("testbed", "gpt.py"), "/absent", out), "/absent")
    done = run("make", "-s", "-C", path(), "usb", "BENCH=none", MAKEFLAGS="", MAKELEVEL="")
    assert done.returncode != 0 and "BENCH=none, wanted auto" in done.stderr.splitlines()[0], done
