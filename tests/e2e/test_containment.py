# SPDX-License-Identifier: BSD-2-Clause
# test_containment.py: what the guest cannot do, with the test kernel on the hypervisor's test
# build: MSRs that reach the hypervisor. Each mechanism is taken out once as well, and its test must
# then fail.
import re

import pytest

from testbed.machine import STATUS_POWEROFF
from tests.e2e import host, kernel
from tests.e2e.guest import EXIT_REASON_CPUID, MAX_CPUID_INSTRUCTIONS
from tests.e2e.host import Plan, results

# MSRs that the emulated processor lacks are added by knobs, each with a value of its own.
# They stand in the order of vmx/exit/msr.c.
HAS, ADDED = True, False
TME_ACTIVATE = 0x982
# Kind of test, whether the emulator has them already, indices.
MSR_GROUPS = [
    ("read-only", HAS, [0x079]),  # IA32_BIOS_UPDT_TRIG
    ("refused", ADDED, [0x08C, 0x08F]),  # IA32_SGXLEPUBKEYHASHn
    ("refused", ADDED, [0x09B, 0x09E]),  # IA32_SMM_MONITOR_CTL, IA32_SMBASE
    ("kept", ADDED, [0x1F2, 0x1F3]),  # IA32_SMRR
    ("kept", ADDED, [0x1F4, 0x1F5]),  # MSR_PRMRR
    ("kept", ADDED, [0x2A0, 0x2A7]),  # MSR_PRMRR_BASE_n
    ("kept", ADDED, [0x2F4, 0x2F5]),  # MSR_UNCORE_PRMRR
    ("refused", ADDED, [0x4E0, 0x4E3]),  # MSR_SMM_FEATURE_CONTROL, _BLOCKED
    ("kept", ADDED, [0x1400, 0x1401]),  # IA32_SEAMRR
    ("kept", ADDED, [0x080]),  # MSR_TRACE_HUB_STH_ACPIBAR_BASE
    ("refused", ADDED, [0x0ED, 0x0F0]),  # IA32_RAR
    ("refused", ADDED, [0x560, 0x570]),  # IA32_RTIT
    ("refused", ADDED, [0x17D0, 0x17D1]),  # IA32_HW_FEEDBACK
    ("read-only", ADDED, [0x150]),  # MSR_OC_MAILBOX
    ("kept", ADDED, [0x2E0]),  # MSR_NO_EVICT_MODE
    # Self-tests.
    ("read-only", ADDED, [0x105, 0x2B8, 0x2BC, 0x2C2, 0x2C6, 0x2D6, 0x2D7, 0x4F0, 0x4F8]),
    # What an outer hypervisor has: KVM's clock, its others, Hyper-V's, both ends of the range.
    ("refused", ADDED, [0x011, 0x012, 0x40000000, 0x40000021, 0x40000073]),
    ("refused", ADDED, [0x4B564D00, 0x4B564D01, 0x4B564D03, 0x4FFFFFFF, 0xC0010015]),
    ("kept", ADDED, [0x984]),  # IA32_TME
    ("kept", ADDED, [0xC80]),  # IA32_DEBUG_INTERFACE
    ("kept", HAS, [0x200, 0x201, 0x20F, 0x250, 0x258, 0x259, 0x268, 0x26F, 0x2FF]),  # MTRRs
    ("refused", HAS, [0x480, 0x48C]),  # IA32_VMX
    ("refused", ADDED, [0x6A0, 0x6A2, 0x6A4, 0x6A8]),  # CET
    ("refused", ADDED, [0x1200, 0x14CE, 0x1500, 0x161F]),  # architectural LBRs
    ("refused", ADDED, [0x01C]),  # IA32_USER_MSR_CTL
    ("refused", ADDED, [0x1CC, 0x1D4]),  # FRED
    ("refused", ADDED, [0x985, 0x98A]),  # user interrupts
    ("refused", ADDED, [0x990, 0x991, 0xD91, 0xD92]),  # Key Locker
    ("refused", ADDED, [0x17D2, 0x17D4]),  # thread feedback
]
MSRS = [(index, kind, has) for kind, has, indices in MSR_GROUPS for index in indices]
# IA32_SPEC_CTRL, IA32_PRED_CMD, IA32_FLUSH_CMD; an uncore's, and the last that the bitmap lacks.
PASSED = [(0x048, 0), (0x049, 0), (0x10B, 0), (0x2000, 0x1234), (0x3FFF, 0)]
# What CPUID shows besides: leaf, subleaf, register, of these what the guest sees.
FEATURES = [
    # FRED, NMI_SRC, MSRLIST; WRMSRNS
    (7, 1, "eax", 1 << 17 | 1 << 20 | 1 << 27 | 1 << 19, 1 << 19),
    (7, 1, "ebx", 1 << 1 | 1 << 3, 1 << 3),  # PBNDKB; CPUIDMAXVAL_LIM_RMV
    (7, 1, "ecx", 1 << 5 | 1 << 0, 1 << 0),  # MSR_IMM; RDT_M_ASYM
    # UTMR, USER_MSR, UIRET_UIF, APX_F; PREFETCHI, AVX10
    (7, 1, "edx", 1 << 13 | 1 << 15 | 1 << 17 | 1 << 21 | 1 << 14 | 1 << 19, 1 << 14 | 1 << 19),
    (0xD, 0, "eax", 1 << 19, 0),  # XCR0[19], APX
    (0x29, 0, "ebx", 1, 0),  # APX_NCI_NDD_NF
    (0, 0, "eax", 0x29, 0x29),  # the leaf is there
]
# Leaves that cost an exit most: extended ones, past the highest, the hypervisor's; the last
# subleaf.
DEAREST = [(0x80000001, 0), (0x80000008, 0), (0x30, 0), (0x8000FFFF, 0), (0x40000001, 0), (7, 9)]
# Bits of no name, all of which the guest sees.
UNKNOWN = [
    (7, 1, "eax", 1 << 9),
    (7, 1, "edx", 1 << 31),
    (7, 2, "edx", 1 << 8),
    (0xD, 1, "ecx", 1 << 7),
    (0x23, 0, "ebx", 1 << 3),
]
PEBS_BASE = ["msr 0x3f4 0"]
PEBS_BY_EPT = "show_control pebs_uses_guest_physical_addresses"


