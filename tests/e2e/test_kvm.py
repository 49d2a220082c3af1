# SPDX-License-Identifier: BSD-2-Clause
# test_kvm.py: the column kvm in the emulator: Debian's kernel boots natively and runs the test
# kernel under its own KVM. FULL=1: itself, too, with program A.1; the launcher's refusal and the
# guest's bad end; and the newest kernel's KVM, with its mediated vPMU.
import os
import re

import pytest

from testbed.boots import initrd as initrd_file
from testbed.boots import kernel
from testbed.machine import PAYLOAD_APPEND, STATUS_POWEROFF, Skip, exit_count, made
from tests.e2e import scripts

pytestmark = pytest.mark.more

OPERATIONS = 100
RUNS = 3
LIMIT = 40_000  # millions of instructions
A1_BRANCHES = 100000
A1_PERIODS = {"m200000": 200000, "m10000": 10000, "m1000": 1000, "m100": 100}
# Each item and the exits that one operation costs under KVM, where NMIs do not decide.
EXITS = {
    "msr": {
        "empty": {},
        "rdmsr_evtsel": {"RDMSR": 1},
        "wrmsr_evtsel": {"WRMSR": 1},
        "rdmsr_pmc": {"RDMSR": 1},
        "wrmsr_pmc": {"WRMSR": 1},
        "rdmsr_ctrl": {"RDMSR": 1},
        "wrmsr_ctrl": {"WRMSR": 1},
        "rdmsr_status": {"RDMSR": 1},
        "rdpmc": {"RDPMC": 1},
        "empty_change": {},
    },
    "exit": {
        "empty": {},
        "cpuid": {"CPUID": 1},
        "vmcall": {"VMCALL": 1},
        "inl": {"I/O instruction": 1},
        "outl": {"I/O instruction": 1},
        "cpuid_blocked": {"CPUID": 1},
    },
    "pmi": {"lvtpc_write": {"WRMSR": 1}},
}
SKIPPED = {
    ("msr", "rdmsr_lbr_from"),
    ("msr", "wrmsr_lbr_from"),
    ("msr", "read_lbrs"),
    ("exit", "inl_passed"),
    ("pmi", "vmcall_unknown"),
    ("pmi", "pmu_switch"),
}
TIMED = {"pmi": ("overflow_to_handler", "handler_to_iret", "nmi_self")}
TSC = "tsc_hz 500000000\n"  # of several processors
LINUX_MEMORY = 1024  # MiB, half of them its guest's
# A PMI, of the test kernel as of Linux: the NMI's exit and the handler's accesses, LVTPC's among
# the WRMSRs (x2APIC).
EXITS_PER_PMI = {"exception or NMI": 1, "RDMSR": 2, "RDPMC": 1, "WRMSR": 5}
# A timer tick of the host falls into some region or other; nothing else may. In root mode the tick
# is part of the exit that it interrupts. While the guest runs, the tick is an exit of its own.
TICK = "external interrupt"
TICK_EVERY = 14_000_000  # instructions: 250 ticks a second, and CPUID reports a TSC of 3.5 GHz
TICK_INSTRUCTIONS_MAX = 30000
TICKS_MAX = 10
# Of ticks of Linux under KVM, in the 29 million instructions of A.1 with M = 100.
LINUX_EXITS_MAX = 200
# Of one CPUID exit. KVM's path has never been seen outside, and a count that leaves out a part of
# root mode would be below.
CPUID_INSTRUCTIONS = range(1000, 3001)
# The launcher's exit status.
STATUS_REFUSED = 4
STATUS_SHUTDOWN = 3
# Linux, Documentation/arch/x86/boot.rst, "Details of Header Fields".
SETUP_SECTORS = 0x1F1
SECTOR = 512
UD2 = b"\x0f\x0b"


def initrd_of_kvm():
    return initrd_file(name="kvm")


