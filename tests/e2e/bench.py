# SPDX-License-Identifier: BSD-2-Clause
# bench.py: the test kernel (tests/kernel) natively and under PMUvisor. Its sweeps put one NMI, or
# one PMI, at every root-mode instruction between an exit and the next entry; the guest says what it
# saw, and the emulator's ledger says how long the path was and how many NMIs there were.
import os
import re
import shutil
import tempfile

from machine import STATUS_POWEROFF, STATUS_RESET, Skip, exit_count, path

# tests/kernel/kernel.h, enum region; the exit reasons are the SDM's.
REGION_MSR = 1003
REGION_PMI = 1004
REGION_SWEEP_PMI = 1006
REGION_SWEEP_PMI_CLEAN = 1007
REGION_REGISTERS = 1008
REGION_SWEEP_CLEAN = 1100
REGION_SWEEP_CLEAN_BLOCKED = 1200
# tests/kernel/probe.h, enum probe_kind.
KINDS = {"cpuid": (0, 10), "vmcall": (1, 18), "wrmsr": (2, 32), "wrmsr-fault": (3, 32),
         "ept": (4, 48), "cpuid-sti": (5, 10), "cpuid-movss": (6, 10)}
PMI_BEFORE = 200  # tests/kernel/probe.h

POSITIONS = 450   # more than any of these exits has instructions
APART = 600       # exits from the first of one sweep to the first of the next
HANDLER_NMIS = 450
TWICE_AT = 20     # where the fixed one of two NMIs in an exit comes
LONG_SKID = 160   # instructions; longer than the CPUID exit's path, shorter than PMI_BEFORE
SKIDS = 65        # skids of 0 to 64 instructions

# tests/kernel/test_exits.c: two instructions a round, four around them, and the WRMSR before.
COUNTED = 2 * 100000 + 5

BASICS = ["cpuid", "wrap", "vmcall", "msr", "count", "pmi", "self", "blocked", "sti", "movss", "hlt"]


class Plan:
    """Sweeps of one boot: what the guest is told, and the knobs that go with it."""

    def __init__(self, *knobs):
        self.knobs = list(knobs)
        self.words = []
        self.next = {}

    def add(self, *words):
        self.words += words
        return self

    def sweep(self, test, *kinds):
        for kind in kinds:
            reason = KINDS[kind][1]
            first = self.next.get(reason, 0) + APART
            self.next[reason] = first
            self.knobs.append(f"nmi_root reason={reason} exits={first}-{first + POSITIONS - 1} "
                              "position=sweep")
            self.words.append(f"{test}:{kind}:{first}:{POSITIONS}")
        return self

    def twice(self, kind):
        """Two NMIs in each exit: the sweep's, and one that always comes at the same place."""
        self.sweep("sweep-twice", kind)
        self.knobs.append(self.knobs[-1].replace("=sweep", f"={TWICE_AT}"))
        return self

    def nmi_exits(self, first=101, positions=300, stride=4):
        """Where NMIs exit: another NMI at each instruction of such an exit (sweep.c says how)."""
        for position in range(1, positions + 1):
            self.knobs.append(f"nmi_root reason=0 exits={first + (position - 1) * stride} "
                              f"position={position}")
        return self.add(f"sweep-nmi:{first}:{positions}")

    def handler(self, word, first, count):
        """NMIs first, first + 1, ... of the run each get another one while they are handled."""
        self.knobs.append(f"nmi_handler nmis={first}-{first + count - 1} position=sweep")
        if word == ":exit":
            self.next[KINDS["cpuid"][1]] = self.next.get(KINDS["cpuid"][1], 0) + count + APART
        return self.add(f"sweep-handler{word}:{first}:{count}")


def run(lab, name, plan, entry="msr+nmi", config="", efi=None, cpus=1, **more):
    image = path("build", "kernel.bzImage")
    assert os.path.exists(image), "build/kernel.bzImage is missing; run: make test-kernel"
    with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
        initrd.write(b"none\n")
        initrd.flush()
        return lab.emulator(name, entry=entry, config=config, kernel=image, initrd=initrd.name,
                            efi=efi, cpus=cpus, append="tests=" + ",".join(plan.words),
                            knobs="\n".join(plan.knobs) + "\n", **more)


def native(lab):
    plan = Plan().handler("", 1, HANDLER_NMIS).add(*BASICS, "x2apic", *BASICS)
    return run(lab, "bench-native", plan, entry="native")


