# SPDX-License-Identifier: BSD-2-Clause
# test_menu.py: entries of the boot menu that are no columns.
from testbed.machine import STATUS_POWEROFF, path, tool
from tests.e2e import kernel
from tests.e2e.kernel import Plan

SAFE = ["processors=1", "vtd=off", "tick=0"]


def test_safe_asks_little():
    """The entry `safe` has its options, and nobody's pmv_args after them."""
    entry = tool([path("testbed", "menu.sh")]).split("--id safe {")[1].split("}")[0]
    assert entry.split()[:3] == ["if", "guard_start;", "then"], entry
    command = entry.split("chainloader ")[1].splitlines()[0].split()
    assert command == ["$pmv_dir/pmuvisor.efi", *SAFE], entry


def test_safe(lab):
    """It starts, with one processor of two, whatever pmuvisor.cfg says."""
    boot = kernel.run(
        lab,
        "menu-safe",
        Plan("tsc_hz 50000000").add("cpuid"),
        entry="safe",
        cpus=2,
        config="tick=100 processors=2 vtd=on",
    )
    boot.expect_status(STATUS_POWEROFF)
    assert "\n1..1\n" in boot.console and "not ok" not in boot.console, boot.last_line()
    assert "pmuvisor: 1 of 2 processors are under VMX, as processors= says" in boot.console
    assert "pmuvisor: DMA is not contained: vtd=off" in boot.console, "VT-d is not off"
    assert "pmuvisor: tick every" not in boot.console, "there is a tick"
