# SPDX-License-Identifier: BSD-2-Clause
# host_nmi.py: the host beside the guest, with the test kernel on the hypervisor's test build. Host
# NMIs at every root-mode instruction, host NMIs that the guest takes, the PMU's registers with two
# users, host work in the guest's NMI handler, branch records, faults in root mode. Each mechanism
# is switched off once as well, and its test must then fail in the way the thesis describes.
import os
import re
import tempfile

import bench
from machine import STATUS_TEXT, exit_count, path

# tests/kernel/host.h, enum host_region.
REGION_CLEAN = 1300
REGION_CLEAN_BLOCKED = 1400
REGION_OTHER_GUEST = 1501
REGION_OTHER_GUEST_BARE = 1502
REGION_OTHER_GUEST_STATUS = 1503
REGION_LBR = 1504
REGION_PEBS = 1505

REASON_NMI = 0
REASON_TICK = 52
KIND_TICK = 7  # tests/kernel/probe.h, PROBE_KINDS
VMCALL_STRIDE = NMI_STRIDE = 4  # tests/kernel/test_host_sweep.c
POSITIONS = 450
MERGE_POSITIONS = 550  # the path with a PMI and a host NMI in it
LATE = 1
STATUS_NONE = 64  # tests/kernel/test_host_merge.c
LATE_SKID = 700 # instructions: longer than from the exit for host work to its first count
MERGE_OVERFLOW = 60  # + LONG_SKID: 20 instructions behind PMI_BEFORE
TSC_HZ = 50000000
TICK_LOOPS = 23000  # two instructions each; a tick of 1 ms is 50,000
PAGE = 4096
LBR_ENTRIES = 32
BLOCKED_COST_MAX = 24  # root instructions

NO_LOST = "bookkeeping=skid,unblock,mask"
NO_SKID = "bookkeeping=lost,unblock,mask"
NO_UNBLOCK = "bookkeeping=lost,skid,mask"
NO_MASK = "bookkeeping=lost,skid,unblock"
KINDS = list(bench.KINDS)
SUITE = ["host-root", "host-lost", "host-returned", "host-sending", "host-unblock",
                   "host-mask:2000000:200", "context:work", "context:guest", "lbr"]


class Plan(bench.Plan):
    """As bench.Plan, with host NMIs."""

    def host(self, test, kind, positions=POSITIONS, late=0):
        reason = bench.KINDS[kind][1]
        stride = VMCALL_STRIDE if kind == "vmcall" else 1
        first = self.next.get(reason, 0) + 600
        self.next[reason] = first + positions * stride
        if stride == 1:
            self.knobs.append(f"nmi_root reason={reason} exits={first}-{first + positions - 1} "
                              "position=sweep host")
        else:
            self.each(reason, first, stride, positions)
        self.words.append(f"{test}:{kind}:{first}:{positions}" + (f":{late}" if late else ""))
        return self

    def each(self, reason, first, stride, positions):
        for position in range(1, positions + 1):
            self.knobs.append(f"nmi_root reason={reason} "
                              f"exits={first + (position - 1) * stride} position={position} host")


def test_build():
    image = path("build", "test", "pmuvisor.efi")
    assert os.path.exists(image), "build/test/pmuvisor.efi is missing; run: make TEST=1 " \
                                  "BUILD=build/test"
    return image


def run(lab, name, plan, entry="msr+nmi", config="", efi=None, until=None):
    image = path("build", "kernel.bzImage")
    assert os.path.exists(image), "build/kernel.bzImage is missing; run: make test-kernel"
    with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
        initrd.write(b"none\n")
        initrd.flush()
        return lab.emulator(name, entry=entry, config=config, kernel=image, initrd=initrd.name,
                            efi=efi or test_build(), append="tests=" + ",".join(plan.words),
                            knobs="\n".join(plan.knobs) + "\n", until=until)


def results(boot):
    """ok or not, by name, with nothing skipped."""
    found = {}
    for name, good, skipped, line in bench.tap(boot):
        assert not skipped, line
        found[name] = good
    return found


def row(boot, job, name):
    rows = [r for r in boot.lines(job) if r["name"] == name or r["name"].startswith(name + ":")]
    assert len(rows) == 1, f"{len(rows)} rows of {name}; {bench.notes(boot)}"
    return {key: int(value) for key, value in rows[0].items() if key != "name"} | \
        {"name": rows[0]["name"]}


