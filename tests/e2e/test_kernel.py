# SPDX-License-Identifier: BSD-2-Clause
# test_kernel.py: the test kernel (tests/kernel) natively and under PMUvisor. Its sweeps put one
# NMI, or one PMI, at every root-mode instruction between an exit and the next entry; the guest says
# what it saw, and the emulator's ledger says how long the path was and how many NMIs there were.
import re
import shutil

import pytest

from testbed.machine import STATUS_RESET, Skip, exit_count, path
from tests.e2e.kernel import (
    APART,
    BASICS,
    KINDS,
    LONG_SKID,
    POSITIONS,
    REGION_MSR,
    REGION_PMI,
    SETUPS,
    SHAPES,
    SKIDS,
    Plan,
    expect_ok,
    failed,
    mutant,
    run,
    shape_knobs,
)

REGION_SWEEP_PMI = 1006
REGION_SWEEP_PMI_CLEAN = 1007
REGION_REGISTERS = 1008
REGION_SWEEP_CLEAN = 1100
REGION_SWEEP_CLEAN_BLOCKED = 1200
PMI_BEFORE = 200  # tests/kernel/probe.h
HANDLER_NMIS = 450
COPY = 4  # instructions of tests/mutants/switch_by_areas.c at each exit
COUNTING_LEAST = (
    15  # registers: four general counters and three fixed ones, with what controls them
)
SWITCHED_POSITIONS = 1200  # more than an exit has instructions that switches the PMU twice

# tests/kernel/test_exits.c: two instructions a round, four around them, and the WRMSR before.
COUNTED = 2 * 100000 + 5


def native(lab):
    plan = Plan().handler("", 1, HANDLER_NMIS).add(*BASICS, "x2apic", *BASICS)
    return run(lab, "kernel-native", plan, entry="native")


def guest(lab):
    """Everything but PMIs with skid, in xAPIC and in x2APIC mode."""
    plan = Plan().handler("", 1, HANDLER_NMIS).handler(":exit", 501, 2 * HANDLER_NMIS)
    plan.add(*BASICS).sweep("sweep", *KINDS).sweep("sweep-next", *KINDS)
    plan.sweep("sweep-second", "cpuid").sweep("sweep-blocked", *KINDS).twice("cpuid")
    plan.add("x2apic", *BASICS).sweep("sweep", *KINDS).sweep("sweep-next", *KINDS)
    plan.sweep("sweep-second", "cpuid")
    plan.sweep("sweep-blocked", *KINDS).twice("cpuid")
    return run(lab, "kernel", plan)


def guest_pmi(lab):
    """One PMI for each distance between the overflow and an exit, all with one long skid."""
    plan = Plan(f"pmi_skid {LONG_SKID}").add("sweep-pmi:1", "x2apic", "sweep-pmi:1")
    return run(lab, "kernel-pmi", plan)


def guest_skids(lab):
    """For each of these distances, a PMI of every skid from 0 to SKIDS - 1."""
    plan = Plan(f"pmi_skid sweep/{SKIDS}").add(f"sweep-pmi:{SKIDS}", "x2apic", f"sweep-pmi:{SKIDS}")
    return run(lab, "kernel-skids", plan)


def sweeps(boot, test):
    """The rows 'sweep: name=TEST:KIND:FIRST:POSITIONS ...' by kind."""
    rows = {}
    for row in boot.lines("sweep"):
        parts = row["name"].split(":")
        if parts[0] == test:
            rows.setdefault(parts[1], []).append(
                {key: int(value) for key, value in row.items() if key != "name"}
                | {"name": row["name"]}
            )
    return rows


def path_length(boot, test, kind):
    """Root-mode instructions of this exit without an NMI, by the ledger; always the same."""
    number, reason = KINDS[kind]
    region = REGION_SWEEP_CLEAN_BLOCKED if test == "sweep-blocked" else REGION_SWEEP_CLEAN
    spread = boot.region(region + number)["exits"][str(reason)]["root_instructions"]
    assert spread["samples"] > 0 and spread["min"] == spread["max"], f"{kind}: {spread}"
    return spread["min"]