def boot_of(lab, name, bench, knobs=None, initrd=None):
    return lab.emulator(
        name,
        entry="native",
        initrd=initrd or initrd_of_kvm(),
        jobs="kvm",
        knobs=knobs,
        append=f"pmv.tests={bench}",
        limit=LIMIT,
    )


def measured(lab):
    return boot_of(lab, "kvm", f"measure::{RUNS}:{OPERATIONS}")


def items(boot, experiment):
    """Lines of each item of an experiment, by its name."""
    found = {}
    for line in boot.lines("bench"):
        if line["experiment"] == experiment:
            found.setdefault(line["item"], []).append(line)
    return found


def region_of(boot, experiment, item):
    for line in items(boot, experiment).get(item, []):
        if "region" in line:
            return boot.region(line["region"]), int(line["ops"])
    raise AssertionError(f"no line of {experiment} {item} names a region; {boot.last_line()}")


def counts(account):
    return {entry["name"]: entry["count"] for entry in account["exits"].values()}


def paths(account):
    """The root instructions of the exits, by the exits' name."""
    return {entry["name"]: entry["root_instructions"] for entry in account["exits"].values()}


def test_kernel_runs(lab):
    """KVM's modules load, the launcher ends well, the test kernel finds nothing wrong."""
    boot = measured(lab)
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("kvm") == 0, boot.console[-400:]
    results = boot.lines("results")
    assert len(results) == 1 and results[0]["failed"] == "0", results
    assert results[0]["tests"] != "0" and results[0]["skipped"] == "0", results


def test_settings(lab):
    """One line says which KVM this is and how it is set; the launcher's, what the guest gets."""
    boot = measured(lab)
    lines = [line for line in boot.lines("kvm") if "release" in line]
    assert len(lines) == 1, lines
    release = os.path.basename(kernel()).removeprefix("vmlinuz-")
    for key, wanted in {
        "release": release,
        "enable_pmu": "Y",
        "enable_apicv": "Y",
        "ept": "Y",
        "nmi_watchdog": "0",
        "perf_cpu_time_max_percent": "0",
    }.items():
        assert lines[0].get(key) == wanted, f"{key}={lines[0].get(key)}, wanted {wanted}"
    launch = boot.lines("launch")[0]
    assert launch["apic"] == "x2apic" and launch["pmu_version"] == "2", launch
    assert int(launch["perf_capabilities"], 16) & 1 << 13, "no full-width counter writes"
    return f"kvm of {release}"


def test_items_complete(lab):
    """Every item of the test kernel's experiments has its line, or says why not."""
    boot = measured(lab)
    wanted = {name: set(table) for name, table in EXITS.items()}
    wanted["a1k"] = set(A1_PERIODS)
    for experiment, names in wanted.items():
        found = items(boot, experiment)
        for name in names | set(TIMED.get(experiment, ())):
            lines = found.get(name, [])
            assert any(
                line.get("unit") == "tsc" and line["n"] == str(RUNS) for line in lines
            ), f"{experiment} {name}: {lines}"
    skipped = {(line["experiment"], line["item"]) for line in boot.lines("bench") if "skip" in line}
    assert skipped == SKIPPED, f"skipped: {sorted(skipped)}, wanted {sorted(SKIPPED)}"


