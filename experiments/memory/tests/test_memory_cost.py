# SPDX-License-Identifier: BSD-2-Clause
# test_memory_cost.py: what a traced write costs, by the paper's own loop: memtrace=writes, the
# paper's algorithm on the same hypervisor, and QEMU's translator with a plugin. The first two in
# the emulator, exact. analysis/memory_cost.py makes the tables of what these boots leave.
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from bench import environment
from experiments.memory.analysis import memory_cost, memory_paper
from testbed.machine import path
from tests.e2e import kernel
from tests.e2e.kernel import Plan, expect_ok

# Of a traced write: exits, root instructions and VMCS accesses, with its record and without.
MOST_EXITS, MOST_INSTRUCTIONS, MOST_VMCS = 2, 230, 18
GCC_14_MORE = (
    2  # root instructions: gcc 14 makes three moves more than gcc 12, 231.2 and 228.2 in all
)
MOST_BARE_INSTRUCTIONS, MOST_BARE_VMCS = 190, 14
WORDS_OF_A_PAGE = 512


def boot(lab, column):
    mutant = memory_cost.MUTANTS.get(column)
    efi = mutant and path("build", "mutants", f"{mutant}.efi")
    options = memory_cost.OPTIONS.get(column, "")
    return kernel.run(
        lab,
        memory_cost.PREFIX + column,
        Plan().add(*memory_cost.words()),
        config=f"memtrace=writes {options}".strip(),
        efi=efi,
    )


def jobs_of(lab, column):
    """What each job counted; each ran, and recorded what it wrote."""
    done = boot(lab, column)
    expect_ok(done, memory_cost.words())
    jobs = [
        memory_cost.counts_of(done.region(str(memory_cost.REGION + n)))
        for n in range(len(memory_cost.JOBS))
    ]
    return jobs, memory_cost.records(done.console)


def test_guest_is_the_same(lab):
    """The loop's instructions are what the paper's formula says, and no trace changes them."""
    jobs, _ = jobs_of(lab, "ours")
    # Around the loop are its call and the marker's own instructions.
    more = {
        t == 0: jobs[n]["guest"] - memory_paper.instructions(u, rounds)
        for n, (_, t, u, rounds) in enumerate(memory_cost.JOBS[: memory_cost.FILL])
    }
    assert all(0 < around < 30 for around in more.values()), more
    for n, (_, t, u, rounds) in enumerate(memory_cost.JOBS[: memory_cost.FILL]):
        found = jobs[n]["guest"] - memory_paper.instructions(u, rounds)
        assert found == more[t == 0], (memory_cost.words()[n], found, more)
    # The emulator counts a REP anew that goes on after an exit; a processor does not.
    fills = [jobs[n]["guest"] for n in (memory_cost.FILL, memory_cost.FILL_TRACED)]
    assert fills[1] - fills[0] in (0, memory_cost.writes_of(memory_cost.FILL_TRACED)), fills
    return (
        f"{max(more.values())} instructions around the loop, traced or not; "
        f"REP STOS {fills[0]} and {fills[1]}"
    )


def test_nothing_traced(lab):
    """A guest that writes no traced page pays nothing."""
    jobs, records = jobs_of(lab, "ours")
    for n in (memory_cost.NONE, memory_cost.ELSEWHERE, memory_cost.STEP, memory_cost.FILL):
        assert jobs[n]["exits"] == jobs[n]["instructions"] == records[n] == 0, (n, jobs[n])
    writes = memory_cost.writes_of(memory_cost.ELSEWHERE)
    return f"{writes} writes to another page: 0 exits, 0 root instructions"


def test_write(lab):
    """Each write is one record; what it costs."""
    jobs, records = jobs_of(lab, "ours")
    writes = memory_cost.writes_of(memory_cost.WRITES)
    assert records[memory_cost.WRITES] == writes, records
    costs = memory_cost.write_costs(jobs)
    said = (
        f"{costs['exits']:g} exits, {costs['instructions']:.1f} root instructions, "
        f"{memory_cost.vmcs(costs):.2f} VMCS accesses, {costs['rdmsr']:g} RDMSR"
    )
    assert costs["exits"] <= MOST_EXITS, said
    more = GCC_14_MORE if re.match(r"gcc .*\) 14\.", environment.compiler()) else 0
    assert costs["instructions"] <= MOST_INSTRUCTIONS + more, said
    # The first of a page of code takes the longer way.
    assert memory_cost.vmcs(costs) <= MOST_VMCS + 0.01, said
    # The curve is a line: each write costs what it costs, however many there are.
    for n in range(memory_cost.STEP + 1, memory_cost.STEP + len(memory_cost.STEPS)):
        each = memory_cost.per_write(jobs, n, memory_cost.STEP, memory_cost.writes_of(n))
        assert abs(each["instructions"] - costs["instructions"]) < 2, (n, each, said)
        assert records[n] == memory_cost.writes_of(n)
    return said


def test_without_record(lab):
    """The violation and the step alone."""
    jobs, records = jobs_of(lab, "bare")
    assert records[memory_cost.WRITES] == 0, records
    costs = memory_cost.write_costs(jobs)
    said = (
        f"{costs['exits']:g} exits, {costs['instructions']:.1f} root instructions, "
        f"{memory_cost.vmcs(costs):.2f} VMCS accesses"
    )
    assert costs["exits"] == 2 and costs["instructions"] <= MOST_BARE_INSTRUCTIONS, said
    assert memory_cost.vmcs(costs) <= MOST_BARE_VMCS, said
    return said


