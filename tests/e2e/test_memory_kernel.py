# SPDX-License-Identifier: BSD-2-Clause
# test_memory_kernel.py: the memory trace in the test kernel.
import kernel
from kernel import Plan, expect_ok

WRITES = ["memory-writes"]


def writes(lab, entry="msr+nmi", config=""):
    return kernel.run(lab, f"memory-writes-{entry}", Plan().add(*WRITES), entry=entry,
                      config=f"memtrace=writes {config}")


def test_writes(lab):
    """Each kind of instruction that writes leaves the records that it has to."""
    expect_ok(writes(lab), WRITES)
