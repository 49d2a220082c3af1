# SPDX-License-Identifier: BSD-2-Clause
# emulated_pc.py: QEMU's PC without VMX, with Debian's OVMF: what tests of firmware's part run on.
import os
import shutil

from machine import Skip

FIRMWARE = os.environ.get("FIRMWARE", "/usr/share/ovmf/OVMF.fd")


def command(*options):
    """QEMU's command line for a PC with OVMF, no network, and nobody before its screen. Skips where
    they are not installed."""
    if shutil.which("qemu-system-x86_64") is None or not os.path.exists(FIRMWARE):
        raise Skip("QEMU or its firmware is missing; run: testbed/deps.sh run check")
    return ["qemu-system-x86_64", "-accel", "tcg", "-bios", FIRMWARE, "-nic", "none",
            "-display", "none", "-no-reboot", "-serial", "stdio", *options]
