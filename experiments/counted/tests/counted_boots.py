# SPDX-License-Identifier: BSD-2-Clause
# counted_boots.py: the boots of the test kernel's `counted` (kernel/test_counted.c), one for each column.
import counted
import kernel
import test_kvm
from boots import initrd, kernel as linux
from machine import STATUS_POWEROFF

WORD = "counted"
# Of KVM: suite of the kernel, and its mediated vPMU.
KVMS = {"kvm": (None, None), "kvm-new": (test_kvm.PEER_SUITE, 0), "kvm-mediated": (test_kvm.PEER_SUITE, 1)}


def boot(lab, column):
    if column not in KVMS:
        return kernel.run(lab, f"counted-{column}", kernel.Plan().add(WORD), entry=column)
    suite, mediated = KVMS[column]
    words = f"pmv.tests={WORD}" if suite is None else f"pmv.mediated={mediated} pmv.tests={WORD}"
    more = {} if suite is None else {"kernel": linux("cloud", suite)}
    return lab.emulator(f"counted-{column}", entry="native", jobs="kvm", append=words, limit=test_kvm.LIMIT,
                        initrd=initrd(name="kvm" if suite is None else f"kvm-{suite}"), **more)


def counts(lab, column):
    """A column, as counted.py has it."""
    done = boot(lab, column)
    done.expect_status(STATUS_POWEROFF)
    results = done.lines("results")
    assert len(results) == 1 and results[0]["failed"] == "0", f"{column}: {kernel.notes(done)} {results}"
    return counted.counts(done.lines(WORD), done.ledger["regions"])
