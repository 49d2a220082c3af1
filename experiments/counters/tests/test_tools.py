# SPDX-License-Identifier: BSD-2-Clause
# test_tools.py: tools that people use, unchanged, natively and in the guest
# (experiments/counters/guest/tools/): PAPI's utilities and its own tests end alike, an overflow
# reaches the thread that caused it, a count by RDPMC stays whole when its thread moves, and scaled
# counts are as natively. FULL=1: all of PAPI's tests, multiplexing, and the other policies.
import os
import re

import pytest

from testbed.machine import STATUS_POWEROFF, path
from tests.e2e.policies import NMI, RDPMC

FULL = os.environ.get("FULL") == "1"
WHICH = "full" if FULL else "quick"
# Linux takes the processor for one of 500 MHz: a tick, and a turn of multiplexed events, comes
# after two million instructions, so that tests of some hundred million have many.
KNOBS = "tsc_hz 500000000\n"
# A fifth of that: of a millisecond, which a turn lasts at least, and of seconds that PAPI's longer
# tests wait for.
SLOW_KNOBS = "tsc_hz 100000000\n"
LIMIT = 200_000
WAYS_TO_END = ("PASSED", "WARNED", "SKIPPED", "FAILED", "ENDED", "TIMEOUT", "CRASHED", "-")
THREADS, THRESHOLD = 4, 7919  # experiments/counters/guest/tools/threads.c
FLOPS = 20_000_000  # c += a * b: NUM_FLOPS of papi-examples' testlib/do_loops.h
MOVING = 2
EVENTS, OFFSETS = 12, 5  # experiments/counters/guest/tools/multiplex.sh
# What a load of thousands of turns has in each of them is scaled well, natively too.
OFTEN, OFF_MAX = 10_000_000, 0.04
BY_SEQUENCE = 100  # branches: a reader's further rounds when the kernel changes the page under it


def table():
    """{test: (when, wanted result, seconds)} of experiments/counters/guest/tools/papi.txt."""
    found = {}
    with open(
        path("experiments", "counters", "guest", "tools", "papi.txt"), encoding="ascii"
    ) as rows:
        for row in rows:
            words = row.split()
            if words and not row.startswith("#"):
                assert words[6] in WAYS_TO_END, row
                found[words[0]] = words[5], words[6], words[4]
    return found


def ended(lab, name, which, jobs="papi,nmilog", knobs=SLOW_KNOBS, **more):
    """A boot that runs what `which` names of PAPI's tests, and ends well."""
    boot = lab.emulator(
        name,
        jobs=jobs,
        config="console=none",
        append=f"pmv.papi={which} pmv.papi_said=12",
        knobs=knobs,
        limit=LIMIT,
        initrd=path("build/payload/papi-cloud.img"),
        memory=1024,
        **more,
    )
    boot.expect_status(STATUS_POWEROFF)
    return boot


def papi_boot(lab, entry, which=WHICH):
    if which == "long":
        return ended(lab, f"tools-papi-long-{entry}", which, entry=entry)
    return ended(lab, f"tools-papi-{entry}", which, "papi,overflow,nmilog", KNOBS, entry=entry)


def slow_boot(lab, test, entry):
    """One of PAPI's tests of up to thousands of millions of instructions, alone. It is ended after
    its seconds in the table, each of 100 million instructions. Those that attach to a processor
    want two."""
    return ended(
        lab,
        f"tools-papi-{test}-{entry}",
        f"{test} pmv.papi_seconds={table()[test][2]}",
        entry=entry,
        cpus=2 if test.startswith("attach_cpu") else 1,
    )


def results(boot):
    """{test: (result, why)}; a test that PAPI has and that is not in the table is an error."""
    assert boot.job_status("papi") == 0, boot.last_line()
    found = {
        row["test"]: (row["result"], row.get("said", ""))
        for row in boot.lines("papi")
        if "test" in row
    }
    assert found, boot.last_line()
    return found


def without_exits(boot):
    """Its ledger, which has no exit for an NMI or RDPMC."""
    assert NMI not in boot.ledger["exits"] and RDPMC not in boot.ledger["exits"], boot.ledger[
        "exits"
    ]
    return boot.ledger