def path_length(boot, region, reason):
    spread = boot.region(region)["exits"][str(reason)]["root_instructions"]
    assert spread["samples"] > 0 and spread["min"] == spread["max"], f"region {region}: {spread}"
    return spread["min"]


def expect_sweep(boot, test, kind):
    """Every root-mode instruction of the exit had its host NMI, handled exactly once."""
    number, reason = bench.KINDS[kind]
    base = REGION_CLEAN_BLOCKED if "blocked" in test else REGION_CLEAN
    sweep = row(boot, "sweep", f"{test}:{kind}")
    length = path_length(boot, base + number, reason)
    assert results(boot)[sweep["name"]], f"{sweep}; {bench.notes(boot)}"
    assert sweep["wrong"] == 0 and sweep["delivered"] == length, f"{sweep}: the path has {length}"
    return f"{length} positions"


def suite(lab):
    plan = Plan()
    for word in SUITE:
        plan.add(word)
    plan.add("x2apic", "host-lost", "host-unblock", "host-mask:20000:200")
    return run(lab, "host", plan)


def sweeps(lab, kind="cpuid"):
    """All kinds in one boot, but VMCALLs, which every check makes as well."""
    plan = Plan()
    for test in ("host-sweep", "host-sweep-blocked"):
        for one in KINDS:
            if (one == "vmcall") == (kind == "vmcall"):
                plan.host(test, one)
    return run(lab, "host-vmcall" if kind == "vmcall" else "host-sweeps", plan)


def make_sweep_test(test, kind):
    def one(lab):
        return expect_sweep(sweeps(lab, kind), test, kind)
    one.__name__ = f"test_{test}_{kind}"
    return one


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
    assert results(boot)[sweep["name"]], f"{sweep}; {bench.notes(boot)}"
    expect_sweep(boot, "host-sweep", "cpuid")
    expect_sweep(boot, "host-sweep-blocked", "cpuid")
    return f"{sweep['delivered']} positions"


def test_sweep_tick(lab):
    first = 40
    plan = Plan(f"tsc_hz {TSC_HZ}", f"nmi_root reason={REASON_TICK} "
                f"exits={first}-{first + POSITIONS} position=sweep host")
    plan.add(f"host-sweep-tick:{first}:{POSITIONS}:{TICK_LOOPS}")
    boot = run(lab, "host-tick", plan, config="tick=1")
    sweep = row(boot, "sweep", "host-sweep-tick")
    assert results(boot)[sweep["name"]], f"{sweep}; {bench.notes(boot)}"
    length = path_length(boot, REGION_CLEAN + KIND_TICK, REASON_TICK)
    assert sweep["delivered"] == length, f"{sweep}: the path has {length}"
    return f"{length} positions"


# MSR_PKG_CST_CONFIG_CONTROL, locked, with I/O MWAIT redirection or without; and its first port.
REDIRECTION = 0x8400
STOPS = "the tick has no bound for a processor that idles by reads of I/O ports from 0x1814 on"


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
    plan = Plan(f"pmi_skid {bench.LONG_SKID}", f"nmi_root reason=10 exits={first}-"
                f"{first + MERGE_POSITIONS - 1} position=sweep host")
    word = f"host-sweep-merge:{first}:{MERGE_POSITIONS}:{MERGE_OVERFLOW}"
    if status is not None:
        plan.knobs.append(f"pmi_status {status}")
        word += f":{STATUS_NONE if status == 'none' else status}"
    return run(lab, name, plan.add(word), config=config, efi=efi)


def test_sweep_merge(lab):
    """With a PMI of the guest's in the same exit: both sides get theirs, exactly once."""
    boot = merge(lab, "host-merge")
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert results(boot)[sweep["name"]], f"{sweep}; {bench.notes(boot)}"
    assert sweep["late"] > 0, f"{sweep}: no two were pending at once"
    return f"{sweep['delivered']} positions, {sweep['late']} found late, {sweep['more']} times " \
           "one NMI more for the guest"


