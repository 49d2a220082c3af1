# SPDX-License-Identifier: BSD-2-Clause
# kernels.py: the kernels that test_kernels.py boots, and where a guest's kernel log may differ from
# the native one. docs/guest.md has the same list as a table (docs/differences.py writes it).
import collections
import platform
import re
from typing import NamedTuple

from testbed.machine import path

# Debian's suites (programs/kernel.sh --suite), the newest last, and what their kernels are called.
SUITES = {"bookworm": "6.1", "trixie": "6.12", "trixie-backports": "7.3"}
POLICIES = ("intercept", "msr", "msr+nmi")
CPUS = (1, 4)
A1_PERIODS = (200000, 10000, 1000, 100)
A1_BRANCHES = 100000
REGION_A1_AGAIN, A1_AGAIN = 3300, 125  # the job a1again: the first region, runs of each period
PMIS_AT_ONCE = 400
JOBS = "smp,a1again,a1smp,statall,recordall,pmiall,kernellog,sees,report"
# perf would read all of the kernel's symbols, half of the boot's time, and needs none here.
APPEND = "sysctl.kernel.kptr_restrict=2"
LIMIT = 40_000  # millions of instructions

# A clock rate that CPUID tells, and the registers of the C-states that Linux's driver asks for.
MACHINE = "tsc_hz 50000000\n" + "".join(
    f"msr {msr} 1\n" for msr in ("0x3f8", "0x3f9", "0x3fa", "0x3fc", "0x3fd", "0x3fe", "0x60d")
)
HYPERVISOR_BIT = "cpuid 1 0 ecx 0x80000000\n"  # a knob: CPUID.1:ECX[31], natively
TABLES = r"MEMATTR=0x\w+ ACPI 2\.0=0x\w+ ACPI=0x\w+ "  # of OVMF here
ADDRESS = r"(0x)?[0-9a-fA-F]+"
LATER = ("trixie", "trixie-backports")


def own_suite():
    """This machine's, whose kernel other tests want as well."""
    name = platform.freedesktop_os_release().get("VERSION_CODENAME")
    return name if name in SUITES else next(iter(SUITES))


class Difference(NamedTuple):
    """Lines that may differ, and why. A pattern is of a whole line, after `-` where the native
    kernel alone says it, or `+` where the guest's does. Without either, both kernels say it as
    often, but not the same."""

    what: str
    why: str
    patterns: tuple = ()
    changed: tuple = ()
    suites: tuple = tuple(SUITES)  # whose kernels say such a line
    hosts: tuple = tuple(SUITES)  # whose GRUB and firmware, those that are installed, lead to it
    bit: bool = False  # it follows from CPUID's hypervisor bit alone

    def applies(self, suite):
        return suite in self.suites and own_suite() in self.hosts


