# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import pytest

from testbed.machine import path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok
from tests.e2e.test_host import NOT_ISOLATED, PEBS

CPUS = 4
TSC = "tsc_hz 500000000"
# Each mode, and how PEBS is there: isolated, switched by MSR lists, or with those of GLOBAL_CTRL
# too.
MODES = {
    "writes": (1, PEBS),
    "reads": (2, NOT_ISOLATED),
    "all": (3, NOT_ISOLATED + ["hide_control load_global_ctrl_at_entry"]),
}
EVENTS = "smp-memory-events"
STORM = "smp-memory:3000"
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


def run(lab, name, *words, knobs=(TSC,), config="memtrace=writes", mutant=None, **more):
    """Boots the test kernel with these tests, on a hypervisor with one thing broken if asked."""
    efi = mutant and path("build", "mutants", f"{mutant}.efi")
    plan = Plan(*knobs).add(*words)
    return kernel.run(lab, f"memory-{name}", plan, config=config, efi=efi, **more)


def passes(lab, name, *words, **more):
    """Every run of these tests passes."""
    boot = run(lab, name, *words, **more)
    expect_ok(boot, words)
    return boot


def test_writes(lab):
    """Each kind of instruction that writes leaves the records that it has to."""
    passes(lab, "writes", "memory-writes", knobs=())


def test_no_counter(lab):
    """A processor of version 6 with IA32_FIXED_CTR0 by its newer name alone: it counts nothing."""
    boot = run(lab, "no-counter", "memory-writes", knobs=("pmu_version 6", "hide_msr 0x309"))
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


@pytest.mark.parametrize(
    "words, config",
    [
        pytest.param((STORM, "smp-x2apic", STORM), "memtrace=writes", id="storm"),
        pytest.param(STORM_ALL, "memtrace=all", id="storm_all"),
        pytest.param(STORM_EXITS, "memtrace=writes memtrace_step=exits", id="storm_exits"),
    ],
)
@pytest.mark.parametrize("cpus", [1, CPUS])
def test_storm(lab, cpus, words, config):
    """Events at all times: no record of a store, frame or push lacks, and none is invented. The
    same if reads are recorded too, and if events exit in the step in place of being blocked by MOV
    SS."""
    name = f"storm-{cpus}-{config.split('=')[-1]}"
    return total(passes(lab, name, *words, config=config, cpus=cpus, limit=LIMIT))


@pytest.mark.full
def test_storm_million(lab):
    """More than a million accesses of one processor."""
    boot = passes(lab, "storm-million", "smp-memory:45000", limit=MILLION_LIMIT)
    assert int(boot.lines("storm")[0]["records"]) > 1000000, boot.lines("storm")
    return total(boot)


def test_events(lab):
    """Frames, debug exceptions, faults, page walks, code that writes itself: at traced memory."""
    passes(lab, "events", EVENTS, "smp-x2apic", EVENTS)


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
    passes(lab, f"calls-{mode}", *words, knobs=(TSC, *pebs), config=f"memtrace={mode}", cpus=2)


def test_loads_of_cr3(lab):
    """They exit where the range is one CR3's, and are executed again: single steps, breakpoints and
    shadows there are as natively."""
    found = []
    for entry, word in (("native", "instruction"), ("msr+nmi", "memory-instruction")):
        boot = passes(lab, f"cr3-{entry}", f"{word}:cr3", f"{word}:cr3-refused", entry=entry)
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
    knobs = ("hide_cpuid 0x80000001 0 edx 0x04000000",)
    boot = passes(lab, "no-1g", "memory-writes", knobs=knobs)
    assert "not enough pages" not in boot.console, boot.console[-2000:]


def test_refused_loads_of_cr3(lab):
    """A MOV to CR3 that faults neither ends nor begins what is traced of one CR3."""
    passes(lab, "cr3-faults", "memory-cr3")


