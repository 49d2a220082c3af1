# SPDX-License-Identifier: BSD-2-Clause
# guest.py: Debian's unmodified kernel under PMUvisor in the emulator: the boot that most tests ask.

REGION_CPUID = "50"
REGION_USER = "100"
CPUID_ROUNDS = 100
EXIT_REASON_CPUID = "10"

MAX_CPUID_INSTRUCTIONS = 120
MAX_CPUID_VMCS_ACCESSES = 6


def guest(lab):
    return lab.emulator(
        "guest",
        jobs="a1,cpuid,report,cpuinfo,efivars,badmsr,watchdog,interrupts,touch",
        whole_init=True,
    )


def expect_said(boot, *texts):
    """Each text is on the console."""
    for text in texts:
        assert text in boot.console, f"nothing says '{text}'; last line: {boot.last_line()}"


def after_guest(boot):
    """What is on the console after the guest's last words."""
    parts = boot.console.rsplit("init: done", 1)
    assert len(parts) == 2, f"the guest's init did not end: {boot.last_line()}"
    return parts[1]
