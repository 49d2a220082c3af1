# SPDX-License-Identifier: BSD-2-Clause
# test_reports.py: situations of public bug reports about hypervisors. They are the same natively
# and in the guest. docs/guest.md has the table, with the situations that other files test.
import kernel
from kernel import Plan, expect_ok
from machine import STATUS_POWEROFF, STATUS_RESET, Skip, path
from native import A1_BRANCHES, A1_PERIODS, expect_a1_pmis
import pytest

ENTRIES = ("native", "msr+nmi")
XSETBV_CASES = 17
PTRACE_ROWS = 24 * 8  # pieces of code, modes
SMP = {"cpus": 4, "knobs": "tsc_hz 50000000\n", "limit": 40_000}
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
RDT = "\n".join(["cpuid 7 0 ebx 0x9000", "cpuid 0xf 0 ebx 0x7f", "cpuid 0xf 0 edx 2",
                 "cpuid 0xf 1 ebx 0x10000", "cpuid 0xf 1 ecx 0x7f", "cpuid 0xf 1 edx 1",
                 "cpuid 0x10 0 ebx 2", "cpuid 0x10 1 eax 14", "cpuid 0x10 1 edx 15",
                 "msr 0xc8d 0", "msr 0xc8e 5", "msr 0xc8f 0"] +
                [f"msr {index:#x} 0x7fff" for index in range(0xc90, 0xca0)]) + "\n"


def expect_same(rows, wanted):
    """The same rows natively and in the guest, `wanted` of them."""
    native, guest = rows
    assert len(native) == wanted, f"{len(native)} rows natively, wanted {wanted}"
    differ = [f"natively {one}, in the guest {other}" for one, other in zip(native, guest)
              if one != other]
    assert len(guest) == len(native) and not differ, f"{len(guest)} rows; {'; '.join(differ[:3])}"
    return f"{wanted} rows"


@pytest.mark.parametrize("model", ["corei7_skylake_x", "sapphire_rapids"])
def test_xsetbv(lab, model):
    """XSETBV by value, index, privilege level and CR4.OSXSAVE: its exception and XCR0."""
    rows = []
    for entry in ENTRIES:
        boot = kernel.run(lab, f"reports-xsetbv-{model}-{entry}", Plan().add("xsetbv"), entry=entry,
                          model=model)
        expect_ok(boot, ["xsetbv"])
        rows.append(boot.lines("xsetbv"))
    return expect_same(rows, XSETBV_CASES)


# As the boots of test_guest.py, test_native.py and test_smp_linux.py, except for the words: one
# server at init serves all of them.
def linux(lab, name, entry, jobs, **more):
    return lab.emulator(f"reports-{name}-{entry}", entry=entry, jobs=jobs, **more)


def four(lab, name, entry, jobs, **more):
    return linux(lab, name, entry, jobs, **{**SMP, **GUEST_OPTION[entry], **more})


def exits_of(boot, reason):
    """By processor."""
    return [cpu["exits"].get(reason, {"count": 0})["count"] for cpu in boot.ledger["processors"]]


def test_ptrace(lab):
    """A debugger over pieces of code: where each stopped, why, and what DR6 said."""
    rows = []
    for entry in ENTRIES:
        boot = linux(lab, "ptrace", entry, "ptrace")
        assert boot.job_status("ptrace") == 0, boot.lines("ptrace")[-1:]
        rows.append(boot.lines("ptrace"))
    return expect_same(rows, PTRACE_ROWS)


@pytest.mark.full
@pytest.mark.parametrize("entry", ENTRIES)
def test_storm(lab, entry):
    """PMIs and backtraces on four processors that loop over CPUID, with unknown_nmi_panic: each NMI
    arrives, and no other one comes. The skid takes PMIs into root mode."""
    boot = four(lab, "storm", entry, "storm,nmilog", knobs=SMP["knobs"] + "pmi_skid sweep/160\n")
    assert boot.job_status("storm") == 0, boot.lines("storm")
    row = boot.lines("storm")[0]
    assert row["rounds"] == row["complete"] == ROUNDS and row["unknown"] == "0" and \
        row["expected"] == row["pmis"], row
    assert boot.lines("nmilog")[-1]["lines"] == "0", boot.lines("nmilog")
    if entry != "native":
        pmis = boot.ledger["pmi"]
        assert min(exits_of(boot, CPUID)) > 1000 and pmis["root"] > pmis["raised"] // 20, pmis
    return f"PMIs {row['pmis']}"


