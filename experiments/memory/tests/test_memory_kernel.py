# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import pytest

from testbed.machine import path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok
from tests.e2e.test_host import NOT_ISOLATED, PEBS

CPUS = 4
TSC = "tsc_hz 500000000"
WRITES = ["memory-writes"]
# Each mode, and how PEBS is there: isolated, switched by MSR lists, or with those of GLOBAL_CTRL
# too.
MODES = {
    "writes": (1, PEBS),
    "reads": (2, NOT_ISOLATED),
    "all": (3, NOT_ISOLATED + ["hide_control load_global_ctrl_at_entry"]),
}
EVENTS = ["smp-memory-events"]
STORM = ["smp-memory:3000"]
WHOLE = [
    "pmi",
    "self",
    "blocked",
    "sti",
    "movss",
    "hlt",
    "delivery",
    "task",
    "smp-interrupts:150",
    "smp-interrupts:150:3000:1",
    "fuzz:1:0:2048",
]
EPT_VIOLATION = "48"
CR_ACCESS = "28"
STORM_ALL = ["smp-memory-shadows", "smp-memory:500:3:40000", "smp-x2apic", "smp-memory:500:1:20000"]
STORM_EXITS = ["smp-memory:500:1:20000", "smp-x2apic", "smp-memory:500:1:20000"]
MILLION = ["smp-memory:45000"]
MILLION_LIMIT = 20000
# tests/kernel/test_memory_sweep.c: each exit with its reason, the first exit of its sweep, and how
# many exits are from one position to the next. Exits before are of the same reasons.
SWEEPS = {
    "violation": (48, 101, 1),
    "trap": (37, 1001, 1),
    "last-violation": (48, 2001, 1),
    "last-trap": (37, 3001, 1),
    "chunk-violation": (48, 4001, 1),
    "chunk": (37, 5001, 1),
    "event-violation": (48, 6001, 16),
    "event-trap": (37, 18001, 16),
}
REGION_SWEEP = 1720
POSITIONS = 640  # more than any of these exits has instructions

LIMIT = 4000  # millions of instructions


def writes(lab, entry="msr+nmi", config=""):
    return kernel.run(
        lab,
        f"memory-writes-{entry}",
        Plan().add(*WRITES),
        entry=entry,
        config=f"memtrace=writes {config}",
    )


def storm(lab, cpus, words, config="memtrace=writes"):
    return kernel.run(
        lab,
        f"memory-storm-{cpus}",
        Plan(TSC).add(*words, "smp-x2apic", *words),
        config=config,
        cpus=cpus,
        limit=LIMIT,
    )


def test_writes(lab):
    """Each kind of instruction that writes leaves the records that it has to."""
    expect_ok(writes(lab), WRITES)


def test_no_counter(lab):
    """A processor of version 6 with IA32_FIXED_CTR0 by its newer name alone: it counts nothing."""
    boot = kernel.run(
        lab,
        "memory-no-counter",
        Plan("pmu_version 6", "hide_msr 0x309").add(*WRITES),
        config="memtrace=writes",
    )
    assert "# retired: 0, and 0 at the next instruction" in boot.console, kernel.notes(boot)
    kernel.tap(boot)  # it went on to its end


def total(boot):
    """How many records the storms judged, one by one."""
    rows = boot.lines("storm")
    records = {}
    for row in rows:  # a processor's ring goes on from one test to the next
        records[row["cpu"]] = max(records.get(row["cpu"], 0), int(row["records"]))
    events = sum(int(row["interrupts"]) + int(row["nmis"]) for row in rows)
    return f"{sum(records.values())} records, {events} events"


@pytest.mark.parametrize("cpus", [1, CPUS], ids=["storm_1", "storm_4"])
def test_storm(lab, cpus):
    """Events at all times: no record of a store, frame or push lacks, and none is invented."""
    boot = storm(lab, cpus, STORM)
    expect_ok(boot, STORM)
    return total(boot)


@pytest.mark.full
def test_storm_million(lab):
    """More than a million accesses of one processor."""
    boot = kernel.run(
        lab,
        "memory-storm-million",
        Plan(TSC).add(*MILLION),
        limit=MILLION_LIMIT,
        config="memtrace=writes",
    )
    expect_ok(boot, MILLION)
    assert int(boot.lines("storm")[0]["records"]) > 1000000, boot.lines("storm")
    return total(boot)


@pytest.mark.parametrize("cpus", [1, CPUS], ids=["storm_all_1", "storm_all_4"])
def test_storm_all(lab, cpus):
    """The same where reads are recorded as well."""
    boot = kernel.run(
        lab,
        f"memory-storm-all-{cpus}",
        Plan(TSC).add(*STORM_ALL),
        cpus=cpus,
        config="memtrace=all",
        limit=LIMIT,
    )
    expect_ok(boot, STORM_ALL)
    return total(boot)


