# SPDX-License-Identifier: BSD-2-Clause
# test_real.py: Debian's own programs (experiments/counters/guest/real), natively and under msr+nmi:
# each branch of user mode is counted, each instruction but the CPUIDs that exit, and the same
# functions have the same samples. Everyday two of the programs, in the boots of test_workloads.py;
# FULL=1: all of them, and Debian's KVM.
import os

import pytest

from testbed.machine import STATUS_POWEROFF, path
from tests.e2e import test_workloads

FULL = os.environ.get("FULL") == "1"
SMALL = ("gzip", "glpsol")
PROGRAMS = ("gzip", "bzip2", "xz", "sqlite3", "python3", "cc1", "glpsol") if FULL else SMALL
LIMIT = 60_000  # millions of instructions
KVM_LIMIT = 150_000
MEMORY = 768  # MiB; with KVM's guest
KVM_MEMORY = 1280
WORDS = f"pmv.real_scale=1 pmv.real={','.join(PROGRAMS)} pmv.real_periods=40000:100:500"
BRANCHES_PERIOD = {name: 500 if name == "glpsol" else 5000 for name in PROGRAMS}
FIRST_REGION = 2700
CPUID = "CPUID"
SHARES = 5  # at least so many functions have a row
NAMED = 0.1  # of all samples in them: a compiler has very many functions of less than 1 %


def boot(lab, column, name="", efi=None):
    if not FULL:
        return test_workloads.boot_of(lab, column)
    return lab.emulator(
        f"real-{column}{name}",
        entry=column,
        jobs="real",
        append=WORDS,
        config="console=none",
        memory=MEMORY,
        limit=LIMIT,
        efi=efi,
        initrd=path("build/payload/real-cloud.img"),
    )


def cells(done, job="real"):
    """{(item, metric): value} of a boot whose job ended well."""
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status(job) == 0, done.console[-400:]
    found = {
        (line["item"], line["metric"]): float(line["value"])
        for line in done.lines("bench")
        if "metric" in line and line["experiment"] == "real"
    }
    for name in PROGRAMS:
        assert found[f"{name}.instructions", "count"] > 1_000_000, f"{name} did next to nothing"
        assert found[name, "output"] > 0, name
    return found


def both(lab):
    return cells(boot(lab, "native")), cells(boot(lab, "msr+nmi"))


def wrong_branches(native, found):
    items = [(f"{name}.branches", "count") for name in PROGRAMS]
    return {item[0]: (found[item], native[item]) for item in items if found[item] != native[item]}


def samples(found):
    """Of branches, by function; and how many of each program."""
    return {
        item: value
        for (item, metric), value in found.items()
        if metric == "samples" and item.split(".")[1] == "branches"
    }


def wrong_samples(native, found):
    one, other = samples(native), samples(found)
    return {
        item: (other.get(item), one.get(item))
        for item in one.keys() | other.keys()
        if one.get(item) != other.get(item)
    }


def test_real_branches(lab):
    """Each program retires as many branches in user mode as natively, and puts out as much."""
    native, found = both(lab)
    wrong = wrong_branches(native, found)
    assert not wrong, f"under msr+nmi, natively: {wrong}"
    outputs = {name: (found[name, "output"], native[name, "output"]) for name in PROGRAMS}
    assert all(one == other for one, other in outputs.values()), outputs
    return ", ".join(f"{name} {native[f'{name}.branches', 'count']:.0f}" for name in PROGRAMS)


def test_real_instructions(lab):
    """As many instructions as natively, less the CPUIDs of the C library's start, which exit."""
    native, found = both(lab)
    done = boot(lab, "msr+nmi")
    missing = set()
    for at, name in enumerate(PROGRAMS):
        exits = {
            entry["name"]: entry["count"]
            for entry in done.region(FIRST_REGION + at)["exits"].values()
        }
        assert set(exits) == {CPUID}, f"{name}: {exits}"
        less = native[f"{name}.instructions", "count"] - found[f"{name}.instructions", "count"]
        assert less == exits[CPUID], f"{name}: {less} instructions less, {exits}"
        missing.add(f"{name} {less:.0f} of {exits[CPUID]}")
    return "instructions less, CPUID exits: " + ", ".join(sorted(missing))


def test_real_functions(lab):
    """A sample every so many branches: the same functions have the same numbers of samples, and
    none is lost."""
    native, found = both(lab)
    wrong = wrong_samples(native, found)
    assert not wrong, f"under msr+nmi, natively: {wrong}"
    for name in PROGRAMS:
        wanted = native[f"{name}.branches", "count"] / BRANCHES_PERIOD[name]
        taken = native[f"{name}.branches", "samples"]
        assert abs(taken - wanted) <= 2, f"{name}: {taken} samples, wanted {wanted:.1f}"
        functions = [item for item in samples(native) if item.startswith(f"{name}.branches.")]
        assert len(functions) >= SHARES, functions
        named = sum(native[item, "samples"] for item in functions)
        assert named > NAMED * taken, f"{name}: {named} of {taken} samples are a function's"
    for side in (native, found):
        lost = {key: value for key, value in side.items() if key[1] == "lost"}
        assert lost and not any(lost.values()), lost
    return f"{len(samples(native)) - len(PROGRAMS)} functions of {len(PROGRAMS)} programs"


def test_real_solver(lab):
    """The paper's three events of the minimum-cost-flow solver each have samples, by function."""
    for side in both(lab):
        for event in ("cycles", "llc_misses", "branches"):
            assert side[f"glpsol.{event}", "samples"] > 10, event
            assert any(
                item.startswith(f"glpsol.{event}.") and metric == "share" for item, metric in side
            ), event


@pytest.mark.full
def test_real_inexact(lab):
    """Counts and samples are seen to be wrong under a hypervisor that counts in root mode and loses
    bits of a counter."""
    native = cells(boot(lab, "native"))
    found = cells(boot(lab, "intercept", "-inexact", path("build", "mutants", "inexact.efi")))
    wrong = wrong_branches(native, found)
    assert wrong, "every count as natively"
    return f"{len(wrong)} of {len(PROGRAMS)} programs' branches wrong"


@pytest.mark.full
def test_real_kvm(lab):
    """Under Debian's KVM the same programs; how far its counts are off is a figure, no demand."""
    done = lab.emulator(
        "real-kvm",
        entry="native",
        jobs="kvm",
        memory=KVM_MEMORY,
        limit=KVM_LIMIT,
        initrd=path("build/payload/kvm-real-cloud.img"),
        append=f"pmv.kvm=real {WORDS}",
    )
    native, found = cells(boot(lab, "native")), cells(done)
    wrong = wrong_branches(native, found)
    return (
        f"{len(wrong)} of {len(PROGRAMS)} programs' branches differ, "
        f"{len(wrong_samples(native, found))} functions' samples"
    )