def make_merge_test(name, status):
    def one(lab):
        boot = merge(lab, f"host-merge-{name}", status=status)
        sweep = row(boot, "sweep", "host-sweep-merge")
        assert results(boot)[sweep["name"]], f"{sweep}; {bench.notes(boot)}"
        return f"{sweep['delivered']} positions, {sweep['more']} times one NMI more for the guest"
    one.__doc__ = f"The same where the PMI sets {'no' if status == 'none' else 'another'} status bit."
    one.__name__ = f"test_sweep_merge_{name}"
    return one


def test_sweep_merge_fails_with_blind_pmi(lab):
    """Known by the counters' bits alone, such a PMI is lost where a host NMI came too."""
    efi, wrong = path("build", "test", "mutants", "blind_pmi.efi"), []
    for status in 62, "none":
        boot = merge(lab, f"host-merge-blind-{status}", status=status, efi=efi)
        sweep = row(boot, "sweep", "host-sweep-merge")
        assert not results(boot)[sweep["name"]], sweep
        wrong.append(sweep["wrong"])
    return f"{wrong} of {MERGE_POSITIONS} positions wrong"


def test_sweep_merge_fails_without_lost(lab):
    """The host's NMI that merged with the guest's PMI is then lost."""
    boot = merge(lab, "host-merge-no-lost", NO_LOST)
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert not results(boot)[sweep["name"]], sweep
    return f"{sweep}"


def test_sweep_merge_fails_without_skid(lab):
    """The guest's PMI that landed in root mode is then lost."""
    boot = merge(lab, "host-merge-no-skid", NO_SKID)
    sweep = row(boot, "sweep", "host-sweep-merge")
    assert not results(boot)[sweep["name"]] and sweep["delivered"] == 0, sweep
    return f"{sweep['wrong']} positions wrong"


def test_sweep_fails_without_unblock(lab):
    """Inside the guest's handler no host NMI reaches root mode: the guest gets each one."""
    boot = run(lab, "host-sweep-no-unblock", Plan().host("host-sweep-blocked", "cpuid"),
               config=NO_UNBLOCK)
    sweep = row(boot, "sweep", "host-sweep-blocked")
    assert not results(boot)[sweep["name"]] and sweep["wrong"] > 0, sweep
    return f"{sweep['wrong']} positions wrong"


def test_sweep_fails_without_sources(lab):
    """A hypervisor that asks no source: the guest gets every one of the host's NMIs."""
    efi = path("build", "test", "mutants", "no_claim.efi")
    assert os.path.exists(efi), f"{efi} is missing; run: make test-image"
    plan = Plan().host("host-sweep", "cpuid").host("host-sweep-blocked", "cpuid")
    boot = run(lab, "host-no-claim", plan, efi=efi)
    found = []
    for test in ("host-sweep", "host-sweep-blocked"):
        sweep = row(boot, "sweep", f"{test}:cpuid")
        assert not results(boot)[sweep["name"]] and sweep["delivered"] == 0, sweep
        found.append(sweep["wrong"])
    return f"{found} positions wrong"


# How the hypervisor may be set up so that its exit path is another one: as in bench.py. Inside the
# handler, unblock=lazy has a test of its own above. With a trapped APIC the guest's own NMI was
# sent by root mode, and counts as under way until an exit outside the handler: the host's may have
# merged with it, so the guest is given one more (nmi_guest_merged() says why).
INSIDE_IS_DIFFERENT = ("unblock-lazy", "apic-trap")


def make_setup_test(name, config, entry, knobs, kinds):
    def one(lab):
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
    one.__name__ = f"test_sweep_{name}"
    return one


def expect_host(boot, name, found=None):
    rows = [r for r in boot.lines("host") if r["name"] == name]
    assert rows, f"{name} did not run; {bench.notes(boot)}"
    for one in rows:
        assert one["wrong"] == "0", f"{one}; {bench.notes(boot)}"
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
    efi = path("build", "test", "mutants", "nested_nmi.efi")
    boot = run(lab, "host-nested-nmi", Plan().add("host-root"), efi=efi, until=STOPPED)
    said = boot.console[boot.console.find("TAP version"):]
    assert "an NMI interrupted the NMI handler, at image offset 0x" in said and STOPPED in said, \
        said[-400:]


