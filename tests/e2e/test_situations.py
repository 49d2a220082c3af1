# SPDX-License-Identifier: BSD-2-Clause
# test_situations.py: situations that users of hypervisors report faults in, natively and in the
# guest: what the guest's programs print (programs/situations/) and how the machine ends is the
# same.
import errno
import re

import pytest
from machine import STATUS_POWEROFF, STATUS_RESET, path

# What is another in each boot: times, addresses, and bits 4 and 5 of port 61H, which toggle by
# themselves.
VARIES = re.compile(r"\[ *[\d.]+\] |TSC [0-9a-f]+ |TIME \d+ |<[0-9a-f]{16}>|"
                    r"(?<=unknown reason )[0-3](?=0 )")
ENTRIES = ("native", "msr+nmi")
SERVER = "sapphire_rapids"
LIMIT = 40_000  # millions of instructions
MUTANT_LIMIT = 3_000
MUTANT = path("build", "mutants", "losing_state.efi")
PERIOD = 1000  # of PMIs: programs/situations/hibernate.c
TSC = "tsc_hz 50000000\n"
pytestmark = pytest.mark.full


def both(lab, name, jobs, image="situations", status=STATUS_POWEROFF, flavour="cloud", **more):
    """The boots natively and in the guest, which end alike."""
    found = [lab.emulator(f"situation-{name}-{entry}", entry=entry, jobs=jobs, flavour=flavour,
                          initrd=path(f"build/payload/{image}-{flavour}.img"),
                          **{"limit": LIMIT, **more})
             for entry in ENTRIES]
    for boot in found:
        boot.expect_status(status)
    return found


def said(boot, *jobs):
    """The lines of these jobs."""
    return [VARIES.sub("", line) for line in boot.console.splitlines()
            if line.startswith(tuple(f"{job}: " for job in jobs))]


def same(boots, *jobs):
    """What the jobs said, which is the same in both boots."""
    native, guest = (said(boot, *jobs) for boot in boots)
    assert native == guest, [pair for pair in zip(native, guest) if pair[0] != pair[1]] or \
        (native, guest)
    return native


def test_probes(lab):
    """CPUID under uprobes and kprobes: registers before and after it, with PMIs between."""
    boots = both(lab, "probes", "probes")
    lines = same(boots, "probes", "job")
    assert boots[0].job_status("probes") == 0, lines
    return f"{len(lines)} lines"


def test_keys(lab):
    """Protection keys: each right against each access, with exits before it, as natively."""
    boots = both(lab, "keys", "keys", model=SERVER, append="no5lvl")
    lines = same(boots, "keys", "job")
    assert boots[0].job_status("keys") == 0, lines
    # PKRU restricts the kernel's accesses to user pages, too.
    refused = [line for line in lines if "with=key rights=none access=kernel" in line]
    assert refused and all(f"result={errno.EFAULT} " in line for line in refused), refused
    return f"{len(lines)} lines"


@pytest.mark.parametrize("cpu", [0, 1])
def test_vmcore(lab, cpu):
    """A crash kernel reads all of /proc/vmcore, and finds what was in memory."""
    boots = both(lab, f"vmcore-{cpu}", "crash", image="crash", cpus=2, knobs=TSC,
                 append=f"crashkernel=128M pmv.target={cpu}")
    for boot in boots:
        row = boot.lines("vmcore")[0]
        assert boot.job_status("vmcore") == 0 and row["marks"] == row["of"], row
    return said(boots[1], "vmcore")[0]


def panics(boot):
    """What the kernel says of its panic, and of the machine check or NMI before it."""
    words = re.compile(r"panic - not syncing|\[Hardware Error\]|unknown reason")
    lines = [VARIES.sub("", line) for line in boot.console.splitlines()
             if not line.startswith("mce: ") and words.search(line)]
    assert any("panic - not syncing" in line for line in lines), boot.last_line()
    return lines


@pytest.mark.parametrize("cpu", [0, 1])
def test_panic_by_nmi(lab, cpu):
    """An NMI that nobody knows panics a kernel without a crash kernel: the machine is reset."""
    boots = both(lab, f"nmi-{cpu}", "nmi", cpus=2, knobs=TSC, status=STATUS_RESET,
                 append=f"unknown_nmi_panic panic=1 iomem=relaxed pmv.target={cpu}")
    native, guest = map(panics, boots)
    assert native == guest, (native, guest)
    assert f"on CPU {cpu}" in native[0] and "NMI: Not continuing" in native[-1], native
    assert same(boots, "nmi") == [f"nmi: target={cpu}"]
    taken = boots[1].ledger["nmi"]
    assert taken["exits"] == taken["injected"] == 0 and taken["nonroot"] >= 1, taken
    return native[-1]


def test_unknown_nmi(lab):
    """Without that option the kernel logs the NMI and goes on."""
    boots = both(lab, "nmi-known", "nmi,nmilog", append="iomem=relaxed")
    lines = same(boots, "nmi", "nmilog")
    assert boots[0].job_status("nmi") == 0 and len(lines) > 2, lines
    return lines[1]


