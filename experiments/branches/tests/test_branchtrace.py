# SPDX-License-Identifier: BSD-2-Clause
# test_branchtrace.py: the lists of taken branches that experiments/branches/guest/ makes, against
# the emulator's own exact trace of the same stretch: none missing, none invented; and the fuzzing
# experiment on top of them.
import pytest

from experiments.branches.tests.branchtrace import (
    Branch,
    boot,
    branches_of,
    check_list,
    listed,
    price,
    tell_fuzz,
    traced,
)
from testbed.machine import STATUS_POWEROFF, exit_count

DRIVERS = 7
USER, USER_FAR, BOTH, KERNEL, SLEEP, CALL = 3100, 3101, 3102, 3103, 3104, 3105
LONG, SKEWED, DROPPED, STUCK, SKID, SMALL = 3106, 3107, 3108, 3109, 3110, 3111
PERF, UNTRACED, PRICED = 3112, 3113, 3114
# The lists that have to be complete, and those that must be said not to be.
GOOD = {
    USER: "sort 500",
    USER_FAR: "-f -p31 sort 100",
    BOTH: "-u -k -i -n200000 mixed 1",
    KERNEL: "-k -i -n200000 mixed 1",
    SLEEP: "-u -k -i sleep 2",
    CALL: "-k -i getppid",
}
BAD = {
    LONG: "-p40 sort 100",
    SKEWED: "-k -i -p33 getppid 5",
    DROPPED: "-d100 sort 100",
    STUCK: "-u -k -p16 getppid",
}
PRICES = {PERF: "-P -p31 sort 500", UNTRACED: "-x sort 500", PRICED: "sort 500"}
MILLION = 1_000_000


def runs():
    for region, words in {**GOOD, **BAD, **PRICES}.items():
        yield f"-r{region} -o {words}"
    yield f"-r{SMALL} -o -c - -m - sort 4"


def lists(lab, entry):
    return boot(lab, f"branchtrace-{entry}", entry, runs())


def row(done, region):
    for found in done.lines("branchtrace"):
        if found.get("region") == str(region):
            return found
    raise AssertionError(
        f"nothing was traced in region {region}: {done.lines('branchtrace')}; "
        f"last line: {done.last_line()}"
    )


def check_good(lab, entry):
    done = lists(lab, entry)
    done.expect_status(STATUS_POWEROFF)
    counts = {}
    for region in GOOD:
        found = row(done, region)
        assert found["complete"] == "1" and found["lost"] == "0", found
        counts[region] = check_list(done, region)
        assert counts[region] == int(found["records"]), found
        assert int(found["pmis"]) > 0, found
    return done, counts


def test_native(lab):
    """Natively each list is the emulator's own, branch by branch: user, kernel, over sleeps."""
    _, counts = check_good(lab, "native")
    return f"{sum(counts.values())} branches in {len(counts)} lists"


def test_guest(lab):
    """The same under msr+nmi, with no exit for a PMI or a read of the branch records."""
    done, counts = check_good(lab, "msr+nmi")
    pmis, exits = 0, 0
    for region in GOOD:
        exits += exit_count(done.region(region))
        pmis += int(row(done, region)["pmis"])
    assert exits == 0, f"{exits} exits in {pmis} PMIs"
    return f"{sum(counts.values())} branches in {len(counts)} lists, {pmis} PMIs, {exits} exits"


def test_same(lab):
    """User branches are the same natively and in the guest: addresses, cycles, order. The model's
    predictor learns of the kernel's branches too, so that a misprediction may be another."""
    both = [lists(lab, entry) for entry in ("native", "msr+nmi")]
    count = predicted = 0
    for region in (USER, PRICED):
        one, other = (list(branches_of(listed(done)[region][1])) for done in both)
        for number, (native, guest) in enumerate(zip(one, other)):
            assert native._replace(mispredicted=0) == guest._replace(
                mispredicted=0
            ), f"region {region}, branch {number}: {native} natively, {guest} in the guest"
            predicted += native.mispredicted != guest.mispredicted
        assert len(one) == len(other) > 0
        count += len(one)
    assert predicted <= count / 100, f"{predicted} of {count} predicted otherwise"
    return f"{count} branches the same, {predicted} of them predicted otherwise"