def msr_plan():
    plan = Plan(
        *[f"msr {index:#x} {0x1000 + index:#x}" for index, _, has in MSRS if not has],
        *[f"msr {index:#x} {value:#x}" for index, value in PASSED],
        *PEBS_BASE,
        "msr 0x33 0",
        "msr 0x123 2",  # IA32_MCU_OPT_CTRL
        "cpuid 7 0 ecx 0x2000",  # TME
    )
    plan.knobs.append(f"msr {TME_ACTIVATE:#x} {4 << 32:#x}")
    plan.add(f"msr-kept:{TME_ACTIVATE}", *[f"msr-{kind}:{index}" for index, kind, _ in MSRS])
    return plan.add(*[f"msr-passed:{index}" for index, _ in PASSED], "msr-special", "msr-pebs-base")


def shown(lab):
    """The boot of test_msrs(), with CPUID bits besides, and what the guest sees of them."""
    plan = msr_plan()
    every = [row[:4] for row in FEATURES] + UNKNOWN
    # Past its highest leaf the model gives that one's data.
    plan.knobs += [f"hide_cpuid 0x23 0 {name} 0xffffffff" for name in ("eax", "ebx", "ecx", "edx")]
    plan.knobs += [
        f"cpuid {leaf:#x} {subleaf} {name} {bits:#x}" for leaf, subleaf, name, bits in every
    ]
    plan.add(
        *[
            f"cpuid-leaf::{leaf}:{subleaf}"
            for leaf, subleaf in sorted(
                {row[:2] for row in every} | {(1, 0), (5, 0)} | set(DEAREST)
            )
        ]
    )
    boot = host.run(lab, "contain-msr", plan, efi=host.image_with_hooks())
    return boot, {
        (int(row["leaf"]), int(row["subleaf"])): {
            name: int(row[name]) for name in ("eax", "ebx", "ecx", "edx")
        }
        for row in boot.lines("leaf")
    }


