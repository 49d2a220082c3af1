# SPDX-License-Identifier: BSD-2-Clause
# test_vtd.py: DMA containment, by the EFI program of tests/vtd/ on QEMU's emulated VT-d, without
# VMX. Each run begins with the same DMA where nothing stops it: it must arrive.
import os
import re
import shutil
import struct
import tempfile

import pytest

from testbed.machine import Skip, path
from tests.e2e import emulated_pc, guest

pytestmark = pytest.mark.more

STATUS_PASSED = 1  # isa-debug-exit: twice the value written, plus one

NO_UNIT = "pmuvisor: DMA is not contained: firmware reports no VT-d (no ACPI table DMAR)"
CONTROL = {
    f"control/{name}"
    for name in (
        "device_found",
        "ordinary_memory",
        "write_lands_without_translation",
        "read_lands_without_translation",
    )
}
CONTAINED = {
    "started",
    "pages_as_announced",
    "ordinary_memory",
    "no_fault",
    "write_refused",
    "fault_recorded",
    "read_refused",
    "registers_refused",
    "interrupts_not_remapped",
}
EVERYTHING = (
    CONTROL
    | {
        f"{scenario}/{name}"
        for scenario in ("shared", "takeover", "small_pages", "three_levels")
        for name in CONTAINED
    }
    | {
        "plan/x2apic_forced_refused",
        "plan/x2apic_without_remapping",
        "plan/unit_untouched",
        "off/write_lands",
        "off/ordinary_memory",
        "takeover/firmware_map_in_use",
        "takeover/x2apic_with_remapping_refused",
        "acpi/hide_says_done",
        "acpi/dmar_hidden",
        "acpi/others_stay",
        "acpi/both_lists_right",
    }
)


def run_now(lab, name, unit):
    """One machine with this unit (None: without); the lines that the program said."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-vtd.") as work:
        folder = os.path.join(work, "EFI", "BOOT")
        os.makedirs(folder)
        shutil.copy(path("build", "vtd", "vtd.efi"), os.path.join(folder, "BOOTX64.EFI"))
        command = emulated_pc.timed(
            7,  # the device's delay of 100 ms is soon over
            "-device",
            "edu,dma_mask=0xffffffffffffffff",
            "-device",
            "isa-debug-exit,iobase=0xf4,iosize=4",
            "-drive",
            f"format=raw,file=fat:rw:{work}",
        )
        if unit is not None:
            command += ["-device", f"intel-iommu,{unit}"]
        boot = lab.watch(f"vtd-{name}", command)
    return boot.status, boot.console


def expect(lab, name, unit, wanted, said):
    status, output = run_now(lab, name, unit)
    results = {check: result for result, check in re.findall(r"vtd: (ok|FAIL) (\S+)", output)}
    wrong = sorted(check for check, result in results.items() if result != "ok")
    missing = sorted(wanted - results.keys())
    assert not wrong and not missing, f"failed: {wrong}, not run: {missing}"
    assert "vtd: end, 0 failed" in output and status == STATUS_PASSED, f"exit status {status}"
    lines = [line for line in output.splitlines() if line.startswith("pmuvisor: DMA")]
    assert lines == said, lines
    return f"{len(results)} checks"


def contained(levels, tables):
    return f"pmuvisor: DMA contained by 1 VT-d units, {levels} levels, {tables}"


# A unit's options, and the levels of the tables that contain it.
UNITS = {
    "contained": ("aw-bits=48", 4),
    # It caches what is not present, and has tables of three levels only.
    "caching": ("aw-bits=39,caching-mode=on", 3),
    "scalable": ("aw-bits=48,x-scalable-mode=on,snoop-control=on,device-iotlb=on", 4),
}


@pytest.mark.parametrize("name", UNITS)
def test_contained(lab, name):
    """The EPT's own tables, a unit that firmware left on, units without large pages or level 4."""
    unit, levels = UNITS[name]
    said = [
        contained(levels, "the EPT's tables"),
        contained(levels, "the EPT's tables"),
        contained(levels, "own tables"),
        contained(3, "the EPT's tables"),
    ]
    return expect(lab, name, unit, EVERYTHING, said)


def test_no_unit(lab):
    """No VT-d: one line says that DMA is not contained, and so it is not."""
    return expect(lab, "none", None, CONTROL | {"none/not_started", "none/no_pages"}, [NO_UNIT])


def test_hypervisor_without_unit(lab):
    """PMUvisor itself says so in the emulator, which has no VT-d, and goes on."""
    assert guest.guest(lab).console.count(NO_UNIT) == 1


def firmware_page():
    """Address of a page of the emulator's ROM whose words look like a capable unit, so that DMAR
    may name it. It obeys no command."""
    with open(emulated_pc.FIRMWARE, "rb") as source:
        rom = source.read()
    for offset in range(0, len(rom), 4096):
        cap, ecap, _, status = struct.unpack_from("<QQII", rom, offset + 8)
        if cap & 0x600 and ecap & 2 and cap >> 16 & 0x3F in range(38, 57) and not status >> 26 & 1:
            return (1 << 32) - len(rom) + offset
    raise Skip("no page of the firmware looks like a unit")


def dmar_with(base):
    body = struct.pack("<BB10xHHBBHQ", 38, 0, 0, 16, 1, 0, 0, base)
    table = bytearray(
        struct.pack(
            "<4sIBB6s8sI4sI", b"DMAR", 36 + len(body), 1, 0, b"PMUV", b"TESTBED", 1, b"INTL", 1
        )
        + body
    )
    table[9] = -sum(table) & 0xFF
    return table


def with_dmar(lab, name, base, config=""):
    """The guest on a machine whose DMAR names one unit at that address; it touches it as well."""
    with open(path("testbed", "grub.cfg"), encoding="utf-8") as source:
        menu = (
            "search --no-floppy --set=root --file /EFI/pmuvisor/dmar.aml\n"
            "acpi --no-ebda /EFI/pmuvisor/dmar.aml\n" + source.read()
        )
    return lab.emulator(
        name,
        jobs="touch",
        menu=menu,
        config=config,
        add={"/EFI/pmuvisor/dmar.aml": bytes(dmar_with(base))},
        append=f"ignore_loglevel pmv.touch={base:#x}",
    )


def test_hypervisor_hides_unit(lab):
    """A unit that does not obey: one line, and the guest sees neither DMAR nor the registers."""
    base = firmware_page()
    boot = with_dmar(lab, "dmar-rom", base)
    said = f"pmuvisor: DMA is not contained: the VT-d unit at {base:#x} does not "
    guest.expect_said(boot, said, "ACPI: APIC", f"read of {base:#x}", f"write of {base:#x}")
    assert "ACPI: DMAR" not in boot.console, "the guest sees DMAR"


def expect_left(lab, name, said, config=""):
    """The guest keeps the unit and the DMAR, and a line says why."""
    base = 0xFED90000
    boot = with_dmar(lab, name, base, config)
    guest.expect_said(boot, said, "ACPI: DMAR", f"touch: page={base:#x}")
    assert f"of {base:#x} " not in boot.console, "the unit is hidden"


@pytest.mark.full
def test_off(lab):
    """vtd=off: no unit is looked at."""
    expect_left(lab, "dmar-off", "pmuvisor: DMA is not contained: vtd=off\n", "vtd=off")


def test_hypervisor_leaves_unit(lab):
    """A unit that cannot contain DMA, here because nothing is there."""
    said = "pmuvisor: DMA is not contained: the VT-d units have in common capabilities"
    expect_left(lab, "dmar-empty", said)