def test_losses_are_found(lab):
    """Too long a period, a forgotten record, a period shorter than the PMI's way back: each is
    said, and each list is not the emulator's."""
    done = lists(lab, "native")
    for region in BAD:
        assert row(done, region)["complete"] == "0", row(done, region)
    for region in (LONG, SKEWED):
        found = row(done, region)
        assert int(found["missing"]) == int(found["lost"]) > 0, found
    dropped = row(done, DROPPED)
    assert dropped["lost"] == dropped["near_lost"] == "1" and dropped["gaps"] == "1", dropped
    assert row(done, STUCK)["cut"] == "2", row(done, STUCK)
    for region in (LONG, SKEWED, DROPPED):
        with pytest.raises(AssertionError):
            check_list(done, region)
    # The lists are short by exactly what was said.
    for region in (LONG, DROPPED):
        mode, records = listed(done)[region]
        exact = len(list(traced(done, region, mode)))
        assert exact - len(list(branches_of(records))) == int(row(done, region)["lost"])
    return f"{row(done, LONG)['lost']} of {row(done, LONG)['near_taken']} lost with a PMI every 40"


def test_outputs(lab):
    """CSV and AFL's map say what the list says."""
    done = lists(lab, "native")
    found = list(branches_of(listed(done)[SMALL][1]))
    lines = done.console.split("seq,from,to,mispredicted,cycles,cpl\n")[1].splitlines()
    rows = [line.split(",") for line in lines[: len(found)]]
    for number, (cells, branch) in enumerate(zip(rows, found)):
        cycles = None if cells[4] == "" else int(cells[4])
        assert int(cells[0]) == number and int(cells[5]) == 3
        assert branch == Branch(int(cells[1], 16), int(cells[2], 16), cells[3] == "1", cycles)
    entries = [line.split(":") for line in lines[len(found) :] if line[6:7] == ":"]
    edges = {(branch.source, branch.target) for branch in found}
    assert sum(int(count) for _, count in entries) == len(found) < 255, entries
    assert len(entries) == len(edges) and all(len(index) == 6 for index, _ in entries)
    return f"{len(found)} branches, {len(edges)} edges"


def test_perf(lab):
    """By perf_event_open: what is in its samples is the emulator's list without the end."""
    done = lists(lab, "native")
    found = row(done, PERF)
    assert found["lost"] == "0" and found["gaps"] == "0", found
    mode, records = listed(done)[PERF]
    ours = [branch[:2] for branch in branches_of(records)]
    exact = [branch[:2] for branch in traced(done, PERF, mode)]
    assert int(found["near_taken"]) - len(ours) == int(found["unread"]) < 31, found
    # The system calls that start and stop it have a few branches of their own.
    start = next(at for at in range(64) if ours[at : at + 64] == exact[:64])
    count = min(len(ours) - start, len(exact))
    assert ours[start : start + count] == exact[:count], "the samples are not the exact list"
    assert len(exact) - count < 31
    return f"{count} branches of {len(exact)}"


def test_price(lab):
    """One readout costs the same natively and under msr+nmi; by the module less than by perf."""
    texts = []
    prices = {}
    for entry in ("native", "msr+nmi"):
        done = lists(lab, entry)
        prices[entry] = [
            price(done, region, UNTRACED, int(row(done, region)["pmis"]))
            for region in (PRICED, PERF)
        ]
        texts.append(
            f"{entry}: {prices[entry][0]:.0f} instructions by the module, "
            f"{prices[entry][1]:.0f} by perf"
        )
    for native, guest in zip(prices["native"], prices["msr+nmi"]):
        assert abs(guest / native - 1) < 0.03, prices
    assert prices["native"][0] < prices["native"][1], prices
    return "; ".join(texts)