def test_cpuid(lab):
    """Features whose control is off, whose MSRs are absent or whose registers exits cannot name are
    not shown, others are; lines at the start say which bits nobody knows."""
    boot, found = shown(lab)
    for leaf, subleaf, name, bits, seen in FEATURES:
        value = found[leaf, subleaf][name] & bits
        assert value == seen, f"{leaf:#x}.{subleaf}:{name} has {value:#x}, wanted {seen:#x}"
    for leaf, subleaf, name, bits in UNKNOWN:
        assert found[leaf, subleaf][name] & bits == bits, f"{leaf:#x}.{subleaf}:{name}"
    lines = re.findall(
        r"^CPUID has bits that this version does not know: (.*)$", boot.console, re.MULTILINE
    )
    wanted = [
        f"{leaf:#x}.{subleaf}:{name.upper()} {bits:#x}" for leaf, subleaf, name, bits in UNKNOWN
    ]
    assert lines == wanted, f"{lines}, wanted {wanted}"
    most = boot.ledger["exits"][EXIT_REASON_CPUID]["root_instructions"]["max"]
    assert most <= MAX_CPUID_INSTRUCTIONS, f"{most} root instructions"
    return f"{', '.join(wanted)}; at most {most} root instructions"


# Each enumeration of tests/kernel/test_contain_msr.c, with what it stands for.
ENUMERATED = [
    "msr 0xcf 0x36",
    "msr 0x10a 0x40000",
    "msr 0xed 0",
    "msr 0x105 0",
    "msr 0x33 0",
    "msr 0x123 0",
    "msr 0x8c 0",
    "msr 0x1c 0",
    "msr 0x1cc 0",
    "msr 0x985 0",
    "msr 0x17d0 0",
    "msr 0x990 0",
    "msr 0x991 0",
    "cpuid 6 0 ecx 0x200",
    "cpuid 6 0 edx 0x10103",
    "cpuid 0x19 0 ebx 0x10",
    "cpuid 6 0 eax 0x80000",
    "cpuid 7 0 ecx 0x40800000",
    "cpuid 7 0 edx 0x60000020",
    "cpuid 7 1 eax 0x20000",
    "cpuid 7 1 edx 0x48000",
    "cpuid 7 2 edx 0x40",
    "pt on",
    "arch_lbr on",
    "pebs 4",
]
# What is always hidden; what comes of an option, or of a control that is missing.
HIDDEN = {
    "vmx",
    "hfi",
    "hfi-classes",
    "hfi-table",
    "key-locker",
    "key-backup",
    "sgx-lc",
    "uintr",
    "fred",
    "user-msr",
    "uc-lock",
    "rar",
    "integrity",
    "uc-lock-core",
    "fb-clear-ctrl",
}


SHOWN = [
    ("native", None, "", set()),
    ("default", "", "", HIDDEN),
    ("no_pmu", "pmu=off", "", HIDDEN | {"pmu", "pdcm", "emon", "bts", "pebs", "pt"}),
    ("no_cet", "", "hide_control load_cet_state", HIDDEN | {"cet-ss", "cet-ibt", "cet-sss"}),
    ("no_monitor", "tick=100", "", HIDDEN | {"monitor"}),
    ("no_pt", "", "hide_control load_rtit_ctl", HIDDEN | {"pt"}),
    ("no_lbr", "", "hide_control load_lbr_ctl", HIDDEN | {"arch-lbr"}),
]


