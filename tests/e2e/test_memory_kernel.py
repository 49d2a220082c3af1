# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import kernel
from kernel import Plan, expect_ok

CPUS = 4
TSC = "tsc_hz 500000000"
WRITES = ["memory-writes"]
STORM = ["smp-memory:3000"]
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
