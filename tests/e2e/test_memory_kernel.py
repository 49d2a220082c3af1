# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import kernel
from kernel import Plan, expect_ok
from machine import path
import pytest

CPUS = 4
TSC = "tsc_hz 500000000"
WRITES = ["memory-writes"]
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


def mutant(lab, name, word):
    """What that test found, which has to fail, on a hypervisor with one thing broken."""
    boot = kernel.run(lab, f"memory-mutant-{name}", Plan(TSC).add(word), config="memtrace=writes",
                      efi=path("build", "mutants", f"{name}.efi"), limit=LIMIT)
    found = [line for test, good, _, line in kernel.tap(boot) if test == word and not good]
    assert found, f"{name} passed {word}"
    return kernel.notes(boot)


def test_mutant_open_to_events(lab):
    """Interrupts at the open page: frames that leave no record, stores that did not happen."""
    said = mutant(lab, "open_to_events", STORM[0])
    assert "a store's value" in said or "a push of no handler" in said, said
    return said


def test_mutant_first_word(lab):
    """Of a frame its first word alone is recorded: found out."""
    said = mutant(lab, "first_word", STORM[0])
    assert "a frame's place" in said, said
    return said


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