@pytest.mark.parametrize(
    "name, config, knob, hidden",
    SHOWN,
    ids=[f"enumerations_{row[0]}".removesuffix("_default") for row in SHOWN],
)
def test_shown(lab, name, config, knob, hidden):
    """CPUID and MSRs enumerate nothing that is absent, and all that is there."""
    rows = {}
    # Sapphire Rapids has CET, but its IA32_ARCH_CAPABILITIES is the model's own.
    for model in ("sapphire_rapids", None):
        boot = kernel.run(
            lab,
            f"contain-enumerations-{name}-{model}",
            Plan(*ENUMERATED, knob).add("enumerations"),
            entry="native" if config is None else "msr+nmi",
            config=config or "",
            **({"model": model} if model else {}),
        )
        for row in boot.lines("enumeration"):
            if (row["name"] == "fb-clear-ctrl") == (model is None):
                rows[row["name"]] = row["shown"] == "1", row["there"] == "1"
    assert len(rows) == 28, rows
    wrong = {
        name: row
        for name, row in rows.items()
        if row[0] == (name in hidden) or (row[0] and not row[1])
    }
    assert not wrong, wrong
    return f"{len(rows) - len(hidden)} of {len(rows)}"


def test_xcr0_apx(lab):
    """XCR0[19] is refused where the processor takes it."""
    boot = kernel.run(lab, "contain-apx", Plan().add("xcr0-apx"), efi=kernel.mutant("apx_there"))
    assert results(boot) == {"xcr0-apx": True}, kernel.notes(boot)


def test_cpuid_monitor(lab):
    """Where MONITOR is hidden, nothing else says that MWAIT is there."""
    plan = Plan("cpuid 7 1 edx 0x800000").add(
        "cpuid-leaf::1:0", "cpuid-leaf::5:0", "cpuid-leaf::7:1"
    )
    found = {}
    for config in ("tick=0", "tick=100"):
        boot = kernel.run(lab, f"contain-{config}", plan, config=config)
        leaves = {row["leaf"]: row for row in boot.lines("leaf")}
        found[config] = (
            int(leaves["1"]["ecx"]) >> 3 & 1,
            int(leaves["7"]["edx"]) >> 23 & 1,
            int(leaves["5"]["eax"]) != 0,
        )
    assert found == {"tick=0": (1, 1, True), "tick=100": (0, 0, False)}, found


def test_pebs_base(lab):
    """Records by physical addresses: under intercept, too, none of them reaches the hypervisor's
    memory; where VMX translates them the guest writes the address without an exit."""
    boot = host.run(
        lab, "contain-pebs-intercept", Plan(*PEBS_BASE).add("msr-pebs-base"), entry="intercept"
    )
    assert results(boot)["msr-pebs-base"], kernel.notes(boot)
    boot = host.run(
        lab,
        "contain-pebs-ept",
        Plan(*PEBS_BASE, PEBS_BY_EPT).add("msr-passed:1012", "msr-pebs-base"),
    )
    assert results(boot) == {"msr-passed:1012": True, "msr-pebs-base": False}, kernel.notes(boot)
    exits = boot.ledger["exits"].get("32", {"count": 0})["count"]
    assert exits == 0, f"{exits} exits for WRMSR"
    assert "PEBS uses guest-physical addresses," in boot.console or re.search(
        "PEBS uses guest-physical addresses$", boot.console, re.MULTILINE
    ), "the list of controls"


def test_msrs(lab):
    """Each MSR of the table: what the guest gets, and that the hardware's register stays."""
    boot, _ = shown(lab)
    found = results(boot)
    assert all(found.values()), (boot.console[-1500:], found)
    # Of 40 address bits, IA32_TME_ACTIVATE says, 4 are an encryption key's.
    assert (
        "physical addresses: 36 bits" in boot.console
        and "EPT maps 0x0 to 0x1000000000," in boot.console
    ), "the EPT's size"
    lines = boot.console.count("was refused: #GP")
    assert lines == 16, f"{lines} lines about refused writes, wanted 16"
    return f"{len(found)} registers"


