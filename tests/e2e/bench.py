# SPDX-License-Identifier: BSD-2-Clause
# bench.py: the bench kernel (guest/bench) natively and under PMUvisor. Its sweeps put one NMI, or one
# PMI, at every root-mode instruction between an exit and the next entry; the guest says what it saw,
# and the emulator's ledger says how long the path was and how many NMIs there were.
import os
import re
import tempfile

from machine import STATUS_POWEROFF, exit_count, path

# guest/bench/bench.h, enum region; the exit reasons are the SDM's.
REGION_CPUID = 1001
REGION_MSR = 1003
REGION_PMI = 1004
REGION_SWEEP_PMI = 1006
REGION_SWEEP_CLEAN = 1100
REGION_SWEEP_CLEAN_BLOCKED = 1200
# guest/bench/probe.h, enum probe_kind.
KINDS = {"cpuid": (0, 10), "vmcall": (1, 18), "wrmsr": (2, 32), "wrmsr-fault": (3, 32),
         "ept": (4, 48), "cpuid-sti": (5, 10), "cpuid-movss": (6, 10)}
PMI_BEFORE = 200  # guest/bench/probe.h

POSITIONS = 400   # more than any of these exits has instructions
APART = 600       # exits from the first of one sweep to the first of the next
HANDLER_NMIS = 400
LONG_SKID = 160   # instructions; longer than the CPUID exit's path, shorter than PMI_BEFORE
BOOT_SECONDS = 90

BASICS = ["cpuid", "vmcall", "msr", "count", "pmi", "self", "blocked", "sti", "movss", "hlt"]


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

    def handler(self):
        """Has to be the boot's first test with NMIs."""
        self.knobs.append(f"nmi_handler nmis=1-{HANDLER_NMIS} position=sweep")
        return self.add(f"sweep-handler:{HANDLER_NMIS}")


def run(lab, name, plan, entry="msr+nmi", config="", efi=None):
    image = path("build", "bench.bzImage")
    assert os.path.exists(image), "build/bench.bzImage is missing; run: make bench-image"
    with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
        initrd.write(b"none\n")
        initrd.flush()
        return lab.emulator(name, entry=entry, config=config, kernel=image, initrd=initrd.name,
                            efi=efi, append="bench=" + ",".join(plan.words),
                            knobs="\n".join(plan.knobs) + "\n", timeout=BOOT_SECONDS)


def native(lab):
    plan = Plan().handler().add(*BASICS, "x2apic", *BASICS)
    return run(lab, "bench-native", plan, entry="native")


def guest(lab):
    """Everything but PMIs with skid, in xAPIC and in x2APIC mode."""
    plan = Plan().handler().add(*BASICS)
    plan.sweep("sweep", *KINDS).sweep("sweep-blocked", *KINDS)
    plan.add("x2apic", *BASICS)
    plan.sweep("sweep", *KINDS).sweep("sweep-blocked", *KINDS)
    return run(lab, "bench", plan)


def guest_pmi(lab):
    """One PMI for each distance between the overflow and an exit, all with one long skid."""
    plan = Plan(f"pmi_skid {LONG_SKID}").add("cpuid", "sweep-pmi:1", "x2apic", "sweep-pmi:1")
    return run(lab, "bench-pmi", plan)


def sweep_again(lab, name, *knobs, **keywords):
    """The sweeps whose path depends on how the hypervisor is set up."""
    plan = Plan(*knobs).sweep("sweep", "cpuid", "wrmsr-fault").sweep("sweep-blocked", "cpuid")
    return run(lab, name, plan, **keywords)


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


def path_length(boot, kind):
    """Root-mode instructions of this exit without an NMI, by the ledger; always the same."""
    number, reason = KINDS[kind]
    spread = boot.region(REGION_SWEEP_CLEAN + number)["exits"][str(reason)]["root_instructions"]
    assert spread["samples"] > 0 and spread["min"] == spread["max"], f"{kind}: {spread}"
    return spread["min"]


def expect_sweep(boot, test, kind, times):
    """The sweep passed, and every instruction of the path had its NMI."""
    rows = sweeps(boot, test).get(kind, [])
    assert len(rows) == times, f"{test} of {kind} ran {len(rows)} times, wanted {times}"
    length = path_length(boot, kind)
    for row in rows:
        expect_ok(boot, [row["name"]])
        assert row["delivered"] == length and row["wrong"] == 0, \
            f"{row}: the path has {length} instructions"
    return f"{length} positions"


def make_sweep_test(test, kind):
    def one(lab):
        return expect_sweep(guest(lab), test, kind, 2)
    one.__name__ = f"test_{test}_{kind}"
    return one


def test_native(lab):
    """Everything passes natively; what needs a hypervisor is skipped."""
    boot = native(lab)
    expect_ok(boot, BASICS + ["x2apic"], skipped=["vmcall"])


def test_native_sweep_handler(lab):
    """An NMI at every instruction of the NMI handler, its IRET included: the reference."""
    expect_ok(native(lab), [f"sweep-handler:{HANDLER_NMIS}"])