def guest(lab):
    """Everything but PMIs with skid, in xAPIC and in x2APIC mode."""
    plan = Plan().handler("", 1, HANDLER_NMIS).handler(":exit", 501, 2 * HANDLER_NMIS)
    plan.add(*BASICS).sweep("sweep", *KINDS).sweep("sweep-next", *KINDS)
    plan.sweep("sweep-second", "cpuid").sweep("sweep-blocked", *KINDS).twice("cpuid")
    plan.add("x2apic", *BASICS).sweep("sweep", *KINDS).sweep("sweep-next", *KINDS)
    plan.sweep("sweep-second", "cpuid")
    plan.sweep("sweep-blocked", *KINDS).twice("cpuid")
    return run(lab, "bench", plan)


def guest_pmi(lab):
    """One PMI for each distance between the overflow and an exit, all with one long skid."""
    plan = Plan(f"pmi_skid {LONG_SKID}").add("sweep-pmi:1", "x2apic", "sweep-pmi:1")
    return run(lab, "bench-pmi", plan)


def guest_skids(lab):
    """For each of these distances, a PMI of every skid from 0 to SKIDS - 1."""
    plan = Plan(f"pmi_skid sweep/{SKIDS}").add(f"sweep-pmi:{SKIDS}", "x2apic", f"sweep-pmi:{SKIDS}")
    return run(lab, "bench-skids", plan)


# How the hypervisor may be set up so that its exit path is another one: name, options, menu entry,
# knobs, kinds of exit. (With a trapped APIC the guest's own NMIs are EPT violations.)
SPECULATION = ["cpuid 7 0 edx 0x34000400", "msr 0x48 0", "msr 0x49 0", "msr 0x10a 0", "msr 0x10b 0"]
SOME_KINDS = ["cpuid", "cpuid-sti", "wrmsr-fault", "ept"]
SETUPS = [
    ("policy-msr", "", "msr", [], SOME_KINDS),
    ("policy-intercept", "", "intercept", [], SOME_KINDS),
    ("apic-trap", "apic=trap", "msr+nmi", [], SOME_KINDS[:-1]),
    ("unblock-lazy", "unblock=lazy", "msr+nmi", [], SOME_KINDS),
    ("stats-cycles", "stats=cycles", "msr+nmi", [], SOME_KINDS),
    ("mitigations", "mitigations=auto", "msr+nmi", SPECULATION, ["cpuid", "cpuid-sti", "ept"]),
    ("msr-lists", "", "msr+nmi", ["hide_control load_global_ctrl_at_entry"], SOME_KINDS),
]


def tap(boot):
    """(name, ok, skipped, line) of every test in the order in which they ran."""
    boot.expect_status(STATUS_POWEROFF)
    found = []
    for line in boot.console.splitlines():
        match = re.match(r"(ok|not ok) (\d+) - (\S+?)(:? .*)?$", line)
        if match:
            found.append((match[3], match[1] == "ok", "# SKIP" in line, line))
        assert not line.startswith("Bail out!"), line
    plan = re.search(r"^1\.\.(\d+)$", boot.console, re.MULTILINE)
    assert plan and int(plan[1]) == len(found) > 0, f"{len(found)} tests, but the plan is " \
                                                    f"{plan[0] if plan else 'missing'}"
    return found


def notes(boot):
    return "; ".join(line for line in boot.console.splitlines() if line.startswith("# "))[-400:]


def expect_ok(boot, names, skipped=()):
    """Every run of these tests passed; those in `skipped` were skipped instead."""
    seen = {name: 0 for name in names}
    for name, good, skip, line in tap(boot):
        if name not in seen:
            continue
        seen[name] += 1
        assert good, f"{line} ({notes(boot)})"
        assert skip == (name in skipped), line
    missing = [name for name, count in seen.items() if count == 0]
    assert not missing, f"never ran: {missing}"


def sweeps(boot, test):
    """The rows 'sweep: name=TEST:KIND:FIRST:POSITIONS ...' by kind."""
    rows = {}
    for row in boot.lines("sweep"):
        parts = row["name"].split(":")
        if parts[0] == test:
            rows.setdefault(parts[1], []).append({key: int(value) for key, value in row.items()
                                                  if key != "name"} | {"name": row["name"]})
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
        # Behind an exit with an NMI there may be more to do than without.
        behind = test in ("sweep-next", "sweep-second")
        right = row["delivered"] >= length if behind else row["delivered"] == length
        assert right and row["wrong"] == 0, f"{row}: the path has {length} instructions"
    return f"{rows[0]['delivered']} positions"


