# SPDX-License-Identifier: BSD-2-Clause
# test_situations.py: situations in which users of hypervisors reported faults. What the guest's
# programs print and how the machine ends is the same natively and in the guest. docs/guest.md has
# the tables, with the situations that other files test.
import errno
import re

import pytest

from testbed.machine import STATUS_POWEROFF, STATUS_RESET, Skip, path
from tests.e2e import kernel
from tests.e2e.guest import expect_said
from tests.e2e.kernel import Plan, expect_ok
from tests.e2e.native import A1_BRANCHES, A1_PERIODS, expect_a1_pmis

pytestmark = pytest.mark.more

# What is another in each boot: times, addresses, and bits 4 and 5 of port 61H, which toggle by
# themselves.
VARIES = re.compile(
    r"\[ *[\d.]+\] |TSC [0-9a-f]+ |TIME \d+ |<[0-9a-f]{16}>|(?<=unknown reason )[0-3](?=0 )"
)
ENTRIES = ("native", "msr+nmi")
SERVER = "sapphire_rapids"
LIMIT = 40_000  # millions of instructions
MUTANT_LIMIT = 3_000
MUTANT = kernel.mutant("losing_state")
PERIOD = 1000  # of PMIs: programs/situations/hibernate.c
TSC = "tsc_hz 50000000\n"
XSETBV_CASES = 17
PTRACE_ROWS = 24 * 8  # pieces of code, modes
SMP = {"cpus": 4, "knobs": TSC, "limit": LIMIT}
GUEST_OPTION = {"native": {}, "msr+nmi": {"config": "user_hypercalls=1"}}
CPUID, TRIPLE_FAULT, EPT_VIOLATION = "10", "2", "48"
ROUNDS = "20"
REBOOT_LIMIT = 5_000  # millions of instructions; a reset comes after some 2,000
LOCKUP_LIMIT = 8_000
KDUMP_LIMIT = 30_000  # Linux hashes the crash kernel, which is most of the 10,000 that a boot takes
A1_ALL = sum(A1_BRANCHES // period for period in A1_PERIODS.values())
HOTPLUG_ROUNDS = 5
LOOP_INSTRUCTIONS = "2000004"  # of programs/payload/loop.asm
# A processor with 16 classes of service, masks of 15 bits and 128 RMIDs. Storage: IA32_QM_EVTSEL,
# IA32_QM_CTR with 5 units of 64 KiB, IA32_PQR_ASSOC, and the classes' masks.
RDT = (
    "\n".join(
        [
            "cpuid 7 0 ebx 0x9000",
            "cpuid 0xf 0 ebx 0x7f",
            "cpuid 0xf 0 edx 2",
            "cpuid 0xf 1 ebx 0x10000",
            "cpuid 0xf 1 ecx 0x7f",
            "cpuid 0xf 1 edx 1",
            "cpuid 0x10 0 ebx 2",
            "cpuid 0x10 1 eax 14",
            "cpuid 0x10 1 edx 15",
            "msr 0xc8d 0",
            "msr 0xc8e 5",
            "msr 0xc8f 0",
        ]
        + [f"msr {index:#x} 0x7fff" for index in range(0xC90, 0xCA0)]
    )
    + "\n"
)


# Without `initrd` these are the boots of test_guest.py, test_native.py and test_smp_linux.py with
# other words: one server at init serves all of them.
def pair(lab, name, jobs, status=None, **more):
    """The boots natively and in the guest, which both end with `status`."""
    for entry in ENTRIES:
        boot = lab.emulator(f"situation-{name}-{entry}", entry=entry, jobs=jobs, **more)
        if status is not None:
            boot.expect_status(status)
        yield boot


def both(lab, name, jobs, image="situations", status=STATUS_POWEROFF, flavour="cloud", **more):
    """A pair of boots of an image."""
    return list(
        pair(
            lab,
            name,
            jobs,
            status,
            flavour=flavour,
            initrd=path(f"build/payload/{image}-{flavour}.img"),
            **{"limit": LIMIT, **more},
        )
    )


def said(boot, *jobs):
    """The lines of these jobs."""
    return [
        VARIES.sub("", line)
        for line in boot.console.splitlines()
        if line.startswith(tuple(f"{job}: " for job in jobs))
    ]


def same(boots, *jobs):
    """What the jobs said, which is the same in both boots."""
    native, guest = (said(boot, *jobs) for boot in boots)
    assert native == guest, [lines for lines in zip(native, guest) if lines[0] != lines[1]] or (
        native,
        guest,
    )
    return native


def expect_same(rows, wanted):
    """The same rows natively and in the guest, `wanted` of them."""
    native, guest = rows
    assert len(native) == wanted, f"{len(native)} rows natively, wanted {wanted}"
    differ = [
        f"natively {one}, in the guest {other}" for one, other in zip(native, guest) if one != other
    ]
    assert len(guest) == len(native) and not differ, f"{len(guest)} rows; {'; '.join(differ[:3])}"
    return f"{wanted} rows"


@pytest.mark.full
def test_probes(lab):
    """CPUID under uprobes and kprobes: registers before and after it, with PMIs between."""
    boots = both(lab, "probes", "probes")
    lines = same(boots, "probes", "job")
    assert boots[0].job_status("probes") == 0, lines
    return f"{len(lines)} lines"


@pytest.mark.full
def test_keys(lab):
    """Protection keys: each right against each access, with exits before it, as natively."""
    boots = both(lab, "keys", "keys", model=SERVER, append="no5lvl")
    lines = same(boots, "keys", "job")
    assert boots[0].job_status("keys") == 0, lines
    # PKRU restricts the kernel's accesses to user pages, too.
    refused = [line for line in lines if "with=key rights=none access=kernel" in line]
    assert refused and all(f"result={errno.EFAULT} " in line for line in refused), refused
    return f"{len(lines)} lines"


@pytest.mark.full
@pytest.mark.parametrize("cpu", [0, 1])
def test_vmcore(lab, cpu):
    """A crash kernel reads all of /proc/vmcore, and finds what was in memory."""
    boots = both(
        lab,
        f"vmcore-{cpu}",
        "crash",
        image="crash",
        cpus=2,
        knobs=TSC,
        append=f"crashkernel=128M pmv.target={cpu}",
    )
    for boot in boots:
        row = boot.lines("vmcore")[0]
        assert boot.job_status("vmcore") == 0 and row["marks"] == row["of"], row
    return said(boots[1], "vmcore")[0]


def panics(boot):
    """What the kernel says of its panic, and of the machine check or NMI before it."""
    words = re.compile(r"panic - not syncing|\[Hardware Error\]|unknown reason")
    lines = [
        VARIES.sub("", line)
        for line in boot.console.splitlines()
        if not line.startswith("mce: ") and words.search(line)
    ]
    assert any("panic - not syncing" in line for line in lines), boot.last_line()
    return lines


@pytest.mark.full
@pytest.mark.parametrize("cpu", [0, 1])
def test_panic_by_nmi(lab, cpu):
    """An NMI that nobody knows panics a kernel without a crash kernel: the machine is reset."""
    boots = both(
        lab,
        f"nmi-{cpu}",
        "nmi",
        cpus=2,
        knobs=TSC,
        status=STATUS_RESET,
        append=f"unknown_nmi_panic panic=1 iomem=relaxed pmv.target={cpu}",
    )
    native, guest = map(panics, boots)
    assert native == guest, (native, guest)
    assert f"on CPU {cpu}" in native[0] and "NMI: Not continuing" in native[-1], native
    assert same(boots, "nmi") == [f"nmi: target={cpu}"]
    taken = boots[1].ledger["nmi"]
    assert taken["exits"] == taken["injected"] == 0 and taken["nonroot"] >= 1, taken
    return native[-1]


@pytest.mark.full
def test_unknown_nmi(lab):
    """Without that option the kernel logs the NMI and goes on."""
    boots = both(lab, "nmi-known", "nmi,nmilog", append="iomem=relaxed")
    lines = same(boots, "nmi", "nmilog")
    assert boots[0].job_status("nmi") == 0 and len(lines) > 2, lines
    return lines[1]


@pytest.mark.full
@pytest.mark.parametrize("way", ["efi", "efi,smp1"], ids=["processor0", "processor1"])
def test_reboot_by_efi(lab, way):
    """reboot=efi, and from the second processor: the machine is reset."""
    boots = both(
        lab,
        f"reboot-{way.replace(',', '-')}",
        "report",
        image="initrd",
        cpus=2,
        knobs=TSC,
        end="reboot",
        append=f"reboot={way}",
        status=STATUS_RESET,
    )
    for boot in boots:
        assert boot.ledger["end"] == "reset", boot.ledger["end"]
        assert "init: done failed=0" in boot.console, boot.last_line()
    # PMUvisor would have seen ACPI's register.
    assert "asked for a reset" not in boots[1].console, boots[1].last_line()


@pytest.mark.full
def test_hibernation(lab):
    """The kernel hibernates, the machine is reset, and the next start resumes from the image:
    memory and both processors are as before, with exact counts and PMIs."""
    boots = both(
        lab,
        "hibernation",
        "hibernate",
        image="hibernate",
        cpus=2,
        knobs=TSC + "allow_resets 1\n",
        append="loglevel=7",
    )
    lines = same(boots, "hibernate", "job")
    for boot in boots:
        assert boot.job_status("hibernate") == 0, lines
        assert boot.console.count("Welcome to GRUB!") == 2, "the machine was not reset once"
        assert "PM: Image loading progress: 100%" in boot.console, boot.last_line()
        assert boot.console.count("hibernate: error=0 wrong=0") == 1, lines
        rows = [row for row in boot.lines("hibernate") if row.get("when")]
        assert [row["when"] for row in rows] == ["before"] * 2 + ["after"] * 2, rows
        assert len({row["branches"] for row in rows}) == 1 and all(
            int(row["pmis"]) == int(row["branches"]) // PERIOD for row in rows
        ), rows
    return lines[-2]


@pytest.mark.full
def test_powercap(lab):
    """Linux's power capping: zones, limits that can be set, energy that counts."""
    boots = both(lab, "powercap", "powercap", image="powercap", knobs="platform on\n")
    lines = same(boots, "powercap", "job")
    assert boots[0].job_status("powercap") == 0 and len(lines) == 6, lines
    return lines[0]


def latency(lab, threshold, name="", **more):
    """The rows of hwlat and osnoise, which Debian's kernel for real time has."""
    boots = both(
        lab,
        f"latency{name}",
        "latency",
        image="latency",
        flavour="rt",
        knobs=TSC,
        append=f"pmv.threshold={threshold}",
        **more,
    )
    found = [{row["tracer"]: row for row in boot.lines("latency")} for boot in boots]
    assert all(
        boot.job_status("latency") == 0 and rows["osnoise"]["samples"] == "1"
        for boot, rows in zip(boots, found)
    ), found
    return found


@pytest.mark.full
def test_latency(lab):
    """hwlat and osnoise find nothing of the hypervisor above 10 microseconds of the emulator's
    clock, which are 500 instructions, though the tick exits."""
    native, guest = latency(lab, 10, config="tick=100")
    assert native == guest, (native, guest)
    assert native["hwlat"]["gaps"] == native["osnoise"]["hardware"] == "0", native


@pytest.mark.full
def test_latency_finds_tick(lab):
    """With a threshold of one microsecond hwlat finds exits of the tick."""
    native, guest = latency(lab, 1, "-tick", config="tick=10")
    assert native["hwlat"]["gaps"] == "0" and int(guest["hwlat"]["gaps"]) > 0, (native, guest)
    return f"{guest['hwlat']['gaps']} gaps"


MCE_BANKS = 4
# IA32_MCG_CAP and _STATUS, and the banks' four registers from IA32_MC0_CTL on (SDM Vol. 4,
# "Architectural MSRs"), as storage: the emulator's processor has no bank.
MCE_KNOBS = f"msr 0x179 {MCE_BANKS:#x}\nmsr 0x17a 0\n" + "".join(
    f"msr {0x400 + number:#x} 0\n" for number in range(4 * MCE_BANKS)
)


@pytest.mark.full
def test_mce_inject(lab):
    """mce-inject: corrected machine checks are logged, a fatal one panics the kernel."""
    boots = both(
        lab,
        "mce",
        "mce",
        image="mce",
        flavour="stock",
        knobs=TSC + MCE_KNOBS,
        append="panic=1 mce=1",
        status=STATUS_RESET,
    )
    lines = same(boots, "mce")
    assert lines[0] == f"mce: banks={MCE_BANKS}" and lines[-1].startswith("mce: flags=hw"), lines
    native, guest = map(panics, boots)
    assert native == guest, (native, guest)
    return native[-1]


@pytest.mark.full
@pytest.mark.parametrize("name", ["probes", "keys"])
def test_fails_with_mutant(lab, name):
    """A hypervisor that loses single steps and PKRU at exits is seen."""
    model = {"model": SERVER, "append": "no5lvl"} if name == "keys" else {}
    boot = lab.emulator(
        f"situation-{name}-mutant",
        jobs=name,
        efi=MUTANT,
        limit=MUTANT_LIMIT,
        initrd=path("build/payload/situations-cloud.img"),
        **model,
    )
    native = lab.emulator(
        f"situation-{name}-native",
        entry="native",
        jobs=name,
        limit=LIMIT,
        initrd=path("build/payload/situations-cloud.img"),
        **model,
    )
    assert said(boot, name) != said(native, name), said(boot, name)


@pytest.mark.parametrize("model", ["corei7_skylake_x", SERVER])
def test_xsetbv(lab, model):
    """XSETBV by value, index, privilege level and CR4.OSXSAVE: its exception and XCR0."""
    rows = []
    for entry in ENTRIES:
        boot = kernel.run(
            lab, f"situation-xsetbv-{model}-{entry}", Plan().add("xsetbv"), entry=entry, model=model
        )
        expect_ok(boot, ["xsetbv"])
        rows.append(boot.lines("xsetbv"))
    return expect_same(rows, XSETBV_CASES)


def four(lab, name, entry, jobs, **more):
    """A boot with four processors."""
    return lab.emulator(
        f"situation-{name}-{entry}",
        entry=entry,
        jobs=jobs,
        **{**SMP, **GUEST_OPTION[entry], **more},
    )


def exits_of(boot, reason):
    """By processor."""
    return [cpu["exits"].get(reason, {"count": 0})["count"] for cpu in boot.ledger["processors"]]


def test_ptrace(lab):
    """A debugger over pieces of code: where each stopped, why, and what DR6 said."""
    rows = []
    for boot in pair(lab, "ptrace", "ptrace"):
        assert boot.job_status("ptrace") == 0, boot.lines("ptrace")[-1:]
        rows.append(boot.lines("ptrace"))
    return expect_same(rows, PTRACE_ROWS)


@pytest.mark.full
@pytest.mark.parametrize("entry", ENTRIES)
def test_storm(lab, entry):
    """PMIs and backtraces on four processors that loop over CPUID, with unknown_nmi_panic: each NMI
    arrives, and no other one comes. The skid takes PMIs into root mode."""
    boot = four(lab, "storm", entry, "storm,nmilog", knobs=TSC + "pmi_skid sweep/160\n")
    assert boot.job_status("storm") == 0, boot.lines("storm")
    row = boot.lines("storm")[0]
    assert (
        row["rounds"] == row["complete"] == ROUNDS
        and row["unknown"] == "0"
        and row["expected"] == row["pmis"]
    ), row
    assert boot.lines("nmilog")[-1]["lines"] == "0", boot.lines("nmilog")
    if entry != "native":
        pmis = boot.ledger["pmi"]
        assert min(exits_of(boot, CPUID)) > 1000 and pmis["root"] > pmis["raised"] // 20, pmis
    return f"PMIs {row['pmis']}"


# The type by Linux's name, the processor that resets, and which exit that is.
REBOOTS = {
    "kbd": (2, None),
    "pci": (3, None),
    "triple": (0, TRIPLE_FAULT),
    "acpi": (1, EPT_VIOLATION),
}


@pytest.mark.parametrize("kind", REBOOTS)
def test_reboot(lab, kind):
    """The machine is reset by each of Linux's ways, from that processor."""
    cpu, reason = REBOOTS[kind]
    for entry in ENTRIES:
        boot = four(
            lab,
            f"reboot-{kind}",
            entry,
            "rebootby",
            end="reboot",
            limit=REBOOT_LIMIT,
            append=f"pmv.reboot={kind} pmv.reboot_cpu={cpu}",
        )
        assert boot.job_status("rebootby") == 0, boot.lines("rebootby")
        boot.expect_status(STATUS_RESET)
    for exit_reason in (TRIPLE_FAULT, EPT_VIOLATION):
        found = [n for n, count in enumerate(exits_of(boot, exit_reason)) if count]
        assert found == ([cpu] if exit_reason == reason else []), (exit_reason, found)


@pytest.mark.full
def test_lockup(lab):
    """The hard-lockup watchdog finds a processor that takes no interrupts, and panics."""
    for boot in pair(
        lab,
        "lockup",
        "lockup",
        status=STATUS_RESET,
        cpus=2,
        knobs=TSC,
        limit=LOCKUP_LIMIT,
        tools=True,
        end="reboot",
    ):
        panic = "Kernel panic - not syncing: Hard LOCKUP"
        expect_said(boot, "Watchdog detected hard LOCKUP on cpu 1", "RIP: 0010:stick", panic)
        assert boot.lines("lockup") == [{"watchdog": "1", "error": "Success"}], boot.lines("lockup")


@pytest.mark.full
def test_hotplug_first(lab):
    """The first processor goes and comes back, by an NMI that ends its HLT with interrupts off."""
    for boot in pair(
        lab, "hotplug", "hotplug0,sysrql,smp", cpus=2, knobs=TSC, limit=LIMIT, append="cpu0_hotplug"
    ):
        found = boot.lines("hotplug")
        if any(row.get("error") == "No such file or directory" for row in found):
            raise Skip("this kernel does not switch off its first processor")
        assert boot.job_status("hotplug0") == boot.job_status("sysrql") == 0, found
        rows = [row for row in found if "round" in row]
        assert len(rows) == HOTPLUG_ROUNDS and all(
            row["cpu"] == "0"
            and row["off"] == row["on"] == "1"
            and row["during"] == row["after"] == LOOP_INSTRUCTIONS
            and row["pmis"] == row["of"]
            for row in rows
        ), rows
        smp = boot.lines("smp")
        assert smp[0]["online"] == "0-1" and smp[-1]["complaints"] == "0", smp


@pytest.mark.full
def test_resctrl(lab):
    """Resource control on Sapphire Rapids: the MSRs have a group's mask and class, as natively."""
    rows = []
    for boot in pair(lab, "resctrl", "resctrl", model=SERVER, append="no5lvl", knobs=RDT):
        assert boot.job_status("resctrl") == 0, boot.lines("resctrl")
        rows.append(boot.lines("resctrl"))
    inside = rows[0][-2]
    assert inside["msr_c91"] == "3" and inside["msr_c90"] == "7fff", inside
    assert int(inside["msr_c8f"], 16) >> 32 == 1, inside
    return expect_same(rows, 5)


@pytest.mark.full
def test_kdump(lab):
    """An NMI that nobody knows, while perf record -a samples all processors: the crash kernel
    starts on the processor that took it, and there A.1 has its PMIs, and no NMI is unknown. In 512
    MiB the guest's map has no room for the crash kernel between initrd and the hypervisor's
    memory."""
    for boot in pair(
        lab,
        "kdump",
        "kdump",
        status=STATUS_POWEROFF,
        cpus=2,
        knobs=TSC,
        limit=KDUMP_LIMIT,
        memory=1024,
        initrd=path("build/payload/kdump-cloud.img"),
        append="crashkernel=128M iomem=relaxed pmv.kexec=a1,report,nmilog",
    ):
        rows = boot.lines("kdump")
        assert rows == [{"cpu": "1", "error": "Success"}, {"sampling": "1"}], rows
        # Only the crash kernel runs a1 and nmilog.
        pmis = [cpu["pmi"]["raised"] for cpu in boot.ledger["processors"]]
        assert boot.job_status("a1") == 0 and pmis[0] < A1_ALL <= pmis[1], pmis
        expect_a1_pmis(boot)
        assert boot.lines("nmilog")[-1]["lines"] == "0", boot.lines("nmilog")
