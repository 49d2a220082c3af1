# SPDX-License-Identifier: BSD-2-Clause
# test_menu.py: entries of the boot menu that are no columns.
from machine import STATUS_POWEROFF, path, tool

SAFE = ["processors=1", "vtd=off", "tick=0"]


def test_safe_asks_little():
    """The entry `safe` has its options, and nobody's pmv_args behind them."""
    entry = tool([path("boot", "menu.sh")]).split("--id safe {")[1].split("}")[0]
    command = entry.split("chainloader ")[1].split()
    assert command == ["$pmv_dir/pmuvisor.efi", *SAFE, "$pmv_marks"], entry


def test_safe(lab):
    """It starts, with one processor of two, whatever pmuvisor.cfg says."""
    boot = lab.emulator("menu-safe", entry="safe", cpus=2, config="tick=100 processors=2 vtd=on",
                        jobs="cpuinfo,a1", append="tsc_early_khz=50000")
    boot.expect_status(STATUS_POWEROFF)
    assert [line["cpus"] for line in boot.lines("cpuinfo") if "cpus" in line] == ["1"], \
        boot.lines("cpuinfo")
    assert boot.job_status("a1") == 0
    assert "DMA is not contained: vtd=off" in boot.console, "VT-d is not off"
    assert "pmuvisor: tick" not in boot.console, "there is a tick"