def check_table(lab, entry, which=WHICH):
    """Each test ends as papi.txt says; how the tests ended."""
    found = results(papi_boot(lab, entry, which=which))
    wanted = {
        name: result
        for name, (when, result, _) in table().items()
        if when == which or (which == "full" and when == "quick")
    }
    wrong = {
        name: (found.get(name), result)
        for name, result in wanted.items()
        if name not in found or found[name][0] != result
    }
    assert not wrong and len(found) == len(wanted), wrong
    ends = [result for result, _ in found.values()]
    return ", ".join(f"{ends.count(way)} {way}" for way in WAYS_TO_END if way in ends)


@pytest.mark.full
def test_papi_native(lab):
    """Each of PAPI's tests ends as papi.txt says, with a reason where it does not pass."""
    return check_table(lab, "native")


def check_same(lab, policy, which=WHICH):
    native, found = (results(papi_boot(lab, entry, which=which)) for entry in ("native", policy))
    wrong = {
        name: (native.get(name), found.get(name))
        for name in set(native) | set(found)
        if native.get(name) != found.get(name)
    }
    assert not wrong, f"natively and under {policy}: {wrong}"
    return f"{len(found)} tests end as natively"


def test_papi_msr_nmi(lab):
    """PAPI's tests end under msr+nmi as natively, by papi.txt and, with FULL=1, by a native boot;
    in the whole boot no PMI, no NMI and no RDPMC exits."""
    said = check_table(lab, "msr+nmi")
    if FULL:
        said += "; " + check_same(lab, "msr+nmi")
    ledger = without_exits(papi_boot(lab, "msr+nmi"))
    assert ledger["pmi"]["nonroot"] == ledger["pmi"]["raised"] > 0, ledger["pmi"]
    return f"{said}; {ledger['pmi']['raised']} PMIs"


@pytest.mark.full
def test_papi_long(lab):
    """More of PAPI's tests, of some hundred million instructions each: natively as papi.txt says,
    and under msr+nmi as natively."""
    said = check_table(lab, "native", "long") + "; " + check_same(lab, "msr+nmi", "long")
    ledger = without_exits(papi_boot(lab, "msr+nmi", "long"))
    return f"{said}; {ledger['pmi']['raised']} PMIs"


@pytest.mark.full
@pytest.mark.parametrize("test", [name for name, (when, *_) in table().items() if when == "slow"])
def test_papi_slow(lab, test):
    """The rest, each in a boot of its own."""
    native, done = (slow_boot(lab, test, entry) for entry in ("native", "msr+nmi"))
    assert results(native)[test][0] == table()[test][1], results(native)
    assert results(done) == results(native), (results(native), results(done))
    return f"{results(done)[test][0]}; {without_exits(done)['pmi']['raised']} PMIs"


@pytest.mark.full
@pytest.mark.parametrize("policy", ["msr", "intercept"], ids=["papi_msr", "papi_intercept"])
def test_papi_policy(lab, policy):
    """The same under the other policies."""
    return check_same(lab, policy)


@pytest.mark.full
def test_floating_point(lab):
    """papi_command_line counts each product and each sum of its load, natively and in the guest."""
    for entry in ("native", "msr+nmi"):
        counts = re.findall(
            r"^papi-said: papi_command_line: PAPI_DP_OPS : *\t(\d+)",
            papi_boot(lab, entry).console,
            re.MULTILINE,
        )
        assert counts == [str(2 * FLOPS)], f"{entry}: {counts}"
    return f"{2 * FLOPS} operations"


def overflows(boot):
    rows = [row for row in boot.lines("threads") if row.get("mode") == "overflow"]
    assert boot.job_status("overflow") == 0 and len(rows) == THREADS, boot.lines("threads")
    return [{key: int(value) for key, value in row.items() if key != "mode"} for row in rows]


def check_overflows(rows):
    for row in rows:
        assert row["strangers"] == 0, row
        assert row["overflows"] == row["expected"] == row["count"] // THRESHOLD, row
        assert row["count"] >= row["work"], row


def test_overflow_threads(lab):
    """Each overflow of four threads on one processor reaches the thread that caused it, and none is
    missing; with FULL=1 the counts are seen to be the native ones: all four together, because one
    of the threads, which one is a matter of time, executes 120 branches more, natively too."""
    found = overflows(papi_boot(lab, "msr+nmi"))
    check_overflows(found)
    if FULL:
        native = overflows(papi_boot(lab, "native"))
        check_overflows(native)
        for what in ("overflows", "expected", "work"):
            assert [row[what] for row in found] == [row[what] for row in native], (native, found)
        assert sum(row["count"] for row in found) == sum(row["count"] for row in native), (
            native,
            found,
        )
    return f"{sum(row['overflows'] for row in found)} overflows"