@pytest.mark.parametrize("cpus", [1, CPUS])
def test_storm_exits(lab, cpus):
    """The same where events exit in the step instead of being blocked by MOV SS."""
    boot = kernel.run(
        lab,
        f"memory-storm-exits-{cpus}",
        Plan(TSC).add(*STORM_EXITS),
        limit=LIMIT,
        cpus=cpus,
        config="memtrace=writes memtrace_step=exits",
    )
    expect_ok(boot, STORM_EXITS)
    return total(boot)


def test_events(lab):
    """Frames, debug exceptions, faults, page walks, code that writes itself: at traced memory."""
    expect_ok(
        kernel.run(
            lab,
            "memory-events",
            Plan(TSC).add(*EVENTS, "smp-x2apic", *EVENTS),
            config="memtrace=writes",
        ),
        EVENTS,
    )


@pytest.mark.parametrize("mode", MODES, ids=[f"calls_{mode}" for mode in MODES])
def test_calls(lab, mode):
    """What the hypercall refuses, and what it gives; a store that is not traced has no exit. String
    instructions over pages that lie apart, and what the guest may not read."""
    most, pebs = MODES[mode]
    words = [
        "memory-pebs",
        "memory-lent",
        f"memory-calls:{most}",
        "smp-memory-ranges",
        "smp-memory-rights",
        "smp-memory-init",
        *(f"memory-pages:{number + 1}" for number in range(most)),
    ]
    expect_ok(
        kernel.run(
            lab,
            f"memory-calls-{mode}",
            Plan(TSC, *pebs).add(*words),
            config=f"memtrace={mode}",
            cpus=2,
        ),
        words,
    )


def test_loads_of_cr3(lab):
    """They exit where the range is one CR3's, and are executed again: single steps, breakpoints and
    shadows there are as natively."""
    found = []
    for entry, word in (("native", "instruction"), ("msr+nmi", "memory-instruction")):
        words = [f"{word}:cr3", f"{word}:cr3-refused"]
        boot = kernel.run(
            lab, f"memory-cr3-{entry}", Plan(TSC).add(*words), entry=entry, config="memtrace=writes"
        )
        expect_ok(boot, words)
        found.append(
            [
                {key: row[key] for key in ("subject", "way", "at", "after", "events")}
                for row in boot.lines("instruction")
            ]
        )
    wrong = [f"{row}, natively {wanted}" for wanted, row in zip(*found) if row != wanted]
    assert not wrong, f"{len(wrong)} differ; {'; '.join(wrong[:3])}"
    assert len(found[0]) == len(found[1]) > 20, found
    exits, loads = boot.ledger["exits"][CR_ACCESS]["count"], len(found[1]) // 2
    assert exits >= loads, f"{exits} exits, wanted {loads}"  # the refused ones fault first
    return f"{len(found[1])} rows"


def test_no_large_pages(lab):
    """The EPT has pages of 1 GiB, and CPUID shows none for page tables: root mode's view is in
    smaller ones."""
    plan = Plan("hide_cpuid 0x80000001 0 edx 0x04000000").add(*WRITES)
    boot = kernel.run(lab, "memory-no-1g", plan, config="memtrace=writes")
    assert "not enough pages" not in boot.console, boot.console[-2000:]
    expect_ok(boot, WRITES)


def test_refused_loads_of_cr3(lab):
    """A MOV to CR3 that faults neither ends nor begins what is traced of one CR3."""
    expect_ok(
        kernel.run(lab, "memory-cr3-faults", Plan(TSC).add("memory-cr3"), config="memtrace=writes"),
        ["memory-cr3"],
    )


def test_believed_loads_of_cr3(lab):
    """What is asked for is taken for what is loaded: found out."""
    said = mutant(lab, "cr3_believed", word="memory-cr3", start="# another CR3 refused")
    assert said, "it was not seen"
    return said[0]


@pytest.mark.parametrize(
    "mode, word",
    [("writes", "memory-pt"), ("pages", "memory-pt:5")],
    ids=["processor_trace", "processor_trace_pages"],
)
def test_processor_trace(lab, mode, word):
    """Intel PT keeps a trace from beginning. One that begins later is whole, or ends in its own
    error, and is never taken for the guest's store."""
    plan = Plan("pt on", "show_control enable_pml").add(word)
    expect_ok(kernel.run(lab, f"memory-pt-{mode}", plan, config=f"memtrace={mode}"), [word])


def test_pebs_begun(lab):
    """A record of PEBS in the step of a load is not taken for a write of that instruction's."""
    expect_ok(
        kernel.run(
            lab, "memory-pebs-begun", Plan("pebs 3").add("memory-pebs-begun"), config="memtrace=all"
        ),
        ["memory-pebs-begun"],
    )