def test_returned_lazy(lab):
    boot = run(lab, "host-lazy-lost", Plan().add("host-lost", "host-returned", "host-unblock"),
               config="unblock=lazy")
    expect_host(boot, "host-lost", 20)
    expect_host(boot, "host-unblock", 400)
    return expect_host(boot, "host-returned")


def expect_nothing(lab, name, word, config):
    """With its step left out the test fails: the host finds nothing."""
    boot = run(lab, name, Plan().add(word), config=config)
    found = row(boot, "host", word.partition(":")[0])
    assert not results(boot)[word] and found["found"] == 0, found


def test_lost_fails_without_it(lab):
    expect_nothing(lab, "host-no-lost", "host-lost", NO_LOST)


def test_unblocking(lab):
    """A.2: host work inside the guest's NMI handler gets all its PMIs, the guest its NMI once."""
    return expect_host(suite(lab), "host-unblock", 400)


def test_unblocking_fails_without_it(lab):
    expect_nothing(lab, "host-no-unblock", "host-unblock", NO_UNBLOCK)


def test_masking(lab):
    """10,000 PMIs of the host's while the guest keeps the PMI masked."""
    return expect_host(suite(lab), "host-mask:2000000:200", 10000)


def test_masking_late_pmi(lab):
    """A PMI of the guest's at every root instruction of host work's exit leaves LVTPC masked."""
    plan = Plan(f"pmi_skid {LATE_SKID}").add(f"host-mask-pmi:{LATE_SKID}")
    boot = run(lab, "host-mask-pmi", plan)
    found = row(boot, "host", "host-mask-pmi")
    assert results(boot)[found["name"]] and found["found"] == LATE_SKID, \
        f"{found}; {bench.notes(boot)}"
    return f"{LATE_SKID} distances"


def test_masking_fails_without_it(lab):
    expect_nothing(lab, "host-no-mask", "host-mask:20000:200", NO_MASK)


def context(boot, word):
    return row(boot, "context", f"context:{word}")


def test_context_work(lab):
    """4.4.1: every register of the save set has the guest's value after host work."""
    found = context(suite(lab), "work")
    assert found["kept"] >= found["checked"] > 0 and found["ran"] == found["vmcs"] == 1, \
        f"{found}; {bench.notes(suite(lab))}"
    assert results(suite(lab))["context:work"], found
    return f"{found['checked']} registers"


def test_context_two_guests(lab):
    found = context(suite(lab), "guest")
    assert found["kept"] >= found["checked"] > 0 and found["ran"] == found["vmcs"] == 1, \
        f"{found}; {bench.notes(suite(lab))}"
    assert results(suite(lab))["context:guest"], found
    return f"{found['checked']} registers"


def make_context_test(shape):
    def one(lab):
        plan = Plan(*bench.shape_knobs(shape)).add("context:work", "context:guest")
        boot = run(lab, f"host-context-{shape}", plan)
        found = [context(boot, word) for word in ("work", "guest")]
        assert all(results(boot).values()) and \
            all(f["kept"] == f["checked"] and f["ran"] == 1 for f in found), \
            f"{found}; {bench.notes(boot)}"
        return f"{found[0]['checked']} registers"
    one.__doc__ = "The same with all counters that CPUID.0AH:ECX or leaf 23H names."
    one.__name__ = f"test_context_{shape}"
    return one


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
    plain, without = (boot.region(region) for boot, region in
                      ((suite(lab), REGION_OTHER_GUEST), (bare(lab), REGION_OTHER_GUEST_BARE)))
    status = suite(lab).region(REGION_OTHER_GUEST_STATUS)

    runs = plain["begins"]
    reads = plain["root"]["rdmsr"] / runs - without["root"]["rdmsr"] / without["begins"]
    writes = plain["root"]["wrmsr"] / runs - without["root"]["wrmsr"] / without["begins"]
    with_status = status["root"]["wrmsr"] - plain["root"]["wrmsr"] / runs
    assert reads == 2 * (saved + 1), f"{reads} RDMSR in two switches of {saved} registers"
    assert writes == 2 * saved, f"{writes} WRMSR in two switches of {saved} registers"
    assert status["begins"] == 1 and with_status == 2, f"{with_status} WRMSR more with STATUS set"
    cost = plain["root"]["instructions"] / runs - \
        without["root"]["instructions"] / without["begins"]
    return f"{saved} registers: {saved + 1} RDMSR, {saved} WRMSR (+2 in a round trip with STATUS " \
           f"set), {cost / 2:.0f} instructions"


