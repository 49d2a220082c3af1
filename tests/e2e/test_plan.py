# SPDX-License-Identifier: BSD-2-Clause
# test_plan.py: what PMUvisor would make of large machines, by the EFI program of tests/plan/ under
# QEMU, without VMX: firmware's own memory map, ACPI tables and MTRRs, the hypervisor's code on
# them.
import os
import re
import shutil
import tempfile

import pytest

from testbed.machine import made
from tests.e2e.emulated_pc import command

STATUS_PASSED = 1  # isa-debug-exit: twice the value written, plus one
CHECKS = {"map_2m", "e820_2m", "map_1g", "e820_1g"}
GIB = 1 << 30


def plan(lab, name, gib, *options):
    """The two lines of the program, without and with 1 GiB pages. Memory is not really there."""

    def make():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-plan.") as work:
            boot = os.path.join(work, "EFI", "BOOT")
            os.makedirs(boot)
            shutil.copy(made("build/plan/plan.efi"), os.path.join(boot, "BOOTX64.EFI"))
            return lab.watched(
                f"plan-{name}",
                command(
                    "-M",
                    "q35,memory-backend=ram",
                    "-m",
                    f"{gib}G",
                    "-object",
                    f"memory-backend-ram,id=ram,size={gib}G,reserve=off",
                    *options,
                    "-vga",
                    "none",
                    "-icount",
                    "shift=7,sleep=off",
                    "-device",
                    "isa-debug-exit,iobase=0xf4,iosize=4",
                    "-drive",
                    f"format=raw,file=fat:rw:{work}",
                ),
            )

    done = lab.once(f"plan-{name}", make)
    found = dict(
        (check, result) for result, check in re.findall(r"plan: (ok|FAIL) (\S+)", done.console)
    )
    assert set(found) == CHECKS and set(found.values()) == {"ok"}, (found, done.last_line())
    done.expect_status(STATUS_PASSED)
    lines = [line for line in done.lines("plan") if "top" in line]
    for line in lines:
        assert int(line["top"], 16) >= gib * GIB and int(line["tables"]) <= int(line["announced"])
        assert int(line["reach"], 16) >= int(line["top"], 16), line
    return lines


def test_sparse_processors(lab):
    """64 GiB, and 24 processors whose APIC IDs have gaps."""
    small, large = plan(lab, "sparse", 64, "-cpu", "max", "-smp", "24,sockets=8,cores=3,threads=1")
    assert small["processors"] == "24" and small["last_id"] == "30", small
    return f"{small['tables']} pages of tables, {large['tables']} with 1 GiB pages"


def test_terabyte(lab):
    """1 TiB, with the holes that firmware leaves in it."""
    small, large = plan(lab, "terabyte", 1024, "-cpu", "max,phys-bits=46")
    return f"{small['tables']} pages of tables, {large['tables']} with 1 GiB pages"


@pytest.mark.full
def test_192_processors(lab):
    """192 processors, up to the last APIC ID that xAPIC mode has."""
    small, _ = plan(lab, "192", 4, "-cpu", "max", "-smp", "192,sockets=64,cores=3,threads=1")
    assert small["processors"] == "192" and small["last_id"] == "254", small
