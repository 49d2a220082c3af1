# SPDX-License-Identifier: BSD-2-Clause
# test_initrd.py: an initrd as large as a server's, 100 MiB and more: what is at its end is there.
import pytest

from testbed.boots import initrd
from testbed.machine import STATUS_POWEROFF

MIB = 1 << 20
MEMORY_MIB = 1024
LIMIT = 60_000  # millions of instructions


@pytest.mark.full
def test_large(lab):
    """120 MiB of zeros, then the guest's own initrd, without which Linux has no init: PMUvisor
    places it all, and Linux finds the init at its end."""
    boot = lab.emulator(
        "large-initrd",
        initrd=({"zeros": bytes(120 * MIB)}, initrd()),
        jobs="a1",
        memory=MEMORY_MIB,
        limit=LIMIT,
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1") == 0
