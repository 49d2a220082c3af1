# SPDX-License-Identifier: BSD-2-Clause
# test_accuracy.py: the counts of experiments/counters/guest/accuracy/, natively and in the guest:
# in user mode they are the same to the last instruction, whatever the policy, for each of several
# threads on one processor. Caches of the emulator depend on physical addresses:
# experiments/counters/guest/accuracy/README.md has what that means.
import os

import pytest

from testbed import boots
from testbed.machine import STATUS_POWEROFF, exit_count, path
from tests.e2e.policies import RDPMC

FULL = os.environ.get("FULL") == "1"
PROGRAMS = ("loop", "sort", "chase", "stream", "hash", "matrix")
ANY_PAGES = tuple(f"{name}_any" for name in PROGRAMS if name != "loop")
EXACT = ("cycles", "instructions", "branches")
CACHES = ("llc_references", "llc_misses")
THREADS = ("t1", "t2")
SWITCHES = 4  # at least so often each thread loses the processor while it is counted
# Lines of stack and of the kernel, whose pages are not placed.
OTHER_LINES = 256
OTHER_SHARE = 0.001
LINES_OF_SWITCH = 16  # that the other thread has evicted, more or less of them
MANY = 10000

REGION_ALONE, REGION_ANY, REGION_THREADS, REGION_STEP = 2500, 2501, 2502, 10
REGION_RDPMC, REGION_READ = 2600, 2601
READS = 1000
READ_EVENTS = 3
EXITS, INSTRUCTIONS_EACH = 100, 5
# From an event's RDPMC to the end of the counting: the other events' RDPMCs, each some 40
# instructions, and the system call.
READ_AFTER_RDPMC = 200

SAMPLED = EXACT + ("fp",)
OVERFLOW_THREADS = ("1", "2", "2", "4", "4", "4", "4")
OVERFLOWS = 300  # of each thread at least
MOVES = 20
TWO_KNOBS = "tsc_hz 500000000\n"
TWO_MEMORY = 1024
TWO_LIMIT = 40_000


def boot(lab, entry, name="accuracy", efi=None):
    # The scenarios in the same boot; those that want two processors have boots of their own.
    jobs = "accuracy,scenarios" if entry in ("native", "msr+nmi") else "accuracy"
    return lab.emulator(
        f"{name}-{entry}",
        entry=entry,
        jobs=jobs,
        config="console=none",
        append="pmv.accuracy=1:1:16",
        initrd=boots.initrd(name="accuracy"),
        efi=efi,
    )


def counts(lab, entry, **mutant):
    """{(item, metric): value} of a boot in which the program says that nothing was multiplexed."""
    done = boot(lab, entry, **mutant)
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("accuracy") == 0, (done.lines("accuracy"), done.last_line())
    found = lines_of(done, "accuracy")
    assert found, f"boot {done.name}: no counts; last line: {done.last_line()}"
    return found


def lines_of(done, experiment):
    return {
        (row["item"], row["metric"]): int(row["value"])
        for row in done.lines("bench")
        if "metric" in row and row["experiment"] == experiment
    }


def items_exact():
    for event in EXACT:
        yield from (f"{name}.{event}" for name in PROGRAMS + ANY_PAGES)
        yield from (f"{name}.{event}.{thread}" for name in PROGRAMS for thread in THREADS)


def differing(one, other, items):
    return {
        item: (one[item, "count"], other[item, "count"])
        for item in items
        if one[item, "count"] != other[item, "count"]
    }


def unexpected(found):
    """Counts that are not what the program's construction says."""
    known = {key[0]: value for key, value in found.items() if key[1] == "expected"}
    return {
        item: (found[item, "count"], value)
        for item, value in known.items()
        if found[item, "count"] != value
    }


def test_expected(lab):
    """Natively the counts that are known by construction are met, CPUID in all modes included."""
    found = counts(lab, "native")
    known = [key for key in found if key[1] == "expected"]
    assert len(known) == 10 and not unexpected(found), (known, unexpected(found))
    exits = found["exits", "all_modes"]
    assert exits == EXITS * INSTRUCTIONS_EACH, exits
    return (
        f"{len(known)} counts as expected, such as {found['loop.instructions', 'count']} "
        "instructions of loop"
    )


def test_alone_and_threaded(lab):
    """A thread that shares its processor gets the counts of the same work alone, and so does the
    program with its memory in other pages."""
    found = counts(lab, "native")
    for name in PROGRAMS:
        for event in EXACT:
            alone = found[f"{name}.{event}", "count"]
            again = [found[f"{name}.{event}.t1", "count"]]
            if f"{name}_any" in ANY_PAGES:
                again.append(found[f"{name}_any.{event}", "count"])
            assert all(value == alone for value in again), (name, event, alone, again)
            assert found[f"{name}.{event}.t2", "count"] > alone, (name, event)
        for thread in THREADS:
            switches = found[f"{name}.{thread}", "switches"]
            assert switches >= SWITCHES, f"{name}.{thread} gave the processor away {switches} times"
    return "context switches of t1: " + ", ".join(
        f"{name} {found[f'{name}.t1', 'switches']}" for name in PROGRAMS
    )