def test_blocked_cost(lab):
    """What an exit inside the guest's NMI handler costs more: unblocking."""
    number, reason = bench.KINDS["cpuid"]
    outside = path_length(sweeps(lab), REGION_CLEAN + number, reason)
    inside = path_length(sweeps(lab), REGION_CLEAN_BLOCKED + number, reason)
    assert 0 < inside - outside <= BLOCKED_COST_MAX, f"{inside} and {outside}"
    return f"{inside - outside} root instructions ({outside}, {inside})"


def test_lbr(lab):
    """The guest's records and no others, over 64 exits between its jumps."""
    boot = suite(lab)
    assert results(boot)["lbr"], bench.notes(boot)
    assert exit_count(boot.region(REGION_LBR)) == 64, boot.region(REGION_LBR)["exits"]


def make_lbr_failure(mutant, debugctl):
    def one(lab):
        boot = run(lab, f"host-{mutant}", Plan().add("lbr"),
                   efi=path("build", "mutants", f"{mutant}.efi"))
        found = row(boot, "lbr", "lbr")
        assert not results(boot)["lbr"] and found["debugctl"] == debugctl, found
        assert found["wrong"] >= LBR_ENTRIES - 1, found  # the last jump is behind the last exit
    one.__name__ = f"test_lbr_fails_with_{mutant}"
    return one


# PEBS is there (MISC_ENABLE, DS), and not isolated: Skylake-SP's steppings are, up to 7 and 11.
PEBS = ["msr 0x1a0 0x50889", "msr 0x3f1 0"]
NOT_ISOLATED = PEBS + ["cpuid 1 0 eax 0x8"]
PEBS_SETUPS = [("", "msr+nmi", []), ("msr_lists", "msr+nmi", ["hide_control load_global_ctrl_at_entry"]),
               ("save_control", "msr+nmi", ["show_control save_global_ctrl"]),
               ("intercept", "intercept", [])]
SWITCHED = "IA32_PEBS_ENABLE is 0 in root mode"


def pebs(lab, name, knobs, **more):
    boot = run(lab, f"host-pebs-{name}", Plan(*knobs).add("pebs"), **more)
    return boot, row(boot, "pebs", "pebs"), path_length(boot, REGION_PEBS, 10)


def make_pebs_test(name, entry, knobs):
    def one(lab):
        boot, found, _ = pebs(lab, name or "switched", NOT_ISOLATED + knobs, entry=entry)
        assert results(boot)["pebs"] and SWITCHED in boot.console, found
        return f"{found['kept']} exits"
    one.__doc__ = "Not isolated: the guest keeps its value, root mode has 0."
    one.__name__ = "test_pebs" + (f"_{name}" if name else "")
    return one


def test_pebs_price(lab):
    """Lists are the processor's work: the exit has as many instructions and VMCS accesses."""
    switched, plain = (pebs(lab, name, knobs) for name, knobs in
                       (("switched", NOT_ISOLATED), ("isolated", PEBS)))
    assert SWITCHED not in plain[0].console and plain[1]["in_root"] != 0, plain[1]
    vmcs = [boot.region(REGION_PEBS)["exits"]["10"]["vmcs_accesses"]
            for boot in (switched[0], plain[0])]
    assert switched[2] == plain[2] and vmcs[0] == vmcs[1], f"{switched[2]}, {plain[2]}, {vmcs}"
    return f"{plain[2]} root instructions, {vmcs[0]['max']} VMCS accesses, with and without"


def test_pebs_fails_without_switch(lab):
    efi = path("build", "test", "mutants", "unisolated.efi")
    boot, found, _ = pebs(lab, "unisolated", NOT_ISOLATED, efi=efi)
    assert not results(boot)["pebs"] and found["in_root"] != 0, found
    return f"root mode saw {found['in_root']:#x}"


