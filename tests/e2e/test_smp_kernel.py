# SPDX-License-Identifier: BSD-2-Clause
# test_smp_kernel.py: the test kernel on several processors, natively and under PMUvisor: starts by
# INIT and SIPI, the tests of one processor on each of them, storms of PMIs and of NMIs between
# them, host NMIs between them, and that the exit path shares nothing and costs the same on each.
import pytest

from testbed.machine import exit_count
from tests.e2e import host, kernel
from tests.e2e.kernel import Plan, expect_ok, failed, notes
from tests.e2e.machines import ARROW_LAKE

CPUS = 4
# An instruction is 20 ns, so a delay of 20 us is 10,000 instructions: see testbed/README.md.
TSC = "tsc_hz 500000000"
SKIDS = f"pmi_skid sweep/{kernel.SKIDS}"
PERIOD = 100  # instructions; the test kernel varies it by up to as much again

# tests/kernel/smp.h, enum smp_region.
REGION_CPUID = 1601
REGION_PMI = 1602

NMI, INIT, SIPI, CPUID, VMCALL, RDMSR, WRMSR, TICK = "0", "3", "4", "10", "18", "31", "32", "52"
MWAIT, WBINVD = "36", "54"
SIGNATURE = 0x50654  # CPUID.1:EAX of the emulator's model

WORKS = ["running", "halted", "exiting", "handler"]
LVT_MASKED = 0x10000
ROUNDS = 25
PARALLEL = 10
BROADCASTS = 8
BROADCAST_CPUS = (3, 4)
ALONE = ["cpuid", "msr", "count", "pmi", "self", "blocked", "sti", "movss", "hlt", "lbr"]
STARTS = (
    ["smp-processors", "smp-state"]
    + [f"smp-init:{work}:{ROUNDS}" for work in WORKS]
    + [f"smp-parallel:{PARALLEL}", "smp-sipi"]
)
SMALL = [f"smp-pmi:1000:{PERIOD}", "smp-nmi:150", f"smp-mixed:500:{PERIOD}"]
# 100,000 PMIs, and 10,800 NMIs: from each of 4 to each other one.
LARGE = [f"smp-pmi:25000:{PERIOD}", "smp-nmi:900", f"smp-mixed:1000:{PERIOD}"]
HOST_ALONE = [
    "host-root",
    "host-lost",
    "host-returned",
    "host-unblock",
    "host-mask:200000:200",
    "context:work",
    "context:guest",
]
SWEEP_SKIDS = 9
# What the SDM says of a register after an INIT.
INIT_ZERO = ["eax", "ebx", "ecx", "esp", "ebp", "esi", "edi", "ds", "es", "ss", "fs", "gs"]
INIT_ZERO += ["cr2", "cr3", "cr4", "dr0", "dr1", "dr2", "dr3"]
INIT_ZERO += ["msr_c0000080", "msr_c0000100", "msr_c0000101"]
INIT_ZERO += ["apic_80", "apic_100", "apic_200", "apic_280", "apic_380", "apic_3e0"]
INIT_STATE = {
    **dict.fromkeys(INIT_ZERO, 0),
    **dict.fromkeys((f"apic_{number:x}" for number in range(0x320, 0x380, 0x10)), LVT_MASKED),
    "edx": SIGNATURE,
    "cr0": 0x10,
    "dr6": 0xFFFF0FF0,
    "dr7": 0x400,
    "eflags": 2,
    "fcw": 0x27F,
    "fsw": 0x3800,
    "msr_176": 0xFFFF800012345002,
    "msr_38d": 1,
    "msr_38f": 1,
    "msr_c0000102": 0xFFFF800012345001,
    "msr_c0000103": 0x5AA5,
    "apic_f0": 0xFF,
}


def run(lab, name, words, *knobs, cpus=CPUS, **keywords):
    plan = Plan(TSC, *knobs).add(*words)
    return kernel.run(lab, f"smp-{name}", plan, cpus=cpus, **keywords)


def each(words):
    """The tests of one processor, on each but the first."""
    return [f"@{word}" for word in words]