def counted(boot):
    """What the test `count` counted, each time it ran."""
    expect_ok(boot, ["count"])
    results = [line for line in boot.console.splitlines() if line.startswith("results: ")]
    return [int(value) for value in re.findall(r" count=(\d+)", results[-1])]


def make_sweep_test(test, kind):
    def one(lab):
        return expect_sweep(guest(lab), test, kind, 2)
    one.__name__ = f"test_{test}_{kind}"
    return one


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
        assert under["nonroot"] == bare["nonroot"], f"region {region}: {under['nonroot']} " \
            f"instructions, natively {bare['nonroot']}"


def test_every_nmi_accounted(lab):
    """What the emulator sent is what the guest saw: nothing lost or invented."""
    boot = guest(lab)
    sent = boot.ledger["scheduled_nmis"]["fired"]
    seen = sum(row["delivered"] for test in ("sweep", "sweep-next", "sweep-second", "sweep-blocked")
               for rows in sweeps(boot, test).values() for row in rows)
    chains = 3 * HANDLER_NMIS
    # Of two in one exit, one is always there; the other one merges with it.
    twice = [row for row in boot.lines("sweep") if row["name"].startswith("sweep-twice")]
    once = sum(int(row["delivered"]) for row in twice)
    assert sent - seen - chains - once in range(len(twice), once + 1), \
        f"sent {sent}, seen {seen} in exits, {chains} in handlers, {once} in exits with two"
    return f"{sent} NMIs"


def test_sweep_pmi(lab):
    """A PMI landing before, on every root instruction of, and behind an exit: taken once each."""
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
    boot = run(lab, f"bench-freeze-{name}", plan, entry=entry, **more)
    row = boot.lines("freeze")[0]
    assert int(row["handled"]) == PMI_BEFORE, row
    return boot, [int(row[key]) for key in ("running", "recording", "unmarked")]


def make_freeze_test(name, entry, config, knobs):
    def one(lab):
        boot, bad = freeze(lab, name, entry, knobs, config=config)
        expect_ok(boot, ["freeze"])
        assert bad == [0, 0, 0], bad
        return f"{PMI_BEFORE} PMIs"
    one.__doc__ = "Counters and branch records stand still at a PMI wherever it lands."
    one.__name__ = f"test_freeze_{name}"
    return one


FREEZE = [("native", "native", "", []), ("msr_nmi", "msr+nmi", "", []), ("msr", "msr", "", []),
          ("intercept", "intercept", "", []), ("apic_trap", "msr+nmi", "apic=trap", []),
          ("save_control", "msr+nmi", "", ["show_control save_global_ctrl"]),
          ("msr_lists", "msr+nmi", "", ["hide_control load_global_ctrl_at_entry"])]


# PMUs with counters that CPUID.0AH:ECX or leaf 23H alone names: version, general, fixed.
SHAPES = {"v5": (5, 0x3ff, 0x8027), "v6": (6, 0xfbcf, 0x802f)}


def shape_knobs(shape):
    return [f"pmu_{name} {value:#x}" for name, value in
            zip(("version", "general_mask", "fixed_mask"), SHAPES[shape])]


def make_registers_test(shape):
    def one(lab):
        found = {}
        for entry, config in (("native", ""), ("msr+nmi", ""), ("intercept", ""),
                              ("msr+nmi", "pmu=off")):
            name = config or entry
            boot = run(lab, f"bench-registers-{shape}-{name}",
                       Plan(*shape_knobs(shape)).add("pmu-registers"), entry=entry, config=config)
            row = {k: int(v) for k, v in boot.lines("registers")[0].items() if k != "name"}
            found[name] = (row["there"], row["enabled"], exit_count(boot.region(REGION_REGISTERS)))
            tried = row["tried"]
        # Natively the emulator shows every index as there: no hypervisor, no kernel has started.
        there = found["msr+nmi"][0]
        _, general, fixed = SHAPES[shape]
        enabled = general | fixed << 32
        assert found["native"][1] == enabled and there > 2 * (general.bit_count()), found
        assert found == {"native": found["native"], "msr+nmi": (there, enabled, 0),
                         "intercept": (there, enabled, tried), "pmu=off": (0, 0, tried)}, \
            f"{found}, {tried} indices"
        return f"{there} registers of {tried} indices"
    one.__doc__ = "All of the PMU's registers are there, exit or fault, as the policy says."
    one.__name__ = f"test_registers_{shape}"
    return one