DIFFERENCES = (
    Difference(
        "command line",
        "GRUB's `linux` puts BOOT_IMAGE= in front, but PMUvisor's loader does not. "
        "The boot menu adds `dis_ucode_ldr` and `intremap=off` for the native kernel only. "
        "Both kernels get `fred=off`, which 6.1 does not know.",
        (
            r"- Unknown kernel command line parameters \"dis_ucode_ldr( fred=off)?\", .*",
            r"\+ Unknown kernel command line parameters \"fred=off\", .*",
            r"-     dis_ucode_ldr",
        ),
        (r"(Kernel command|Command) line: .*",),
    ),
    Difference(
        "memory map",
        "The hypervisor's own memory and the reset doorbell are reserved. The two "
        "boot loaders use different memory, and put kernel and initramfs at different places.",
        (
            r"[-+] (BIOS-e820|  node   0): \[?.*\[?mem .*",
            r"[-+] PM: hibernation: Registered nosave memory: .*",
            r"[-+] On node 0, zone DMA(32)?: \d+ pages in unavailable ranges",
            r"[-+] e820: (reserve|register) RAM buffer .*",
        ),
        (
            r"RAMDISK: .*",
            r"NODE_DATA\(0\) allocated .*",
            r"Built 1 zonelists, .*",
            r"Memory: .* available .*",
            r"efi: Freeing EFI boot services memory: \d+K",
        ),
    ),
    Difference(
        "ACPI's FADT and MADT",
        "The guest gets copies. PMUvisor watches the reset register of the "
        "FADT's copy. The MADT's copy has the processors that are under VMX.",
        changed=(
            r"ACPI: FACP 0x.*",
            r"ACPI: APIC 0x.*",
            r"ACPI: Reserving FACP table memory .*",
            r"ACPI: Reserving APIC table memory .*",
        ),
    ),
    Difference(
        "sleep states",
        "S3 is hidden, because PMUvisor would not survive S3.",
        (r"- ACPI: PM: \(supports S0 S3 S5\)", r"\+ ACPI: PM: \(supports S0 S5\)"),
    ),
    Difference(
        "Secure Boot",
        "PMUvisor does not tell the kernel about Secure Boot, because PMUvisor "
        "checks no signature of the kernel. The kernel's own EFI stub, which would ask firmware, "
        "does not run. So the guest is not locked down, even if Secure Boot is on.",
        (
            r"- secureboot: Secure boot disabled",
            r"\+ secureboot: Secure boot could not be determined \(mode 0\)",
            r"\+ (integrity|ima): secureboot mode disabled",
        ),
    ),
    Difference(
        "EFI's tables",
        "The kernel's own EFI stub leaves two more tables: one if Debian 13's GRUB "
        "makes the stub fetch the initramfs, and one if Debian 13's firmware provides random "
        "numbers. The stub does not run under PMUvisor.",
        (rf"- efi: {TABLES}(INITRD=0x\w+ )?RNG=0x\w+ ", rf"\+ efi: {TABLES}"),
        hosts=("trixie",),
    ),
    Difference(
        "vulnerabilities",
        "CPUID reports a hypervisor. Linux then cannot know which mitigations the "
        "host applies (GDS), assumes that the processor is vulnerable (ITS), or leaves the "
        "mitigation to the host (VMSCAPE).",
        (
            r"- GDS: Vulnerable: No microcode",
            r"\+ GDS: Unknown: Dependent on hypervisor status",
            r"\+ ITS: Vulnerable",
            r"- VMSCAPE: Vulnerable",
        ),
        bit=True,
    ),
    Difference(
        "old microcode",
        "Linux does not check the microcode's version under a hypervisor.",
        (r"- x86/CPU: Running old microcode",),
        suites=("trixie-backports",),
        bit=True,
    ),
    Difference(
        "an MSR that this machine lacks",
        "Both kernels print the line, each with the address that KASLR chose.",
        changed=(rf"unchecked MSR access error: RDMSR from 0xe2 at rIP: {ADDRESS} .*",),
        suites=LATER,
    ),
    Difference(
        "times",
        "Times of day and durations.",
        changed=(
            r"audit: type=2000 audit\([\d.]+:1\): .*",
            r"rtc_cmos .*: setting system clock to .*",
            r"sched_clock: Marking stable .*",
            r"smpboot: Total of 4 processors activated \([\d.]+ BogoMIPS\)",
            r"node 0 deferred pages initialised in \d+ms",
        ),
    ),
)