def named(words):
    """As their results are called."""
    return [f"{word}@{cpu}" for word in words for cpu in range(1, CPUS)]


ALL = STARTS + each(ALONE) + SMALL + ["smp-x2apic"] + STARTS + each(ALONE) + SMALL
SKIPPED = ["vmcall"]


def native(lab):
    return run(lab, "native", ALL, SKIDS, entry="native")


def guest(lab):
    return run(lab, "guest", ALL, SKIDS, "exit_lines on")


def storms(lab, entry="msr+nmi"):
    if entry == "msr+nmi":
        return run(lab, "storm", LARGE, SKIDS)
    words = SMALL + ["smp-x2apic"] + SMALL
    return run(lab, f"storm-{entry}", words, SKIDS, "exit_lines on", entry=entry)


def many_cpuids(lab, cpus):
    return run(lab, f"cpuid-{cpus}", ["smp-cpuid:200"], "exit_lines on", cpus=cpus)


def rows(boot, name):
    """The rows 'storm: name=NAME cpu=N ...' with numbers."""
    found = [
        {key: int(value) for key, value in row.items() if key != "name"}
        for row in boot.lines("storm")
        if row["name"] == name
    ]
    assert len(found) % CPUS == 0 and found, f"{name}: {len(found)} rows"
    return found


def states(boot):
    """What each start of smp-state found: a dictionary of numbers for each processor and run."""
    found, last = [], None
    for row in boot.lines("state"):
        cpu = int(row.pop("cpu"))
        row.pop("name")
        if cpu != last:
            found.append({"cpu": cpu})
            last = cpu
        for key, value in row.items():
            found[-1][key] = value if "," in value else int(value, 16)
    return found


def test_native(lab):
    """Everything holds natively: the reference."""
    expect_ok(native(lab), STARTS + named(ALONE) + SMALL + ["smp-x2apic"])


def test_starts(lab):
    """In the guest each processor starts from whatever it does, once by each INIT and SIPI."""
    boot = guest(lab)
    expect_ok(boot, STARTS + ["smp-x2apic"])
    # In both modes; and once each for smp-state and smp-sipi.
    restarts = 2 * (len(WORKS) * ROUNDS + PARALLEL + 2)
    for number in range(1, CPUS):
        exits = boot.ledger["processors"][number]["exits"]
        assert exits[INIT]["count"] == restarts, f"processor {number}: {exits['3']}"
        # Those, and the first start: the second SIPI of each start finds it running.
        assert exits[SIPI]["count"] == restarts + 1, f"processor {number}: {exits['4']}"
    init = boot.ledger["exits"][INIT]["root_instructions"]
    return f"{restarts} INITs each, {init['min']} to {init['max']} root instructions"


def test_state(lab):
    """State after INIT and SIPI is the SDM's, in both modes of the local APIC."""
    guests, bare = states(guest(lab)), states(native(lab))
    assert len(guests) == len(bare) == 2 * (CPUS - 1), f"{len(guests)} and {len(bare)} states"
    for under, alone in zip(guests, bare):
        for key, wanted in INIT_STATE.items():
            assert under[key] == wanted, f"{key} is {under[key]:#x}, wanted {wanted:#x}"
        assert under["cs"] == under["page"] >> 4, under
        assert under["gdt"] == under["idt"] == "0x0,0xffff", under
        for key, value in alone.items():
            if key != "page":
                assert under[key] == value or key == "cs", f"{key}: {under[key]}, natively {value}"
    assert guests[0]["msr_1b"] & 0xC00 == 0x800 and guests[-1]["msr_1b"] & 0xC00 == 0xC00, guests
    return f"{len(guests[0])} registers"


# Of all MSRs an INIT changes these alone: IA32_U_CET, IA32_S_CET, IA32_PL0_SSP to
# IA32_INTERRUPT_SSP_TABLE_ADDR (and IA32_EFER and the bases, above). SDM Vol. 3, "Initialization
# Overview" and "Processor State After Reset".
ZERO_AFTER_INIT = {0x6A0, 0x6A2, 0x6A4, 0x6A5, 0x6A6, 0x6A7, 0x6A8}
# IA32_RTIT_OUTPUT_MASK_PTRS: as far as a trace, which goes on, does not move it.
STILL = {0x561: 0xFFFFFFFF}


