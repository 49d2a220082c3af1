# SPDX-License-Identifier: BSD-2-Clause
# test_guest.py: Debian's unmodified kernel under PMUvisor in the emulator. The guest's own report
# says what it saw; the emulator's ledger, of which the hypervisor knows nothing, what it cost.
import pytest

from testbed.machine import STATUS_POWEROFF, STATUS_RESET, exit_count
from tests.e2e.guest import (
    CPUID_ROUNDS,
    EXIT_REASON_CPUID,
    MAX_CPUID_INSTRUCTIONS,
    MAX_CPUID_VMCS_ACCESSES,
    REGION_CPUID,
    REGION_USER,
    after_guest,
    guest,
)
from tests.e2e.native import (
    A1_BRANCHES,
    A1_PERIODS,
    expect_a1_as_natively,
    expect_a1_pmis,
    expect_a1_without_exits,
    expect_generalized,
    native,
    native_perf,
)

MAX_BOOT_EXITS = 1000
MAX_GUEST_WORK = 1.01

OPTIONAL_CONTROLS = (
    "load_global_ctrl_at_entry",
    "load_global_ctrl_at_exit",
    "save_global_ctrl",
    "enable_rdtscp",
    "enable_invpcid",
    "enable_xsaves",
)


def guest_silent(lab):
    """console=none, no hypervisor bit, perf, the log, the module, and a reboot through the
    firmware, in one boot."""
    return lab.emulator(
        "guest-silent",
        tools=True,
        config="console=none hypervisor_bit=off",
        jobs="report,cpuinfo,perf,log,module",
        append="reboot=efi",
        end="reboot",
    )


def guest_plain(lab):
    """Optional controls hidden, exits timed, and a reboot by triple fault, in one boot."""
    knobs = "".join(f"hide_control {name}\n" for name in OPTIONAL_CONTROLS)
    return lab.emulator(
        "guest-plain",
        jobs="a1,report",
        config="stats=cycles",
        knobs=knobs,
        append="reboot=triple",
        end="reboot",
    )


def guest_save(lab):
    return lab.emulator("guest-save", jobs="a1,report", knobs="show_control save_global_ctrl\n")


def guest_two(lab):
    """A machine of two processors, and a reboot through ACPI, in one boot."""
    return lab.emulator(
        "guest-two",
        jobs="a1,report,cpuinfo",
        cpus=2,
        append="reboot=acpi",
        end="reboot",
        knobs="tsc_hz 50000000\n",
    )


def guest_stock(lab):
    return lab.emulator("guest-stock", flavour="stock", jobs="a1,report")


def test_boots(lab):
    """The guest boots, reports that it runs under PMUvisor and switches the machine off."""
    boot = guest(lab)
    boot.expect_status(STATUS_POWEROFF)
    assert "running under PMUvisor, policy msr+nmi" in boot.console
    assert boot.ledger["end"] == "poweroff", boot.ledger["end"]


def test_cpuid(lab):
    """The guest sees a hypervisor, its signature and no VMX."""
    row = guest(lab).lines("cpuinfo")
    assert (
        row and row[0]["vmx"] == "0" and row[0]["hypervisor"] == "1" and row[0]["pmuvisor"] == "1"
    ), row
    assert "signature=PMUvisorPMUv" in guest(lab).console


@pytest.mark.more
def test_cpuid_without_bit(lab):
    """hypervisor_bit=off: CPUID says that there is no hypervisor, and programs and modules find
    it."""
    boot = guest_silent(lab)
    row = boot.lines("cpuinfo")
    assert row and row[0]["hypervisor"] == "0" and row[0]["pmuvisor"] == "1", row
    assert "signature=PMUvisorPMUv" in boot.console
    assert "running under PMUvisor, policy msr+nmi" in boot.console
    assert boot.lines("log")[-1]["module"] == "0", boot.lines("log")[-1]
    row = boot.lines("module")[0]
    assert row["load"] == row["wanted"] == "Success", row


def test_pmu_as_native(lab):
    """Linux's PMU driver says the same as natively, and the NMI watchdog runs."""
    said = []
    for boot in (native(lab), guest(lab)):
        said.append(
            [
                line.split("] ", 1)[1]
                for line in boot.console.splitlines()
                if "dmesg:" in line and ("] ..." in line or "Performance Events" in line)
            ]
        )
    assert said[0] and said[0] == said[1], f"natively {said[0]}, in the guest {said[1]}"
    assert guest(lab).lines("watchdog")[0]["enabled"] == "1"