def test_msrs_without_rules(lab):
    """With every MSR passed through each of these tests fails, but those of what passes anyway."""
    efi = kernel.mutant("no_msr_rules", "test")
    found = results(host.run(lab, "contain-msr-mutant", msr_plan(), efi=efi))
    passed = [name for name, good in found.items() if good]
    assert set(passed) == {f"msr-passed:{index}" for index, _ in PASSED}, passed


def place(lab):
    return kernel.run(lab, "contain", Plan().add("sleep", "secrets", "hidden"))


def mutant(lab, name):
    plan = Plan().add("secrets", "hidden", "sleep")
    return kernel.run(lab, f"contain-{name}", plan, efi=kernel.mutant(name))


def expect(boot, name):
    assert results(boot)[name], kernel.notes(boot)


def test_memory(lab):
    """Every page of image, pool and doorbell: read, written, executed; #GP each."""
    boot = place(lab)
    expect(boot, "hidden")
    sizes = re.search(r"hidden: image (\d+) KiB, pool (\d+) KiB", boot.console)
    wanted = sum(int(size) for size in sizes.groups()) // 4
    found = int(boot.lines("results")[0]["hidden_pages"])
    assert found == wanted, f"{found} pages refuse a read, image and pool have {wanted}"
    return re.search(r"^# (\d+ pages hidden; .*)$", boot.console, re.MULTILINE)[1]


def test_memory_mapped(lab):
    """With the hidden ranges mapped the sweep fails at its first step: no page refuses a read."""
    boot = mutant(lab, "nothing_hidden")
    assert not results(boot)["hidden"] and boot.lines("results")[0]["hidden_pages"] == "0"


def test_sleep(lab):
    """S3 and every other sleep but S5 is #GP by any access, and not in the guest's ACPI tables."""
    boot = place(lab)
    expect(boot, "sleep")
    assert "the guest's sleep with SLP_TYP 0x1 was refused: #GP" in boot.console
    assert "the guest asked for power-off (SLP_TYP 0)" in boot.console


def test_log(lab):
    """No number in the log that the guest reads is an address in the hypervisor's memory."""
    expect(place(lab), "secrets")
    return re.search(r"^# (\d+ bytes of log .*)$", place(lab).console, re.MULTILINE)[1]


def test_log_with_address(lab):
    """The same test finds one that is there."""
    console = mutant(lab, "careless_io").console
    assert "not ok 1 - secrets" in console and "the log has the hypervisor's address" in console


def test_sleep_unguarded(lab):
    """Without the guard the ACPI tables still have S3, and writing its type ends the run."""
    boot = mutant(lab, "careless_io")
    assert "the DSDT has sleep states 0x28, wanted S5 alone" in boot.console, boot.last_line()
    assert "- sleep" not in boot.console and boot.status != STATUS_POWEROFF, boot.status


def test_overflow_unguarded(lab):
    """With the guard page mapped a root stack that overflows is not named."""
    efi = kernel.mutant("unguarded", "test")
    plan = Plan().add("host-fault:1")
    boot = host.run(lab, "contain-unguarded", plan, efi=efi, until=host.STOPPED)
    assert "TAP version" in boot.console, boot.last_line()
    assert "stack overflow" not in boot.console, boot.last_line()


def lines(lab):
    return kernel.run(
        lab, "contain-lines", Plan().add("task", "apic-base-lines", "x2apic", "apic-base-lines")
    )