@pytest.mark.parametrize(
    "entry", ["native", "msr+nmi", "intercept"], ids=["msrs_native", "msrs", "msrs_intercept"]
)
def test_init(lab, entry):
    """MSRs of each group after an INIT, with CET, Intel PT and architectural branch records."""
    boot = run(
        lab,
        f"init-msrs-{entry}",
        ["smp-init-msrs"],
        "pt on",
        "arch_lbr on",
        cpus=2,
        entry=entry,
        model="sapphire_rapids",
    )
    expect_ok(boot, ["smp-init-msrs"])
    found = {int(row["msr"], 16): row for row in boot.lines("init")}
    assert len(found) >= 24 and ZERO_AFTER_INIT < set(found), [hex(index) for index in found]
    wrong = {
        hex(index): row
        for index, row in found.items()
        if int(row["after"], 16) & STILL.get(index, -1)
        != (0 if index in ZERO_AFTER_INIT else int(row["spoilt"], 16))
    }
    assert not wrong, wrong
    return f"{len(found)} registers"


def test_init_without_cet(lab):
    """An outer hypervisor shows VMX's controls of CET without CET's MSRs: they refuse each
    write."""
    boot = run(
        lab,
        "init-msrs-no-cet",
        ["smp-init-msrs"],
        "hide_feature cet",
        "show_control load_cet_state",
        "show_control load_cet_state_at_exit",
        cpus=2,
        model="sapphire_rapids",
    )
    expect_ok(boot, ["smp-init-msrs"])
    found = {int(row["msr"], 16) for row in boot.lines("init")}
    assert found and not ZERO_AFTER_INIT & found, [hex(index) for index in found]


# Of a P-core and an E-core: how many of the PMU's registers are there, the counters, and the bits
# of GLOBAL_CTRL beside theirs (PERF_METRICS).
KINDS = {"pmu-registers": (73, 0xF_000003FF, 1 << 48), "pmu-registers@1": (65, 0x77_000000FF, 0)}


def kinds(lab, entry, name="", **more):
    words = ["pmu-registers", "@pmu-registers"]
    return run(lab, f"kinds-{entry}{name}", words, *ARROW_LAKE, cpus=2, entry=entry, **more)


@pytest.mark.parametrize(
    "entry",
    ["native", "msr+nmi", "msr", "intercept"],
    ids=["kinds_native", "kinds_msr_nmi", "kinds_msr", "kinds_intercept"],
)
def test_kinds(lab, entry):
    """Of two kinds of processors each has its own PMU, natively and under each policy."""
    boot = kinds(lab, entry)
    expect_ok(boot, list(KINDS))
    found = {
        row["name"]: (int(row["there"]), int(row["enabled"]), int(row["taken"]))
        for row in boot.lines("registers")
    }
    for name, (there, counters, more) in KINDS.items():
        # Natively the emulator shows every index as there: no kernel has started.
        wanted = (found[name][0] if entry == "native" else there, counters, counters | more)
        assert found[name] == wanted, f"{name}: {found[name]}, wanted {wanted}"


def test_kinds_fail(lab):
    """A policy that takes the E-core's facts for the P-core's enters the guest with bits that the
    P-core lacks."""
    boot = kinds(lab, "intercept", "-one", efi=kernel.mutant("one_kind"), until="---- stopped ----")
    assert "(ENTRY_FAILURE_GUEST_STATE)" in boot.console, boot.last_line()


def test_starts_fail(lab):
    """A hypervisor that is late with an INIT, or leaves the APIC alone, is found out."""
    boot = run(
        lab, "late-init", ["smp-state", "smp-init:halted:1"], cpus=2, efi=kernel.mutant("late_init")
    )
    state = states(boot)[0]
    assert (state["apic_80"], state["apic_350"]) == (0x20, LVT_MASKED | 0x21), state
    assert failed(boot) == ["smp-init:halted:1"], notes(boot)