def test_believed_loads_of_cr3(lab):
    """What is asked for is taken for what is loaded: found out."""
    said = broken(lab, "cr3_believed", word="memory-cr3", start="# another CR3 refused")
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
    knobs = ("pt on", "show_control enable_pml")
    passes(lab, f"pt-{mode}", word, knobs=knobs, config=f"memtrace={mode}")


def test_pebs_begun(lab):
    """A record of PEBS in the step of a load is not taken for a write of that instruction's."""
    passes(lab, "pebs-begun", "memory-pebs-begun", knobs=("pebs 3",), config="memtrace=all")


def test_processor_trace_mutant(lab):
    """Its output, taken for the guest's access: found out."""
    boot = run(
        lab, "pt-mutant", "memory-pt", knobs=("pt on",), mutant="output_taken_for_walk", limit=LIMIT
    )
    said = [line for line in boot.console.splitlines() if line.startswith("# a closed buffer")]
    assert said and "wanted an error" in said[0], boot.console[-2000:]
    return said[0]


CET = "sapphire_rapids"
# Whether an exit tells that it has left a shadow stack busy.
TOLD = {"told": [], "not_told": ["hide_control prematurely_busy_shadow_stack"]}


def cet(lab, mode, word, **more):
    name = f"cet-{more.get('entry', 'msr+nmi')}-{mode}"
    return run(lab, name, word, model=CET, config=f"memtrace={mode}", **more)


def test_cet_native(lab):
    """The reference, without a trace."""
    word = "smp-memory-cet:0"
    expect_ok(cet(lab, "off", word, knobs=(), entry="native"), [word])


@pytest.mark.parametrize("mode", MODES, ids=[f"cet_{mode}" for mode in MODES])
@pytest.mark.parametrize("knobs", TOLD.values(), ids=TOLD)
def test_cet(lab, mode, knobs):
    """An event's delivery that goes on in a closed page with the token of its shadow stack busy.
    The statistics have each such exit as an EPT violation."""
    word = f"smp-memory-cet:{MODES[mode][0]}"
    boot = cet(lab, mode, word, knobs=knobs)
    expect_ok(boot, [word])
    said = int(boot.lines("memory-cet")[0]["violations"])
    wanted = boot.ledger["exits"][EPT_VIOLATION]["count"]
    assert said == wanted, f"the guest was told of {said} EPT violations, the ledger {wanted}"
    return f"{said} EPT violations"


@pytest.mark.parametrize("knobs", TOLD.values(), ids=TOLD)
def test_cet_mutant(lab, knobs):
    """The token stays busy: the guest shuts down in the second delivery."""
    boot = cet(lab, "writes", "smp-memory-cet:1", knobs=knobs, mutant="stays_busy")
    assert "shut down (triple fault)" in boot.console, boot.console[-2000:]


def test_cet_pages(lab):
    """memtrace=pages needs to be told: else a line says so, and there is no trace."""
    boot = cet(lab, "pages", "memory-none", knobs=TOLD["not_told"])
    expect_ok(boot, ["memory-none"])
    said = 'memtrace: found CET without "prematurely busy shadow stack"'
    assert said in boot.console, boot.console[-2000:]


def test_off(lab):
    """memtrace=off: no hypercall."""
    passes(lab, "off", "memory-none", knobs=(), config="")


def test_timed(lab):
    """memtrace_ms=: a processor that an INIT parks has come to its end, and keeps out no other."""
    config = "memtrace=writes memtrace_ms=10000"
    passes(lab, "timed", "smp-memory-timed", config=config, cpus=2)


@pytest.mark.more
def test_whole(lab):
    """All memory traced from the start: NMIs, PMIs, interrupts in order, and the fuzzer goes on."""
    config = "memtrace=writes memtrace_ms=10000"
    boot = passes(lab, "whole", *WHOLE, config=config, limit=LIMIT)
    violations = boot.ledger["exits"][EPT_VIOLATION]["count"]
    assert violations > 100000, violations
    return f"{violations} violations"


