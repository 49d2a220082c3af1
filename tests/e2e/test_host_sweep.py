# SPDX-License-Identifier: BSD-2-Clause
# test_host_sweep.py: host NMIs at every root-mode instruction, with the test kernel on the
# hypervisor's test build: each is handled once, and the guest's own events are not touched. Each
# mechanism is switched off once as well, and its test must then fail.

import pytest

from tests.e2e import kernel
from tests.e2e.host import (
    KINDS,
    NMI_STRIDE,
    NO_LOST,
    NO_SKID,
    NO_UNBLOCK,
    POSITIONS,
    REGION_CLEAN,
    Plan,
    expect_sweep,
    path_length,
    results,
    row,
    run,
    sweeps,
)

REASON_NMI = 0
REASON_TICK = 52
KIND_TICK = 7  # tests/kernel/probe.h, PROBE_KINDS
MERGE_POSITIONS = 550  # the path with a PMI and a host NMI in it
LATE = 1
STATUS_NONE = 64  # tests/kernel/test_host_merge.c
MERGE_OVERFLOW = 60  # + LONG_SKID: 20 instructions after PMI_BEFORE
TSC_HZ = 50000000
REASON_VMCALL = 18
WORK_STRIDE = 8  # tests/kernel/test_host_work.c
WORK_FIRST = 600
WORK_POSITIONS = 4000
WORK_SKIDS = (0, 30)
TICK_LOOPS = 23000  # four instructions each; a tick of 1 ms is 50,000


SWEEPS = [(test, kind) for test in ("host-sweep", "host-sweep-blocked") for kind in KINDS]


@pytest.mark.parametrize("test, kind", SWEEPS, ids=[f"{test}_{kind}" for test, kind in SWEEPS])
def test_sweep(lab, test, kind):
    return expect_sweep(sweeps(lab, kind), test, kind)


@pytest.mark.more
def test_sweep_x2apic(lab):
    plan = Plan().add("x2apic").host("host-sweep", "cpuid").host("host-sweep-blocked", "cpuid")
    boot = run(lab, "host-x2apic", plan)
    expect_sweep(boot, "host-sweep-blocked", "cpuid")
    return expect_sweep(boot, "host-sweep", "cpuid")


def test_sweep_lazy(lab):
    """Outside the handler as always; inside, the guest takes it and the host finds it."""
    plan = Plan().host("host-sweep", "cpuid").host("host-sweep-blocked", "cpuid", late=LATE)
    boot = run(lab, "host-lazy", plan, config="unblock=lazy")
    expect_sweep(boot, "host-sweep", "cpuid")
    return expect_sweep(boot, "host-sweep-blocked", "cpuid")


def test_sweep_nmi_exit(lab):
    """policy=msr: at every instruction of an NMI exit, and of a CPUID exit."""
    plan = Plan().host("host-sweep", "cpuid").host("host-sweep-blocked", "cpuid")
    first = 900
    plan.each(REASON_NMI, first, NMI_STRIDE, POSITIONS)
    boot = run(lab, "host-msr", plan.add(f"host-sweep-nmi:{first}:{POSITIONS}"), entry="msr")
    sweep = row(boot, "sweep", "host-sweep-nmi")
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    expect_sweep(boot, "host-sweep", "cpuid")
    expect_sweep(boot, "host-sweep-blocked", "cpuid")
    return f"{sweep['delivered']} positions"


@pytest.mark.more
def test_sweep_tick(lab):
    first = 40
    plan = Plan(
        f"tsc_hz {TSC_HZ}",
        f"nmi_root reason={REASON_TICK} exits={first}-{first + POSITIONS} position=sweep host",
    )
    plan.add(f"host-sweep-tick:{first}:{POSITIONS}:{TICK_LOOPS}")
    boot = run(lab, "host-tick", plan, config="tick=1")
    sweep = row(boot, "sweep", "host-sweep-tick")
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    length = path_length(boot, REGION_CLEAN + KIND_TICK, REASON_TICK)
    assert sweep["delivered"] == length, f"{sweep}: the path has {length}"
    return f"{length} positions"