def test_guest(lab):
    expect_ok(guest(lab), BASICS + ["x2apic"])


def test_guest_sweep_handler(lab):
    expect_ok(guest(lab), [f"sweep-handler:{HANDLER_NMIS}"])


def test_no_exits(lab):
    """PMU MSRs and PMIs, LVTPC included: no exit, and as many guest instructions as natively."""
    for region in (REGION_MSR, REGION_PMI):
        under, bare = guest(lab).region(region), native(lab).region(region)
        assert exit_count(under) == 0, f"region {region}: {under['exits']}"
        assert under["pmi"]["raised"] == bare["pmi"]["raised"] == under["pmi"]["nonroot"]
        assert under["nonroot"] == bare["nonroot"], f"region {region}: {under['nonroot']} " \
            f"instructions, natively {bare['nonroot']}"


def test_every_nmi_accounted(lab):
    """What the emulator sent is what the guest saw: nothing lost, merged or invented."""
    boot = guest(lab)
    sent = boot.ledger["scheduled_nmis"]["fired"]
    seen = sum(row["delivered"] for test in ("sweep", "sweep-blocked")
               for rows in sweeps(boot, test).values() for row in rows)
    assert sent == seen + HANDLER_NMIS, f"sent {sent}, seen {seen} and {HANDLER_NMIS} in handlers"
    in_root = sum(row["delivered"] for rows in sweeps(boot, "sweep").values() for row in rows)
    assert boot.ledger["nmi"]["root"] == in_root, f"{boot.ledger['nmi']}, wanted {in_root} in root"
    return f"{sent} NMIs"


def test_sweep_pmi(lab):
    """A PMI landing before, on every root instruction of, and behind an exit: taken once each."""
    boot = guest_pmi(lab)
    expect_ok(boot, ["sweep-pmi:1"])
    spread = boot.region(REGION_CPUID)["exits"]["10"]["root_instructions"]
    for row in boot.lines("sweep"):
        assert int(row["delivered"]) == PMI_BEFORE, row
        # Those between the exit's instructions, and the one between the entry and the guest's next.
        assert int(row["at_entry"]) == spread["min"] == spread["max"], f"{row}: path {spread}"
    pmi = boot.region(REGION_SWEEP_PMI)["pmi"]
    assert pmi["raised"] == 2 * PMI_BEFORE and pmi["masked"] == 0, pmi
    assert pmi["root"] == 2 * (spread["min"] - 1), f"{pmi}, path {spread}"
    return f"{pmi['raised']} PMIs, {pmi['root']} in root mode"


def expect_sweeps_again(boot):
    expect_sweep(boot, "sweep", "wrmsr-fault", 1)
    expect_sweep(boot, "sweep-blocked", "cpuid", 1)
    return expect_sweep(boot, "sweep", "cpuid", 1)


def test_sweep_timed(lab):
    """stats=cycles has an exit path of its own."""
    boot = sweep_again(lab, "bench-timed", config="stats=cycles")
    return expect_sweeps_again(boot)


def test_sweep_lists(lab):
    """Without the VMCS load controls of GLOBAL_CTRL the MSR lists do it."""
    boot = sweep_again(lab, "bench-lists", "hide_control load_global_ctrl_at_entry")
    return expect_sweeps_again(boot)


def test_fails_without_resend(lab):
    """A hypervisor that does not send root-mode NMIs again loses every one, and the sweeps say so."""
    plan = Plan(f"pmi_skid {LONG_SKID}").sweep("sweep", *KINDS).add("sweep-pmi:1")
    boot = run(lab, "bench-no-resend", plan, efi=path("build", "mutants", "no_resend.efi"))
    rows = sweeps(boot, "sweep")
    assert sorted(rows) == sorted(KINDS), rows
    for kind in KINDS:
        assert rows[kind][0]["delivered"] == 0, f"{rows[kind]}: NMIs without the mechanism"
    bad = [name for name, good, _, _ in tap(boot) if not good]
    assert bad == plan.words, f"failed {bad}, wanted all of {plan.words}"


def test_fails_with_careless(lab):
    """A hypervisor that loses the guest's NMI blocking, or a register, is seen to do so."""
    plan = Plan().sweep("sweep", "wrmsr").sweep("sweep-blocked", "cpuid")
    boot = run(lab, "bench-careless", plan, efi=path("build", "mutants", "careless.efi"))
    assert "# wrmsr: R12 is 0xbad" in boot.console, boot.last_line()
    assert "Bail out! an NMI arrived inside the NMI handler" in boot.console, boot.last_line()


TESTS = [test_native, test_native_sweep_handler, test_guest, test_guest_sweep_handler,
         test_no_exits]
TESTS += [make_sweep_test(test, kind) for test in ("sweep", "sweep-blocked") for kind in KINDS]
TESTS += [test_every_nmi_accounted, test_sweep_pmi, test_sweep_timed, test_sweep_lists,
          test_fails_without_resend, test_fails_with_careless]
