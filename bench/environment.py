# SPDX-License-Identifier: BSD-2-Clause
# environment.py: what kind of machine this is, and the versions of what runs on it. Reads /proc and
# /sys, asks run-qemu.sh and the compiler; changes nothing.
import datetime
import glob
import hashlib
import os
import re
import subprocess

from testbed.machine import path

CPUINFO = "/proc/cpuinfo"
PSTATE_NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"
CPUFREQ_BOOST = "/sys/devices/system/cpu/cpufreq/boost"
CPUFREQ = "/sys/devices/system/cpu/cpu0/cpufreq"
MEMINFO = "/proc/meminfo"
BIOS = "/sys/class/dmi/id/bios_version"
MODULES = "/sys/module"
# As programs/payload/kvm.c says them of the emulator's KVM.
KVM_SETTINGS = (
    "kvm/parameters/enable_pmu",
    "kvm_intel/parameters/enable_apicv",
    "kvm_intel/parameters/flexpriority",
    "kvm_intel/parameters/ept",
    "kvm_intel/parameters/nested",
    "kvm_intel/parameters/unrestricted_guest",
    "kvm_intel/parameters/vmentry_l1d_flush",
    "kvm_intel/parameters/vpid",
)
# Folders whose code the figures of PMUvisor's columns depend on, and its files' endings.
SOURCES = ("vmx/exit", "nmi", "pmu")
ENDINGS = (".c", ".h", ".asm")
DIGITS = 12  # of a digest
# Literals come first, so that a comment's sign inside one stays; C's line continuations do not
# occur in them here. A character literal is short, else an apostrophe would begin one.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|/\*.*?\*/|//[^\n]*', re.DOTALL)
NASM_TOKEN = re.compile(r'"[^"\n]*"|\'[^\'\n]*\'|`(?:\\.|[^`\\\n])*`|;[^\n]*')
BOOT_KIB = 800 * 1024  # one boot in the emulator: the guest's 512 MiB, and the emulator's own


