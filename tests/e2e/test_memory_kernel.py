# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import kernel
from kernel import Plan, expect_ok
from machine import path
import pytest

CPUS = 4
TSC = "tsc_hz 500000000"
WRITES = ["memory-writes"]
MODES = {"writes": 1, "reads": 2, "all": 3}
EVENTS = ["smp-memory-events"]
STORM = ["smp-memory:3000"]
# tests/kernel/test_memory_sweep.c: each exit with its reason, the first exit of its sweep, and how
# many exits are from one position to the next. Exits before are of the same reasons.
SWEEPS = {"violation": (48, 101, 1), "trap": (37, 1001, 1), "last-violation": (48, 2001, 1),
          "last-trap": (37, 3001, 1), "chunk": (48, 4001, 1), "event-violation": (48, 5001, 16),
          "event-trap": (37, 15001, 16)}
REGION_SWEEP = 1720
POSITIONS = 640  # more than any of these exits has instructions

LIMIT = 1500  # millions of instructions


def writes(lab, entry="msr+nmi", config=""):
    return kernel.run(lab, f"memory-writes-{entry}", Plan().add(*WRITES), entry=entry,
                      config=f"memtrace=writes {config}")


def storm(lab, cpus, words, config="memtrace=writes"):
    return kernel.run(lab, f"memory-storm-{cpus}", Plan(TSC).add(*words, "smp-x2apic", *words),
                      config=config, cpus=cpus, limit=LIMIT)


def test_writes(lab):
    """Each kind of instruction that writes leaves the records that it has to."""
    expect_ok(writes(lab), WRITES)


def test_storm_1(lab):
    """Events at all times: no record of a store, frame or push lacks, and none is invented."""
    expect_ok(storm(lab, 1, STORM), STORM)


def test_storm_4(lab):
    """The same on four processors at once."""
    expect_ok(storm(lab, CPUS, STORM), STORM)


def test_events(lab):
    """Frames, debug exceptions, faults, page walks, code that writes itself: at traced memory."""
    expect_ok(kernel.run(lab, "memory-events", Plan(TSC).add(*EVENTS, "smp-x2apic", *EVENTS),
                         config="memtrace=writes"), EVENTS)


@pytest.mark.parametrize("mode", MODES, ids=[f"calls_{mode}" for mode in MODES])
def test_calls(lab, mode):
    """What the hypercall refuses, and what it gives; a store that is not traced has no exit."""
    words = [f"memory-calls:{MODES[mode]}", "smp-memory-ranges"]
    expect_ok(kernel.run(lab, f"memory-calls-{mode}", Plan(TSC).add(*words),
                         config=f"memtrace={mode}", cpus=2), words)


def test_off(lab):
    """memtrace=off: no hypercall."""
    expect_ok(kernel.run(lab, "memory-off", Plan().add("memory-none")), ["memory-none"])


def mutant(lab, name):
    """What the storm found, which has to fail, on a hypervisor with one thing broken."""
    word = STORM[0]
    boot = kernel.run(lab, f"memory-mutant-{name}", Plan(TSC).add(word), config="memtrace=writes",
                      efi=path("build", "mutants", f"{name}.efi"), limit=LIMIT)
    found = [line for test, good, _, line in kernel.tap(boot) if test == word and not good]
    assert found, f"{name} passed {word}"
    return [line for line in boot.console.splitlines() if line.startswith("# record ")]


# With each what it must be found out by: a frame pushed while the page is open leaves no record, so
# that the handler's own pushes come in its place.
BROKEN = {"open_to_events": "a push's place", "first_word": "a frame's place",
          "naive_memory": "a push"}


@pytest.mark.parametrize("name", BROKEN, ids=[f"mutant_{name}" for name in BROKEN])
def test_mutant(lab, name):
    """Events at the open page, frames behind their first word, the paper's algorithm: found out."""
    said = mutant(lab, name)
    assert any(BROKEN[name] in line for line in said), said
    return said[0]


def sweeps(lab, efi=None, name=""):
    knobs = []
    for reason, first, stride in SWEEPS.values():
        if stride == 1:
            knobs.append(f"nmi_root reason={reason} exits={first}-{first + POSITIONS - 1} "
                         "position=sweep")
        else:
            knobs += [f"nmi_root reason={reason} exits={first + position * stride} "
                      f"position={position + 1}" for position in range(POSITIONS)]
    plan = Plan(*knobs).add(*(f"sweep-memory:{kind}:{first}:{POSITIONS}:{stride}"
                              for kind, (_, first, stride) in SWEEPS.items()))
    return kernel.run(lab, name or "memory-sweep", plan, config="memtrace=writes", efi=efi)


def test_sweep(lab):
    """An NMI at each root instruction of the exits of stores and of events: once, and so are they."""
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