def expect_sweep(boot, test, kind, times):
    """The sweep passed, and every instruction of the path had its NMI."""
    rows = sweeps(boot, test).get(kind, [])
    assert len(rows) == times, f"{test} of {kind} ran {len(rows)} times, wanted {times}"
    length = path_length(boot, test, kind)
    for row in rows:
        expect_ok(boot, [row["name"]])
        # After an exit with an NMI there may be more to do than without.
        behind = test in ("sweep-next", "sweep-second")
        right = row["delivered"] >= length if behind else row["delivered"] == length
        assert right and row["wrong"] == 0, f"{row}: the path has {length} instructions"
    return f"{rows[0]['delivered']} positions"


def counted(boot):
    """What the test `count` counted, each time it ran."""
    expect_ok(boot, ["count"])
    results = [line for line in boot.console.splitlines() if line.startswith("results: ")]
    return [int(value) for value in re.findall(r" count=(\d+)", results[-1])]


SWEEPS = [(test, kind) for test in ("sweep", "sweep-next", "sweep-blocked") for kind in KINDS] + [
    ("sweep-second", "cpuid")
]


@pytest.mark.parametrize("test, kind", SWEEPS, ids=[f"{test}_{kind}" for test, kind in SWEEPS])
def test_sweep(lab, test, kind):
    return expect_sweep(guest(lab), test, kind, 2)


def test_native(lab):
    """Everything passes natively; what needs a hypervisor is skipped."""
    boot = native(lab)
    expect_ok(boot, BASICS + ["x2apic"], skipped=["vmcall"])


def test_count(lab):
    """Of the two WRMSRs that start and stop a counter one is counted, natively as in the guest."""
    for boot in (native(lab), guest(lab)):
        assert counted(boot) == [COUNTED] * 2, f"{boot.name}: {counted(boot)}, wanted {COUNTED}"
    return f"{COUNTED} instructions"


def test_native_sweep_handler(lab):
    """An NMI at every instruction of the NMI handler, its IRET included: the reference."""
    expect_ok(native(lab), [f"sweep-handler:1:{HANDLER_NMIS}"])


def test_guest(lab):
    expect_ok(guest(lab), BASICS + ["x2apic"])


def test_guest_sweep_handler(lab):
    """The same in the guest, and with an exit in every handler."""
    rows = [row for row in guest(lab).lines("sweep") if row["name"].startswith("sweep-handler")]
    assert len(rows) == 2, rows
    expect_ok(guest(lab), [row["name"] for row in rows])


def test_sweep_twice(lab):
    """Two NMIs in one exit, the second also while root mode handles the first: they are one."""
    rows = [row for row in guest(lab).lines("sweep") if row["name"].startswith("sweep-twice")]
    assert len(rows) == 2, rows
    expect_ok(guest(lab), [row["name"] for row in rows])


def test_no_exits(lab):
    """PMU MSRs and PMIs, LVTPC included: no exit, and as many guest instructions as natively."""
    for region in (REGION_MSR, REGION_PMI):
        under, bare = guest(lab).region(region), native(lab).region(region)
        assert exit_count(under) == 0, f"region {region}: {under['exits']}"
        assert under["pmi"]["raised"] == bare["pmi"]["raised"] == under["pmi"]["nonroot"]
        assert (
            under["nonroot"] == bare["nonroot"]
        ), f"region {region}: {under['nonroot']} instructions, natively {bare['nonroot']}"