def test_stale_init(lab):
    """An INIT that has waited through the wait-for-SIPI state does not undo the SIPI after it."""
    words = ["smp-processors", "smp-init:running:2", "smp-init-loop:2"]
    boot = run(lab, "stale-init", words, cpus=2, efi=kernel.mutant("stale_init"))
    expect_ok(boot, words)


# Alder Lake's C10 takes 680 us to leave (Linux, intel_idle.c); the clock has 50 ticks in each.
WAKE = 680 * 50
SLEEPS = "smp-init:asleep:20"


def sleep(lab, name, *knobs):
    return run(lab, name, [SLEEPS], f"mwait_wake {WAKE}", *knobs, cpus=2)


def test_asleep(lab):
    """A processor that sleeps for good in a deep C-state misses no SIPI: it only halts."""
    boot = sleep(lab, "asleep")
    expect_ok(boot, [SLEEPS])
    exits = boot.ledger["processors"][1]["exits"]
    assert exits[MWAIT]["count"] >= 20 and exits[WBINVD]["count"] == 20, exits
    assert WBINVD not in boot.ledger["processors"][0]["exits"], "the first one is never started"
    return f"20 starts, {exits[MWAIT]['count']} MWAITs that exited"


def test_asleep_fails(lab):
    """Without the exits of WBINVD and MWAIT it sleeps, and misses both SIPIs."""
    boot = sleep(lab, "asleep-deep", "hide_control wbinvd_exiting")
    assert failed(boot) == [SLEEPS]
    exits = boot.ledger["processors"][1]["exits"]
    assert exits[INIT]["count"] == 1 and exits[SIPI]["count"] == 1, exits  # its first start alone


def test_two(lab):
    """Two processors, with a tick of the host's that exits in between."""
    words = STARTS + SMALL
    boot = run(lab, "two", words, SKIDS, cpus=2, config="tick=1")
    expect_ok(boot, words)
    ticks = boot.ledger["exits"][TICK]["count"]
    assert ticks > 0, "no tick exited"
    return f"{ticks} ticks"


def test_each(lab):
    """The tests of one processor pass on each, in both modes of the local APIC."""
    expect_ok(guest(lab), named(ALONE))


def test_each_no_exits(lab):
    """PMU MSRs, PMIs and NMIs of its own on each processor: no exit, instructions as natively."""
    for region in (kernel.REGION_MSR, kernel.REGION_PMI):
        under, bare = guest(lab).region(region), native(lab).region(region)
        assert under["begins"] == bare["begins"] == 2 * (CPUS - 1), under
        assert exit_count(under) == 0, f"region {region}: {under['exits']}"
        assert under["pmi"]["raised"] == bare["pmi"]["raised"] == under["pmi"]["nonroot"]
        assert under["nonroot"] == bare["nonroot"], f"{under['nonroot']}, {bare['nonroot']}"


def test_sweep(lab):
    """An NMI at every instruction of an exit, and PMIs of any skid around one, on each of them."""
    plan = Plan(TSC, f"pmi_skid sweep/{SWEEP_SKIDS}").sweep("@sweep", "cpuid")
    plan.sweep("@sweep-blocked", "cpuid").add(f"@sweep-pmi:{SWEEP_SKIDS}")
    boot = kernel.run(lab, "smp-sweep", plan, cpus=CPUS)
    expect_ok(boot, named([word[1:] for word in plan.words]))
    delivered = {row["name"]: int(row["delivered"]) for row in boot.lines("sweep")}
    for word in plan.words:
        counts = {delivered[f"{word[1:]}@{cpu}"] for cpu in range(1, CPUS)}
        assert len(counts) == 1 and counts != {0}, f"{word}: {delivered}"
    return str(delivered)


def expect_storms(boot, words):
    expect_ok(boot, words)
    for word in words:
        for row in rows(boot, word):
            assert row["lost"] == row["nested"] == 0, f"{word}: {row}"
            assert "mixed" in word or row["unknown"] == 0, f"{word}: {row}"
    pmi, nmi = boot.ledger["pmi"], boot.ledger["nmi"]
    assert pmi["masked"] == 0 and pmi["raised"] == pmi["root"] + pmi["nonroot"] + pmi["exits"], pmi
    return pmi, nmi