def test_freeze_version_3(lab):
    """There the freeze clears what enables: branch records, as natively; of the counters no one."""
    _, native = freeze(lab, "native-3", "native", ["pmu_version 3"])
    _, guest = freeze(lab, "3", knobs=["pmu_version 3"])
    _, without = freeze(lab, "no-freeze-3", knobs=["pmu_version 3"],
                        efi=path("build", "mutants", "no_freeze.efi"))
    in_root = guest_pmi(lab).region(REGION_SWEEP_PMI)["pmi"]["root"] // 2
    assert native == [0, 0, 0] and guest == [in_root, 0, 0], f"{native}, {guest}, {in_root}"
    assert without == [in_root, in_root, 0], without
    return f"records 0, without the freeze {without[1]} of {PMI_BEFORE}; counters {guest[0]}"


def test_freeze_fails_without_it(lab):
    """PMIs of root mode then find everything running; the others are frozen by the processor."""
    in_root = guest_pmi(lab).region(REGION_SWEEP_PMI)["pmi"]["root"] // 2
    _, bad = freeze(lab, "no-freeze", efi=path("build", "mutants", "no_freeze.efi"))
    assert bad == [in_root, in_root, in_root], f"{bad}, {in_root} PMIs in root mode"
    return f"{bad} of {PMI_BEFORE} not frozen"


def make_setup_test(name, config, entry, knobs, kinds):
    def one(lab):
        plan = Plan(f"pmi_skid {LONG_SKID}", *knobs)
        if entry != "msr+nmi":
            plan.nmi_exits()
        plan.sweep("sweep", *kinds)
        plan.sweep("sweep-blocked", "cpuid").add("blocked", "sweep-pmi:1", "count")
        boot = run(lab, f"bench-{name}", plan, entry=entry, config=config)
        for kind in kinds[1:]:
            expect_sweep(boot, "sweep", kind, 1)
        expect_sweep(boot, "sweep-blocked", "cpuid", 1)
        expect_ok(boot, [word for word in plan.words if ":" in word] + ["blocked"])
        # An instruction that exits does not retire.
        wanted = COUNTED - (entry == "intercept")
        assert counted(boot) == [wanted], f"{counted(boot)}, wanted {wanted}"
        return expect_sweep(boot, "sweep", "cpuid", 1)
    one.__name__ = f"test_sweep_{name}"
    return one


def test_exceptions(lab):
    """A refused CR4 value changes nothing; faults during event delivery arrive as they do natively."""
    boot = run(lab, "bench-exceptions", Plan().add("cr4", "delivery"))
    expect_ok(boot, ["cr4", "delivery"])


# Leaving x2APIC mode, twice, and everything again behind it; the APIC off in between.
LEAVE = ["apic-leave", *BASICS, "x2apic", "apic-off", "self", "apic-leave", *BASICS]
PIN_NMIS = 20  # tests/kernel/test_apic.c


def test_apic_leave_native(lab):
    """The local APIC leaves x2APIC mode, and goes on in xAPIC mode: the reference."""
    expect_ok(run(lab, "bench-leave-native", Plan().add(*LEAVE), entry="native"), LEAVE,
              skipped=["vmcall"])


def make_leave_test(entry):
    def one(lab):
        boot = run(lab, f"bench-leave-{entry}", Plan().add(*LEAVE), entry=entry)
        expect_ok(boot, LEAVE)
        # One from the guest, by the pin, at a time: each is the guest's, at once.
        assert [int(row["pin"]) for row in boot.lines("apicoff")] == [PIN_NMIS]
    one.__name__ = f"test_apic_leave_{entry}"
    return one


def test_apic_off(lab):
    """An NMI at every instruction of an exit while the APIC is globally disabled: it comes once, or
    is counted as dropped; nothing else of the guest is touched."""
    plan = Plan()
    first = APART
    plan.knobs.append(f"nmi_root reason={KINDS['cpuid'][1]} exits={first}-{first + POSITIONS - 1} "
                      "position=sweep")
    plan.add("apic-leave", f"apic-off:{first}:{POSITIONS}", *BASICS)
    boot = run(lab, "bench-apic-off", plan)
    expect_ok(boot, plan.words)
    row = boot.lines("apicoff")[0]
    sent, came = boot.ledger["scheduled_nmis"]["fired"], int(row["root"])
    dropped = sum(int(n) for n in re.findall(r", dropped (\d+);", boot.console))
    assert sent > 100 and came + dropped == sent, f"{sent} sent, {came} came, {dropped} dropped"
    assert int(row["pin"]) == PIN_NMIS, row
    return f"{sent} in root mode: {came} came, {dropped} dropped"