def relative(native, found, items):
    """The largest relative error, in percent, and whose it is."""
    errors = [
        (abs(found[item, "count"] / native[item, "count"] - 1) * 100, item)
        for item in items
        if native[item, "count"]
    ]
    return max(errors)


def event_of(item):
    return item.split(".")[1]


def check_same(lab, policy):
    native, found = counts(lab, "native"), counts(lab, policy)
    items = list(items_exact())
    wrong = differing(native, found, items)
    assert not wrong, f"natively and under {policy}: {wrong}"
    caches = [
        f"{name}.{event}{thread}"
        for name in PROGRAMS[1:]
        for event in CACHES
        for thread in ("", ".t1", ".t2")
    ]
    for item in caches:
        natively, count = native[item, "count"], found[item, "count"]
        switches = (
            native[item.replace(f".{event_of(item)}", ""), "switches"]
            if item.endswith(THREADS)
            else 0
        )
        limit = OTHER_LINES + OTHER_SHARE * natively + LINES_OF_SWITCH * switches
        assert abs(count - natively) <= limit, f"{item}: {count}, natively {natively}"
    placed = relative(native, found, [item for item in caches if native[item, "count"] > MANY])
    any_pages = relative(
        native,
        found,
        [
            f"{name}.{event}"
            for name in ANY_PAGES
            for event in CACHES
            if native[f"{name}.{event}", "count"] > MANY
        ],
    )
    return (
        f"{len(items)} counts the same; caches, where there are more than {MANY} events: "
        f"{placed[0]:.2g} % apart ({placed[1]}), with pages as Linux gives them "
        f"{any_pages[0]:.2g} % ({any_pages[1]})"
    )


def test_same_msr_nmi(lab):
    """Cycles, instructions and branches of each program and thread as natively, under msr+nmi."""
    return check_same(lab, "msr+nmi")


@pytest.mark.full
def test_same_intercept(lab):
    """The same under intercept, where each context switch exits."""
    return check_same(lab, "intercept")


def check_rdpmc(lab, entry, not_retired):
    """not_retired: how many of an RDPMC are missing in the counts, because it exits."""
    native, found = counts(lab, "native"), counts(lab, entry)
    for event in EXACT:
        alone = [found[f"{how}.{event}", "count"] for how in ("rdpmc", "read")]
        expected = found[
            f"rdpmc.{'branches' if event == 'branches' else 'instructions'}", "expected"
        ]
        assert alone == [expected, expected], f"{event}: {alone}, wanted {expected}"
        for number, thread in enumerate(THREADS):
            by_rdpmc, by_read, natively = (
                side[f"{how}.{event}.{thread}", "count"]
                for side, how in ((found, "rdpmc"), (found, "read"), (native, "read"))
            )
            lost = not_retired * READ_EVENTS if event != "branches" else 0
            assert by_read == natively - lost, (event, number, by_read, natively)
            assert 0 < by_read - by_rdpmc <= READ_AFTER_RDPMC, (event, number, by_rdpmc, by_read)
    return found


def test_rdpmc(lab):
    """RDPMC in user mode and read() agree, alone and in threads, natively and under msr+nmi, where
    it takes no exit; nor does anything else that was counted."""
    check_rdpmc(lab, "native", 0)
    found = check_rdpmc(lab, "msr+nmi", 0)
    done = boot(lab, "msr+nmi")
    regions = [REGION_RDPMC, REGION_READ]
    for number in range(len(PROGRAMS)):
        offset = number * REGION_STEP
        regions += [REGION_ALONE + offset, REGION_THREADS + offset]
        if number:
            regions.append(REGION_ANY + offset)
    exits = {number: exit_count(done.region(number)) for number in regions}
    assert not any(exits.values()), f"exits by region: {exits}"
    costs = [
        done.region(number)["nonroot"]["instructions"] / READS
        for number in (REGION_RDPMC, REGION_READ)
    ]
    return (
        f"{found['rdpmc.instructions', 'overhead']} and "
        f"{found['read.instructions', 'overhead']} user instructions more than the block; one "
        f"count costs {costs[0]:.1f} instructions by RDPMC, {costs[1]:.0f} by read()"
    )


@pytest.mark.full
def test_rdpmc_intercept(lab):
    """Under intercept the same but for the RDPMCs, which exit and so do not retire."""
    check_rdpmc(lab, "intercept", 1)
    exits = boot(lab, "intercept").region(REGION_RDPMC)["exits"]
    assert exits[RDPMC]["count"] == READS and len(exits) == 1, exits