def test_storm(lab):
    """100,000 PMIs and 10,800 NMIs across 4 processors that make exits all the time: none is lost,
    none comes twice."""
    pmi, nmi = expect_storms(storms(lab), LARGE)
    pmis = sum(row["pmis"] for row in rows(storms(lab), LARGE[0]))
    nmis = sum(row["seen"] for row in rows(storms(lab), LARGE[1]))
    assert pmis == 100000 and nmis == 10800, f"{pmis} PMIs, {nmis} NMIs"
    # Both of root mode and of the guest have their share, or the storm would show little.
    assert pmi["root"] > pmis // 20 and pmi["nonroot"] > pmis // 20, pmi
    assert nmi["root"] - pmi["root"] > nmis // 20, nmi
    return f"{pmis} PMIs ({pmi['root']} of all in root mode), {nmis} NMIs ({nmi['root']} with PMIs)"


@pytest.mark.parametrize("entry", ["msr", "intercept"], ids=["storm_msr", "storm_intercept"])
def test_storm_policy(lab, entry):
    boot = storms(lab, entry)
    pmi, nmi = expect_storms(boot, SMALL)
    assert nmi["exits"] > 0 and nmi["injected"] > 0, nmi
    return f"PMIs {pmi}, NMIs {nmi}"


def test_storm_small(lab):
    """The same in both modes of the local APIC, with fewer."""
    expect_storms(guest(lab), SMALL)


def host_run(lab, name, words, **keywords):
    # With a serial console the line for each request takes longer than a round.
    config = keywords.pop("config", "console=none")
    return run(
        lab,
        name,
        words,
        config=config,
        efi=keywords.pop("efi", None) or host.image_with_hooks(config),
        **keywords,
    )


def test_host(lab):
    """Backtrace requests of the host between processors: each is handled; the guest's NMIs between
    them arrive. And the host's tests of one processor on each."""
    words = ["smp-host:60", "smp-x2apic", "smp-host:60"]
    boot = host_run(lab, "host", each(HOST_ALONE) + words)
    expect_ok(boot, words + named(HOST_ALONE))
    found = rows(boot, words[0])
    assert sum(row["recovered"] for row in found) > 0, f"no request reached the guest: {found}"
    return (
        f"{sum(row['handled'] for row in found)} requests, "
        f"{sum(row['recovered'] for row in found)} found late"
    )


def test_host_msr(lab):
    boot = host_run(lab, "host-msr", ["smp-host:60"], entry="msr")
    expect_ok(boot, ["smp-host:60"])
    return f"{sum(row['handled'] for row in rows(boot, 'smp-host:60'))} requests"


@pytest.mark.full
def test_host_fails(lab):
    """Without the search for lost requests they stay unhandled; without sources, all of them."""
    for name, keywords in (
        ("no-lost", {"config": "console=none bookkeeping=skid,unblock,mask"}),
        ("no-claim", {"efi": kernel.mutant("no_claim", "test")}),
    ):
        boot = host_run(lab, name, ["smp-host:12"], **keywords)
        bad = failed(boot)
        found = rows(boot, "smp-host:12")
        assert bad == ["smp-host:12"] and sum(row["lost"] for row in found) > 0, found


def expect_lost(lab, name, **keywords):
    words = [f"smp-pmi:20:{PERIOD}", "smp-nmi:3"]
    boot = run(lab, name, words, SKIDS, **keywords)
    bad = failed(boot)
    assert bad == words, f"failed {bad}, wanted {words} ({notes(boot)})"
    return [sum(row["lost"] for row in rows(boot, word)) for word in words]


@pytest.mark.full
def test_storm_fails(lab):
    """Without the step that gives the guest the NMIs of root mode, storms lose NMIs and PMIs."""
    lost = expect_lost(lab, "no-skid", config="bookkeeping=lost,unblock,mask")
    lost += expect_lost(lab, "no-resend", efi=kernel.mutant("no_resend"))
    assert all(lost), lost
    return f"lost {lost}"