def test_every_nmi_accounted(lab):
    """What the emulator sent is what the guest saw: nothing lost or invented."""
    boot = guest(lab)
    sent = boot.ledger["scheduled_nmis"]["fired"]
    seen = sum(
        row["delivered"]
        for test in ("sweep", "sweep-next", "sweep-second", "sweep-blocked")
        for rows in sweeps(boot, test).values()
        for row in rows
    )
    chains = 3 * HANDLER_NMIS
    # Of two in one exit, one is always there; the other one merges with it.
    twice = [row for row in boot.lines("sweep") if row["name"].startswith("sweep-twice")]
    once = sum(int(row["delivered"]) for row in twice)
    assert sent - seen - chains - once in range(
        len(twice), once + 1
    ), f"sent {sent}, seen {seen} in exits, {chains} in handlers, {once} in exits with two"
    return f"{sent} NMIs"


def test_sweep_pmi(lab):
    """A PMI landing before, on every root instruction of, and after an exit: taken once each."""
    boot = guest_pmi(lab)
    expect_ok(boot, ["sweep-pmi:1"])
    spread = boot.region(REGION_SWEEP_PMI_CLEAN)["exits"]["10"]["root_instructions"]
    for row in boot.lines("sweep"):
        assert int(row["delivered"]) == PMI_BEFORE, row
        # Those between the exit's instructions, and the one between the entry and the guest's next.
        assert int(row["at_entry"]) == spread["min"] == spread["max"], f"{row}: path {spread}"
    pmi = boot.region(REGION_SWEEP_PMI)["pmi"]
    assert pmi["raised"] == 2 * PMI_BEFORE and pmi["masked"] == 0, pmi
    assert pmi["root"] == 2 * (spread["min"] - 1), f"{pmi}, path {spread}"
    return f"{pmi['raised']} PMIs, {pmi['root']} in root mode"


def test_sweep_skids(lab):
    """PMIs of skid 0 to 64 whose overflow is 0 to 199 instructions before an exit."""
    boot = guest_skids(lab)
    expect_ok(boot, [f"sweep-pmi:{SKIDS}"])
    # A skid of k reaches root mode when the overflow is less than k instructions before the exit.
    in_root = SKIDS * (SKIDS - 1) // 2
    for row in boot.lines("sweep"):
        assert int(row["delivered"]) == PMI_BEFORE * SKIDS and int(row["at_entry"]) == in_root, row
    pmi = boot.region(REGION_SWEEP_PMI)["pmi"]
    assert pmi["raised"] == 2 * PMI_BEFORE * SKIDS and pmi["masked"] == 0, pmi
    assert pmi["root"] == 2 * in_root, pmi
    return f"{pmi['raised']} PMIs, {pmi['root']} in root mode"


def freeze(lab, name, entry="msr+nmi", knobs=(), **more):
    """The counts of PMIs that found a running counter, recorded branches, or no mark of it."""
    plan = Plan(f"pmi_skid {LONG_SKID}", *knobs).add("freeze")
    boot = run(lab, f"kernel-freeze-{name}", plan, entry=entry, **more)
    row = boot.lines("freeze")[0]
    assert int(row["handled"]) == PMI_BEFORE, row
    return boot, [int(row[key]) for key in ("running", "recording", "unmarked")]


FREEZE = [
    ("native", "native", "", []),
    ("msr_nmi", "msr+nmi", "", []),
    ("msr", "msr", "", []),
    ("intercept", "intercept", "", []),
    ("apic_trap", "msr+nmi", "apic=trap", []),
    ("save_control", "msr+nmi", "", ["show_control save_global_ctrl"]),
    ("msr_lists", "msr+nmi", "", ["hide_control load_global_ctrl_at_entry"]),
]


@pytest.mark.parametrize(
    "name, entry, config, knobs", FREEZE, ids=[f"freeze_{setup[0]}" for setup in FREEZE]
)
def test_freeze(lab, name, entry, config, knobs):
    """Counters and branch records stand still at a PMI wherever it lands."""
    boot, bad = freeze(lab, name, entry, knobs, config=config)
    expect_ok(boot, ["freeze"])
    assert bad == [0, 0, 0], bad
    return f"{PMI_BEFORE} PMIs"