def test_a1_as_native(lab):
    """A.1: N/M PMIs, the branch count as native."""
    expect_a1_as_natively(lab, guest(lab))


def test_a1_no_exits(lab):
    """A.1 under msr+nmi: no exit in the marked region, and every PMI taken in the guest."""
    boot = guest(lab)
    for region, period in A1_PERIODS.items():
        account = boot.region(region)
        assert exit_count(account) == 0, f"M={period}: exits {account['exits']}"
        wanted = A1_BRANCHES // period
        pmi = account["pmi"]
        assert (
            pmi["raised"] == wanted and pmi["nonroot"] == wanted and pmi["root"] == 0
        ), f"M={period}: {pmi}, wanted {wanted} raised and taken in non-root mode"


def guest_work(boot, region):
    """All instructions of the guest or of the native system in a region."""
    account = boot.region(region)
    return account["nonroot"]["instructions"]


def test_a1_guest_work(lab):
    """A.1: the guest executes at most 1.01 times the native instructions, kernel included."""
    shares = []
    for region, period in A1_PERIODS.items():
        ours, natively = guest_work(guest(lab), region), guest_work(native(lab), region)
        assert natively > A1_BRANCHES, f"M={period}: {natively} instructions natively"
        shares.append(f"M={period}: {ours} / {natively} = {ours / natively:.4f}")
        assert ours <= MAX_GUEST_WORK * natively, shares[-1]
    return "; ".join(shares)


def test_cpuid_exit_budget(lab):
    """A CPUID exit: at most 120 root instructions and 6 VMREAD and VMWRITE."""
    account = guest(lab).region(REGION_CPUID)
    exits = account["exits"].get(EXIT_REASON_CPUID)
    assert exits and exits["count"] >= CPUID_ROUNDS, f"exits in the region: {account['exits']}"
    most = exits["root_instructions"]["max"]
    assert most <= MAX_CPUID_INSTRUCTIONS, f"{most} root instructions"
    vmcs = exits["vmcs_accesses"]["max"]
    assert vmcs <= MAX_CPUID_VMCS_ACCESSES, f"{vmcs} VMREAD and VMWRITE"
    # Every leaf of the boot, not only the one of the region.
    overall = guest(lab).ledger["exits"][EXIT_REASON_CPUID]
    assert overall["root_instructions"]["max"] <= MAX_CPUID_INSTRUCTIONS, overall
    assert overall["vmcs_accesses"]["max"] <= MAX_CPUID_VMCS_ACCESSES, overall
    return (
        f"{most} instructions, {vmcs} VMREAD and VMWRITE; "
        f"at most {overall['root_instructions']['max']} for any leaf"
    )


def test_boot_exits(lab):
    """The cloud kernel boots to its init with at most 1000 exits."""
    ledger = guest(lab).ledger
    later = guest(lab).region(REGION_USER)["exits"]
    by_reason = {}
    for reason, entry in ledger["exits"].items():
        count = entry["count"] - later.get(reason, {"count": 0})["count"]
        if count:
            by_reason[entry["name"]] = count
    total = sum(by_reason.values())
    assert 0 < total <= MAX_BOOT_EXITS, f"{total} exits: {by_reason}"
    listed = ", ".join(
        f"{name} {count}" for name, count in sorted(by_reason.items(), key=lambda item: -item[1])
    )
    return f"{total}: {listed}"


def test_no_root_counting(lab):
    """No PMI is raised by or delivered to the hypervisor while the guest runs A.1."""
    for region in A1_PERIODS:
        account = guest(lab).region(region)
        assert account["nmi"]["root"] == 0, account["nmi"]


def test_efivars(lab):
    """EFI runtime services work in the guest: variables listed, written, deleted."""
    boot = guest(lab)
    assert boot.job_status("efivars") == 0, boot.lines("efivars")


def test_bad_msrs_fault(lab):
    """MSRs that do not exist and VMX MSRs fault in the guest, which goes on."""
    boot = guest(lab)
    assert boot.job_status("badmsr") == 0, boot.lines("badmsr")


def test_hypervisor_memory(lab):
    """A guest that touches the hypervisor's memory gets #GP; both go on."""
    boot = guest(lab)
    assert boot.job_status("touch") == 0, boot.lines("touch")
    assert "was refused" in boot.console, "the hypervisor logged no touch"
    boot.expect_status(STATUS_POWEROFF)


