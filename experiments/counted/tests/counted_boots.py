# SPDX-License-Identifier: BSD-2-Clause
# counted_boots.py: the boots of the test kernel's `counted` (kernel/test_counted.c), one for each column.
import counted
import kernel
import test_kvm
from boots import initrd, kernel as linux
from machine import STATUS_POWEROFF

TEST = "counted"
# Of KVM: the suite of its kernel, and whether its vPMU is mediated.
KVMS = {"kvm": ("", 0), "kvm-new": (test_kvm.PEER_SUITE, 0), "kvm-mediated": (test_kvm.PEER_SUITE, 1)}


def under_kvm(lab, name, word, suite, mediated):
    words = f"pmv.mediated={mediated} " if suite else ""
    return lab.emulator(name, entry="native", jobs="kvm", append=f"{words}pmv.tests={word}", limit=test_kvm.LIMIT,
                        kernel=linux("cloud", suite), initrd=initrd(name=f"kvm-{suite}" if suite else "kvm"))


def boot(lab, column, cpus=1, left_out=0):
    """`cpus` 2: the operations are the second processor's. `left_out`: the event of so many counters is."""
    word = (TEST if cpus == 1 else f"@{TEST}") + (f":0:{left_out}" if left_out else "")
    name = f"{TEST}-{column}" + (f"-{cpus}" if cpus > 1 else "") + ("-left-out" if left_out else "")
    if column in KVMS:
        return under_kvm(lab, name, word, *KVMS[column])
    return kernel.run(lab, name, kernel.Plan().add(word), entry=column, cpus=cpus)


def counts(lab, column, **how):
    """A column, as counted.py has it."""
    done = boot(lab, column, **how)
    done.expect_status(STATUS_POWEROFF)
    results = done.lines("results")
    assert len(results) == 1 and results[0]["failed"] == "0", f"{column}: {kernel.notes(done)} {results}"
    return counted.counts(done.lines(TEST), done.ledger["regions"])


def host(lab, column):
    """What KVM the column's boot says that it has."""
    line = next(line for line in boot(lab, column).lines("kvm") if "release" in line)
    return " ".join(f"{key}={line[key]}" for key in ("release", "enable_mediated_pmu", "enable_apicv"))
