# SPDX-License-Identifier: BSD-2-Clause
# test_pool.py: several runs become one measurement. All figures are made up.
import unittest

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


def one(entries):
    found = pool.pooled(entries)
    assert len(found) == 1, found
    return found[0]


class Pool(unittest.TestCase):
    def test_runs_of_a_boot_are_one_measurement(self):
        runs = [entry(30), entry(10, "plain.2"), entry(20, "plain.3")]
        self.assertEqual(one(runs), entry(20, n=3, min=10, p95=30, max=30))

    def test_twenty_runs_of_two_boots(self):
        runs = [
            entry(value, f"plain.{number}")
            for _ in range(2)
            for number, value in enumerate(range(1, 11), 1)
        ]
        self.assertEqual(one(runs), entry(5, "plain", n=20, min=1, p95=10, max=10))

    def test_the_range_ends_with_the_most(self):
        found = one([entry(value) for value in (*range(100, 119), 1000, 1001)])
        self.assertEqual((found["min"], found["p95"], found["max"]), (100, 1000, 1001))

    def test_distributions_keep_their_ends(self):
        boots = [
            entry(5, metric="rate", n=3, min=1, p95=9),
            entry(7, metric="rate", n=3, min=2, p95=8),
        ]
        self.assertEqual(one(boots), entry(5, metric="rate", n=6, min=1, p95=9, max=9))

    def test_sums_are_summed(self):
        boots = [entry(5, metric="requests"), entry(7, metric="requests")]
        self.assertEqual(one(boots)["value"], 12)
        self.assertEqual(
            one([entry(5, metric="latency_max"), entry(4, metric="latency_max")])["value"], 5
        )

    def test_one_run_stays_as_it_is(self):
        self.assertEqual(one([entry(5)]), entry(5))

    def test_others_are_left_alone(self):
        apart = [
            entry(1),
            entry(4, metric="exits"),
            entry(2, "profiled"),
            entry(3, column="native"),
        ]
        self.assertEqual(pool.pooled(apart), apart)
        repeats = [{**entry(1, f"a.{number}"), "experiment": "accuracy"} for number in (1, 2)]
        self.assertEqual(pool.pooled(repeats), repeats)

    def test_a_run_without_an_exit_counts_as_none(self):
        runs = [
            entry(1),
            entry(2, "plain.2"),
            entry(3, "plain.3"),
            entry(6, "plain.2", "exits:CPUID"),
            entry(9, "plain.2", "rate"),
        ]
        found = {made["metric"]: made for made in pool.pooled(runs)}
        self.assertEqual((found["exits:CPUID"]["value"], found["exits:CPUID"]["n"]), (0, 3))
        self.assertEqual((found["rate"]["value"], found["rate"]["n"]), (9, 1))

    def test_what_one_boot_brought_is_not_skipped(self):
        skipped = [
            {"column": "msr", "experiment": name, "item": item, "why": "it hung"}
            for name, item in (("nginx", "plain"), ("nginx", "profiled"), ("a1", "plain"))
        ]
        self.assertEqual(pool.without_measured(skipped, [entry(1, "plain.2")]), skipped[1:])


class Differences(unittest.TestCase):
    def differ(self, ours, theirs, runs=5, resolution=0.01):
        return pool.differ(
            *(
                {"value": value, "min": least, "p95": most, "max": most, "n": runs}
                for least, value, most in (ours, theirs)
            ),
            resolution,
        )

    def test_medians_outside_the_ranges(self):
        self.assertTrue(self.differ((90, 100, 110), (105, 120, 130)))
        self.assertFalse(self.differ((90, 100, 125), (105, 120, 130)))
        self.assertFalse(self.differ((90, 100, 110), (99, 120, 130)))

    def test_less_than_a_batch_is_no_difference(self):
        self.assertFalse(self.differ((100, 100, 100), (101, 101, 101), resolution=0.02))
        self.assertEqual(pool.batch({"n": 5}, 8000), 0.01)

    def test_few_runs_tell_nothing(self):
        self.assertIsNone(self.differ((90, 100, 110), (190, 200, 210), runs=4))


class Boots(unittest.TestCase):
    def test_what_repeats_is_booted_once(self):
        boots = plan.make("emulator", ("native", "msr+nmi"), times=3)
        names = [boot.name for boot in boots]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual(
            [name for name in names if name.startswith("nginx-native")],
            ["nginx-native-1", "nginx-native-2", "nginx-native-3"],
        )
        self.assertEqual(
            len({boot.append for boot in boots if boot.name.startswith("nginx-native")}), 3
        )
        self.assertEqual(
            {
                boot.append.count("pmv.nginx_runs=1")
                for boot in boots
                if boot.name.startswith("nginx-")
            },
            {1},
        )
        self.assertEqual(len([name for name in names if name.startswith("two-")]), 6)
        self.assertEqual(len([name for name in names if name.startswith("a1-native")]), 2)
        self.assertEqual(
            {boot.config for boot in boots if plan.BARE in boot.cells},
            {"console=none user_hypercalls=1", "console=none user_hypercalls=1 hypervisor_bit=off"},
        )

    def test_one_of_several_boots_can_be_had(self):
        boots = plan.make("emulator", ("native",), only=("nginx-native-2",), times=5)
        self.assertEqual([boot.name for boot in boots], ["nginx-native-2"])

    def test_two_processors_are_not_quick(self):
        boots = [
            boot
            for boot in plan.make("emulator", ("native", "kvm", "kvm-new"))
            if plan.TWO in boot.cells
        ]
        knob = ALL.experiments[plan.TWO].get("knobs")
        self.assertEqual(
            [boot.knobs for boot in boots], [(plan.HYPERVISOR_BIT, knob), (knob,), (knob,)]
        )
        self.assertEqual([boot.append.count("pmv.nginx_ms=400 ") for boot in boots], [1] * 3)
        self.assertEqual([boot.append.count("pmv.kvm_cpus=2") for boot in boots], [0, 1, 1])
        self.assertEqual([boot.column for boot in boots], ["native", "kvm", "kvm-new"])
        self.assertEqual([boot.cpus for boot in boots], [2] * 3)
        self.assertFalse(
            [
                boot
                for boot in plan.make("emulator", ("native",), quick=True)
                if plan.TWO in boot.cells
            ]
        )
