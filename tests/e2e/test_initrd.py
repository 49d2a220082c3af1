# SPDX-License-Identifier: BSD-2-Clause
# test_initrd.py: an initrd as large as a server's, 100 MiB and more: what is at its end is there.
import os
import subprocess
import tempfile

import pytest

from machine import SCRATCH, STATUS_POWEROFF

MIB = 1 << 20
MEMORY_MIB = 1024
LIMIT = 60_000  # millions of instructions


def cpio(folder, name):
    """An archive of the folder, uncompressed, in the order of its names."""
    with open(name, "wb") as out:
        subprocess.run("find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc", shell=True,
                       cwd=folder, check=True, stdout=out, stderr=subprocess.DEVNULL)


def large_initrd(lab, work, megabytes):
    """A file of zeros, and after it the guest's own initrd: without that Linux has no init."""
    folder, name = os.path.join(work, "root"), os.path.join(work, "initrd.img")
    os.mkdir(folder)
    with open(os.path.join(folder, "zeros"), "wb") as zeros:
        zeros.truncate(megabytes * MIB)
    cpio(folder, name)
    with open(name, "ab") as out, open(lab.initrd(), "rb") as own:
        out.write(own.read())
    return name


@pytest.mark.full
def test_large(lab):
    """120 MiB: PMUvisor places it, and Linux finds the init at its end."""
    def make():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-initrd.", dir=SCRATCH) as work:
            return lab.emulator("large-initrd", initrd=large_initrd(lab, work, 120), jobs="a1",
                                memory=MEMORY_MIB, limit=LIMIT)
    boot = lab.boot("large-initrd-made", make)
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1") == 0
