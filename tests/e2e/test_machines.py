# SPDX-License-Identifier: BSD-2-Clause
# test_machines.py: machines as firmware really leaves them: no word on the TSC's frequency,
# processors that are lost, ACPI tables with wrong checksums or of megabytes, consoles elsewhere.
import os
import re
import shutil
import struct
import tempfile

import pytest

from testbed.boots import image
from testbed.machine import STATUS_POWEROFF, STATUS_TEXT, made, path
from tests.e2e import emulated_pc, kernel, machines
from tests.e2e.guest import expect_said

PREEMPTION_TIMER = "52"
TSC = "tsc_hz 50000000\n"
TSC_KHZ = 50000  # of the emulator's clock, whatever CPUID says
TICK_MS = 10
REGION_SPIN = 62
OLD_MODEL = "broadwell_ult"  # its CPUID ends before leaf 15H
FADT_PM_TIMER, FADT_PM_TIMER_LENGTH, FADT_X_PM_TIMER = 76, 91, 208
MEGABYTES = 3
ABSENT = 298
MADT_SECOND = 44 + 8  # where the second entry is


# ---- the TSC's frequency ----


def measured(boot, by):
    """The kHz that a line says, within a thousandth."""
    found = re.findall(rf"pmuvisor: TSC: (\d+) kHz, {by}", boot.console)
    assert len(found) == 1, f"{by}: {boot.last_line()}"
    assert abs(int(found[0]) - TSC_KHZ) <= TSC_KHZ // 1000, found
    return f"{found[0]} kHz"


@pytest.mark.more
def test_tsc_by_pm_timer(lab):
    """CPUID has no leaf 15H, as under KVM: the PM timer tells."""
    boot = lab.emulator(
        "tsc-pm-timer", model=OLD_MODEL, config=f"tick={TICK_MS}", until="tick every"
    )
    return measured(boot, "measured by ACPI's PM timer")


@pytest.mark.full
def test_tick_by_pm_timer(lab):
    """The tick comes in that time."""
    boot = lab.emulator("tsc-pm-timer-tick", jobs="spin", model=OLD_MODEL, config=f"tick={TICK_MS}")
    boot.expect_status(STATUS_POWEROFF)
    said = measured(boot, "measured by ACPI's PM timer")
    account = boot.region(REGION_SPIN)
    wanted = account["nonroot"]["instructions"] / (TSC_KHZ * TICK_MS)
    ticks = account["exits"].get(PREEMPTION_TIMER, {"count": 0})["count"]
    assert (
        wanted > 10 and abs(ticks - wanted) <= 1 + wanted / 100
    ), f"{ticks} ticks, wanted {wanted}"
    return said


def test_tsc_not_known(lab):
    """No PM timer either: the guest goes on without a tick, and a line says so."""

    def without_pm_timer(table):
        table[FADT_PM_TIMER_LENGTH] = 0
        struct.pack_into("<I", table, FADT_PM_TIMER, 0)
        table[FADT_X_PM_TIMER : FADT_X_PM_TIMER + 12] = bytes(12)
        return machines.sealed(table)

    boot = lab.emulator(
        "tsc-not-known",
        model=OLD_MODEL,
        config=f"tick={TICK_MS}",
        until="no tick",
        tables=lambda folder: machines.edit(folder, "facp", without_pm_timer),
    )
    said = "TSC: CPUID does not tell its frequency, and no PM timer of ACPI's counts"
    assert said in boot.console, boot.last_line()
    return said


def test_tsc_by_hypervisor(lab):
    """An outer hypervisor's leaf tells, before any timer."""
    knobs = (
        "cpuid 1 0 ecx 0x80000000\ncpuid 0x40000000 0 eax 0x40000010\n"
        f"cpuid 0x40000010 0 eax {TSC_KHZ:#x}\n"
    )
    boot = lab.emulator(
        "tsc-hypervisor", model=OLD_MODEL, config=f"tick={TICK_MS}", knobs=knobs, until="tick every"
    )
    return measured(boot, "by CPUID leaf 0x40000010")


# ---- processors ----


def expect_processors(boot, count, of, how=""):
    boot.expect_status(STATUS_POWEROFF)
    assert (
        f"pmuvisor: {count} of {of} processors are under VMX{how}\n" in boot.console
    ), boot.last_line()
    assert boot.lines("cpuinfo")[0]["cpus"] == str(count), boot.lines("cpuinfo")


