# SPDX-License-Identifier: BSD-2-Clause
# test_reports.py: situations of public bug reports about hypervisors, natively and in the guest: the
# same in both. docs/limits.md has the table, with the situations that other files test.
import kernel
from kernel import Plan, expect_ok
from machine import STATUS_RESET
import pytest

ENTRIES = ("native", "msr+nmi")
XSETBV_CASES = 17
PTRACE_ROWS = 24 * 8  # pieces of code, modes
SMP = {"cpus": 4, "knobs": "tsc_hz 50000000\n", "limit": 40_000}
GUEST_OPTION = {"native": {}, "msr+nmi": {"config": "user_hypercalls=1"}}
CPUID, TRIPLE_FAULT, EPT_VIOLATION = "10", "2", "48"
ROUNDS = "20"


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


# As the boots of test_guest.py, test_native.py and test_smp_linux.py, but for the words: so one server
# at init serves all of them.
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
    """PMIs and backtraces on four processors that loop over CPUID, with unknown_nmi_panic: no NMI is
    lost, and none is one too many. The skid takes PMIs into root mode."""
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
        boot = four(lab, f"reboot-{kind}", entry, "rebootby", end="reboot",
                    append=f"pmv.reboot={kind} pmv.reboot_cpu={cpu}")
        assert boot.job_status("rebootby") == 0, boot.lines("rebootby")
        boot.expect_status(STATUS_RESET)
    for exit_reason in (TRIPLE_FAULT, EPT_VIOLATION):
        found = [n for n, count in enumerate(exits_of(boot, exit_reason)) if count]
        assert found == ([cpu] if exit_reason == reason else []), (exit_reason, found)