# Where what Linux has made of the machine (the job `sees`) may differ from what it makes of it
# natively.
VMX_FLAGS = "vmx|ept|ept_ad|flexpriority|tpr_shadow|vnmi|vpid"
SEEN = (
    Difference(
        "VMX",
        "Hidden, with the flags that belong to it.",
        (rf"- sees: flag ({VMX_FLAGS})",),
        (r"mitigation: itlb_multihit: .*",),
    ),
    Difference(
        "PMUs of the uncore and of the C-states",
        "Their drivers do not start under a hypervisor.",
        (r"- sees: pmu (uncore_\w+|cstate_(core|pkg))",),
        bit=True,
    ),
    Difference(
        "the flag `art`",
        "The always running timer. Devices take time stamps from it, and Linux converts these time "
        "stamps to the TSC. Under a hypervisor Linux does not convert them, because a hypervisor "
        "may change the TSC.",
        (r"- sees: flag art",),
        bit=True,
    ),
    Difference(
        "the flag `hypervisor`",
        "Programs use it to detect a hypervisor.",
        (r"\+ sees: flag hypervisor",),
        bit=True,
    ),
    Difference(
        "mitigations of vulnerabilities",
        "Linux cannot know which mitigations the host applies, "
        "whether threads share a core, or whether CPUID reports the real processor. So Linux "
        "assumes the worse case, or leaves the mitigation to the host.",
        changed=(
            r"mitigation: (gather_data_sampling|indirect_target_selection|mds|mmio_stale_data|"
            r"old_microcode|spectre_v2|vmscape): .*",
        ),
        bit=True,
    ),
)
BIT_OFF = "hypervisor_bit=off"


def boot_kernel(lab, suite, column, cpus, name="", knobs="", config="", append=APPEND):
    """The boot of that suite's kernel, natively or under a policy, with all that is asked of it."""
    initrd = path(f"build/payload/perf-{suite}-cloud.img")
    return lab.emulator(
        f"kernels-{suite}-{column}-{cpus}{name}",
        entry=column,
        cpus=cpus,
        jobs=JOBS,
        kernel=lab.kernel("cloud", suite),
        initrd=initrd,
        append=append,
        knobs=MACHINE + knobs,
        config=config,
        limit=LIMIT,
    )


def kernel_log(boot):
    """The kernel's log, that of the jobs' time as well, without levels and times."""
    lines = [
        re.sub(r"^kernellog: <\d+>\[ *[\d.]+\] ?", "", line)
        for line in boot.console.splitlines()
        if line.startswith("kernellog: ")
    ]
    assert len(lines) > 100 and lines[0].startswith(
        "Linux version "
    ), f"{boot.name}: {len(lines)} lines of the kernel's log; first: {lines[:1]}"
    return lines


def seen(boot):
    """What Linux has made of the machine, a line for each thing."""
    lines = [
        line for line in boot.console.splitlines() if line.startswith(("sees: ", "mitigation: "))
    ]
    assert boot.job_status("sees") == 0 and len(lines) > 50, f"{boot.name}: {lines[-3:]}"
    return lines


def boot_bit_off(lab, suite):
    # Where no hypervisor is seen Linux looks for microcode: not natively either, by the boot menu.
    return boot_kernel(
        lab, suite, "msr+nmi", 1, "-bit-off", config=BIT_OFF, append=f"{APPEND} dis_ucode_ldr"
    )


def compare(native, guest):
    """What one of them says and the other does not, or less often; `- ` or `+ ` before each. The
    order is not compared: with several processors it varies."""
    counts = [collections.Counter(log) for log in (native, guest)]
    return [f"- {line}" for line in (counts[0] - counts[1]).elements()] + [
        f"+ {line}" for line in (counts[1] - counts[0]).elements()
    ]


def unexplained(native, guest, suite):
    """The lines that no row explains, and those of a changed line that one of the two lacks."""
    differ = compare(native, guest)
    strange = [line for line in differ if explained_by(line, suite) is None]
    for pattern in (
        pattern for row in DIFFERENCES if row.applies(suite) for pattern in row.changed
    ):
        lines = [line for line in differ if re.fullmatch(pattern, line[2:])]
        if 2 * sum(line.startswith("-") for line in lines) != len(lines):
            strange += lines
    return strange


def explained_by(line, suite, differences=DIFFERENCES):
    """The row that explains it; None: there is none."""
    for row in differences:
        if row.applies(suite) and (
            any(re.fullmatch(pattern, line) for pattern in row.patterns)
            or any(re.fullmatch(pattern, line[2:]) for pattern in row.changed)
        ):
            return row
    return None