def test_processor_trace_mutant(lab):
    """Its output, taken for the guest's access: found out."""
    boot = kernel.run(
        lab,
        "memory-pt-mutant",
        Plan("pt on").add("memory-pt"),
        config="memtrace=writes",
        efi=path("build", "mutants", "output_taken_for_walk.efi"),
        limit=LIMIT,
    )
    said = [line for line in boot.console.splitlines() if line.startswith("# a closed buffer")]
    assert said and "wanted an error" in said[0], boot.console[-2000:]
    return said[0]


CET = "sapphire_rapids"
# Whether an exit tells that it has left a shadow stack busy.
TOLD = {"told": [], "not_told": ["hide_control prematurely_busy_shadow_stack"]}


def cet(lab, mode, entry="msr+nmi", knobs=(), **more):
    name, number = mode
    word = f"smp-memory-cet:{number}"
    return kernel.run(
        lab,
        f"memory-cet-{entry}-{name}",
        Plan(*knobs).add(word),
        model=CET,
        entry=entry,
        config=f"memtrace={name}",
        **more,
    ), [word]


def test_cet_native(lab):
    """The reference, without a trace."""
    expect_ok(*cet(lab, ("off", 0), entry="native"))


@pytest.mark.parametrize(
    "mode", [("writes", 1), ("reads", 2), ("all", 3)], ids=lambda mode: f"cet_{mode[0]}"
)
@pytest.mark.parametrize("knobs", TOLD.values(), ids=TOLD)
def test_cet(lab, mode, knobs):
    """An event's delivery that goes on in a closed page with the token of its shadow stack busy.
    The statistics have each such exit as an EPT violation."""
    boot, words = cet(lab, mode, knobs=knobs)
    expect_ok(boot, words)
    said = int(boot.lines("memory-cet")[0]["violations"])
    wanted = boot.ledger["exits"][EPT_VIOLATION]["count"]
    assert said == wanted, f"the guest was told of {said} EPT violations, the ledger {wanted}"
    return f"{said} EPT violations"


@pytest.mark.parametrize("knobs", TOLD.values(), ids=TOLD)
def test_cet_mutant(lab, knobs):
    """The token stays busy: the guest shuts down in the second delivery."""
    boot, _ = cet(lab, ("writes", 1), knobs=knobs, efi=path("build", "mutants", "stays_busy.efi"))
    assert "shut down (triple fault)" in boot.console, boot.console[-2000:]


def test_cet_pages(lab):
    """memtrace=pages needs to be told: else a line says so, and there is no trace."""
    boot = kernel.run(
        lab,
        "memory-cet-pages",
        Plan(*TOLD["not_told"]).add("memory-none"),
        model=CET,
        config="memtrace=pages",
    )
    expect_ok(boot, ["memory-none"])
    said = 'memtrace: found CET without "prematurely busy shadow stack"'
    assert said in boot.console, boot.console[-2000:]


def test_off(lab):
    """memtrace=off: no hypercall."""
    expect_ok(kernel.run(lab, "memory-off", Plan().add("memory-none")), ["memory-none"])


def test_timed(lab):
    """memtrace_ms=: a processor that an INIT parks has come to its end, and keeps out no other."""
    words = ["smp-memory-timed"]
    expect_ok(
        kernel.run(
            lab,
            "memory-timed",
            Plan(TSC).add(*words),
            cpus=2,
            config="memtrace=writes memtrace_ms=10000",
        ),
        words,
    )


def test_whole(lab):
    """All memory traced from the start: NMIs, PMIs, interrupts in order, and the fuzzer goes on."""
    boot = kernel.run(
        lab,
        "memory-whole",
        Plan(TSC).add(*WHOLE),
        limit=LIMIT,
        config="memtrace=writes memtrace_ms=10000",
    )
    expect_ok(boot, WHOLE)
    violations = boot.ledger["exits"][EPT_VIOLATION]["count"]
    assert violations > 100000, violations
    return f"{violations} violations"


@pytest.mark.parametrize(
    "entry, config",
    [("msr", ""), ("intercept", ""), ("msr+nmi", "apic=trap"), ("msr+nmi", "mitigations=auto")],
)
def test_other_ways_in(lab, entry, config):
    """The same where NMIs are trapped, the PMU or the local APIC, or root mode is guarded."""
    words = ["memory-writes", "smp-memory:200:1:20000"]
    boot = kernel.run(
        lab,
        f"memory-{entry}-{config[:4]}",
        Plan(TSC).add(*words),
        entry=entry,
        config=f"memtrace=writes {config}",
        limit=LIMIT,
    )
    expect_ok(boot, words)