@pytest.mark.more
def test_log(lab):
    """The guest's kernel reads the hypervisor's log and exit counts by hypercall; user space may
    not. With console=none the log is the only place where they are."""
    boot = guest_silent(lab)
    assert boot.job_status("log") == 0, boot.lines("log")
    log = [line for line in boot.console.splitlines() if line.startswith("log: ")]
    assert any("starting the guest" in line for line in log), log
    exits = dict(
        line.split()[1:] for line in boot.console.splitlines() if line.startswith("exits: ")
    )
    # The rest of the boot may add exits, but takes none away.
    counted = {reason: entry["count"] for reason, entry in boot.ledger["exits"].items()}
    assert exits and all(
        0 < int(count) <= counted[reason] for reason, count in exits.items()
    ), f"by hypercall {exits}, by the ledger {counted}"


def test_final_table(lab):
    """At power-off the hypervisor prints its table of exits by reason."""
    after = after_guest(guest(lab))
    assert "CPUID" in after, f"after the guest's end: {after.strip()[-200:]}"


@pytest.mark.more
def test_console_none(lab):
    """console=none: the guest has the serial line for itself."""
    boot = guest_silent(lab)
    assert "running under PMUvisor" in boot.console, boot.last_line()
    assert "CPUID" not in after_guest(boot), "the hypervisor's table is on the console"


def test_reboot_by_firmware(lab):
    """The guest's reboot through EFI's runtime services resets the machine."""
    boot = guest_silent(lab)
    boot.expect_status(STATUS_RESET)
    assert boot.ledger["end"] == "reset", boot.ledger["end"]


@pytest.mark.more
def test_perf_stat_exact(lab):
    """perf stat -e instructions:u is exact in the guest too."""
    boot = guest_silent(lab)
    rows = [row for row in boot.lines("perf") if "instructions" in row]
    assert rows and rows[0]["instructions"] == rows[0]["expected"], rows or boot.last_line()


@pytest.mark.more
def test_perf_generalized(lab):
    """perf's generalized events too: what is exact natively is the same in the guest."""
    native, guest = expect_generalized(native_perf(lab)), expect_generalized(guest_silent(lab))
    for event in (
        "L1-dcache-loads:u",
        "L1-dcache-stores:u",
        "dTLB-loads:u",
        "dTLB-stores:u",
        "branches:u",
        "branch-loads:u",
    ):
        assert guest[event] == native[event], (event, guest[event], native[event])
    return ", ".join(f"{event.removesuffix(':u')} {count}" for event, count in guest.items())


@pytest.mark.full
def test_stock_kernel(lab):
    """Debian's generic kernel boots as well and takes its PMIs without exits."""
    boot = guest_stock(lab)
    boot.expect_status(STATUS_POWEROFF)
    expect_a1_pmis(boot)
    expect_a1_without_exits(boot)


@pytest.mark.more
def test_without_optional_controls(lab):
    """Controls that older processors lack are hidden: MSR lists switch, still without exits."""
    boot = guest_plain(lab)
    expect_a1_pmis(boot)
    expect_a1_without_exits(boot)


@pytest.mark.more
def test_save_control(lab):
    """A processor that saves GLOBAL_CTRL by a VMCS control: it is used, and A.1 is as natively."""
    boot = guest_save(lab)
    boot.expect_status(STATUS_POWEROFF)
    assert "GLOBAL_CTRL:VMCSloadandsavecontrols" in boot.squeezed(), "the start line names another"
    expect_a1_as_natively(lab, boot)
    expect_a1_without_exits(boot)


@pytest.mark.more
def test_triple_fault(lab):
    """The guest's triple fault is reported with the table of exits, and resets the machine."""
    boot = guest_plain(lab)
    boot.expect_status(STATUS_RESET)
    after = after_guest(boot)
    assert "triple fault" in after and "CPUID" in after, after.strip()[-300:]


@pytest.mark.more
def test_stats_cycles(lab):
    """stats=cycles adds the cycles of each reason to the table."""
    after = after_guest(guest_plain(lab))
    assert "cycles" in after, after.strip()[-300:]


def test_two_processors(lab):
    """On a machine of two processors the guest gets both, with the same PMU and no more exits."""
    boot = guest_two(lab)
    assert "2 of 2 processors are under VMX" in boot.console
    assert boot.lines("cpuinfo")[0]["cpus"] == "2", boot.lines("cpuinfo")[0]
    expect_a1_pmis(boot)
    expect_a1_without_exits(boot)


def test_reboot_by_acpi(lab):
    """The guest's reboot through ACPI is reported and resets the machine."""
    boot = guest_two(lab)
    boot.expect_status(STATUS_RESET)
    assert "reset" in after_guest(boot) and "CPUID" in after_guest(boot), after_guest(boot)[-300:]