@pytest.mark.full
def test_overflow_inexact(lab):
    """The same threads are seen to get other counts under a hypervisor that loses bits of them."""
    boot = lab.emulator(
        "tools-inexact-intercept",
        entry="intercept",
        jobs="overflow",
        config="console=none",
        initrd=path("build/payload/papi-cloud.img"),
        knobs=KNOBS,
        limit=LIMIT,
        memory=1024,
        efi=path("build", "mutants", "inexact.efi"),
    )
    boot.expect_status(STATUS_POWEROFF)
    native, found = overflows(papi_boot(lab, "native")), overflows(boot)
    assert all(one["count"] != other["count"] for one, other in zip(native, found)), found
    return "counts of " + ", ".join(str(row["count"]) for row in found)


def moving(lab, entry):
    boot = lab.emulator(
        f"tools-migrate-{entry}",
        entry=entry,
        jobs="migrate,nmilog",
        cpus=2,
        config="console=none",
        initrd=path("build/payload/papi-cloud.img"),
        knobs=KNOBS,
        limit=LIMIT,
        memory=1024,
    )
    boot.expect_status(STATUS_POWEROFF)
    rows = [row for row in boot.lines("threads") if row.get("mode") == "migrate"]
    assert boot.job_status("migrate") == 0 and len(rows) == MOVING, boot.lines("threads")
    return [{key: int(value) for key, value in row.items() if key != "mode"} for row in rows]


@pytest.mark.full
def test_rdpmc_migrates(lab):
    """Two threads swap processors a hundred times: each count that PAPI reads by RDPMC has the work
    since the last one, no more and no less."""
    rows = moving(lab, "msr+nmi") + (moving(lab, "native") if FULL else [])
    for row in rows:
        assert row["rdpmc"] == 1, f"PAPI does not read by RDPMC: {row}"
        assert row["block"] <= row["least"] <= row["most"] <= row["least"] + BY_SEQUENCE, row
        assert row["last"] >= row["moves"] * row["block"] and row["total"] >= row["last"], row
    return (
        f"{sum(row['moves'] for row in rows)} moves, {rows[0]['least']} to "
        f"{max(row['most'] for row in rows)} branches each"
    )


def perf_boot(lab, entry, jobs, append=""):
    boot = lab.emulator(
        f"tools-{jobs}-{entry}",
        entry=entry,
        jobs=f"{jobs},nmilog",
        append=append,
        config="console=none",
        initrd=path("build/payload/multiplex-cloud.img"),
        knobs=SLOW_KNOBS,
        limit=LIMIT,
        memory=1024,
    )
    boot.expect_status(STATUS_POWEROFF)
    assert boot.job_status(jobs) == 0, boot.last_line()
    return boot


def scaled(lab, entry):
    """{event: {run: (count, percent of the time that it was counted)}}."""
    found = {}
    for row in perf_boot(lab, entry, "multiplex").lines("multiplex"):
        found.setdefault(row["event"], {})[row["run"]] = int(row["count"]), float(row["running"])
    assert len(found) == EVENTS, sorted(found)
    return found


@pytest.mark.full
def test_multiplex(lab):
    """Twelve events on four counters: a count that is scaled under msr+nmi is as far from the count
    alone as native ones are, whatever the offset of the turns."""
    native, found = scaled(lab, "native"), scaled(lab, "msr+nmi")
    worst, inside, values = (0.0, "none"), 0, 0
    for event, runs in found.items():
        alone = native[event].pop("alone")[0]
        assert runs.pop("alone")[1] == 100
        assert len(runs) == OFFSETS and all(percent < 100 for _, percent in runs.values()), runs
        counts = [count for count, _ in native[event].values()]
        spread = max(counts) - min(counts)
        for count, _ in runs.values():
            assert min(counts) - spread <= count <= max(counts) + spread, (event, count, counts)
            inside += min(counts) <= count <= max(counts)
            values += 1
        if alone < OFTEN:
            continue
        for count, _ in [*native[event].values(), *runs.values()]:
            off = abs(count - alone) / alone
            assert off <= OFF_MAX, (event, count, alone)
            worst = max(worst, (off * 100, event))
    return (
        f"{inside} of {values} between native's least and most; what is counted ten million times "
        f"is at "
        f"most {worst[0]:.1f} % from the count alone ({worst[1]})"
    )
