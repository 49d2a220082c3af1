# SPDX-License-Identifier: BSD-2-Clause
# test_host.py: the host beside the guest, with the test kernel on the hypervisor's test build. Host
# NMIs that the guest takes, the PMU's registers with two users, host work in the guest's NMI
# handler, branch records, faults in root mode. Each mechanism is switched off once as well, and its
# test must then fail in the way the thesis describes.
import re

import pytest

from testbed.machine import STATUS_TEXT, exit_count
from tests.e2e import kernel
from tests.e2e.host import (
    NO_LOST,
    NO_MASK,
    NO_UNBLOCK,
    REGION_CLEAN,
    REGION_CLEAN_BLOCKED,
    STOPPED,
    Plan,
    path_length,
    results,
    row,
    run,
    sweeps,
)

REGION_OTHER_GUEST = 1501
REGION_OTHER_GUEST_BARE = 1502
REGION_OTHER_GUEST_STATUS = 1503
REGION_LBR = 1504
REGION_PEBS = 1505
REGION_WORK = 1506
REGION_WORK_RECORDS = 1507
LATE_SKID = 700  # instructions: longer than from the exit for host work to its first count
PAGE = 4096
LBR_ENTRIES = 32
BLOCKED_COST_MAX = 24  # root instructions
SUITE = [
    "host-root",
    "host-lost",
    "host-returned",
    "host-sending",
    "host-unblock",
    "host-mask:2000000:200",
    "context:work",
    "context:records",
    "context:guest",
    "lbr",
]


def suite(lab):
    plan = Plan()
    for word in SUITE:
        plan.add(word)
    plan.add("x2apic", "host-lost", "host-unblock", "host-mask:20000:200")
    return run(lab, "host", plan)


def expect_host(boot, name, found=None):
    rows = [r for r in boot.lines("host") if r["name"] == name]
    assert rows, f"{name} did not run; {kernel.notes(boot)}"
    for one in rows:
        assert one["wrong"] == "0", f"{one}; {kernel.notes(boot)}"
        assert found is None or int(one["found"]) == found, f"{one}, wanted {found}"
    return f"{rows[0]['found']} found"


def test_root_requests(lab):
    """Sent by root mode to itself, also inside the guest's handler: handled there."""
    return expect_host(suite(lab), "host-root", 40)


def test_lost(lab):
    """Taken by the guest: found after the next exit."""
    return expect_host(suite(lab), "host-lost", 20)


def test_burst(lab):
    """Where NMIs exit, the host's in quick succession: none reaches the guest."""
    for entry in ("msr", "intercept"):
        boot = run(lab, f"host-burst-{entry}", Plan().add("host-burst"), entry=entry)
        found = expect_host(boot, "host-burst", 40)
    return found


def test_returned(lab):
    """Taken by the guest and handed back by hypercall 15; the guest's own are not."""
    return expect_host(suite(lab), "host-returned")


def test_sending(lab):
    """A host NMI that is in the guest's hands before its sender has noted that it is sent: the
    hypercall finds it, and the check after an exit does not."""
    return expect_host(suite(lab), "host-sending")


def test_nested_nmi(lab):
    """NMIs are unblocked inside root mode's NMI handler and one comes: that is reported."""
    efi = kernel.mutant("nested_nmi", "test")
    boot = run(lab, "host-nested-nmi", Plan().add("host-root"), efi=efi, until=STOPPED)
    said = boot.console[boot.console.find("TAP version") :]
    assert (
        "an NMI interrupted the NMI handler, at image offset 0x" in said and STOPPED in said
    ), said[-400:]


@pytest.mark.parametrize("word", ["", " unblocked"], ids=["blocked", "unblocked"])
def test_iret_of_an_smi(lab, word):
    """Two NMIs come in one exit, the second one inside root mode's handler of the first. It waits,
    unless firmware's SMI handler has executed IRET: that is reported, and the machine stops."""
    plan = Plan().add("cpuid")
    plan.knobs += [
        "nmi_root reason=10 exits=3 position=5",
        f"nmi_root reason=10 exits=3 position=15{word}",
    ]
    more = {"until": STOPPED} if word else {}
    boot = kernel.run(lab, f"host-smi{word.replace(' ', '-')}", plan, **more)
    said = boot.console[boot.console.find("TAP version") :]
    found = "an NMI interrupted the NMI handler, at image offset 0x" in said and STOPPED in said
    assert found == bool(word), said[-400:]
    assert boot.ledger["scheduled_nmis"]["fired"] == 2, boot.ledger["scheduled_nmis"]