# tests/hooks/hooks.c, enum fault_kind, and what the last report must name.
FAULT_STACK_OVERFLOW, FAULT_REPORT, FAULT_MACHINE_CHECK, FAULT_GUEST_STATE = 1, 3, 5, 6
FAULTS = [("invalid_opcode", 0, "exception 6,"),
          ("stack_overflow", FAULT_STACK_OVERFLOW, "root stack overflow, exception 14,"),
          ("write_to_code", 2, "exception 14,"),
          ("report", FAULT_REPORT, "asked for by the guest"),
          ("double", 4, "double fault, exception 8,"),
          ("machine_check", FAULT_MACHINE_CHECK, "machine check, exception 18,"),
          ("guest_state", FAULT_GUEST_STATE, "reason 0x80000021 (ENTRY_FAILURE_GUEST_STATE)")]
# IA32_MCG_CAP with two banks, IA32_MCG_STATUS, and the second bank's STATUS, ADDR and MISC.
BANKS = ["msr 0x179 2", "msr 0x17a 5", "msr 0x401 0", "msr 0x402 0", "msr 0x403 0",
         "msr 0x405 0xbc00000000000135", "msr 0x406 0x1234000", "msr 0x407 0x86"]
BANK_LINES = ["IA32_MCG_STATUS 5, 2 banks",
              "machine-check bank 1: STATUS bc00000000000135 ADDR 1234000 MISC 86"]
STOPPED = "---- stopped ----"


def make_fault_test(name, kind, text):
    def one(lab):
        plan = Plan(*(BANKS if kind == FAULT_MACHINE_CHECK else []))
        boot = run(lab, f"host-fault-{name}", plan.add(f"host-fault:{kind}"), until=STOPPED)
        boot.expect_status(STATUS_TEXT)
        said = boot.console[boot.console.find("TAP version"):]
        assert "fault in root mode: " in said and text in said, said[-400:]
        assert STOPPED in said and "root mode went on" not in said, said[-400:]
        assert "the log's last" in said and "exits of processor" in said, said[-400:]
        if kind == FAULT_REPORT:
            return
        if kind == FAULT_MACHINE_CHECK:
            assert all(line in said for line in BANK_LINES), said[-2000:]
        if kind == FAULT_GUEST_STATE:
            assert "RFLAGS 00000000" in said and re.search(r"^CS +0010 base 0+ limit f+ ", said,
                                                           re.MULTILINE), said[-2000:]
        registers = {word: int(value, 16) for word, value in
                     re.findall(r"\b(R[A-Z0-9]{1,2}|CR2) +([0-9a-f]{16})\b", said)}
        assert len(registers) == 18, registers
        if kind == FAULT_STACK_OVERFLOW:  # the push that failed was the first one below the stack
            assert registers["RSP"] % PAGE == 0 and registers["CR2"] == registers["RSP"] - 8, \
                f"RSP {registers['RSP']:x}, CR2 {registers['CR2']:x}"
    one.__name__ = f"test_fault_{name}"
    return one


TESTS = [make_sweep_test(test, kind) for test in ("host-sweep", "host-sweep-blocked")
         for kind in KINDS]
TESTS += [test_sweep_x2apic, test_sweep_lazy, test_sweep_nmi_exit, test_sweep_tick,
          test_tick_unbounded,
          test_sweep_merge, make_merge_test("pebs", 62), make_merge_test("uncore", 61),
          make_merge_test("bts", "none"),
          test_sweep_merge_fails_with_blind_pmi, test_sweep_merge_fails_without_lost,
          test_sweep_merge_fails_without_skid, test_sweep_fails_without_unblock,
          test_sweep_fails_without_sources, test_root_requests, test_lost, test_burst,
          test_returned, test_sending, test_nested_nmi, test_returned_lazy,
          test_lost_fails_without_it, test_unblocking,
          test_unblocking_fails_without_it, test_masking, test_masking_late_pmi,
          test_masking_fails_without_it,
          test_context_work, test_context_two_guests, test_context_fails_without_switch,
          *map(make_context_test, bench.SHAPES), test_context_cost, test_blocked_cost, test_lbr, make_lbr_failure("no_debugctl", 0),
          make_lbr_failure("root_branches", 1)]
TESTS += [make_pebs_test(*setup) for setup in PEBS_SETUPS]
TESTS += [test_pebs_price, test_pebs_fails_without_switch]
TESTS += [make_setup_test(*setup) for setup in bench.SETUPS]
TESTS += [make_fault_test(*fault) for fault in FAULTS]