@pytest.mark.parametrize(
    "entry, config",
    [("msr", ""), ("intercept", ""), ("msr+nmi", "apic=trap"), ("msr+nmi", "mitigations=auto")],
)
def test_other_ways_in(lab, entry, config):
    """The same where NMIs are trapped, the PMU or the local APIC, or root mode is guarded."""
    passes(
        lab,
        f"{entry}-{config[:4]}",
        "memory-writes",
        "smp-memory:200:1:20000",
        entry=entry,
        config=f"memtrace=writes {config}",
        limit=LIMIT,
    )


def test_same_guest(lab):
    """The fuzzer's results are those without a trace. (With a PMU the guest sees the lent
    counter.)"""
    hashes = []
    for trace, entry in (("10000", "msr+nmi"), ("10000", "msr"), ("0", "msr+nmi")):
        config = f"pmu=off memtrace=writes memtrace_ms={trace}"
        name = f"fuzz-{trace}-{entry}"
        boot = passes(lab, name, WHOLE[-1], entry=entry, config=config, limit=LIMIT)
        hashes.append([row["hash"] for row in boot.lines("fuzz-hash")])
    assert hashes[0] == hashes[1] == hashes[2] != [], hashes
    return f"{hashes[0]}"


def broken(lab, mutant, word=STORM, start="# record "):
    """What the test found, which has to fail, on a hypervisor with one thing broken."""
    boot = run(lab, f"mutant-{mutant}", word, mutant=mutant, limit=LIMIT)
    found = [line for test, good, _, line in kernel.tap(boot) if test == word and not good]
    assert found, f"{mutant} passed {word}"
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
    said = broken(lab, name)
    assert any(BROKEN[name] in line for line in said), said
    return said[0]


def test_halted_step(lab):
    """A step that begins in HLT, which the processor refuses: the store is tried again."""
    passes(lab, "halted-step", "memory-writes", mutant="halted_step", limit=LIMIT)


def test_unsaid_step(lab):
    """A store behind MOV SS whose exit saves no single step: it is stepped once, not for ever."""
    passes(lab, "unsaid-step", EVENTS, mutant="unsaid_step", limit=LIMIT)


@pytest.mark.parametrize("step", ["blocked", "exits"], ids=lambda step: f"exceptions_{step}")
def test_exceptions(lab, step):
    """Exceptions that another experiment lets exit do so during a trace too, in its steps and
    between."""
    config = f"memtrace=writes memtrace_step={step}"
    word = "smp-memory-exceptions"
    passes(lab, f"exceptions-{step}", word, config=config, mutant="exceptions_exit", limit=LIMIT)


def test_sweep(lab):
    """An NMI at each root instruction of the exits of stores and events: once, and so are they."""
    knobs, words, said = [], [], []
    for kind, (reason, first, stride) in SWEEPS.items():
        words.append(f"sweep-memory:{kind}:{first}:{POSITIONS}:{stride}")
        if stride == 1:
            exits = f"{first}-{first + POSITIONS - 1}"
            knobs.append(f"nmi_root reason={reason} exits={exits} position=sweep")
        else:
            knobs += [
                f"nmi_root reason={reason} exits={first + n * stride} position={n + 1}"
                for n in range(POSITIONS)
            ]
    boot = passes(lab, "sweep", *words, knobs=knobs)
    for number, (word, (kind, (reason, _, stride))) in enumerate(zip(words, SWEEPS.items())):
        row = next(row for row in boot.lines("sweep") if row["name"] == word)
        if stride == 1:
            there = boot.region(REGION_SWEEP + number)["exits"][str(reason)]["root_instructions"]
            assert there["min"] == there["max"] == int(row["delivered"]), f"{row}: path {there}"
        said.append(f"{kind} {row['delivered']}")
    return "positions: " + ", ".join(said)