# MSR_PKG_CST_CONFIG_CONTROL, locked, with I/O MWAIT redirection or without; and its first port.
REDIRECTION = 0x8400
STOPS = "the tick has no bound for a processor that idles by reads of I/O ports from 0x1814 on"


@pytest.mark.more
def test_tick_unbounded(lab):
    """Where I/O ports reach deep C-states one line says that the tick stops there, else none."""
    for control in (REDIRECTION, REDIRECTION & 0x8000):
        plan = Plan(f"tsc_hz {TSC_HZ}", f"msr 0xe2 {control:#x}", "msr 0xe4 0x21814")
        boot = run(lab, f"host-tick-{control:x}", plan.add("cpuid"), config="tick=1")
        assert "tick every 1 ms" in boot.console, boot.last_line()
        assert (STOPS in boot.console) == (control == REDIRECTION), f"{control:#x}"
    plan = Plan(f"msr 0xe2 {REDIRECTION:#x}", "msr 0xe4 0x21814").add("cpuid")
    assert STOPS not in run(lab, "host-tick-none", plan).console, "without a tick"


def merge(lab, name, config="", status=None, efi=None):
    """status: the bit of GLOBAL_STATUS that the PMI sets in place of the counter's, or none."""
    first = 600
    plan = Plan(
        f"pmi_skid {kernel.LONG_SKID}",
        f"nmi_root reason=10 exits={first}-{first + MERGE_POSITIONS - 1} position=sweep host",
    )
    word = f"host-sweep-merge:{first}:{MERGE_POSITIONS}:{MERGE_OVERFLOW}"
    if status is not None:
        plan.knobs.append(f"pmi_status {status}")
        word += f":{STATUS_NONE if status == 'none' else status}"
    return run(lab, name, plan.add(word), config=config, efi=efi)


def test_sweep_merge(lab):
    """With a PMI of the guest's in the same exit: both sides get theirs, exactly once."""
    boot = merge(lab, "host-merge")
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    assert sweep["late"] > 0, f"{sweep}: no two were pending at once"
    return (
        f"{sweep['delivered']} positions, {sweep['late']} found late, {sweep['more']} times "
        "one NMI more for the guest"
    )


# What the PMI sets in GLOBAL_STATUS: bit 62, 61, 55 (of Intel PT, which is hidden), or nothing.
MERGES = [("pebs", 62), ("uncore", 61), ("pt", 55), ("bts", "none")]


@pytest.mark.parametrize("name, status", MERGES, ids=[f"sweep_merge_{name}" for name, _ in MERGES])
def test_sweep_merge_status(lab, name, status):
    """The same where the PMI sets another status bit, or none."""
    boot = merge(lab, f"host-merge-{name}", status=status)
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    return f"{sweep['delivered']} positions, {sweep['more']} times one NMI more for the guest"


@pytest.mark.more
def test_sweep_merge_fails_with_blind_pmi(lab):
    """Known by the counters' bits alone, such a PMI is lost where a host NMI came too."""
    efi, wrong = kernel.mutant("blind_pmi", "test"), []
    for status in 62, "none":
        boot = merge(lab, f"host-merge-blind-{status}", status=status, efi=efi)
        sweep = row(boot, "sweep", "host-sweep-merge")
        assert not results(boot)[sweep["name"]], sweep
        wrong.append(sweep["wrong"])
    return f"{wrong} of {MERGE_POSITIONS} positions wrong"


@pytest.mark.more
def test_sweep_merge_fails_without_lost(lab):
    """The host's NMI that merged with the guest's PMI is then lost."""
    boot = merge(lab, "host-merge-no-lost", NO_LOST)
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert not results(boot)[sweep["name"]], sweep
    return f"{sweep}"


@pytest.mark.more
def test_sweep_merge_fails_without_skid(lab):
    """The guest's PMI that landed in root mode is then lost."""
    boot = merge(lab, "host-merge-no-skid", NO_SKID)
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert not results(boot)[sweep["name"]] and sweep["delivered"] == 0, sweep
    return f"{sweep['wrong']} positions wrong"