def ran_guest(boot):
    """The processors that executed anything of a guest's: all of their instructions below firmware
    are after an exit, so that none ran outside VMX operation."""
    return [number for number, cpu in enumerate(boot.ledger["processors"]) if cpu["exits"]]


@pytest.mark.more
def test_lost_processors(lab):
    """One hangs during its start, one takes a fault, processors=2 leaves the last one off: the
    guest runs on the two others."""
    boot = lab.emulator(
        "processors-lost",
        jobs="cpuinfo",
        cpus=5,
        knobs=TSC,
        config="processors=2",
        efi=kernel.mutant("lost_processors"),
    )
    expect_processors(boot, 2, 5, ", as processors= says; the others are hidden")
    expect_said(
        boot,
        "pmuvisor: processor 1 was lost during its start; it is hidden from the guest",
        "pmuvisor: processor 2, being started: fault in root mode: exception 6, error code 0x0, at "
        "RIP 0x",
        "pmuvisor: processor 2 was lost during its start; it is hidden from the guest",
    )
    assert ran_guest(boot) == [0, 3], ran_guest(boot)


@pytest.mark.full
def test_one_processor(lab):
    """processors=1: what a safe start has, beside vtd=off and tick=0."""
    boot = lab.emulator(
        "processors-one", jobs="cpuinfo", cpus=4, knobs=TSC, config="processors=1 vtd=off"
    )
    expect_processors(boot, 1, 4, ", as processors= says; the others are hidden")
    assert "pmuvisor: DMA is not contained: vtd=off" in boot.console
    assert ran_guest(boot) == [0], ran_guest(boot)


# ---- ACPI tables ----


def odd_tables(folder):
    """A MADT of 300 processors with sparse x2APIC IDs and a wrong checksum; a DSDT of 3 MiB. The
    two that are there are the first and the last."""

    def many(table):
        head, tail = table[:MADT_SECOND], table[MADT_SECOND:]
        table = machines.sealed(
            head
            + b"".join(machines.local_x2apic(2 + n, 0x100 + 0x15 * n) for n in range(ABSENT))
            + tail
        )
        table[machines.CHECKSUM] ^= 0x55
        return table

    def pad(table):
        head, body = table[: machines.HEADER_BYTES], table[machines.HEADER_BYTES :]
        return machines.sealed(head + machines.padding(MEGABYTES << 20) + body)

    machines.edit(folder, "apic", many)
    machines.edit(folder, "dsdt", pad)


@pytest.mark.full
def test_odd_tables(lab):
    """Those tables: both processors that are there are under VMX and none else is the guest's, and
    the guest powers itself off, for which the DSDT has to be read to its end."""
    boot = lab.emulator(
        "acpi-odd", jobs="cpuinfo", cpus=2, knobs=TSC, tables=odd_tables, config="processors=2"
    )
    assert "warning: ACPI table APIC: its checksum is wrong" in boot.console, boot.last_line()
    assert boot.console.count("its checksum is wrong") == 1
    assert boot.console.count("did not start; it is hidden") == ABSENT
    expect_processors(boot, 2, 2 + ABSENT, ", as processors= says; the others are hidden")
    assert ran_guest(boot) == [0, 1], ran_guest(boot)


# ---- paging ----

LA57_MODEL = "sapphire_rapids"
# Linux's word, and how many levels it uses then.
LEVELS = {"guest_5_levels": ("", 5), "guest_4_levels": ("no5lvl", 4)}


def expect_levels(boot, levels):
    """Up to the guest's power-off, with A.1; Linux shows the flag where it uses five."""
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1") == 0 and "under PMUvisor" in boot.console, boot.last_line()
    assert ("sees: flag la57" in boot.console) == (levels == 5), boot.last_line()


@pytest.mark.more
@pytest.mark.parametrize("words, levels", LEVELS.values(), ids=LEVELS)
def test_guest_levels(lab, words, levels):
    """A guest with other page tables than root mode has, whose CR4.LA57 is 0, and with the same."""
    expect_levels(
        lab.emulator(f"levels-{levels}", model=LA57_MODEL, jobs="a1,sees,report", append=words),
        levels,
    )