def test_lines(lab):
    """A line for each refusal of the hypervisor's, with what became of it; no other."""
    boot = lines(lab)
    assert all(results(boot).values()), kernel.notes(boot)
    found = re.findall(
        r"^pmuvisor: the guest's write of 0x\w+ to MSR 0x1b was refused: #GP$",
        boot.console,
        re.MULTILINE,
    )
    assert len(found) == 2, f"{len(found)} lines about IA32_APIC_BASE, wanted one in each mode"
    tasks = re.findall(
        r"^pmuvisor: the guest tried a hardware task switch: (.*)$", boot.console, re.MULTILINE
    )
    assert tasks == ["#GP", "double fault"], tasks
    return "1 line for each of 2 moves of the APIC and 2 task switches"


# Wherever the pool ends: in the log, the hypervisor's page tables, a processor's stacks, the EPT.
EXHAUSTION_PAGES = [3, 8, 25, 40]
EXHAUSTION = re.compile(
    r"fault in root mode: (the page pool is used up: found \d+ pages, wanted \d+)"
)


@pytest.mark.parametrize(
    "pages", EXHAUSTION_PAGES, ids=[f"pool_of_{pages}_pages" for pages in EXHAUSTION_PAGES]
)
def test_pool(lab, pages):
    plan = Plan(f"msr 0xfff {pages}")
    efi = kernel.mutant("small_pool")
    boot = kernel.run(lab, f"contain-pool-{pages}", plan, efi=efi, until=host.STOPPED)
    said = boot.console[boot.console.find("leaving firmware") :]
    # Once, and once more in the log's tail.
    lines = EXHAUSTION.findall(said)
    assert len(lines) == 2 and lines[0] == lines[1], f"{lines}; {boot.last_line()}"
    assert said.count("fault in root mode: ") == 2, said[-800:]
    assert host.STOPPED in said and "TAP version" not in said, boot.last_line()
    return lines[0]


# What processors say of themselves (SDM Vol. 4, "IA32_ARCH_CAPABILITIES"), and what root mode then
# does: include/hypercall.h, MITIGATION.
RSB, IBRS, L1D, VERW, AUTO = 1, 2, 4, 8, 0x80000000
MITIGATIONS = [
    ("old", 0, "mitigations=auto", AUTO | RSB | IBRS | L1D, " RSB fill, IBRS, L1D flush"),
    ("newer", 1, "mitigations=auto", AUTO | RSB | IBRS | VERW, " RSB fill, IBRS, VERW"),
    ("timed", 0x1000122, "mitigations=auto stats=cycles", AUTO | IBRS | L1D, " IBRS, L1D flush"),
    ("off", 0, "mitigations=off", 0, " off"),
]


def guarded(lab, name, capabilities, config):
    plan = Plan(*kernel.SPECULATION, f"msr 0x10a {capabilities:#x}").add("mitigations", "cpuid")
    return host.run(lab, f"contain-guarded-{name}", plan, config=config)


def path_length(boot):
    return boot.region(kernel.REGION_CPUID)["exits"]["10"]["root_instructions"]["min"]


@pytest.mark.parametrize(
    "name, capabilities, config, on, line",
    MITIGATIONS,
    ids=[f"mitigations_{case[0]}" for case in MITIGATIONS],
)
def test_mitigations(lab, name, capabilities, config, on, line):
    boot = guarded(lab, name, capabilities, config)
    expect(boot, "mitigations")
    found = int(boot.lines("results")[0]["mitigations"])
    assert found == on, f"CPUID says {found:#x}, wanted {on:#x}"
    assert re.search(f"^pmuvisor: mitigations:{line}$", boot.console, re.MULTILINE)
    return f"{line.strip()}: {path_length(boot)} root instructions a CPUID exit"


def test_mitigations_not_needed(lab):
    """With auto on a processor that offers nothing, and with off: the same path, not one longer."""
    off = path_length(guarded(lab, "off", 0, "mitigations=off"))
    boot = host.run(lab, "contain-none", Plan().add("cpuid"), config="mitigations=auto")
    assert "pmuvisor: mitigations: none needed" in boot.console and path_length(boot) == off, off
    return f"{off} root instructions"