def test_no_shared_line(lab):
    """No cache line that an exit writes is touched by an exit of another processor: CPUID on all at
    once, and all exits of starts and storms under each policy."""
    lines = many_cpuids(lab, CPUS).ledger["exit_lines"][CPUID]
    assert lines["written"] >= CPUS and lines["shared"] == 0, lines
    seen = set()
    for boot in (guest(lab), storms(lab, "msr"), storms(lab, "intercept")):
        found = boot.ledger["exit_lines"]
        assert found["any"]["shared"] == 0, f"{boot.name}: {found}"
        seen |= set(found)
    missing = {NMI, INIT, SIPI, CPUID, VMCALL, RDMSR, WRMSR} - seen
    assert not missing, f"no such exits: {missing}"
    return f"CPUID: {lines['touched']} lines, {lines['written']} written; reasons {sorted(seen)}"


def test_shared_line_found(lab):
    """A hypervisor that counts in one place is found out."""
    boot = run(
        lab, "shared", ["smp-cpuid:20"], "exit_lines on", efi=kernel.mutant("shared_counter")
    )
    lines = boot.ledger["exit_lines"][CPUID]
    assert lines["shared"] == 1, lines


def test_cost(lab):
    """A CPUID exit costs the same on each of 1, 2 and 4 processors, all at it at once."""
    costs = set()
    for cpus in (1, 2, CPUS):
        exits = many_cpuids(lab, cpus).region(REGION_CPUID)["exits"][CPUID]
        assert exits["count"] == cpus * 200, exits
        for what in ("root_instructions", "vmcs_accesses"):
            costs.add((what, exits[what]["min"], exits[what]["max"]))
        for processor in many_cpuids(lab, cpus).ledger["processors"]:
            assert processor["exits"][CPUID]["count"] >= 200, processor["exits"]
    assert len(costs) == 2, costs
    assert all(least == most for _, least, most in costs), costs
    return str(sorted(costs))


def broadcast(lab, cpus, entry="msr+nmi"):
    words = [f"smp-broadcast:{sipis}:{BROADCASTS}" for sipis in (1, 2)]
    boot = run(
        lab, f"broadcast-{entry}-{cpus}", words + ["smp-x2apic"] + words, cpus=cpus, entry=entry
    )
    expect_ok(boot, words + ["smp-x2apic"])
    found = boot.lines("broadcast")
    wanted = BROADCASTS * (cpus - 1)
    assert len(found) == 4, found
    assert all(int(row["up"]) == int(row["of"]) == wanted for row in found), found
    return boot


def test_broadcast_native(lab):
    """One INIT and one SIPI, or two, to all others at once, natively: each comes up, once."""
    for cpus in BROADCAST_CPUS:
        broadcast(lab, cpus, "native")


def test_broadcast(lab):
    """The same in the guest: each has one exit for the INIT and one for the first SIPI."""
    for cpus in BROADCAST_CPUS:
        processors = broadcast(lab, cpus).ledger["processors"]
        for number in range(1, cpus):
            exits = {name: processors[number]["exits"][name]["count"] for name in (INIT, SIPI)}
            # Of both numbers of SIPIs in both modes; and the first start.
            assert exits == {
                INIT: 4 * BROADCASTS,
                SIPI: 4 * BROADCASTS + 1,
            }, f"processor {number} of {cpus}: {exits}"
    return f"{4 * BROADCASTS} starts of each"


LEAVES = (
    ["smp-init-loop:2", "smp-x2apic", "smp-apic-off", "smp-x2apic"]
    + each(["apic-leave", "apic-off", "self"])
    + ["smp-apic-off", "smp-init:running:2", "smp-nmi:20", "smp-broadcast:2:2"]
)


def test_leave(lab):
    """Each processor leaves x2APIC mode and starts again, natively and in the guest; one whose APIC
    is globally disabled takes no IPI."""
    for entry in ("native", "msr+nmi"):
        expect_ok(
            run(lab, f"leave-{entry}", LEAVES, entry=entry),
            [word for word in LEAVES if word[0] != "@"] + named(["apic-leave", "apic-off", "self"]),
        )