@pytest.mark.parametrize("shape", SHAPES, ids=[f"registers_{shape}" for shape in SHAPES])
def test_registers(lab, shape):
    """All of the PMU's registers are there, exit or fault, as the policy says."""
    found = {}
    for entry, config in (
        ("native", ""),
        ("msr+nmi", ""),
        ("intercept", ""),
        ("msr+nmi", "pmu=off"),
    ):
        name = config or entry
        boot = run(
            lab,
            f"kernel-registers-{shape}-{name}",
            Plan(*shape_knobs(shape)).add("pmu-registers"),
            entry=entry,
            config=config,
        )
        row = {k: int(v) for k, v in boot.lines("registers")[0].items() if k != "name"}
        found[name] = (row["there"], row["enabled"], exit_count(boot.region(REGION_REGISTERS)))
        tried = row["tried"]
    # Natively the emulator shows every index as there: no hypervisor, no kernel has started.
    there = found["msr+nmi"][0]
    _, general, fixed = SHAPES[shape]
    enabled = general | fixed << 32
    assert found["native"][1] == enabled and there > 2 * (general.bit_count()), found
    assert found == {
        "native": found["native"],
        "msr+nmi": (there, enabled, 0),
        "intercept": (there, enabled, tried),
        "pmu=off": (0, 0, tried),
    }, f"{found}, {tried} indices"
    return f"{there} registers of {tried} indices"


# The P-core of a hybrid processor, whose CPUID.0AH names what all cores have: 6 and 3 counters.
HYBRID = [
    "pmu_version 6",
    "pmu_general_mask 0xff",
    "pmu_fixed_mask 0xf",
    "hide_cpuid 0x23 0 eax 0x2",
    "hide_cpuid 0xa 0 eax 0xff00",
    "cpuid 0xa 0 eax 0x600",
    "hide_cpuid 0xa 0 ecx 0x8",
    "hide_cpuid 0xa 0 edx 0x1f",
    "cpuid 0xa 0 edx 3",
    "pmu_fixed_ctrl 1",
]  # firmware left a counter on that GLOBAL_CTRL leaves off
NEW_REGISTERS = [f"msr {index:#x} 0" for index in (0x3E0, 0x3E1, 0x3E2, 0x3E3, 0x1328, 0x1329)]


@pytest.mark.parametrize(
    "entry",
    ["native", "msr+nmi", "intercept"],
    ids=["hybrid_native", "hybrid_msr_nmi", "hybrid_intercept"],
)
def test_registers_hybrid(lab, entry):
    """GLOBAL_CTRL takes the bits that the hardware has, whatever CPUID says; RDPMC gives a user
    what it gives natively; registers that Linux uses on newer processors exit under intercept."""
    boot = run(
        lab,
        f"kernel-hybrid-{entry}",
        Plan(*HYBRID, *NEW_REGISTERS).add("pmu-registers", "pmu-user"),
        entry=entry,
    )
    row = {k: int(v) for k, v in boot.lines("registers")[0].items() if k != "name"}
    assert row["all"] == 0x7_0000003F and row["taken"] == 0xF_000000FF, row
    assert (row["counted"], row["global"], row["status"]) == (0, 0xFF, 0), row
    users = [(line["disable"], line["done"], line["zero"]) for line in boot.lines("user")]
    assert users == [("0", "1", "0"), ("1", "1", "1")] * 2, users
    exits = exit_count(boot.region(REGION_REGISTERS)) if entry != "native" else None
    assert (
        exits == {"native": None, "msr+nmi": 0, "intercept": row["tried"]}[entry]
    ), f"{exits} exits"
    expect_ok(boot, ["pmu-registers", "pmu-user"])