def test_returned_lazy(lab):
    boot = run(
        lab,
        "host-lazy-lost",
        Plan().add("host-lost", "host-returned", "host-unblock"),
        config="unblock=lazy",
    )
    expect_host(boot, "host-lost", 20)
    expect_host(boot, "host-unblock", 400)
    return expect_host(boot, "host-returned")


@pytest.mark.parametrize(
    "name, word, config",
    [
        pytest.param("lost", "host-lost", NO_LOST, id="lost_fails_without_it"),
        pytest.param("unblock", "host-unblock", NO_UNBLOCK, id="unblocking_fails_without_it"),
        pytest.param("mask", "host-mask:20000:200", NO_MASK, id="masking_fails_without_it"),
    ],
)
def test_fails_without_it(lab, name, word, config):
    """With its step left out the test fails: the host finds nothing."""
    boot = run(lab, f"host-no-{name}", Plan().add(word), config=config)
    found = row(boot, "host", word.partition(":")[0])
    assert not results(boot)[word] and found["found"] == 0, found


def test_unblocking(lab):
    """A.2: host work inside the guest's NMI handler gets all its PMIs, the guest its NMI once."""
    return expect_host(suite(lab), "host-unblock", 400)


def test_masking(lab):
    """10,000 PMIs of the host's while the guest keeps the PMI masked."""
    return expect_host(suite(lab), "host-mask:2000000:200", 10000)


def test_masking_late_pmi(lab):
    """A PMI of the guest's at every root instruction of host work's exit leaves LVTPC masked."""
    plan = Plan(f"pmi_skid {LATE_SKID}").add(f"host-mask-pmi:{LATE_SKID}")
    boot = run(lab, "host-mask-pmi", plan)
    found = row(boot, "host", "host-mask-pmi")
    assert (
        results(boot)[found["name"]] and found["found"] == LATE_SKID
    ), f"{found}; {kernel.notes(boot)}"
    return f"{LATE_SKID} distances"


def context(boot, word):
    return row(boot, "context", f"context:{word}")


@pytest.mark.parametrize("word", ["work", "guest"], ids=["context_work", "context_two_guests"])
def test_context(lab, word):
    """4.4.1: every register of the save set has the guest's value after host work, and after a
    second guest."""
    boot = suite(lab)
    found = context(boot, word)
    assert (
        found["kept"] >= found["checked"] > 0 and found["ran"] == found["vmcs"] == 1
    ), f"{found}; {kernel.notes(boot)}"
    assert results(boot)[f"context:{word}"], found
    return f"{found['checked']} registers"


def test_context_records(lab):
    """The same where host work records branches itself, and finds 30 of its own or more."""
    found = context(suite(lab), "records")
    assert (
        found["kept"] == found["checked"] > 0 and found["ran"] == found["vmcs"] == 1
    ), f"{found}; {kernel.notes(suite(lab))}"
    return f"{found['checked']} registers"


def test_context_records_fail(lab):
    """Without their rows: each of SELECT, TOS, 32 FROM, TO and INFO is the host's afterwards, or
    the other guest's; and of DS_AREA and LD_LAT."""
    efi = kernel.mutant("unrecorded", "test")
    boot = run(lab, "host-unrecorded", Plan().add("context:records", "context:guest"), efi=efi)
    work, guest = (context(boot, word) for word in ("records", "guest"))
    assert not any(results(boot).values()), results(boot)
    assert work["checked"] - work["kept"] >= 3 * LBR_ENTRIES, work
    assert guest["others"] == guest["checked"] - guest["kept"] == 2 + 3 * LBR_ENTRIES + 2, guest
    return (
        f"{work['checked'] - work['kept']} registers are the host's, {guest['others']} the other's"
    )


def test_work_price(lab):
    """Host work that only counts does not pay for branch records and the PEBS buffer's
    registers."""
    boot = suite(lab)
    plain, records = (boot.region(region) for region in (REGION_WORK, REGION_WORK_RECORDS))

    def each(region, what):
        return round(region["root"][what] / region["begins"], 3)

    rest = 2 + 3 * LBR_ENTRIES + 2  # SELECT, TOS, records, DS_AREA, LD_LAT
    reads, writes = (round(each(records, what) - each(plain, what)) for what in ("rdmsr", "wrmsr"))
    assert reads == 2 * rest + LBR_ENTRIES, f"{reads} RDMSR more"  # it looks at its own once
    assert writes == 2 * rest + 2, f"{writes} WRMSR more"  # on and off
    return ", ".join(
        f"{name}: {each(region, 'rdmsr'):.0f} RDMSR, {each(region, 'wrmsr'):.0f} WRMSR, "
        f"{each(region, 'instructions'):.0f} instructions"
        for name, region in (("counts", plain), ("records", records))
    )