def read(name):
    try:
        with open(name, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return ""


def cpuinfo(key, text=None):
    """A value of the first processor, as Linux's /proc/cpuinfo has it."""
    match = re.search(rf"^{key}\s*: (.*)$", read(CPUINFO) if text is None else text, re.MULTILINE)
    return match[1].strip() if match else ""


def probe():
    """What run-qemu.sh would take here, and its reason."""
    done = subprocess.run(
        [path("run-qemu.sh"), "--probe"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=3600,
        check=False,
    )
    reason = done.stderr.strip().splitlines() or ["run-qemu.sh: no reason given"]
    return done.stdout.strip(), re.sub(r"^run-qemu\.sh: backend \w+: ", "", reason[-1])


def detect(flags=None, probed=None):
    """(kind that this program can boot here, lines that say why)."""
    flags = cpuinfo("flags").split() if flags is None else flags
    backend, reason = probed or probe()
    notes = []
    if "vmx" in flags and "hypervisor" not in flags:
        notes.append(
            "bench: this is a bare machine with VMX, which is not rebooted from here: for "
            "its cycles run `make install ESP=DIR BENCH=thesis` and boot its menu"
        )
    if backend == "kvm":
        notes.append(f"bench: environment nested: {reason}; the outer KVM is in every figure")
        return "nested", notes
    notes.append(f"bench: environment emulator: {reason}; figures are counts, no cycles")
    return "emulator", notes


def boots_at_once(processors=None, meminfo=None):
    """In the emulator: one for each processor, but no more than there is memory for."""
    match = re.search(r"^MemAvailable: *(\d+) kB", meminfo or read(MEMINFO), re.MULTILINE)
    processors = processors or len(os.sched_getaffinity(0))
    return max(1, min(processors, int(match[1]) // BOOT_KIB if match else processors))


def host_kvm_obstacle():
    """Why the machine's own KVM is not the column kvm; empty where there is no KVM at all."""
    if not os.path.exists("/dev/kvm"):
        return ""
    if "vmx" not in cpuinfo("flags").split():
        return (
            "bench: /dev/kvm is there, but not by VMX, which this processor does not offer: "
            "refused for the column kvm"
        )
    return ""


def version_of(program, unknown):
    """The first line of what a program says of its version; `unknown` where it is not there."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
    except OSError:
        return unknown
    return (done.stdout.splitlines() or [unknown])[0]


def compiler():
    """Of what the hypervisor was built with: the first word of its flags."""
    name = (read(path("build", "flags")).split() or ["gcc"])[0]
    return version_of(name, name)


def emulator_version():
    """As testbed/build.sh names the source that it builds."""
    match = re.search(r"\bbochs_([0-9.]+)", read(path("testbed", "build.sh")))
    return f"Bochs {match[1]}" if match else "Bochs"


def turbo():
    if read(PSTATE_NO_TURBO):
        return "off" if read(PSTATE_NO_TURBO) == "1" else "on"
    if read(CPUFREQ_BOOST):
        return "on" if read(CPUFREQ_BOOST) == "1" else "off"
    return "unknown"


def frequency():
    """Limits and governor, where Linux tells them; else what /proc/cpuinfo says."""
    low, high = read(f"{CPUFREQ}/scaling_min_freq"), read(f"{CPUFREQ}/scaling_max_freq")
    if low and high:
        governor = read(f"{CPUFREQ}/scaling_governor")
        return f"{int(low) // 1000} to {int(high) // 1000} MHz, governor {governor}"
    mhz = cpuinfo("cpu MHz")
    return f"{mhz} MHz" if mhz else ""


def collect(kind, kernel, model, mitigations):
    """The environment of a run on this machine, but for what its consoles say."""
    found = {
        "kind": kind,
        "tick": 0,
        "mitigations": mitigations,
        "root_mitigations": root_mitigations([]),
        "compiler": compiler(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "kernel": f"Linux {kernel}" if kernel else "",
    }
    if kind == "emulator":
        found["cpu"] = f"{model} (Bochs), with the test bed's PMU"
        found["emulator"] = emulator_version()
    else:
        found["cpu"] = cpuinfo("model name")
        found["emulator"] = version_of("qemu-system-x86_64", "")
        found["turbo"], found["frequency"] = turbo(), frequency()
        found["microcode"], found["bios"] = cpuinfo("microcode"), read(BIOS)
    return found


def host_kvm(modules=MODULES, release=None):
    """Of the KVM that QEMU uses here: the kernel's release and what kvm_intel was loaded with."""
    values = {os.path.basename(name): read(os.path.join(modules, name)) for name in KVM_SETTINGS}
    words = "".join(f" {key}={value}" for key, value in values.items() if value)
    return f"Linux {release or os.uname().release}" + (f", kvm_intel{words}" if words else "")


def root_mitigations(consoles):
    """What PMUvisor says of its mitigations, from the consoles of its boots: one text, or several
    where they differ. With console=none it says nothing: "not said" where no boot did. "off" is
    right where none of them ran."""
    found = [
        re.search(r"^pmuvisor: mitigations: (.*)$", console, re.MULTILINE) for console in consoles
    ]
    said = {match[1].strip() for match in found if match}
    return "; ".join(sorted(said)) or ("not said" if found else "off")


def kvm_version(console):
    """Of the KVM in the column kvm, from the line of its job; empty where there is none."""
    match = re.search(r"^kvm: release=(\S+)(.*)$", console, re.MULTILINE)
    return f"Linux {match[1]}, kvm_intel{match[2]}" if match else ""


def is_comment(token):
    return token.startswith(("/*", "//", ";"))


def without_comments(text, is_nasm):
    """The text with comments replaced by their line ends."""

    def shown(match):
        return "\n" * match[0].count("\n") if is_comment(match[0]) else match[0]

    return (NASM_TOKEN if is_nasm else C_TOKEN).sub(shown, text)


def code_of(name, text):
    """The words of a source, without comments and layout; empty: it is no source."""
    is_source = name.endswith(ENDINGS)
    return " ".join(without_comments(text, name.endswith(".asm")).split()) if is_source else ""


def sources(top=path()):
    """A digest of the code that figures depend on."""
    whole = hashlib.sha256()
    for folder in SOURCES:
        for name in sorted(glob.glob(os.path.join(top, folder, "*"))):
            with open(name, encoding="utf-8") as source:
                code = code_of(name, source.read())
            if code:
                whole.update(f"{folder}/{os.path.basename(name)}\n{code}\n".encode())
    return whole.hexdigest()[:DIGITS]