def with_5_levels(lab, name, **more):
    """One processor, because this firmware, which was switched behind its back, loses the others
    when it ends."""
    menu = (
        "search --no-floppy --set=root --file /EFI/pmuvisor/grub.cfg\n"
        "chainloader /EFI/pmuvisor/la57.efi\nboot\n"
    )
    boot = lab.emulator(
        name,
        model=LA57_MODEL,
        menu=menu,
        limit=5000,
        add={"/EFI/pmuvisor/la57.efi": path("build", "la57", "la57.efi")},
        **more,
    )
    expect_said(
        boot,
        "la57: 5 levels",
        "la57: CET, read-only tables",
        "warning: load options: found bytes that are no text",
        "pmuvisor: firmware's 5-level paging is left",
        "pmuvisor: starting the guest",
    )
    return boot


def test_5_levels(lab):
    """Firmware with 5-level paging, CR4.CET, read-only ACPI tables, and with load options that are
    no text: the guest starts."""
    boot = with_5_levels(lab, "la57", until="pmuvisor: starting the guest")
    boot.expect_status(STATUS_TEXT)
    assert (
        boot.ledger["root"]["vmwrite"] > 0
        and sum(reason["count"] for reason in boot.ledger["exits"].values()) > 0
    ), "the guest did not run"


@pytest.mark.full
@pytest.mark.parametrize(
    "words, levels", LEVELS.values(), ids=[f"firmware_{name}" for name in LEVELS]
)
def test_5_levels_linux(lab, words, levels):
    """The same up to the guest's power-off."""
    expect_levels(
        with_5_levels(lab, f"la57-linux-{levels}", jobs="a1,sees,report", append=words), levels
    )


# ---- the serial line ----


def qemu(lab, name, table, commands):
    """QEMU's own firmware starts the image from its shell, as `commands` say, without a kernel: it
    is refused, and that line is looked for. Gives what came at COM1 and at port 0x3e8."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-serial.") as work:
        disk, third = os.path.join(work, "disk"), os.path.join(work, "third")
        os.mkdir(disk)
        shutil.copy(made(image()), os.path.join(disk, "pmuvisor.efi"))
        with open(os.path.join(disk, "startup.nsh"), "w", encoding="ascii") as script:
            script.write("".join(f"fs0:\\{line}\r\n" for line in commands) + "reset -s\r\n")
        machines.write(work, "spcr", table)
        boot = lab.watch(
            name,
            emulated_pc.timed(
                5,
                "-chardev",
                f"file,id=third,path={third}",
                "-device",
                "isa-serial,chardev=third,iobase=0x3e8,irq=5",
                "-acpitable",
                f"file={os.path.join(work, 'spcr.aml')}",
                "-drive",
                f"format=raw,file=fat:rw:{disk}",
            ),
        )
        boot.expect_status(0)
        with open(third, encoding="ascii", errors="replace") as source:
            return boot.squeezed(), source.read()


REFUSED = "PMUvisor refuses to start: kernel vmlinuz"


def test_serial_of_spcr(lab):
    """The SPCR names port 0x3e8: text goes there, but where console= says otherwise."""
    first, third = qemu(
        lab,
        "serial-spcr",
        machines.spcr(1, 0x3E8, rate=6),
        ["pmuvisor.efi", "pmuvisor.efi console=none", "pmuvisor.efi console=0x2e0"],
    )
    assert third.count(REFUSED) == 1, third
    assert first.count("warning:optionconsole:foundnoUARTatI/Oport0x2e0") == 1, first[-300:]
    assert first.count(REFUSED.replace(" ", "")) == 3, first[-300:]


@pytest.mark.full
def test_serial_by_option(lab):
    """The SPCR names a line in memory: a line says so; console=0x3e8 has text there."""
    first, third = qemu(
        lab,
        "serial-memory",
        machines.spcr(0, 0xFE032000),
        ["pmuvisor.efi", "pmuvisor.efi console=0x3e8"],
    )
    assert third.count(REFUSED) == 1, third
    assert (
        first.count("console:ACPI'sSPCRnamesalineoftype0at0xfe032000inaddressspace0,wanted") == 1
    ), first[-300:]