def test_freeze_version_3(lab):
    """There the freeze clears what enables: branch records, as natively; of the counters no one."""
    _, native = freeze(lab, "native-3", "native", ["pmu_version 3"])
    _, guest = freeze(lab, "3", knobs=["pmu_version 3"])
    _, without = freeze(lab, "no-freeze-3", knobs=["pmu_version 3"], efi=mutant("no_freeze"))
    in_root = guest_pmi(lab).region(REGION_SWEEP_PMI)["pmi"]["root"] // 2
    assert native == [0, 0, 0] and guest == [in_root, 0, 0], f"{native}, {guest}, {in_root}"
    assert without == [in_root, in_root, 0], without
    return f"records 0, without the freeze {without[1]} of {PMI_BEFORE}; counters {guest[0]}"


def test_freeze_fails_without_it(lab):
    """PMIs of root mode then find everything running; the others are frozen by the processor."""
    in_root = guest_pmi(lab).region(REGION_SWEEP_PMI)["pmi"]["root"] // 2
    _, bad = freeze(lab, "no-freeze", efi=mutant("no_freeze"))
    assert bad == [in_root, in_root, in_root], f"{bad}, {in_root} PMIs in root mode"
    return f"{bad} of {PMI_BEFORE} not frozen"


@pytest.mark.parametrize(
    "name, config, entry, knobs, kinds", SETUPS, ids=[f"sweep_{setup[0]}" for setup in SETUPS]
)
def test_setup(lab, name, config, entry, knobs, kinds):
    """An NMI at every instruction of the exit path as this option makes it."""
    plan = Plan(f"pmi_skid {LONG_SKID}", *knobs)
    if entry != "msr+nmi":
        plan.nmi_exits()
    plan.sweep("sweep", *kinds)
    plan.sweep("sweep-blocked", "cpuid").add("blocked", "sweep-pmi:1", "count")
    boot = run(lab, f"kernel-{name}", plan, entry=entry, config=config)
    for kind in kinds[1:]:
        expect_sweep(boot, "sweep", kind, 1)
    expect_sweep(boot, "sweep-blocked", "cpuid", 1)
    expect_ok(boot, [word for word in plan.words if ":" in word] + ["blocked"])
    # An instruction that exits does not retire.
    wanted = COUNTED - (entry == "intercept")
    assert counted(boot) == [wanted], f"{counted(boot)}, wanted {wanted}"
    return expect_sweep(boot, "sweep", "cpuid", 1)


def test_sweep_switch_each_exit(lab):
    """What the measurements compare with loses no NMI either: one at each instruction of its
    path."""
    plan = Plan().add("msr", "count", "pmi", "self", "blocked", "count", "freeze")
    plan.sweep("sweep", "cpuid", positions=SWITCHED_POSITIONS)
    boot = run(
        lab, "kernel-switch-each-exit", plan, config="stats=cycles", efi=mutant("switch_each_exit")
    )
    expect_ok(boot, ["msr", "count", "pmi", "self", "blocked", "freeze"])
    assert counted(boot) == [COUNTED] * 2, counted(boot)
    return expect_sweep(boot, "sweep", "cpuid", 1)


def test_switch_by_areas(lab):
    """The other way of it, which the measurements have beside: VMX's own lists. The guest counts as
    it does without them, root mode copies one value more, and each exit and entry makes the same
    accesses.
    """
    counts = {}
    for name, efi in (("as-it-is", None), ("by-areas", mutant("switch_by_areas"))):
        boot = run(
            lab,
            f"kernel-switch-{name}",
            Plan().add("msr", "count", "pmi", "self", "freeze"),
            efi=efi,
        )
        expect_ok(boot, ["msr", "count", "pmi", "self", "freeze"])
        assert counted(boot) == [COUNTED], counted(boot)
        cpuid = boot.ledger["exits"]["10"]["root_instructions"]
        exits = sum(entry["count"] for entry in boot.ledger["exits"].values())
        counts[name] = (cpuid["min"], cpuid["max"], boot.ledger["root"]["listed"] / exits)
    assert all(
        0 <= there - here <= COPY
        for here, there in zip(counts["as-it-is"][:2], counts["by-areas"][:2])
    ), counts
    listed = counts["by-areas"][2]
    assert listed >= 3 * COUNTING_LEAST and counts["as-it-is"][2] <= 3, counts
    return f"{listed:.2f} accesses for an exit and its entry, {counts['as-it-is'][2]:.2f} without"