def test_exits(lab):
    """KVM takes exactly one exit of the right reason for each operation. Nothing else exits, except
    a timer tick of the host: in all items together no more ticks than their time has room for."""
    boot = measured(lab)
    ticks = instructions = 0
    for experiment, table in EXITS.items():
        for item, each in table.items():
            region, operations = region_of(boot, experiment, item)
            assert operations == OPERATIONS, f"{experiment} {item}: ops={operations}"
            wanted = {name: count * operations for name, count in each.items()}
            found = counts(region)
            ticks += found.pop(TICK, 0)
            instructions += region["root"]["instructions"] + region["nonroot"]["instructions"]
            assert found == wanted, f"{experiment} {item}: {counts(region)}"
            assert region["nonroot"]["user"] == 0, f"{experiment} {item}: user instructions"
    most = -(-instructions // TICK_EVERY)
    assert ticks <= most, f"{ticks} ticks in {instructions} instructions, wanted {most} at most"
    return f"{ticks} ticks of the host in {instructions} instructions"


def test_root_is_whole(lab):
    """What the host kernel does between exit and entry is counted as root mode, all of it, and so
    many VMCS accesses; without exits there is none."""
    boot = measured(lab)
    for experiment, table in EXITS.items():
        for item, each in table.items():
            region, _ = region_of(boot, experiment, item)
            exits = region["exits"].values()
            of_exits = sum(path["sum"] for path in paths(region).values())
            accesses = sum(entry["vmcs_accesses"]["sum"] for entry in exits)
            root = region["root"]
            assert (
                of_exits == root["instructions"]
            ), f"{experiment} {item}: {root['instructions']} in root mode, {of_exits} of exits"
            assert accesses == root["vmread"] + root["vmwrite"], f"{experiment} {item}"
            assert (root["instructions"] > 0) == bool(each), f"{experiment} {item}: {root}"


def test_cpuid_root_instructions(lab):
    """A CPUID exit's root instructions under KVM, which is what PMUvisor's are compared with."""
    region, operations = region_of(measured(lab), "exit", "cpuid")
    root = paths(region)["CPUID"]
    assert root["min"] in CPUID_INSTRUCTIONS, f"{root['min']} instructions at least"
    return f"{root['min']} to {root['max']} root instructions, mean {root['sum'] / operations:.1f}"


def test_noise(lab):
    """But for a tick of the host, every exit of an item takes the same path."""
    boot = measured(lab)
    widest = 0
    for experiment, table in EXITS.items():
        for item, each in table.items():
            if not each:
                continue
            region, operations = region_of(boot, experiment, item)
            (name,) = each
            found = paths(region)
            excess = sum(path["sum"] for path in found.values()) - operations * found[name]["min"]
            assert excess <= TICK_INSTRUCTIONS_MAX, f"{experiment} {item}: {found}"
            widest = max(widest, excess)
    return f"at most {widest} instructions more than {OPERATIONS} times the shortest"


def a1_regions(boot, experiment):
    """A.1 in KVM's guest: N/M PMIs, each of which came to the guest through KVM; its regions."""
    regions = {}
    for item, period in A1_PERIODS.items():
        wanted = A1_BRANCHES // period
        values = {
            line["metric"]: int(line["value"])
            for line in items(boot, experiment)[item]
            if "value" in line
        }
        assert values["pmis"] == wanted, f"{item}: {values['pmis']} PMIs, wanted {wanted}"
        if experiment == "a1k":
            assert values["branches"] == A1_BRANCHES, f"{item}: {values['branches']} branches"
        region, _ = region_of(boot, experiment, item)
        assert region["pmi"]["raised"] == region["pmi"]["exits"] == wanted, region["pmi"]
        assert region["nmi"]["injected"] == wanted and region["nmi"]["nonroot"] == 0, region["nmi"]
        regions[item] = region
    return regions


def test_a1k_pmis(lab):
    """A.1 in the test kernel."""
    regions = a1_regions(measured(lab), "a1k")
    # Set-up and tear-down are the same for each period.
    base, most = regions["m200000"], regions["m100"]
    pmis = A1_BRANCHES // A1_PERIODS["m100"]
    for name, each in EXITS_PER_PMI.items():
        count = counts(most).get(name, 0) - counts(base).get(name, 0)
        assert count == each * pmis, f"{name}: {count} exits for {pmis} PMIs, wanted {each} each"
    return cost_of_pmi(base, most, pmis, TICKS_MAX)


def cost_of_pmi(base, most, pmis, others):
    more = exit_count(most) - exit_count(base) - sum(EXITS_PER_PMI.values()) * pmis
    assert 0 <= more <= others, f"{more} exits more than the PMIs', wanted {others} at most"
    root = (most["root"]["instructions"] - base["root"]["instructions"]) / pmis
    return f"{sum(EXITS_PER_PMI.values())} exits and {root:.0f} root instructions for each PMI"


def linux(lab, name="kvm-linux", words=""):
    return lab.emulator(
        name,
        entry="native",
        jobs="kvm",
        memory=LINUX_MEMORY,
        initrd=initrd_file(name="kvm-small"),
        append=f"{words}pmv.kvm=cpuinfo,a1bench,report pmv.a1_runs=1",
        limit=LIMIT,
    )


@pytest.mark.full
def test_linux_runs(lab):
    """Linux under Linux: its init runs the jobs on KVM's virtual PMU, and its reboot is the
    launcher's good end."""
    boot = linux(lab)
    boot.expect_status(STATUS_POWEROFF)
    for job in ("cpuinfo", "a1bench", "report", "kvm"):
        assert boot.job_status(job) == 0, boot.console[-400:]
    seen = {key: value for line in boot.lines("cpuinfo") for key, value in line.items()}
    assert seen["signature"] == "KVMKVMKVM" and seen["vmx"] == "1", seen
    assert int(seen["perfmon_eax"], 16) & 0xFF == 2, f"PMU: {seen['perfmon_eax']}"
    assert "init: done failed=0 end=reboot" in boot.console, boot.console[-400:]


@pytest.mark.full
def test_linux_a1(lab):
    """A.1 of Linux under KVM: N/M PMIs, the test kernel's exits for each, all of root mode's.
    LVTPC is an MSR: Linux has gone to x2APIC mode."""
    regions = a1_regions(linux(lab), "a1")
    base, most = regions["m200000"], regions["m100"]
    pmis = A1_BRANCHES // A1_PERIODS["m100"]
    # The others are the guest's own timer ticks: each starts and stops what perf counts.
    for name, each in EXITS_PER_PMI.items():
        count = counts(most).get(name, 0) - counts(base).get(name, 0) - each * pmis
        assert 0 <= count <= LINUX_EXITS_MAX, f"{name}: {count} exits beside {pmis} PMIs' {each}"
    return cost_of_pmi(base, most, pmis, LINUX_EXITS_MAX)


@pytest.mark.full
def test_linux_apicv(lab):
    """Without APIC virtualization Linux's interrupts wait for the interrupt window, which exits;
    with it, as everywhere else, the processor delivers them."""
    for boot, wanted in (
        (linux(lab), "Y"),
        (linux(lab, "kvm-linux-no-apicv", "pmv.apicv=0 "), "N"),
    ):
        settings = [line for line in boot.lines("kvm") if "release" in line][0]
        assert settings["enable_apicv"] == wanted, settings
        windows = counts(boot.ledger).get("interrupt window", 0)
        assert (windows > 0) == (wanted == "N"), f"enable_apicv={wanted}: {windows} exits"


@pytest.mark.full
@pytest.mark.parametrize("cpus", (2, 4))
def test_linux_processors(lab, cpus):
    """Linux under Linux with as many processors as the machine has: all online, nothing complained
    of, and A.1 has its N/M PMIs on each."""
    boot = lab.emulator(
        f"kvm-linux-{cpus}",
        entry="native",
        jobs="kvm",
        memory=LINUX_MEMORY,
        initrd=initrd_file(name="kvm-small"),
        cpus=cpus,
        knobs=TSC,
        append=f"pmv.kvm_cpus={cpus} pmv.kvm=smp,a1smp,smp pmv.a1_runs=1",
        limit=LIMIT,
    )
    boot.expect_status(STATUS_POWEROFF)
    for job in ("smp", "a1smp", "kvm"):
        assert boot.job_status(job) == 0, boot.console[-400:]
    seen = [line for line in boot.lines("smp") if "processors" in line]
    assert [line["processors"] for line in seen] == [str(cpus)] * 2, seen
    assert [line["complaints"] for line in boot.lines("smp") if "complaints" in line] == ["0", "0"]
    rows = [line for line in boot.lines("a1smp") if "pmis" in line]
    assert {(row["cpu"], row["M"], row["pmis"]) for row in rows} == {
        (str(cpu), str(period), str(A1_BRANCHES // period))
        for cpu in range(cpus)
        for period in A1_PERIODS.values()
    }, rows


@pytest.mark.full
def test_bad_end(lab):
    """The guest's triple fault (its kernel begins with UD2, without an IDT): one line, status 3."""
    with open(made("build/kernel.bzImage"), "rb") as source:
        broken = bytearray(source.read())
    start = (broken[SETUP_SECTORS] + 1) * SECTOR
    broken[start : start + len(UD2)] = UD2
    # Of two archives in one initramfs, the second one's files stay.
    boot = boot_of(
        lab, "kvm-shutdown", "cpuid", initrd=(initrd_of_kvm(), {"kernel.bzImage": bytes(broken)})
    )
    assert boot.job_status("kvm") == STATUS_SHUTDOWN, boot.console[-400:]
    lines = [line for line in boot.console.splitlines() if line.startswith("launch: the guest")]
    assert len(lines) == 1 and "triple fault" in lines[0], lines


def expect_refusal(text):
    lines = [line for line in text.replace("\r", "").splitlines() if "launch: KVM: found" in line]
    assert len(lines) == 1, f"{len(lines)} lines of refusal in: {text[-400:]}"
    for fragment in ("without VMX", "wanted KVM on Intel's VMX", "the emulator"):
        assert fragment in lines[0] or "SVM" in lines[0], f"'{fragment}' is not in: {lines[0]}"


@pytest.mark.full
def test_no_vmx(lab):
    """On a processor without VMX the launcher refuses in one line, with an exit status of its own;
    the machine goes on."""
    boot = boot_of(lab, "kvm-no-vmx", "cpuid", knobs="hide_feature vmx\n")
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status("kvm") == STATUS_REFUSED, boot.console[-400:]
    expect_refusal(boot.console)
    assert "TAP version" not in boot.console, "the test kernel ran"


def host_without_vmx():
    with open("/proc/cpuinfo", encoding="utf-8") as source:
        if re.search(r"^flags\s*:.*\bvmx\b", source.read(), re.MULTILINE):
            raise Skip("this machine has VMX, so that the refusal cannot be seen")


def test_no_vmx_here():
    """The same on this machine, whatever its /dev/kvm is; run-qemu.sh's column refuses as well."""
    host_without_vmx()
    launcher = made("build/programs/launch")
    done = scripts.run(launcher, "--kernel", "/absent")
    assert done.returncode == STATUS_REFUSED, f"exit status {done.returncode}: {done.stderr}"
    assert done.stdout == "", done.stdout
    expect_refusal(done.stderr)
    for backend in ("auto", "kvm"):
        scripts.expect_line(scripts.run_qemu("--guest", "direct", "--backend", backend), "no VMX")


def test_launcher_options():
    """The launcher's options: what is wrong, in one line, before KVM is looked at."""
    launcher = made("build/programs/launch")
    for arguments, fragments in (
        ([], ["--kernel", "wanted a file"]),
        (["--colour", "blue"], ["--colour", "--help"]),
        (["--kernel"], ["--kernel", "no value"]),
        (["--kernel", "x", "--memory", "5"], ["--memory", "found '5'", "wanted 32 to 2048"]),
        (["--kernel", "x", "--cpus", "0"], ["--cpus", "found '0'", "wanted 1 to 16"]),
        (["--kernel", "x", "--apic", "apic"], ["--apic", "found 'apic'", "xapic or x2apic"]),
        (["--kernel", "x", "--timeout", "-1"], ["--timeout", "found '-1'", "wanted 1 to"]),
    ):
        done = scripts.run(launcher, *arguments)
        assert done.returncode == 1, f"{arguments}: exit status {done.returncode}"
        scripts.expect_line(done, *fragments)


def test_direct_refuses():
    """--guest direct: what it does not go with, each in one line."""
    for arguments, fragments in (
        (["--guest", "both"], ["guest 'both'", "wanted disk or direct"]),
        (["--guest", "direct", "--native"], ["--guest direct", "--native"]),
        (["--guest", "direct", "--config", "tick=0"], ["--guest direct", "--config"]),
        (["--guest", "direct", "--backend", "emulator"], ["--guest direct", "emulator"]),
    ):
        scripts.expect_line(scripts.run_qemu(*arguments), *fragments)


def test_direct_path(lab):
    """--guest direct as far as it goes without KVM: QEMU loads the test kernel and Linux itself,
    and their power-off is seen. What TCG has no PMU for is not tried."""
    words = ["--guest", "direct", "--backend", "tcg", "--initrd", made(initrd_file())]
    tests = "tests=cpuid,self,blocked"
    image = made("build/kernel.bzImage")
    bench = scripts.run_qemu(*words, "--kernel", image, "--append", tests)
    assert bench.returncode == 0, bench.stderr
    assert "results: tests=3 failed=0 skipped=0" in bench.stdout, bench.stdout[-300:]
    append = f"{PAYLOAD_APPEND} pmv.run=cpuinfo"
    linux = scripts.run_qemu(*words, "--kernel", kernel(), "--append", append)
    assert linux.returncode == 0, linux.stderr
    assert "job: name=cpuinfo status=0" in linux.stdout, linux.stdout[-300:]


# The newest kernel's KVM, of a suite that this machine need not be of: its vPMU traps, or is
# mediated, which leaves to the guest what is no event selector.
PEER_SUITE = "trixie-backports"
PASSED = (
    "rdmsr_pmc",
    "wrmsr_pmc",
    "rdmsr_ctrl",
    "wrmsr_ctrl",
    "rdmsr_status",
    "rdpmc",
    "wrmsr_ctrl_change",
)
FILTERED = ("rdmsr_evtsel", "wrmsr_evtsel", "wrmsr_evtsel_change")


def peer(lab, mediated):
    image = initrd_file(name=f"kvm-{PEER_SUITE}")
    words = f"pmv.mediated={mediated} pmv.tests=measure::{RUNS}:{OPERATIONS}"
    return lab.emulator(
        f"kvm-peer-{mediated}",
        entry="native",
        jobs="kvm",
        append=words,
        kernel=kernel("cloud", PEER_SUITE),
        initrd=image,
        limit=LIMIT,
    )


def exits_of(boot, names):
    return [
        round(exit_count(account) / operations)
        for account, operations in (region_of(boot, "msr", name) for name in names)
    ]


@pytest.mark.full
def test_peer_mediated(lab):
    """kvm-mediated is what its name says: counters pass, event selectors are filtered; all of them
    exit where the parameter is not set. Both are 7.x, and lose no PMI."""
    for mediated, wanted in ((0, 1), (1, 0)):
        boot = peer(lab, mediated)
        boot.expect_status(STATUS_POWEROFF)
        settings = [line for line in boot.lines("kvm") if "release" in line][0]
        assert settings["enable_mediated_pmu"] == "NY"[mediated], settings
        assert not settings["release"].startswith("6."), settings
        assert exits_of(boot, PASSED) == [wanted] * len(PASSED), boot.name
        assert exits_of(boot, FILTERED) == [1] * len(FILTERED), boot.name
        pmis = [line for line in items(boot, "a1k")["m100"] if line.get("metric") == "pmis"]
        assert [line["value"] for line in pmis] == ["1000"], pmis
