# SPDX-License-Identifier: BSD-2-Clause
# test_firmware.py: starts with the firmware and the GRUB of Debian 12 and 13, images of 2 and of
# 4 MiB (testbed/firmware.sh). Firmware of a Debian other than this machine's is fetched. FULL=1:
# each firmware with each GRUB, one and four processors and Debian's kernel.
import os
import tempfile

import kernel
from kernel import Plan, tap
from machine import STATUS_POWEROFF, firmware, path
import pytest

# Name, and processors without FULL=1.
NAMES = {"bookworm-2M": 1, "bookworm-4M": 4, "trixie-4M": 1}
# When files of this size are loaded nothing is left of the memory at the top but a bin that OVMF
# 2025.02 with one processor lists as free and does not give (boot/memory.c). Debian's kernel is too
# large to be there.
CROWD = 960 << 10  # bytes
EVERY = [(name, grub, cpus) for name in NAMES for grub in ("bookworm-4M", "trixie-4M")
         for cpus in (1, 4)]


@pytest.mark.parametrize("name", NAMES)
def test_starts(lab, name):
    """The test kernel, with firmware and GRUB of that Debian."""
    plan = Plan("tsc_hz 50000000").add("pmi", *(["smp-processors"] if NAMES[name] > 1 else []))
    rest = CROWD - os.path.getsize(path("build", "kernel.bzImage"))
    boot = kernel.run(lab, f"firmware-{name}", plan, cpus=NAMES[name],
                      firmware=firmware(name), content=bytes(rest))
    assert all(good for _, good, _, _ in tap(boot)), boot.last_line()


@pytest.mark.full
@pytest.mark.parametrize("name, grub, cpus", EVERY,
                         ids=[f"linux-{name}-grub-{grub}-{cpus}" for name, grub, cpus in EVERY])
def test_linux(lab, name, grub, cpus):
    """Debian's kernel and program A.1."""
    machine = firmware(name)[0], firmware(grub)[1]
    with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
        with open(lab.initrd(), "rb") as own:
            initrd.write(own.read().ljust(CROWD, b"\0"))
        initrd.flush()
        boot = lab.emulator(f"firmware-{name}-{grub}-{cpus}", cpus=cpus, firmware=machine,
                            append="tsc_early_khz=50000" if cpus > 1 else "",
                            initrd=initrd.name, jobs="a1")
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1") == 0
