# SPDX-License-Identifier: BSD-2-Clause
# test_usb.py: the stick that `make usb` makes, under QEMU without VMX, as a disk and as a stick.
# FULL=1: also in the emulator as a disk, with its own GRUB and menu as they are.
import os
import shutil
import tempfile

import pytest

from metal.tests.made_up import complaints, content, make, mtools, put
from testbed.boots import image as image_of
from testbed.machine import BACKSTOP_SECONDS, SCRATCH, STATUS_TEXT, made, path, tool
from tests.e2e import emulated_pc
from tests.e2e.scripts import expect_line, run

pytestmark = pytest.mark.more

VOLUME = "@@1M"  # where the image's partition begins, for mtools
PROMPT = "reboot -f restarts it."
REFUSAL = "PMUvisor refuses to start: this processor shows no VMX"
LIMIT = 30_000  # millions of instructions


def make_stick(lab, work, flavour="cloud", plan=""):
    """(image, tree)"""
    parts = os.path.dirname(made(f"build/auto/{flavour}/build.txt"))
    image, tree = os.path.join(work, "usb.img"), os.path.join(work, "tree")
    more = ["--plan", plan] if plan else []
    words = ["--bench", parts, "--tree", tree, "--out", image, made(image_of())]
    tool([path("metal", "usb.sh"), *more, *words])
    return image, tree


def add_lines(image, work, *lines):
    """Lines after those of the stick's local.cfg."""
    on_stick = "::/EFI/pmuvisor/local.cfg"
    text = mtools("mtype", image + VOLUME, on_stick)
    text += "".join(line + "\n" for line in lines).encode()
    mtools("mcopy", image + VOLUME, "-o", put(work, "local.cfg", text), on_stick)


@pytest.mark.full
def test_in_the_emulator(lab):
    """As a disk: firmware finds the partition, the stick's GRUB its menu, and the default entry
    ends in a shell under PMUvisor, on the screen and on the serial line."""

    def boot_stick():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
            image, tree = make_stick(lab, work)
            acpi = os.path.join(work, "acpi")
            tool([path("testbed", "acpi", "build.sh"), acpi, "1"])
            # The emulator's firmware has no tables of its own: nothing else is changed.
            tables = sorted(name for name in os.listdir(acpi) if name.endswith(".aml"))
            mtools("mcopy", image + VOLUME, "-s", acpi, "::/EFI/pmuvisor/acpi")
            names = " ".join(f"/EFI/pmuvisor/acpi/{name}" for name in tables)
            add_lines(image, work, "set timeout=0", f"acpi --no-ebda {names}")
            for name in ("vmlinuz", "initrd.img", "pmuvisor.efi", "grub.cfg"):
                copy = mtools("mtype", image + VOLUME, f"::/EFI/pmuvisor/{name}")
                assert content(tree, "EFI", "pmuvisor", name) == copy, name
            words = ["--until", PROMPT, "--timeout", str(BACKSTOP_SECONDS)]
            words += f"--memory 1024 --limit {LIMIT}".split()
            return lab.watch("usb", [path("testbed", "run.sh"), "--disk", image, *words])

    boot = boot_stick()
    boot.expect_status(STATUS_TEXT)
    assert "running under PMUvisor, policy msr+nmi" in boot.console, boot.last_line()
    assert "M=100 expected=1000 pmis=1000" in boot.console, "A.1 was not run"


def qemu(lab, name, options, until, firmware=None):
    """The serial line of a machine without VMX, without its blanks: up to one of these texts, or to
    its end."""
    machine = "-M q35 -cpu Skylake-Server -m 1024 -nodefaults -vga std".split()
    console = os.path.join(lab.keep, f"usb-{name}.console")
    command = emulated_pc.command(*machine, *options, firmware=firmware)
    return emulated_pc.talk(command, until, console)


def stick_options(image, more=""):
    drive = f"if=none,id=stick,format=raw,file={image}{more}"
    devices = "-device qemu-xhci,addr=5 -device usb-storage,drive=stick,bootindex=1".split()
    return ["-drive", drive, *devices]


def own_disk(tree, work, place):
    """The machine's own disk, with PMUvisor, at this place of the boot order. GRUB sorts by the
    kind of device path: SCSI comes before USB."""
    put(tree, "EFI/pmuvisor/local.cfg", b"set timeout=0\necho the-machines-disk\n")
    disk = os.path.join(work, "other.img")
    tool([path("testbed", "disk.sh"), "--gpt", "--tree", tree, "--out", disk])
    options = ["-drive", f"if=none,id=own,format=raw,file={disk}", "-device", "virtio-scsi-pci"]
    return [*options, "-device", f"scsi-hd,drive=own,bootindex={place}"]