def test_same_guest(lab):
    """The fuzzer's results are those without a trace. (With a PMU the guest sees the lent
    counter.)"""
    hashes = []
    for trace, entry in (("10000", "msr+nmi"), ("10000", "msr"), ("0", "msr+nmi")):
        boot = kernel.run(
            lab,
            f"memory-fuzz-{trace}-{entry}",
            Plan(TSC).add(WHOLE[-1]),
            limit=LIMIT,
            entry=entry,
            config=f"pmu=off memtrace=writes memtrace_ms={trace}",
        )
        expect_ok(boot, WHOLE[-1:])
        hashes.append([row["hash"] for row in boot.lines("fuzz-hash")])
    assert hashes[0] == hashes[1] == hashes[2] != [], hashes
    return f"{hashes[0]}"


def mutant(lab, name, word=STORM[0], start="# record "):
    """What the test found, which has to fail, on a hypervisor with one thing broken."""
    boot = kernel.run(
        lab,
        f"memory-mutant-{name}",
        Plan(TSC).add(word),
        config="memtrace=writes",
        efi=path("build", "mutants", f"{name}.efi"),
        limit=LIMIT,
    )
    found = [line for test, good, _, line in kernel.tap(boot) if test == word and not good]
    assert found, f"{name} passed {word}"
    return [line for line in boot.console.splitlines() if line.startswith(start)]


# With each what it must be found out by: a frame pushed while the page is open leaves no record, so
# that the handler's own pushes come in its place.
BROKEN = {
    "open_to_events": "a push's place",
    "first_word": "a frame's place",
    "naive_memory": "a push",
}


@pytest.mark.parametrize("name", BROKEN, ids=[f"mutant_{name}" for name in BROKEN])
def test_mutant(lab, name):
    """Events at the open page, frames after their first word, the paper's algorithm: found out."""
    said = mutant(lab, name)
    assert any(BROKEN[name] in line for line in said), said
    return said[0]


def test_halted_step(lab):
    """A step that begins in HLT, which the processor refuses: the store is tried again."""
    boot = kernel.run(
        lab,
        "memory-halted-step",
        Plan(TSC).add("memory-writes"),
        config="memtrace=writes",
        limit=LIMIT,
        efi=path("build", "mutants", "halted_step.efi"),
    )
    expect_ok(boot, ["memory-writes"])


def test_unsaid_step(lab):
    """A store behind MOV SS whose exit saves no single step: it is stepped once, not for ever."""
    boot = kernel.run(
        lab,
        "memory-unsaid-step",
        Plan(TSC).add(*EVENTS),
        config="memtrace=writes",
        limit=LIMIT,
        efi=path("build", "mutants", "unsaid_step.efi"),
    )
    expect_ok(boot, EVENTS)


@pytest.mark.parametrize("step", ["blocked", "exits"], ids=lambda step: f"exceptions_{step}")
def test_exceptions(lab, step):
    """Exceptions that another experiment lets exit do so during a trace too, in its steps and
    between."""
    word = "smp-memory-exceptions"
    boot = kernel.run(
        lab,
        f"memory-exceptions-{step}",
        Plan(TSC).add(word),
        limit=LIMIT,
        config=f"memtrace=writes memtrace_step={step}",
        efi=path("build", "mutants", "exceptions_exit.efi"),
    )
    expect_ok(boot, [word])


def sweeps(lab, efi=None, name=""):
    knobs = []
    for reason, first, stride in SWEEPS.values():
        if stride == 1:
            knobs.append(
                f"nmi_root reason={reason} exits={first}-{first + POSITIONS - 1} " "position=sweep"
            )
        else:
            knobs += [
                f"nmi_root reason={reason} exits={first + position * stride} "
                f"position={position + 1}"
                for position in range(POSITIONS)
            ]
    plan = Plan(*knobs).add(
        *(
            f"sweep-memory:{kind}:{first}:{POSITIONS}:{stride}"
            for kind, (_, first, stride) in SWEEPS.items()
        )
    )
    return kernel.run(lab, name or "memory-sweep", plan, config="memtrace=writes", efi=efi)


def test_sweep(lab):
    """An NMI at each root instruction of the exits of stores and events: once, and so are they."""
    boot = sweeps(lab)
    said = []
    for number, (kind, (reason, first, stride)) in enumerate(SWEEPS.items()):
        name = f"sweep-memory:{kind}:{first}:{POSITIONS}:{stride}"
        expect_ok(boot, [name])
        row = next(row for row in boot.lines("sweep") if row["name"] == name)
        if stride == 1:
            there = boot.region(REGION_SWEEP + number)["exits"][str(reason)]["root_instructions"]
            assert there["min"] == there["max"] == int(row["delivered"]), f"{row}: path {there}"
        said.append(f"{kind} {row['delivered']}")
    return "positions: " + ", ".join(said)