def test_all_modes(lab):
    """Around 100 CPUIDs nothing counts in root mode: as natively, less the CPUIDs, which exit."""
    native = counts(lab, "native")["exits", "all_modes"]
    policies = ("msr+nmi", "intercept") if FULL else ("msr+nmi",)
    found = [counts(lab, policy)["exits", "all_modes"] for policy in policies]
    assert found == [native - EXITS] * len(policies), (native, found)
    return f"{native} instructions natively, {found[0]} in the guest"


@pytest.mark.full
def test_inexact(lab):
    """The counts are seen to be wrong under a hypervisor that counts in root mode and loses bits of
    a thread's counter."""
    native = counts(lab, "native")
    found = counts(
        lab, "intercept", name="accuracy-inexact", efi=path("build", "mutants", "inexact.efi")
    )
    exits = [side["exits", "all_modes"] for side in (native, found)]
    assert exits[1] > exits[0], exits
    threads = [item for item in items_exact() if item.endswith(THREADS)]
    wrong = differing(native, found, threads)
    assert len(wrong) == len(threads), f"{len(wrong)} of {len(threads)} counts wrong: {wrong}"
    return f"{exits[1]} instructions instead of {exits[0]}; {len(wrong)} threads' counts wrong"


def scenarios(lab, entry, two=False):
    """{(item, metric): value} of the job scenarios; two: on two processors, where all is placed."""
    done = (
        boot(lab, entry)
        if not two
        else lab.emulator(
            f"scenarios-{entry}",
            entry=entry,
            jobs="scenarios",
            config="console=none",
            cpus=2,
            knobs=TWO_KNOBS,
            memory=TWO_MEMORY,
            append="pmv.accuracy=1:1:16",
            initrd=boots.initrd(name="accuracy"),
            limit=TWO_LIMIT,
        )
    )
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("scenarios") == 0, (done.lines("scenarios"), done.last_line())
    return lines_of(done, "scenarios")


def check_scenarios(native, found, letters):
    """Each thread has its work's counts, in every arrangement, natively and in the guest."""
    for event in EXACT:
        alone = native[f"mixed.{event}", "count"]
        more = native[f"mixed.{event}.t2", "count"]
        assert more > alone > 0, (event, alone, more)
        for side in (native, found):
            counted = {
                letter: [side[f"mixed.{event}.{letter}{n}", "count"] for n in (1, 2)]
                for letter in letters
            }
            assert side[f"mixed.{event}", "count"] == alone, event
            assert all(
                pair == [alone, more] for pair in counted.values()
            ), f"{event}: {counted}, wanted {[alone, more]}"
    for side in (native, found):
        assert side["mixed.tsc", "count"] > native["mixed.instructions", "count"], "no TSC"
    return max(
        (abs(found[key] / native[key] - 1) * 100, key[0])
        for key in native
        if key[0].startswith("mixed.tsc")
    )


def check_overflows(native, found):
    """Each overflow reached its thread, as often as the thread's count holds the period; how often
    they were wrong."""
    runs = [item for item, metric in native if metric == "overflows"]
    assert len(runs) == len(OVERFLOW_THREADS) * len(SAMPLED) and set(OVERFLOW_THREADS) == {
        item.rpartition(".")[0].rpartition("of")[2] for item in runs
    }, runs
    for side in (native, found):
        wrong = {
            item: (side[item, "overflows"], side[item, "expected"])
            for item in runs
            if side[item, "overflows"] != side[item, "expected"]
        }
        assert not wrong, wrong
    wrong = {
        item: (found[item, "count"], native[item, "count"])
        for item in runs
        if found[item, "count"] != native[item, "count"]
    }
    assert not wrong, f"counts under msr+nmi, natively: {wrong}"
    assert min(native[item, "overflows"] for item in runs) >= OVERFLOWS
    return sum(native[item, "overflows"] for item in runs)


def test_scenarios(lab):
    """One thread, and two on one processor: the same counts under msr+nmi; the TSC is close."""
    off, item = check_scenarios(scenarios(lab, "native"), scenarios(lab, "msr+nmi"), "t")
    return f"TSC {off:.2g} % apart at most ({item})"


def test_overflows(lab):
    """Several threads on one processor, a signal for each overflow: each reaches its thread."""
    total = check_overflows(scenarios(lab, "native"), scenarios(lab, "msr+nmi"))
    return f"{total} overflows natively, as many under msr+nmi"


@pytest.mark.full
def test_scenarios_two(lab):
    """Threads on two processors, and moved between them all the time."""
    native, found = scenarios(lab, "native", True), scenarios(lab, "msr+nmi", True)
    off, item = check_scenarios(native, found, "tpm")
    moved = [side[f"mixed.m{n}", "switches"] for side in (native, found) for n in (1, 2)]
    assert min(moved) >= MOVES, moved
    return f"TSC {off:.2g} % apart at most ({item}); switches of moved threads {moved}"


@pytest.mark.full
def test_overflows_two(lab):
    """The same with threads that are moved between two processors."""
    return check_overflows(scenarios(lab, "native", True), scenarios(lab, "msr+nmi", True))