def test_shutdown(lab):
    """A fault in the delivery of a double fault is a triple fault: reported, then a reset."""
    boot = run(lab, "bench-shutdown", Plan().add("shutdown"))
    boot.expect_status(STATUS_RESET)
    assert "shut down (triple fault)" in boot.console, boot.last_line()
    # One that finds the hidden memory; then #GP, and the #DF that it makes.
    count = boot.ledger["exits"]["48"]["count"]
    assert count == 3, f"{count} EPT violations, wanted 3"


def test_qemu_kernel(lab):
    """The same file boots by QEMU -kernel on a BIOS: the 16-bit entry."""
    qemu = "qemu-system-x86_64"
    if shutil.which(qemu) is None:
        raise Skip(f"{qemu} is missing")
    command = [qemu, "-machine", "q35,accel=tcg", "-cpu", "Skylake-Server", "-m", "64",
               "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
               "-kernel", path("build", "kernel.bzImage"), "-append",
               "tests=cpuid,self,blocked,sti,movss,hlt"]
    boot = lab.boot("bench-qemu", lambda: lab.watch("bench-qemu", command))
    expect_ok(boot, ["cpuid", "self", "blocked", "sti", "movss", "hlt"])


def expect_all_lost(lab, name, **keywords):
    """Without the mechanism the guest loses every NMI of root mode, and every sweep says so."""
    plan = Plan(f"pmi_skid {LONG_SKID}").sweep("sweep", *KINDS).add("sweep-pmi:1")
    boot = run(lab, name, plan, **keywords)
    rows = sweeps(boot, "sweep")
    assert sorted(rows) == sorted(KINDS), rows
    for kind in KINDS:
        assert rows[kind][0]["delivered"] == 0, f"{rows[kind]}: NMIs without the mechanism"
    bad = [test for test, good, _, _ in tap(boot) if not good]
    assert bad == plan.words, f"failed {bad}, wanted all of {plan.words}"


def test_fails_without_resend(lab):
    """A hypervisor that does not send root-mode NMIs again."""
    expect_all_lost(lab, "bench-no-resend", efi=path("build", "mutants", "no_resend.efi"))


def test_fails_without_skid_step(lab):
    """The real one, with that step of the bookkeeping switched off."""
    expect_all_lost(lab, "bench-no-skid", config="bookkeeping=lost,unblock,mask")


def test_fails_with_careless(lab):
    """A hypervisor that loses the guest's NMI blocking, or a register, is seen to do so."""
    plan = Plan().sweep("sweep", "wrmsr").sweep("sweep-blocked", "cpuid")
    boot = run(lab, "bench-careless", plan, efi=path("build", "mutants", "careless.efi"))
    assert "# wrmsr: R12 is 0xbad" in boot.console, boot.last_line()
    assert "Bail out! an NMI arrived inside the NMI handler" in boot.console, boot.last_line()


TESTS = [test_native, test_native_sweep_handler, test_guest, test_guest_sweep_handler,
         test_no_exits, test_count]
TESTS += [make_sweep_test(test, kind) for test in ("sweep", "sweep-next", "sweep-blocked")
          for kind in KINDS] + [make_sweep_test("sweep-second", "cpuid")]
TESTS += [test_sweep_twice, test_every_nmi_accounted, test_sweep_pmi,
          test_sweep_skids]
TESTS += [make_freeze_test(*setup) for setup in FREEZE] + [make_registers_test(shape) for shape in SHAPES] + [test_freeze_version_3, test_freeze_fails_without_it]
TESTS += [make_setup_test(*setup) for setup in SETUPS]
TESTS += [test_fails_without_resend, test_fails_without_skid_step, test_fails_with_careless,
          test_exceptions, test_shutdown, test_apic_leave_native]
TESTS += [make_leave_test(entry) for entry in ("msr+nmi", "msr", "intercept")]
TESTS += [test_apic_off,
          test_qemu_kernel]