@pytest.mark.parametrize("way", ["efi", "efi,smp1"], ids=["processor0", "processor1"])
def test_reboot_by_efi(lab, way):
    """reboot=efi, and from the second processor: the machine is reset."""
    boots = both(lab, f"reboot-{way.replace(',', '-')}", "report", image="initrd", cpus=2,
                 knobs=TSC, end="reboot", append=f"reboot={way}", status=STATUS_RESET)
    for boot in boots:
        assert boot.ledger["end"] == "reset", boot.ledger["end"]
        assert "init: done failed=0" in boot.console, boot.last_line()
    # PMUvisor would have seen ACPI's register.
    assert "asked for a reset" not in boots[1].console, boots[1].last_line()


def test_hibernation(lab):
    """The kernel hibernates, the machine is reset, and the next start resumes from the image:
    memory and both processors are as before, with exact counts and PMIs."""
    boots = both(lab, "hibernation", "hibernate", image="hibernate", cpus=2,
                 knobs=TSC + "allow_resets 1\n", append="loglevel=7")
    lines = same(boots, "hibernate", "job")
    for boot in boots:
        assert boot.job_status("hibernate") == 0, lines
        assert boot.console.count("Welcome to GRUB!") == 2, "the machine was not reset once"
        assert "PM: Image loading progress: 100%" in boot.console, boot.last_line()
        assert boot.console.count("hibernate: error=0 wrong=0") == 1, lines
        rows = [row for row in boot.lines("hibernate") if row.get("when")]
        assert [row["when"] for row in rows] == ["before"] * 2 + ["after"] * 2, rows
        assert len({row["branches"] for row in rows}) == 1 and \
            all(int(row["pmis"]) == int(row["branches"]) // PERIOD for row in rows), rows
    return lines[-2]


def test_powercap(lab):
    """Linux's power capping: zones, limits that can be set, energy that counts."""
    boots = both(lab, "powercap", "powercap", image="powercap", knobs="platform on\n")
    lines = same(boots, "powercap", "job")
    assert boots[0].job_status("powercap") == 0 and len(lines) == 6, lines
    return lines[0]


def latency(lab, threshold, name="", **more):
    """The rows of hwlat and osnoise, which Debian's kernel for real time has."""
    boots = both(lab, f"latency{name}", "latency", image="latency", flavour="rt", knobs=TSC,
                 append=f"pmv.threshold={threshold}", **more)
    found = [{row["tracer"]: row for row in boot.lines("latency")} for boot in boots]
    assert all(boot.job_status("latency") == 0 and rows["osnoise"]["samples"] == "1"
               for boot, rows in zip(boots, found)), found
    return found


def test_latency(lab):
    """hwlat and osnoise find nothing of the hypervisor above 10 microseconds of the emulator's
    clock, which are 500 instructions, though the tick exits."""
    native, guest = latency(lab, 10, config="tick=100")
    assert native == guest, (native, guest)
    assert native["hwlat"]["gaps"] == native["osnoise"]["hardware"] == "0", native


def test_latency_finds_tick(lab):
    """With a threshold of one microsecond hwlat finds exits of the tick."""
    native, guest = latency(lab, 1, "-tick", config="tick=10")
    assert native["hwlat"]["gaps"] == "0" and int(guest["hwlat"]["gaps"]) > 0, (native, guest)
    return f"{guest['hwlat']['gaps']} gaps"


MCE_BANKS = 4
# IA32_MCG_CAP and _STATUS, and the banks' four registers from IA32_MC0_CTL on (SDM Vol. 4,
# "Architectural MSRs"), as storage: the emulator's processor has no bank.
MCE_KNOBS = f"msr 0x179 {MCE_BANKS:#x}\nmsr 0x17a 0\n" + \
    "".join(f"msr {0x400 + number:#x} 0\n" for number in range(4 * MCE_BANKS))


def test_mce_inject(lab):
    """mce-inject: corrected machine checks are logged, a fatal one panics the kernel."""
    boots = both(lab, "mce", "mce", image="mce", flavour="stock", knobs=TSC + MCE_KNOBS,
                 append="panic=1 mce=1", status=STATUS_RESET)
    lines = same(boots, "mce")
    assert lines[0] == f"mce: banks={MCE_BANKS}" and lines[-1].startswith("mce: flags=hw"), lines
    native, guest = map(panics, boots)
    assert native == guest, (native, guest)
    return native[-1]


@pytest.mark.parametrize("name", ["probes", "keys"])
def test_fails_with_mutant(lab, name):
    """A hypervisor that loses single steps and PKRU at exits is seen."""
    model = {"model": SERVER, "append": "no5lvl"} if name == "keys" else {}
    boot = lab.emulator(f"situation-{name}-mutant", jobs=name, efi=MUTANT, limit=MUTANT_LIMIT,
                        initrd=path("build/payload/situations-cloud.img"), **model)
    native = lab.emulator(f"situation-{name}-native", entry="native", jobs=name, limit=LIMIT,
                          initrd=path("build/payload/situations-cloud.img"), **model)
    assert said(boot, name) != said(native, name), said(boot, name)
