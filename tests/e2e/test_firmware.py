# SPDX-License-Identifier: BSD-2-Clause
# test_firmware.py: starts with the firmware and the GRUB of Debian 12 and 13, images of 2 and of
# 4 MiB (testbed/firmware.sh). What is of the other Debian is fetched. FULL=1: also the image that
# is built from source; Debian's kernel with each, each GRUB, one and four processors; and the
# groups of tests that begin with firmware.
import os
import sys

import pytest

from testbed import boots
from testbed.machine import STATUS_POWEROFF, environment, firmware, made, path
from tests.commands import run
from tests.e2e import kernel
from tests.e2e.kernel import Plan, tap

pytestmark = pytest.mark.more

# Name, and the test kernel's processors.
NAMES = {"bookworm-2M": 1, "bookworm-4M": 4, "trixie-2M": 4, "trixie-4M": 1}
BUILT = "trixie-2M"  # from source, some 10 minutes
# When files of this size are loaded nothing is left of the memory at the top but a bin that OVMF
# 2025.02 with one processor lists as free and does not give (boot/memory.c). Debian's kernel is too
# large to be there.
CROWD = 960 << 10  # bytes
EVERY = [
    (name, grub, cpus) for name in NAMES for grub in ("bookworm-4M", "trixie-4M") for cpus in (1, 4)
]
# What is about how a start begins, ends, is chosen or refused, and what it leaves.
GROUPS = ["boots", "crash", "menu", "refusals"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] if name == BUILT else []) for name in NAMES],
)
def test_starts(lab, name):
    """The test kernel, with firmware and GRUB of that Debian."""
    plan = Plan("tsc_hz 50000000").add("pmi", *(["smp-processors"] if NAMES[name] > 1 else []))
    rest = CROWD - os.path.getsize(made("build/kernel.bzImage"))
    boot = kernel.run(
        lab,
        f"firmware-{name}",
        plan,
        cpus=NAMES[name],
        firmware=firmware(name),
        content=bytes(rest),
    )
    assert all(good for _, good, _, _ in tap(boot)), boot.last_line()


@pytest.mark.full
@pytest.mark.parametrize(
    "name, grub, cpus",
    EVERY,
    ids=[f"linux-{name}-grub-{grub}-{cpus}" for name, grub, cpus in EVERY],
)
def test_linux(lab, name, grub, cpus):
    """Debian's kernel and program A.1."""
    machine = firmware(name)[0], firmware(grub)[1]
    rest = CROWD - os.path.getsize(made(boots.initrd()))
    boot = lab.emulator(
        f"firmware-{name}-{grub}-{cpus}",
        cpus=cpus,
        firmware=machine,
        append="tsc_early_khz=50000" if cpus > 1 else "",
        initrd=(boots.initrd(), bytes(max(rest, 0))),
        jobs="a1",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("a1") == 0


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES, ids=[f"groups-{name}" for name in NAMES])
def test_groups(name):
    """All tests of those groups, with firmware and GRUB of that Debian in each of their boots."""
    image, modules = firmware(name)
    pytest_words = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "--keep"]
    status, said = run(
        *pytest_words,
        path("build", "e2e", f"firmware-{name}"),
        *(path("tests", "e2e", f"test_{group}.py") for group in GROUPS),
        env={**environment(), "FIRMWARE": image, "GRUB_MODULES": modules, "FULL": "0"},
    )
    failed = [line for line in said.splitlines() if line.startswith("FAILED ")]
    last = said.splitlines()[-1]
    assert status == 0 and " passed" in last, failed or last
    return last
