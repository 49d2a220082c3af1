# SPDX-License-Identifier: BSD-2-Clause
# test_branchusb.py: the fuzzing experiment with drivers of USB devices (guest/fuzz/usb.h), six of
# them those of the thesis's Table 4.8: the lists of the probes against the emulator's own, and what
# a case costs.
import collections

import pytest

from experiments.branches.tests.branchtrace import boot, check_list
from testbed import boots
from testbed.machine import exit_count, instructions

pytestmark = pytest.mark.full

TARGETS = ("ar5523", "btusb", "pn533", "rsi", "si470x", "usx2y", "audio")
TRUTHS = 2  # usb_main.c
POLICIES = ("native", "msr+nmi", "msr")
TRACED, PLAIN, TRACED_STARTED, PLAIN_STARTED, ONE_OF_TEN = range(5)
PAIRS = ((TRACED, PLAIN), (TRACED_STARTED, PLAIN_STARTED), (ONE_OF_TEN, PLAIN))
CASES = 10
MEMORY = 1024
LIMIT = 60_000
# What a driver says of a device that errs is no part of a case.
WORDS = "loglevel=2"
# A second of Linux's is one of the emulator's: a case waits for the hub.
KNOBS = "tsc_hz 50000000\n"


def usb(lab, entry, cases=CASES, how=""):
    return boot(
        lab,
        f"branchusb-{entry}{how.replace(',', '-')}",
        entry,
        (),
        KNOBS,
        job="branchusb",
        image="branchusb",
        flavour="stock",
        append=f"{WORDS} pmv.branchusb={cases}{how}",
        memory=MEMORY,
        limit=LIMIT,
    )


def under_kvm(lab):
    return lab.emulator(
        "branchusb-kvm",
        entry="native",
        jobs="kvm",
        config="console=none",
        knobs=KNOBS,
        memory=MEMORY,
        limit=LIMIT,
        initrd=boots.initrd("stock", "kvm-branchusb"),
        flavour="stock",
        append=f"{WORDS} nokaslr pmv.kvm=branchusb pmv.branchusb={CASES},blind",
    )


Told = collections.namedtuple("Told", "row ways cost exits")


def tell(done, job="branchusb", ways=range(5)):
    """By target: its line, the lines of the ways that its cases were run, instructions of a case
    and exits by way."""
    told = {}
    for row in done.lines("branchusb"):
        regions = {way: done.region(int(row["region"]) + way) for way in ways}
        told[row["target"]] = Told(
            row,
            [line for line in done.lines("branchusb_way") if line["target"] == row["target"]],
            {way: instructions(one) / int(row["executions"]) for way, one in regions.items()},
            {way: exit_count(one) for way, one in regions.items()},
        )
    assert list(told) == list(TARGETS) and done.job_status(job) == 0, done.last_line()
    return told


def deduction(told, with_records=TRACED, without=PLAIN):
    return 100 * (1 - told.cost[without] / told.cost[with_records])


def average(told, *ways):
    return sum(deduction(one, *ways) for one in told.values()) / len(told)


def truths(done):
    rows = done.lines("branchusb_truth")
    assert [row["target"] for row in rows] == [name for name in TARGETS for _ in range(TRUTHS)]
    return rows


def check_truths(done):
    count = 0
    for row in truths(done):
        assert row["complete"] == "1", row
        assert check_list(done, int(row["region"])) == int(row["branches"]), row
        count += int(row["branches"])
    for row in truths(done)[::TRUTHS]:
        assert int(row["probes"]) > 0 and int(row["bound"]) > 0, row
    return count


@pytest.mark.parametrize("entry", ["native", "msr+nmi"])
def test_lists(lab, entry):
    """Two cases of each driver, with the driver's probe in them, are the emulator's list, branch by
    branch. Each first input is bound to its driver."""
    return f"{check_truths(usb(lab, entry))} branches in {TRUTHS * len(TARGETS)} cases"


@pytest.mark.parametrize("entry", POLICIES)
def test_cost(lab, entry):
    """The same cases in one process, each as a process of its own, and with one of ten traced: all
    lists whole, and the deduction of each driver natively's to a point. Under msr+nmi no exit."""
    native, told = (tell(usb(lab, one)) for one in ("native", entry))
    for name, one in told.items():
        assert int(one.row["taken"]) > CASES / 2, one.row
        for way in (TRACED, TRACED_STARTED, ONE_OF_TEN):
            assert one.ways[way]["cut"] == "0" and int(one.ways[way]["pmis"]) > 0, one.ways[way]
        for ways in PAIRS[:2]:
            assert abs(deduction(one, *ways) - deduction(native[name], *ways)) <= 1, (name, ways)
        # Those of the processes are CPUIDs at their start, traced or not.
        if entry == "msr+nmi":
            assert one.exits[TRACED] == one.exits[PLAIN] == 0, one.exits
            assert abs(one.exits[TRACED_STARTED] - one.exits[PLAIN_STARTED]) <= 1, one.exits
        assert deduction(one, *PAIRS[2]) < deduction(one, *PAIRS[0]), name
    # Only one case of each driver is traced there: an interrupt more is seen in its share.
    if entry == "msr+nmi":
        assert abs(average(told, *PAIRS[2]) - average(native, *PAIRS[2])) <= 1
    shares = [f"{average(told, *ways):.1f} %" for ways in PAIRS]
    return "{}, {} with a process for each case, {} with one case of ten traced".format(*shares)


def test_base_under_kvm(lab):
    """The same inputs untraced, natively and in KVM's guest, whose PMU the module refuses: the same
    devices are bound, and a case costs more."""
    ways = (PLAIN, PLAIN_STARTED)
    native = tell(usb(lab, "native", how=",blind"), ways=ways)
    kvm = tell(under_kvm(lab), "kvm", ways)
    assert [one.row for one in native.values()] == [one.row for one in kvm.values()]
    texts = []
    for way in ways:
        costs = [sum(one.cost[way] for one in told.values()) / len(told) for told in (native, kvm)]
        assert costs[0] < costs[1], costs
        texts.append(f"{costs[0]:,.0f} and {costs[1]:,.0f}")
    return f"instructions of a case {texts[0]}; with a process for each case {texts[1]}"


def test_losses_are_found(lab):
    """A record that is forgotten makes a list that is not whole, and not the emulator's."""
    done = usb(lab, "native", cases=1, how=",drop")
    for row in truths(done):
        assert row["complete"] == "0", row
        with pytest.raises(AssertionError):
            check_list(done, int(row["region"]))


def test_probe_elsewhere(lab):
    """Where the hub's thread authorizes the device, the case's list has no probe."""
    done = usb(lab, "native", cases=1, how=",hub")
    assert all(row["probes"] == "0" for row in truths(done)), truths(done)
    assert any(row["bound"] != "0" for row in truths(done)), truths(done)