@pytest.mark.more
def test_sweep_fails_without_unblock(lab):
    """Inside the guest's handler no host NMI reaches root mode: the guest gets each one."""
    boot = run(
        lab, "host-sweep-no-unblock", Plan().host("host-sweep-blocked", "cpuid"), config=NO_UNBLOCK
    )
    sweep = row(boot, "sweep", "host-sweep-blocked")
    assert not results(boot)[sweep["name"]] and sweep["wrong"] > 0, sweep
    return f"{sweep['wrong']} positions wrong"


@pytest.mark.more
def test_sweep_fails_without_sources(lab):
    """A hypervisor that asks no source: the guest gets every one of the host's NMIs."""
    efi = kernel.mutant("no_claim", "test")
    plan = Plan().host("host-sweep", "cpuid").host("host-sweep-blocked", "cpuid")
    boot = run(lab, "host-no-claim", plan, efi=efi)
    found = []
    for test in ("host-sweep", "host-sweep-blocked"):
        sweep = row(boot, "sweep", f"{test}:cpuid")
        assert not results(boot)[sweep["name"]] and sweep["delivered"] == 0, sweep
        found.append(sweep["wrong"])
    return f"{found} positions wrong"


# How the hypervisor may be set up so that its exit path is another one: as in kernel.py. Inside the
# handler, unblock=lazy has a test of its own above. With a trapped APIC the guest's own NMI was
# sent by root mode, and counts as under way until an exit outside the handler: the host's may have
# merged with it, so the guest is given one more (nmi_may_include_guest_nmi() says why).
INSIDE_IS_DIFFERENT = ("unblock-lazy", "apic-trap")


@pytest.mark.parametrize(
    "name, config, entry, knobs, kinds",
    kernel.SETUPS,
    ids=[f"sweep_{setup[0]}" for setup in kernel.SETUPS],
)
def test_setup(lab, name, config, entry, knobs, kinds):
    plan = Plan(*knobs)
    for kind in kinds:
        plan.host("host-sweep", kind)
    if name not in INSIDE_IS_DIFFERENT:
        plan.host("host-sweep-blocked", "cpuid")
    boot = run(lab, f"host-{name}", plan, entry=entry, config=config)
    for kind in kinds[1:]:
        expect_sweep(boot, "host-sweep", kind)
    if name not in INSIDE_IS_DIFFERENT:
        expect_sweep(boot, "host-sweep-blocked", "cpuid")
    return expect_sweep(boot, "host-sweep", "cpuid")


def work(lab, whose, skid, efi=None):
    """An NMI at each instruction of an exit for host work."""
    plan = Plan(f"pmi_skid {skid}")
    for position in range(1, WORK_POSITIONS + 1):
        plan.knobs.append(
            f"nmi_root reason={REASON_VMCALL} "
            f"exits={WORK_FIRST + (position - 1) * WORK_STRIDE} position={position}"
            + (" host" if whose == "host" else "")
        )
    plan.add(f"host-work:{whose}:{WORK_FIRST}:{WORK_POSITIONS}")
    return run(lab, f"host-work-{whose}-{skid}" + ("-broken" if efi else ""), plan, efi=efi)


WORKS = [(whose, skid) for whose in ("host", "guest") for skid in WORK_SKIDS]


@pytest.mark.parametrize(
    "whose, skid", WORKS, ids=[f"work_{whose}_{skid}" for whose, skid in WORKS]
)
def test_work(lab, whose, skid):
    """Beside the PMIs of host work, which come at once or later: each NMI has its owner, once."""
    boot = work(lab, whose, skid)
    sweep = row(boot, "sweep", f"host-work:{whose}")
    assert results(boot)[sweep["name"]], f"{sweep}; {kernel.notes(boot)}"
    return f"{sweep['delivered']} positions, {sweep['late']} found late, {sweep['merged']} merged"