def test_exceptions(lab):
    """A refused CR4 value changes nothing; faults during event delivery arrive as natively."""
    boot = run(lab, "kernel-exceptions", Plan().add("cr4", "delivery"))
    expect_ok(boot, ["cr4", "delivery"])


@pytest.mark.parametrize(
    "entry", ["native", "msr+nmi", "msr", "intercept"], ids=lambda entry: f"iret_faults_{entry}"
)
def test_iret_faults(lab, entry):
    """Inside the NMI handler an IRET that faults ends NMI blocking: the NMI that waits comes."""
    boot = run(lab, f"kernel-iret-{entry}", Plan().add("iret-faults", "blocked"), entry=entry)
    expect_ok(boot, ["iret-faults", "blocked"])
    violations = boot.ledger["exits"].get("48", {"count": 0})["count"]
    assert (violations > 0) == (entry != "native"), f"{violations} EPT violations"


def test_iret_faults_fails_with_blocked_again(lab):
    """A hypervisor that blocks NMIs again with the #GP is seen to."""
    boot = run(
        lab, "kernel-iret-blocked-again", Plan().add("iret-faults"), efi=mutant("blocked_again")
    )
    assert failed(boot) == ["iret-faults"], boot.last_line()
    assert "# IRET 1: 1 faults, vector 13; the NMI came 0 times before it, 0 after" in boot.console


# Leaving x2APIC mode, twice, and everything again after it; the APIC off in between.
LEAVE = ["apic-leave", *BASICS, "x2apic", "apic-off", "self", "apic-leave", *BASICS]
POLICIES = ("msr+nmi", "msr", "intercept")
PIN_NMIS = 20  # tests/kernel/test_apic.c


def test_apic_leave_native(lab):
    """The local APIC leaves x2APIC mode, and goes on in xAPIC mode: the reference."""
    expect_ok(
        run(lab, "kernel-leave-native", Plan().add(*LEAVE), entry="native"),
        LEAVE,
        skipped=["vmcall"],
    )


@pytest.mark.parametrize("entry", POLICIES, ids=[f"apic_leave_{entry}" for entry in POLICIES])
def test_apic_leave(lab, entry):
    boot = run(lab, f"kernel-leave-{entry}", Plan().add(*LEAVE), entry=entry)
    expect_ok(boot, LEAVE)
    # One from the guest, by the pin, at a time: each is the guest's, at once.
    assert [int(row["pin"]) for row in boot.lines("apicoff")] == [PIN_NMIS]


def test_apic_off(lab):
    """An NMI at every instruction of an exit while the APIC is globally disabled: it comes once, or
    is counted as dropped; nothing else of the guest is touched."""
    plan = Plan()
    first = APART
    plan.knobs.append(
        f"nmi_root reason={KINDS['cpuid'][1]} exits={first}-{first + POSITIONS - 1} "
        "position=sweep"
    )
    plan.add("apic-leave", f"apic-off:{first}:{POSITIONS}", *BASICS)
    boot = run(lab, "kernel-apic-off", plan)
    expect_ok(boot, plan.words)
    row = boot.lines("apicoff")[0]
    sent, came = boot.ledger["scheduled_nmis"]["fired"], int(row["root"])
    dropped = sum(int(n) for n in re.findall(r", dropped (\d+);", boot.console))
    assert sent > 100 and came + dropped == sent, f"{sent} sent, {came} came, {dropped} dropped"
    assert int(row["pin"]) == PIN_NMIS, row
    return f"{sent} in root mode: {came} came, {dropped} dropped"