@pytest.mark.full
def test_price_msr(lab):
    """Under msr each readout has one exit, its NMI's."""
    done = lists(lab, "msr")
    pmis = int(row(done, PRICED)["pmis"])
    assert exit_count(done.region(PRICED)) == pmis > 0, (done.region(PRICED)["exits"], pmis)
    return (
        f"{price(done, PRICED, UNTRACED, pmis):.0f} instructions by the module, "
        f"{price(done, PERF, UNTRACED, int(row(done, PERF)['pmis'])):.0f} by perf"
    )


def fuzzed(lab, entry):
    return boot(
        lab, f"branchfuzz-{entry}", entry, (), job="branchfuzz", append="pmv.branchfuzz=20000"
    )


@pytest.mark.full
def test_fuzzing(lab):
    """The same corpus natively, under msr+nmi and msr, each bug found with feedback alone; under
    msr+nmi the same deduction as natively to 0.5 points."""
    native, guest = (tell_fuzz(fuzzed(lab, entry)) for entry in ("native", "msr+nmi"))
    assert [each.row for each in native] == [each.row for each in guest], (native, guest)
    for one, other in zip(native, guest):
        assert one.row["reached"] == "1" and one.row["blind_reached"] == "0", one
        assert abs(one.deduction - other.deduction) <= 0.5, (one, other)
        assert other.exits == 0, other
    trapped = tell_fuzz(fuzzed(lab, "msr"))
    assert [each.row for each in trapped] == [each.row for each in native], trapped
    averages = [
        sum(each.deduction for each in side) / len(side) for side in (native, guest, trapped)
    ]
    return "deduction {:.2f} % natively, {:.2f} % under msr+nmi, {:.2f} % under msr".format(
        *averages
    )


def driven(lab, entry):
    return boot(
        lab,
        f"branchdrivers-{entry}",
        entry,
        (),
        job="branchdrivers",
        image="branchdrivers",
        append="pmv.branchfuzz=500",
    )


@pytest.mark.full
def test_drivers(lab):
    """System calls to seven drivers of Debian's kernel, with the kernel's branches as feedback:
    each list is complete, without an exit, and dearer by the same share as natively to a point."""
    native, guest = (
        tell_fuzz(driven(lab, entry), "branchdrivers") for entry in ("native", "msr+nmi")
    )
    assert len(native) == len(guest) == DRIVERS
    for one, other in zip(native, guest):
        for each in (one, other):
            assert (
                int(each.row["calls"]) > int(each.row["executions"]) and int(each.row["corpus"]) > 1
            ), each
            assert each.row["cut"] == "0", each
        assert abs(one.deduction - other.deduction) <= 1, (one, other)
        assert other.exits == 0, other
    averages = [sum(each.deduction for each in side) / DRIVERS for side in (native, guest)]
    return "deduction {:.1f} % natively, {:.1f} % under msr+nmi; {} system calls".format(
        *averages, sum(int(each.row["calls"]) for each in guest)
    )


def check_million(lab, entry):
    done = boot(
        lab,
        f"branchtrace-million-{entry}",
        entry,
        [f"-r{USER} -o -n2000000 sort 52000"],
        memory=1024,
    )
    assert row(done, USER)["complete"] == "1", row(done, USER)
    count = check_list(done, USER)
    assert count >= MILLION, count
    assert exit_count(done.region(USER)) == 0
    return f"{count} branches, {row(done, USER)['pmis']} PMIs"


@pytest.mark.full
def test_million_native(lab):
    """More than a million user branches in one list: 0 missing, 0 invented."""
    return check_million(lab, "native")


@pytest.mark.full
def test_million_guest(lab):
    """The same under msr+nmi, with 0 exits."""
    return check_million(lab, "msr+nmi")


@pytest.mark.full
def test_late_pmi(lab):
    """A PMI that comes three instructions late: with room for them nothing is lost, without it is
    said."""
    done = boot(
        lab,
        "branchtrace-skid",
        "native",
        [f"-r{USER} -o -p28 sort 100", f"-r{SKID} -o -p32 sort 100"],
        "pmi_skid 3\n",
    )
    assert row(done, USER)["complete"] == "1", row(done, USER)
    check_list(done, USER)
    late = row(done, SKID)
    assert late["complete"] == "0" and int(late["lost"]) > 0, late
    return f"period 32: {late['lost']} of {late['near_taken']} lost"