@pytest.mark.parametrize(
    "shape", kernel.SHAPES, ids=[f"context_{shape}" for shape in kernel.SHAPES]
)
def test_context_shape(lab, shape):
    """The same with all counters that CPUID.0AH:ECX or leaf 23H names."""
    plan = Plan(*kernel.shape_knobs(shape)).add("context:work", "context:guest")
    boot = run(lab, f"host-context-{shape}", plan)
    found = [context(boot, word) for word in ("work", "guest")]
    assert all(results(boot).values()) and all(
        f["kept"] == f["checked"] and f["ran"] == 1 for f in found
    ), f"{found}; {kernel.notes(boot)}"
    return f"{found[0]['checked']} registers"


def bare(lab):
    return run(lab, "host-bare", Plan().add("context:bare"))


def test_context_fails_without_switch(lab):
    """Without the switch every one of them has the second guest's value."""
    found = context(bare(lab), "bare")
    assert not results(bare(lab))["context:bare"], found
    assert found["others"] == found["checked"] and found["vmcs"] == found["ran"] == 1, found
    return f"{found['checked']} registers"


def test_context_cost(lab):
    """A switch: one RDMSR and one WRMSR for each register, and STATUS read; its two writes only
    where a bit of it is set (they are how hardware lets it be cleared and set)."""
    found = context(suite(lab), "guest")
    saved = found["checked"] - 1 + found["fixed"]  # STATUS apart
    plain, without = (
        boot.region(region)
        for boot, region in ((suite(lab), REGION_OTHER_GUEST), (bare(lab), REGION_OTHER_GUEST_BARE))
    )
    status = suite(lab).region(REGION_OTHER_GUEST_STATUS)

    runs = plain["begins"]
    reads = plain["root"]["rdmsr"] / runs - without["root"]["rdmsr"] / without["begins"]
    writes = plain["root"]["wrmsr"] / runs - without["root"]["wrmsr"] / without["begins"]
    with_status = status["root"]["wrmsr"] - plain["root"]["wrmsr"] / runs
    assert reads == 2 * (saved + 1), f"{reads} RDMSR in two switches of {saved} registers"
    assert writes == 2 * saved, f"{writes} WRMSR in two switches of {saved} registers"
    assert status["begins"] == 1 and with_status == 2, f"{with_status} WRMSR more with STATUS set"
    cost = (
        plain["root"]["instructions"] / runs - without["root"]["instructions"] / without["begins"]
    )
    return (
        f"{saved} registers: {saved + 1} RDMSR, {saved} WRMSR (+2 in a round trip with STATUS "
        f"set), {cost / 2:.0f} instructions"
    )


def test_blocked_cost(lab):
    """What an exit inside the guest's NMI handler costs more: unblocking."""
    number, reason = kernel.KINDS["cpuid"]
    outside = path_length(sweeps(lab), REGION_CLEAN + number, reason)
    inside = path_length(sweeps(lab), REGION_CLEAN_BLOCKED + number, reason)
    assert 0 < inside - outside <= BLOCKED_COST_MAX, f"{inside} and {outside}"
    return f"{inside - outside} root instructions ({outside}, {inside})"


def test_lbr(lab):
    """The guest's records and no others, over 64 exits between its jumps."""
    boot = suite(lab)
    assert results(boot)["lbr"], kernel.notes(boot)
    assert exit_count(boot.region(REGION_LBR)) == 64, boot.region(REGION_LBR)["exits"]


LBR_MUTANTS = [("no_debugctl", 0), ("root_branches", 1)]


@pytest.mark.parametrize(
    "mutant, control", LBR_MUTANTS, ids=[f"lbr_fails_with_{mutant}" for mutant, _ in LBR_MUTANTS]
)
def test_lbr_fails(lab, mutant, control):
    boot = run(lab, f"host-{mutant}", Plan().add("lbr"), efi=kernel.mutant(mutant))
    found = row(boot, "lbr", "lbr")
    assert not results(boot)["lbr"] and found["control"] == control, found
    assert found["wrong"] >= LBR_ENTRIES - 1, found  # the last jump is after the last exit


