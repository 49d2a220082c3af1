# SPDX-License-Identifier: BSD-2-Clause
# test_pool.py: several runs become one measurement. All figures are made up.
import pytest

from bench import plan, pool
from bench.measurements import ALL


def entry(value, item="plain", metric="instructions", column="msr", **more):
    return {
        "column": column,
        "experiment": "nginx",
        "item": item,
        "metric": metric,
        "unit": "count",
        "value": value,
        "exact": False,
        "n": 1,
        **more,
    }


TWENTY = [entry(value, f"plain.{value}") for value in range(1, 11)] * 2
MOST = [entry(value) for value in (*range(100, 119), 1000, 1001)]


@pytest.mark.parametrize(
    "runs, wanted",
    [
        ([entry(5)], entry(5)),
        (
            [entry(30), entry(10, "plain.2"), entry(20, "plain.3")],
            entry(20, n=3, min=10, p95=30, max=30),
        ),
        (TWENTY, entry(5, n=20, min=1, p95=10, max=10)),
        (MOST, entry(110, n=21, min=100, p95=1000, max=1001)),
        (
            [
                entry(5, metric="rate", n=3, min=1, p95=9),
                entry(7, metric="rate", n=3, min=2, p95=8),
            ],
            entry(5, metric="rate", n=6, min=1, p95=9, max=9),
        ),
        ([entry(5, metric="requests"), entry(7, metric="requests")], entry(12, metric="requests")),
        (
            [entry(5, metric="latency_max"), entry(4, metric="latency_max")],
            entry(5, metric="latency_max"),
        ),
    ],
)
def test_runs_are_one_measurement(runs, wanted):
    assert pool.pooled(runs) == [wanted]


@pytest.mark.parametrize(
    "entries",
    [
        [entry(1), entry(4, metric="exits"), entry(2, "profiled"), entry(3, column="native")],
        [entry(number, f"a.{number}", experiment="accuracy") for number in (1, 2)],
    ],
)
def test_others_are_left_alone(entries):
    assert pool.pooled(entries) == entries


def test_a_run_without_an_exit_counts_as_none():
    runs = [
        entry(1),
        entry(2, "plain.2"),
        entry(3, "plain.3"),
        entry(6, "plain.2", "exits:CPUID"),
        entry(8, "plain.2", "nonroot_verw"),
        entry(9, "plain.2", "rate"),
    ]
    found = {made["metric"]: (made["value"], made["n"]) for made in pool.pooled(runs)}
    assert found["exits:CPUID"] == found["nonroot_verw"] == (0, 3) and found["rate"] == (9, 1)


def test_what_one_boot_brought_is_not_skipped():
    skipped = [
        {"column": "msr", "experiment": name, "item": item, "why": "it hung"}
        for name, item in (("nginx", "plain"), ("nginx", "profiled"), ("a1", "plain"))
    ]
    assert pool.without_measured(skipped, [entry(1, "plain.2")]) == skipped[1:]


@pytest.mark.parametrize(
    "ours, theirs, runs, resolution, wanted",
    [
        ((90, 100, 110), (105, 120, 130), 5, 0.01, True),
        ((90, 100, 125), (105, 120, 130), 5, 0.01, False),
        ((90, 100, 110), (99, 120, 130), 5, 0.01, False),
        ((100, 100, 100), (101, 101, 101), 5, 0.02, False),
        ((90, 100, 110), (190, 200, 210), 4, 0.01, None),
    ],
)
def test_differences(ours, theirs, runs, resolution, wanted):
    pair = (dict(zip(("min", "value", "p95"), each), n=runs) for each in (ours, theirs))
    assert pool.differ(*pair, resolution) is wanted


def test_a_batch_is_a_part_of_a_run():
    assert pool.batch({"n": 5}, 8000) == 0.01


# ---- boots ----


def boots(columns, *words, **more):
    return [
        boot
        for boot in plan.make("emulator", columns, **more)
        if not words or boot.name.startswith(words)
    ]


def test_what_repeats_is_booted_once():
    made = boots(("native", "msr+nmi"), times=3)
    names = [boot.name for boot in made]
    assert len(set(names)) == len(names)
    assert len([name for name in names if name.startswith("two-")]) == 6
    assert [name for name in names if name.startswith("a1-native")] == [
        "a1-native",
        "a1-native-bare",
        "a1-native-second",
        "a1-native-bare-second",
    ]
    assert {boot.config for boot in made if plan.BARE in boot.cells} == {
        "console=none user_hypercalls=1",
        "console=none user_hypercalls=1 hypervisor_bit=off",
    }
    nginx = boots(("native",), "nginx-", times=3)
    assert [boot.name for boot in nginx] == [f"nginx-native-{at}" for at in (1, 2, 3)]
    assert len({boot.append for boot in nginx}) == 3
    assert all(boot.append.count("pmv.nginx_runs=1") == 1 for boot in nginx)


def test_second_runs():
    """Each boot that repeats and is short has one, which differs from the first in one word."""
    made = {boot.name: boot for boot in boots(plan.columns.NAMES)}
    seconds = [boot for boot in made.values() if boot.first]
    for boot in seconds:
        first = made[boot.first]
        assert (boot.cells, boot.jobs, boot.inner) == (first.cells, first.jobs, first.inner)
        if boot.program == "kernel":
            assert boot.knobs == (*first.knobs, plan.ONCE_MORE) and boot.append == first.append
        else:
            assert boot.append == first.append + plan.LATER and boot.knobs == first.knobs
    slow = {*plan.ONE_RUN_ONLY, *pool.NOT_REPEATED}
    assert {boot.first for boot in seconds} == {
        name for name, boot in made.items() if not boot.first and not slow & {*boot.cells}
    }
    quick = [boot for boot in boots(plan.columns.NAMES, quick=True) if boot.first]
    assert {boot.program for boot in quick} == {"kernel"}
    assert not [boot for boot in plan.make("nested", ("kvm", "msr")) if boot.first]


def counted(item, metric, value, exact=True):
    return {
        "column": "kvm",
        "experiment": "a1",
        "item": item,
        "metric": metric,
        "value": value,
        "exact": exact,
    }


@pytest.mark.parametrize(
    "second, exact, again",
    [
        ([counted("plain", "exits:HLT", 3)], True, None),
        ([counted("plain", "exits:HLT", 4)], False, 4),
        ([counted("plain", "exits", 3)], False, 0),
        ([counted("other", "exits:HLT", 3)], False, None),
        ([], False, None),
    ],
)
def test_exact_is_what_two_runs_have(second, exact, again):
    (found,) = pool.compared([counted("plain", "exits:HLT", 3)], second)
    assert (found["exact"], found.get("again")) == (exact, again)
    time = counted("plain", "exits:HLT", 3, False)
    assert pool.compared([time], second) == [time]


def test_one_of_several_boots_can_be_had():
    (boot,) = boots(("native",), only=("nginx-native-2",), times=5)
    assert boot.name == "nginx-native-2"


def test_two_processors_are_not_quick():
    made = boots(("native", "kvm", "kvm-new"), "two-")
    knob = ALL.experiments[plan.TWO].get("knobs")
    assert [boot.knobs for boot in made] == [(plan.HYPERVISOR_BIT, knob), (knob,), (knob,)]
    assert [boot.append.count("pmv.nginx_ms=400 ") for boot in made] == [1] * 3
    assert [boot.append.count("pmv.kvm_cpus=2") for boot in made] == [0, 1, 1]
    assert [boot.column for boot in made] == ["native", "kvm", "kvm-new"]
    assert [boot.cpus for boot in made] == [2] * 3
    assert boots(("native",), "two-", quick=True) == []