def test_without_vmx(lab):
    """As a disk and as a stick, under other firmware: PMUvisor says what is missing. On a machine
    that has it installed as well, the stick's own menu is taken."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
        image, tree = make_stick(lab, work)
        add_lines(image, work, "set timeout=0", "echo stick-of-its-own")
        own = own_disk(tree, work, 2)
        wanted = REFUSAL.replace(" ", "")
        disk = qemu(lab, "disk", ["-drive", f"file={image},format=raw,if=ide"], [REFUSAL])
        assert disk.count(wanted) == 1, disk[-300:]
        stick = qemu(lab, "stick", [*own, *stick_options(image)], [REFUSAL])
        assert stick.count(wanted) == 1, stick[-300:]
        assert (
            "stick-of-its-own" in stick and "the-machines-disk" not in stick
        ), "the stick's GRUB took another disk's menu"


@pytest.mark.full
def test_measures_onto_the_stick(lab):
    """BENCH=all: the stock kernel finds the stick that it came from by USB, and its results are
    there. Firmware starts the stick again, although the machine's own disk comes first."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
        image, tree = make_stick(lab, work, "stock", plan="all")
        words = "pmv.jobs=exit pmv.runs=3 pmv.operations=10"
        column = 'set bench_columns="native"'
        add_lines(image, work, "set timeout=0", column, f'set bench_words="{words}"')
        variables = shutil.copy("/usr/share/OVMF/OVMF_VARS_4M.fd", work)
        firmware = emulated_pc.flash("/usr/share/OVMF/OVMF_CODE_4M.fd", variables)
        said = qemu(lab, "measures", stick_options(image), [], firmware)
        assert "BENCHENDcolumn=native" in said, said[-300:]
        both = [*own_disk(tree, work, 0), *stick_options(image)]
        said = qemu(lab, "again", both, ["the-machines-disk", "Measurements complete"], firmware)
        assert "Measurementscomplete" in said, said[-300:]
        kept = mtools("mtype", image + VOLUME, "::/EFI/pmuvisor/bench/1.native.txt").decode()
    for line in ('env: kind="nested"', 'env: processors="1"', 'env: bios="', 'env: microcode="0x'):
        assert line in kept, f"no '{line}' in {kept}"


@pytest.mark.parametrize(
    "name, more, wanted",
    [
        ("done", "", "Measurements complete: the results are in EFI/pmuvisor/bench."),
        ("read-only", ",readonly=on", "1.native.env cannot be written, so nothing is started."),
    ],
    ids=["done", "read_only"],
)
def test_end_of_measuring(lab, name, more, wanted):
    """A stick that has all results switches the machine off, because GRUB has no other menu there.
    From one that cannot be written nothing is started."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-usb.", dir=SCRATCH) as work:
        image, _ = make_stick(lab, work, plan="thesis")
        add_lines(image, work, "set timeout=0", 'set bench_columns="native"')
        if not more:
            for file, text in (("plan.cfg", b'set bench_plan="1.native"\n'), ("1.native.ok", b"")):
                copy = put(work, file, text)
                mtools("mcopy", image + VOLUME, copy, f"::/EFI/pmuvisor/bench/{file}")
        said = qemu(lab, name, stick_options(image, more), ["grub>" if not more else wanted])
    assert "".join(wanted.split()) in said and "grub>" not in said, said[-600:]


def test_refusals(tmp_path):
    """usb.sh and gpt.py: each in one line, and nothing that is not theirs is replaced."""
    script, gpt = path("metal", "usb.sh"), path("testbed", "gpt.py")
    work, mine, out = (str(tmp_path / name) for name in ("", "mine", "out.img"))
    os.mkdir(mine)
    words = (script, "--bench", work, "--tree", mine, "--out", out, made(image_of()))
    expect_line(run(script, "--fast"), "--fast", "--help")
    expect_line(run(script, "--bench", work, made(image_of())), "--tree")
    expect_line(run(*words, "k"), "found 2 files", "INITRD=FILE")
    expect_line(run(*words), mine, "EFI/pmuvisor")
    assert os.path.isdir(mine) and not os.path.exists(out)
    expect_line(run(gpt, put(work, "odd", b"x" * 513), out), "513 bytes", "multiple of 512")
    expect_line(run(gpt, "/absent", out), "/absent")
    lines = complaints(make("-s", "usb", "BENCH=none"))
    assert "BENCH=none, wanted thesis, all or nothing" in lines[0], lines