ARCH_LBR = "arch_lbr on"
ALL_PAST = 0xFF  # of eight leaves past the highest, those that have data (tests/kernel/test_lbr.c)
HIDDEN = {"load": ("load_lbr_ctl", "msr+nmi"), "clear": ("clear_lbr_ctl", "intercept")}


def arch_lbr(lab):
    return run(
        lab,
        "host-arch-lbr",
        Plan(ARCH_LBR).add("lbr", "context:records", "context:guest", "lbr:hidden"),
    )


def test_arch_lbr(lab):
    """Architectural records are the guest's alone over 64 exits, and CPUID and MSRs show them."""
    boot = arch_lbr(lab)
    found, seen = row(boot, "lbr", "lbr"), row(boot, "hidden", "lbr:hidden")
    assert found["arch"] == 1 and results(boot)["lbr"], f"{found}; {kernel.notes(boot)}"
    assert exit_count(boot.region(REGION_LBR)) == 64, boot.region(REGION_LBR)["exits"]
    assert (
        seen["cpuid"] == 1
        and seen["past"] == ALL_PAST
        and seen["accesses"] > 0
        and not results(boot)["lbr:hidden"]
    ), seen


def test_arch_lbr_intercept(lab):
    """The same where accesses to the records exit; IA32_LBR_CTL passes."""
    boot = run(lab, "host-arch-lbr-intercept", Plan(ARCH_LBR).add("lbr"), entry="intercept")
    assert results(boot)["lbr"] and row(boot, "lbr", "lbr")["arch"] == 1, kernel.notes(boot)
    exits = {reason: found["count"] for reason, found in boot.ledger["exits"].items()}
    assert exits["31"] >= 2 * LBR_ENTRIES, exits
    assert exit_count(boot.region(REGION_LBR)) == 64, boot.region(REGION_LBR)["exits"]


def test_arch_lbr_context(lab):
    """They are in the full switch: of host work that records, and of a second guest."""
    boot = arch_lbr(lab)
    found = [context(boot, word) for word in ("records", "guest")]
    assert all(
        f["kept"] == f["checked"] and f["ran"] == f["vmcs"] == 1 for f in found
    ), f"{found}; {kernel.notes(boot)}"
    return f"{found[0]['checked']} registers"


def test_arch_lbr_fails_without_clear(lab):
    boot = run(
        lab,
        "host-arch-lbr-left",
        Plan(ARCH_LBR, f"msr 0xfff {kernel.LBR_CLEAR_LEFT_OUT}").add("lbr"),
        efi=kernel.LEFT_OUT,
    )
    found = row(boot, "lbr", "lbr")
    assert not results(boot)["lbr"] and found["wrong"] >= LBR_ENTRIES - 1, found


@pytest.mark.parametrize("missing", HIDDEN, ids=[f"arch_lbr_hidden_without_{m}" for m in HIDDEN])
def test_arch_lbr_hidden(lab, missing):
    """Without either control neither CPUID nor an MSR has them."""
    control, entry = HIDDEN[missing]
    boot = run(
        lab,
        f"host-arch-lbr-no-{missing}",
        Plan(ARCH_LBR, f"hide_control {control}").add("lbr:hidden"),
        entry=entry,
    )
    found = row(boot, "hidden", "lbr:hidden")
    assert (
        results(boot)["lbr:hidden"] and found["cpuid"] == found["past"] == found["accesses"] == 0
    ), found


# PEBS is there (MISC_ENABLE, DS), and not isolated: Skylake-SP's steppings are, up to 7 and 11.
PEBS = ["msr 0x1a0 0x50889", "msr 0x3f1 0"]
NOT_ISOLATED = PEBS + ["cpuid 1 0 eax 0x8"]
PEBS_SETUPS = [
    ("", "msr+nmi", []),
    ("msr_lists", "msr+nmi", ["hide_control load_global_ctrl_at_entry"]),
    ("save_control", "msr+nmi", ["show_control save_global_ctrl"]),
    ("intercept", "intercept", []),
]
SWITCHED = "IA32_PEBS_ENABLE is 0 in root mode"


def pebs(lab, name, knobs, **more):
    boot = run(lab, f"host-pebs-{name}", Plan(*knobs).add("pebs"), **more)
    return boot, row(boot, "pebs", "pebs"), path_length(boot, REGION_PEBS, 10)


