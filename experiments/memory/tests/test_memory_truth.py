# SPDX-License-Identifier: BSD-2-Clause
# test_memory_truth.py: the memory trace of a Linux against the emulator's own list of all accesses
# (emulator/README.md), one by one: user stores, system calls, fork, exec and wait,
# sleeps that timer interrupts end, perf's samples by NMIs (guest/truth/).
import functools

import pytest

from experiments.memory.analysis import memory, memory_log, memory_truth
from testbed import boots
from testbed.machine import STATUS_POWEROFF, path

# What Linux takes the emulator's 50 MHz for: a traced instruction takes a hundred times as long,
# and a timer's interrupt must not take as long as its period.
TSC_HZ = 2_000_000_000
MILLION = 1_000_000
DEVICES_LEAST = 100
LOG_PAGES = 2 * 512  # the log is full, and exits, twice
SERVER = "show_control enable_pml"  # which the default model, a desktop's, has not
TABLES_READ_MAX = 200  # pages that hold page tables, of some processes and the kernel


@functools.cache
def boot(lab, cpus, mode, rounds, ring, samples=1, knobs="", config="", mutant=None):
    """The run's trace and its list, as paths."""
    variant = "".join((knobs + config).split()) + (mutant or "")
    name = f"memory-truth-{cpus}-{mode}-{rounds}-{samples}{variant}"
    done = lab.emulator(
        name,
        jobs="memtruth",
        cpus=cpus,
        initrd=boots.initrd(name="memtruth"),
        memory=1024,
        panic="report",
        append=f"nmi_watchdog=0 pmv.mem.mode={mode} pmv.mem.rounds={rounds} "
        f"pmv.mem.samples={samples}",
        efi=mutant and path("build", "mutants", f"{mutant}.efi"),
        config=f"console=none memtrace={mode} trace_ring={ring} user_hypercalls=1 {config}",
        knobs=f"tsc_hz {TSC_HZ}\n{knobs}\ntrace_rings rings\nmemory_log log\n",
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("memtruth") == 0, done.last_line()
    return done.path("rings"), done.path("log")


def truth(files):
    """Compares both."""
    rings, log = files
    result = memory_truth.compare(memory.read(rings), memory_log.Log(log))
    print("\n".join(result.faults))
    return result


@pytest.mark.parametrize(
    "cpus,rounds,ring,least",
    [
        pytest.param(1, 1, 32, 100_000, id="writes_1"),
        pytest.param(4, 1, 32, 400_000, id="writes_4", marks=pytest.mark.full),
        pytest.param(1, 10, 200, MILLION, id="million_1", marks=pytest.mark.full),
        pytest.param(4, 4, 100, MILLION, id="million_4", marks=pytest.mark.full),
    ],
)
def test_writes(lab, cpus, rounds, ring, least):
    """All writes to all memory: none missed, none invented, each as it was."""
    result = truth(boot(lab, cpus, "writes", rounds, ring))
    assert result.true, result.summary()
    assert result.same >= least, result.summary()
    assert all(result.kinds[kind] for kind in ("event", "walk", "chunk")), result.summary()
    return f"{cpus} processors: {result.summary()}"


@pytest.mark.full
@pytest.mark.parametrize(
    "cpus,mode,rounds,ring,least",
    [
        pytest.param(1, "reads", 1, 100, 400_000, id="reads_1"),
        pytest.param(1, "all", 1, 150, 500_000, id="all_1"),
        pytest.param(4, "all", 1, 100, 1_500_000, id="all_4"),
    ],
)
def test_reads(lab, cpus, mode, rounds, ring, least):
    """All reads, and all accesses: none missed but reads of pages of page tables, from the record
    on that says so; none invented, each as it was."""
    result = truth(boot(lab, cpus, mode, rounds, ring))
    assert result.true, result.summary()
    assert result.same >= least and result.unseen * 50 < result.units, result.summary()
    return f"{cpus} processors, {mode}: {result.summary()}"


@pytest.mark.parametrize(
    "cpus,least",
    [
        pytest.param(1, DEVICES_LEAST, id="devices_1"),
        pytest.param(4, 4 * DEVICES_LEAST, id="devices_4", marks=pytest.mark.full),
    ],
)
def test_devices(lab, cpus, least):
    """All accesses to devices: none missed, none invented, address and size as they were."""
    result = truth(boot(lab, cpus, "devices", 1, 8))
    assert result.true, result.summary()
    assert result.same >= least and not result.unknown, result.summary()
    return f"{cpus} processors: {result.summary()}"


@pytest.mark.parametrize(
    "cpus", [pytest.param(1, id="pages_1"), pytest.param(4, id="pages_4", marks=pytest.mark.full)]
)
def test_pages(lab, cpus):
    """The processor's log has each page that was written. What it has besides are tables that page
    walks read, which count as written (SDM Vol. 3, "Accessed and Dirty Flags for EPT")."""
    rings, log = boot(lab, cpus, "pages", 1, 8, knobs=SERVER)
    logged, written, tables = memory_truth.pages(memory.read(rings), memory_log.Log(log))
    assert (
        written and not written - logged
    ), f"{len(written - logged)} of {len(written)} pages are not logged"
    assert len(logged - written) <= TABLES_READ_MAX * cpus, len(logged - written)
    assert len(written) > LOG_PAGES, len(written)
    return (
        f"{cpus} processors: {len(written)} pages written, {len(written & logged)} logged, of them "
        f"{len(tables)} "
        f"tables; {len(logged - written)} logged besides"
    )


@pytest.mark.full
def test_counter(lab):
    """While the guest leaves the PMU alone, each record has the exact count of instructions."""
    result = truth(boot(lab, 1, "writes", 1, 32, samples=0))
    assert result.true and result.same and not result.stood, result.summary()
    return result.summary()


def test_second_way(lab):
    """Where MOV SS does not keep interrupts and NMIs from the stepped instruction, exits do."""
    result = truth(
        boot(lab, 1, "writes", 1, 32, knobs="mov_ss_ignored on", config="memtrace_step=exits")
    )
    assert result.true, result.summary()
    assert result.same >= 100_000 and result.kinds["event"], result.summary()
    return result.summary()


@pytest.mark.full
def test_needs_the_blocking(lab):
    """On the same processor the first way alone is not true."""
    result = truth(boot(lab, 1, "writes", 1, 32, knobs="mov_ss_ignored on"))
    assert result.missed["event"] and result.invented["instruction"], result.summary()
    return result.summary()


@pytest.mark.full
@pytest.mark.parametrize("mutant", ["first_word", "open_to_events", "naive_memory"])
def test_mutants(lab, mutant):
    """What takes a frame for its first word, what blocks nothing, the paper's own algorithm. That
    one records each iteration of a REP, hence the ring."""
    result = truth(boot(lab, 1, "writes", 1, 128, mutant=mutant))
    assert not result.true, result.summary()
    return result.summary()