def test_other_way(lab):
    """For a processor on which MOV SS does not block: events exit during the step."""
    jobs, records = jobs_of(lab, "exits")
    assert records[memory_cost.WRITES] == memory_cost.writes_of(memory_cost.WRITES), records
    costs = memory_cost.write_costs(jobs)
    said = (
        f"{costs['exits']:g} exits, {costs['instructions']:.1f} root instructions, "
        f"{memory_cost.vmcs(costs):.2f} VMCS accesses"
    )
    assert costs["exits"] == 2, said
    return said


def reads_of(lab):
    """The same of the jobs with memtrace=all."""
    words = memory_cost.words(memory_cost.READS)
    done = kernel.run(lab, f"{memory_cost.PREFIX}all", Plan().add(*words), config="memtrace=all")
    expect_ok(done, words)
    _, _, u, rounds = memory_cost.READS[memory_cost.LOADS]
    assert memory_cost.records(done.console) == [0, u * rounds] * 2
    return [
        memory_cost.counts_of(done.region(str(memory_cost.REGION + n))) for n in range(len(words))
    ]


def test_reads(lab):
    """A load that is traced is one record, and with memtrace=all each access is."""
    jobs, said = reads_of(lab), []
    for costs in memory_cost.read_costs(jobs):
        assert costs["exits"] == 2 and costs["guest"] == 0, costs
        said.append(f"{costs['instructions']:.1f} and {memory_cost.vmcs(costs):.2f}")
    return f"root instructions and VMCS accesses: a load {said[0]}, an access {said[1]}"


def test_fill(lab):
    """A REP STOS of a page: its first iteration is stepped, and root mode does the rest at once."""
    jobs, records = jobs_of(lab, "ours")
    fills = memory_cost.writes_of(memory_cost.FILL_TRACED)
    assert records[memory_cost.FILL_TRACED] == 2 * fills, records
    costs = memory_cost.per_write(jobs, memory_cost.FILL_TRACED, memory_cost.FILL, fills)
    assert costs["exits"] == 2 and costs["instructions"] < 2 * WORDS_OF_A_PAGE, costs
    return (
        f"{costs['exits']:g} exits and {costs['instructions']:.0f} root instructions for "
        f"{WORDS_OF_A_PAGE} words"
    )


def test_naive(lab):
    """The paper's algorithm: as many exits for a store, and more of everything else."""
    jobs, records = jobs_of(lab, "naive")
    naive, ours = (memory_cost.write_costs(one) for one in (jobs, jobs_of(lab, "ours")[0]))
    assert records[memory_cost.WRITES] == memory_cost.writes_of(memory_cost.WRITES), records
    assert naive["exits"] == 2 and naive["instructions"] > ours["instructions"], (naive, ours)
    words = records[memory_cost.FILL_TRACED] / memory_cost.writes_of(memory_cost.FILL_TRACED)
    assert words == WORDS_OF_A_PAGE, f"{words} records of a REP STOS"
    return (
        f"{naive['instructions']:.1f} root instructions, {memory_cost.vmcs(naive):.2f} VMCS "
        f"accesses, an INVEPT; REP STOS of a page: {words:.0f} records"
    )


def measure(*words):
    done = subprocess.run(
        [path("experiments", "memory", "translate", "measure.py"), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def translate(lab):
    out = os.path.join(lab.keep, memory_cost.TRANSLATE)
    measure("--instructions", "--repeat", "3", out)
    with open(out, encoding="ascii") as source:
        return json.load(source)


@pytest.mark.skipif(not shutil.which("qemu-system-x86_64"), reason="needs qemu-system-x86")
def test_plugin():
    """QEMU's plugin is called once for each write of the loop, and for no read."""
    found = json.loads(measure("--count"))
    # The guest's own start waits for the clock, and writes while it does.
    assert abs(found["calls"] / found["writes"] - 1) < 0.01, found
    return f"{found['calls']} calls for {found['writes']} writes"


@pytest.mark.full
@pytest.mark.skipif(
    not all(map(shutil.which, ("valgrind", "qemu-system-x86_64"))),
    reason="needs valgrind and qemu-system-x86",
)
def test_translator(lab):
    """QEMU's plugin is called once for each write, and a record costs more than an empty hook."""
    host = translate(lab)["host"]
    plain, hook, record = host["tcg"], host["tcg hook"], host["tcg record"]
    assert plain["instruction"] > 1 and hook["write"] > plain["write"], host
    assert record["write"] > hook["write"] > 0, host
    return "host instructions for one of the guest, and for a write more: " + "; ".join(
        f"{mode} {one['instruction']:.2f}, {one['write']:.1f}" for mode, one in host.items()
    )


def test_tables(lab):
    """analysis/memory_cost.py prints what the boots have left."""
    for column in memory_cost.COLUMNS:
        jobs_of(lab, column)
    done = subprocess.run(
        [sys.executable, "-m", memory_cost.__name__, lab.keep],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for row in ("memtrace=writes: a store", "naive: a store", "48 of 100: 9.505 %", "0.23 %"):
        assert row in done.stdout, done.stdout
    return next(line for line in done.stdout.splitlines() if "of instructions (estimate" in line)