@pytest.mark.parametrize(
    "name, entry, knobs", PEBS_SETUPS, ids=[f"pebs_{setup[0]}".rstrip("_") for setup in PEBS_SETUPS]
)
def test_pebs(lab, name, entry, knobs):
    """Not isolated: the guest keeps its value, root mode has 0."""
    boot, found, _ = pebs(lab, name or "switched", NOT_ISOLATED + knobs, entry=entry)
    assert results(boot)["pebs"] and SWITCHED in boot.console, found
    return f"{found['kept']} exits"


def test_pebs_price(lab):
    """Lists are the processor's work: the exit has as many instructions and VMCS accesses."""
    switched, plain = (
        pebs(lab, name, knobs) for name, knobs in (("switched", NOT_ISOLATED), ("isolated", PEBS))
    )
    assert SWITCHED not in plain[0].console and plain[1]["in_root"] != 0, plain[1]
    vmcs = [
        boot.region(REGION_PEBS)["exits"]["10"]["vmcs_accesses"] for boot in (switched[0], plain[0])
    ]
    assert switched[2] == plain[2] and vmcs[0] == vmcs[1], f"{switched[2]}, {plain[2]}, {vmcs}"
    return f"{plain[2]} root instructions, {vmcs[0]['max']} VMCS accesses, with and without"


def test_pebs_fails_without_switch(lab):
    efi = kernel.mutant("unisolated", "test")
    boot, found, _ = pebs(lab, "unisolated", NOT_ISOLATED, efi=efi)
    assert not results(boot)["pebs"] and found["in_root"] != 0, found
    return f"root mode saw {found['in_root']:#x}"


# tests/hooks/hooks.c, enum fault_kind, and what the last report must name.
FAULT_STACK_OVERFLOW, FAULT_REPORT, FAULT_MACHINE_CHECK, FAULT_GUEST_STATE = 1, 3, 5, 6
FAULTS = [
    ("invalid_opcode", 0, "exception 6,"),
    ("stack_overflow", FAULT_STACK_OVERFLOW, "root stack overflow, exception 14,"),
    ("write_to_code", 2, "exception 14,"),
    ("report", FAULT_REPORT, "asked for by the guest"),
    ("double", 4, "double fault, exception 8,"),
    ("machine_check", FAULT_MACHINE_CHECK, "machine check, exception 18,"),
    ("guest_state", FAULT_GUEST_STATE, "reason 0x80000021 (ENTRY_FAILURE_GUEST_STATE)"),
]
# IA32_MCG_CAP with two banks, IA32_MCG_STATUS, and the second bank's STATUS, ADDR and MISC.
BANKS = [
    "msr 0x179 2",
    "msr 0x17a 5",
    "msr 0x401 0",
    "msr 0x402 0",
    "msr 0x403 0",
    "msr 0x405 0xbc00000000000135",
    "msr 0x406 0x1234000",
    "msr 0x407 0x86",
]
BANK_LINES = [
    "IA32_MCG_STATUS 5, 2 banks",
    "machine-check bank 1: STATUS bc00000000000135 ADDR 1234000 MISC 86",
]


@pytest.mark.parametrize("name, kind, text", FAULTS, ids=[f"fault_{fault[0]}" for fault in FAULTS])
def test_fault(lab, name, kind, text):
    plan = Plan(*(BANKS if kind == FAULT_MACHINE_CHECK else []))
    boot = run(lab, f"host-fault-{name}", plan.add(f"host-fault:{kind}"), until=STOPPED)
    boot.expect_status(STATUS_TEXT)
    said = boot.console[boot.console.find("TAP version") :]
    assert "fault in root mode: " in said and text in said, said[-400:]
    assert STOPPED in said and "root mode went on" not in said, said[-400:]
    assert "the log's last" in said and "exits of processor" in said, said[-400:]
    if kind == FAULT_REPORT:
        return
    if kind == FAULT_MACHINE_CHECK:
        assert all(line in said for line in BANK_LINES), said[-2000:]
    if kind == FAULT_GUEST_STATE:
        assert "RFLAGS 00000000" in said and re.search(
            r"^CS +0010 base 0+ limit f+ ", said, re.MULTILINE
        ), said[-2000:]
    registers = {
        word: int(value, 16)
        for word, value in re.findall(r"\b(R[A-Z0-9]{1,2}|CR2) +([0-9a-f]{16})\b", said)
    }
    assert len(registers) == 18, registers
    if kind == FAULT_STACK_OVERFLOW:  # the push that failed was the first one below the stack
        assert (
            registers["RSP"] % PAGE == 0 and registers["CR2"] == registers["RSP"] - 8
        ), f"RSP {registers['RSP']:x}, CR2 {registers['CR2']:x}"