def test_shutdown(lab):
    """A fault in the delivery of a double fault is a triple fault: reported, then a reset."""
    boot = run(lab, "kernel-shutdown", Plan().add("shutdown"))
    boot.expect_status(STATUS_RESET)
    assert "shut down (triple fault)" in boot.console, boot.last_line()
    # One that finds the hidden memory; then #GP, and the #DF that it makes.
    count = boot.ledger["exits"]["48"]["count"]
    assert count == 3, f"{count} EPT violations, wanted 3"


@pytest.mark.parametrize(
    "config", ["", "stats=cycles"], ids=["shutdown_by_task", "shutdown_by_task_timed"]
)
def test_shutdown_by_task(lab, config):
    """The same where a task switch, which is refused, comes in the delivery of a double fault. The
    report has all registers as the guest had them, whichever of them the way in left alone."""
    boot = run(lab, f"kernel-shutdown-task{config[:5]}", Plan().add("task:shutdown"), config=config)
    boot.expect_status(STATUS_RESET)
    assert "shut down (triple fault)" in boot.console, boot.last_line()
    assert re.search(r"^RSP \S+ RBP 0000000012345678 ", boot.console, re.MULTILINE), [
        line for line in boot.console.splitlines() if "RBP" in line
    ]


def test_qemu_kernel(lab):
    """The same file boots by QEMU -kernel on a BIOS: the 16-bit entry."""
    qemu = "qemu-system-x86_64"
    if shutil.which(qemu) is None:
        raise Skip(f"{qemu} is missing")
    command = [
        qemu,
        "-machine",
        "q35,accel=tcg",
        "-cpu",
        "Skylake-Server",
        "-m",
        "64",
        "-nodefaults",
        "-display",
        "none",
        "-serial",
        "stdio",
        "-no-reboot",
        # Time is instructions: however busy the host is, a timer's NMI comes after HLT.
        "-icount",
        "shift=3,sleep=off",
        "-kernel",
        path("build", "kernel.bzImage"),
        "-append",
        "tests=cpuid,self,blocked,sti,movss,hlt",
    ]
    boot = lab.watch("kernel-qemu", command)
    expect_ok(boot, ["cpuid", "self", "blocked", "sti", "movss", "hlt"])


def expect_all_lost(lab, name, **keywords):
    """Without the mechanism the guest loses every NMI of root mode, and every sweep says so."""
    plan = Plan(f"pmi_skid {LONG_SKID}").sweep("sweep", *KINDS).add("sweep-pmi:1")
    boot = run(lab, name, plan, **keywords)
    rows = sweeps(boot, "sweep")
    assert sorted(rows) == sorted(KINDS), rows
    for kind in KINDS:
        assert rows[kind][0]["delivered"] == 0, f"{rows[kind]}: NMIs without the mechanism"
    bad = failed(boot)
    assert bad == plan.words, f"failed {bad}, wanted all of {plan.words}"


def test_fails_without_resend(lab):
    """A hypervisor that does not send root-mode NMIs again."""
    expect_all_lost(lab, "kernel-no-resend", efi=mutant("no_resend"))


def test_fails_without_skid_step(lab):
    """The real one, with that step of the bookkeeping switched off."""
    expect_all_lost(lab, "kernel-no-skid", config="bookkeeping=lost,unblock,mask")


def test_fails_with_careless(lab):
    """A hypervisor that loses the guest's NMI blocking, or a register, is seen to do so."""
    plan = Plan().sweep("sweep", "wrmsr").sweep("sweep-blocked", "cpuid")
    boot = run(lab, "kernel-careless", plan, efi=mutant("careless"))
    assert "# wrmsr: R11 is 0xbad" in boot.console, boot.last_line()
    assert "Bail out! an NMI arrived inside the NMI handler" in boot.console, boot.last_line()