# The type by Linux's name, the processor that resets, and which exit that is.
REBOOTS = {"kbd": (2, None), "pci": (3, None), "triple": (0, TRIPLE_FAULT),
           "acpi": (1, EPT_VIOLATION)}


@pytest.mark.parametrize("kind", REBOOTS)
def test_reboot(lab, kind):
    """The machine is reset by each of Linux's ways, from that processor."""
    cpu, reason = REBOOTS[kind]
    for entry in ENTRIES:
        boot = four(lab, f"reboot-{kind}", entry, "rebootby", end="reboot", limit=REBOOT_LIMIT,
                    append=f"pmv.reboot={kind} pmv.reboot_cpu={cpu}")
        assert boot.job_status("rebootby") == 0, boot.lines("rebootby")
        boot.expect_status(STATUS_RESET)
    for exit_reason in (TRIPLE_FAULT, EPT_VIOLATION):
        found = [n for n, count in enumerate(exits_of(boot, exit_reason)) if count]
        assert found == ([cpu] if exit_reason == reason else []), (exit_reason, found)


@pytest.mark.full
def test_lockup(lab):
    """The hard-lockup watchdog finds a processor that takes no interrupts, and panics."""
    for entry in ENTRIES:
        boot = linux(lab, "lockup", entry, "lockup", cpus=2, knobs=SMP["knobs"], limit=LOCKUP_LIMIT,
                     tools=True, end="reboot")
        boot.expect_status(STATUS_RESET)
        for said in ("Watchdog detected hard LOCKUP on cpu 1", "RIP: 0010:stick",
                     "Kernel panic - not syncing: Hard LOCKUP"):
            assert said in boot.console, f"{boot.name}: nothing says '{said}': {boot.last_line()}"
        assert boot.lines("lockup") == [{"watchdog": "1", "error": "Success"}], boot.lines("lockup")


@pytest.mark.full
def test_hotplug_first(lab):
    """The first processor goes and comes back, by an NMI that ends its HLT with interrupts off."""
    for entry in ENTRIES:
        boot = linux(lab, "hotplug", entry, "hotplug0,sysrql,smp", cpus=2, knobs=SMP["knobs"],
                     limit=SMP["limit"], append="cpu0_hotplug")
        found = boot.lines("hotplug")
        if any(row.get("error") == "No such file or directory" for row in found):
            raise Skip("this kernel does not switch off its first processor")
        assert boot.job_status("hotplug0") == boot.job_status("sysrql") == 0, found
        rows = [row for row in found if "round" in row]
        assert len(rows) == HOTPLUG_ROUNDS and all(
            row["cpu"] == "0" and row["off"] == row["on"] == "1" and
            row["during"] == row["after"] == LOOP_INSTRUCTIONS and row["pmis"] == row["of"]
            for row in rows), rows
        smp = boot.lines("smp")
        assert smp[0]["online"] == "0-1" and smp[-1]["complaints"] == "0", smp


@pytest.mark.full
def test_resctrl(lab):
    """Resource control on Sapphire Rapids: the MSRs have a group's mask and class, as natively."""
    rows = []
    for entry in ENTRIES:
        boot = linux(lab, "resctrl", entry, "resctrl", model="sapphire_rapids", append="no5lvl",
                     knobs=RDT)
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
    for entry in ENTRIES:
        boot = linux(lab, "kdump", entry, "kdump", cpus=2, knobs=SMP["knobs"], limit=KDUMP_LIMIT,
                     memory=1024, initrd=path("build/payload/kdump-cloud.img"),
                     append="crashkernel=128M iomem=relaxed pmv.kexec=a1,report,nmilog")
        boot.expect_status(STATUS_POWEROFF)
        said = boot.lines("kdump")
        assert said == [{"cpu": "1", "error": "Success"}, {"sampling": "1"}], said
        # Only the crash kernel runs a1 and nmilog.
        pmis = [cpu["pmi"]["raised"] for cpu in boot.ledger["processors"]]
        assert boot.job_status("a1") == 0 and pmis[0] < A1_ALL <= pmis[1], pmis
        expect_a1_pmis(boot)
        assert boot.lines("nmilog")[-1]["lines"] == "0", boot.lines("nmilog")
