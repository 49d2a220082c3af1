# SPDX-License-Identifier: BSD-2-Clause
# test_native.py: the emulator's PMU model against Debian's unmodified kernel, without the
# hypervisor. What the kernel's own driver says and counts here is what the guest must get.
import pytest

from testbed.machine import STATUS_POWEROFF
from tests.e2e.native import (
    A1_BRANCHES,
    A1_PERIODS,
    expect_a1_pmis,
    expect_generalized,
    native,
    native_perf,
)


def test_power_off(lab):
    """The kernel boots and switches the machine off by ACPI."""
    boot = native(lab)
    boot.expect_status(STATUS_POWEROFF)
    assert "running natively" in boot.console


def test_pmu_driver(lab):
    """Linux's driver: Intel PMU, version 4, 4 + 3 counters, 48 bits."""
    boot = native(lab)
    for wanted in (
        "Intel PMU driver",
        "... version:                4",
        "... bit width:              48",
        "... generic registers:      4",
        "... fixed-purpose events:   3",
    ):
        assert wanted in boot.console, f"the kernel log does not say '{wanted}'"


@pytest.mark.full
def test_pmu_version_6(lab):
    """The driver takes a PMU of version 6 with gaps in its fixed counters; A.1 gets its PMIs."""
    boot = lab.emulator(
        "native-pmu6",
        entry="native",
        jobs="a1",
        append="loglevel=7",
        knobs="pmu_version 6\npmu_general_mask 0xff\npmu_fixed_mask 0x2f\n",
    )
    for wanted in (
        "... version:                6",
        "... generic registers:      8",
        "... event mask:             0000002f000000ff",
    ):
        assert wanted in boot.console, f"the kernel log does not say '{wanted}'"
    for region, period in A1_PERIODS.items():
        raised = boot.region(region)["pmi"]["raised"]
        assert raised == A1_BRANCHES // period, f"M={period}: the emulator raised {raised} PMIs"


def test_nmi_watchdog(lab):
    """The NMI watchdog starts and stays on."""
    boot = native(lab)
    assert boot.lines("watchdog")[0]["enabled"] == "1", boot.lines("watchdog")[0]


def test_a1_pmis(lab):
    """A.1 takes N/M PMIs; the emulator raised as many as the kernel handled."""
    boot = native(lab)
    expect_a1_pmis(boot)
    for region, period in A1_PERIODS.items():
        raised = boot.region(region)["pmi"]["raised"]
        assert raised == A1_BRANCHES // period, f"M={period}: the emulator raised {raised} PMIs"


def test_perf_stat_exact(lab):
    """perf stat -e instructions:u of a program of known length is exact."""
    boot = native_perf(lab)
    rows = [row for row in boot.lines("perf") if "instructions" in row]
    assert rows, f"perf said nothing; {boot.lines('perf')} last line: {boot.last_line()}"
    assert rows[0]["instructions"] == rows[0]["expected"], rows[0]
    assert boot.job_status("perf") == 0


def test_perf_generalized(lab):
    """Loads, stores and branches are exact, misses are those that the program makes."""
    counts = expect_generalized(native_perf(lab))
    return ", ".join(f"{event.removesuffix(':u')} {count}" for event, count in counts.items())


def test_efivars(lab):
    """EFI variables can be listed, written and deleted."""
    boot = native(lab)
    assert boot.job_status("efivars") == 0, boot.lines("efivars")


def test_absent_msr_faults(lab):
    """An MSR that the model does not have raises #GP."""
    boot = native(lab)
    assert boot.job_status("badmsr") == 0, boot.lines("badmsr")
