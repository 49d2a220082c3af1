# SPDX-License-Identifier: BSD-2-Clause
# test_convert.py: bases, operations, units and exactness; regions that the ledger does not have.
import unittest

from bench import convert, lines

CPUID, NMI = "CPUID", "Exception or NMI"


def spread(total, count):
    return {"samples": count, "sum": total, "min": 0, "max": total}


def region(root=0, nonroot=0, exits=(), begins=1, is_open=False, vmread=0, vmwrite=0):
    return {
        "begins": begins,
        "open": is_open,
        "exits": {
            str(at): {
                "name": name,
                "count": count,
                "root_instructions": spread(total, count),
                "vmcs_accesses": spread(accesses, count),
            }
            for at, (name, count, total, accesses) in enumerate(exits)
        },
        "root": {
            "instructions": root,
            "vmread": vmread,
            "vmwrite": vmwrite,
            "rdmsr": 7,
            "wrmsr": 0,
            "cpuid": 0,
            "listed": 0,
        },
        "nonroot": {"instructions": nonroot, "kernel": nonroot, "user": 0},
    }


LEDGER = {
    "regions": {
        "1": region(nonroot=230),
        "2": region(
            root=11300, nonroot=330, exits=[(CPUID, 100, 11300, 600)], vmread=500, vmwrite=100
        ),
        "3": region(nonroot=1, begins=2),
        "4": region(nonroot=1, is_open=True),
        "5": region(root=11350, nonroot=330, exits=[(CPUID, 100, 11300, 600), (NMI, 1, 50, 3)]),
    }
}
BASE = (
    "bench: experiment=exit item=empty region=1 ops=100 metric=time unit=tsc n=5 min=228 "
    "median=230 p95=231\n"
)
ITEM = (
    "bench: experiment=exit item=cpuid base=empty region=2 ops=100 metric=time unit=tsc n=5 "
    "min=11525 median=11630 p95=12230\n"
)


def run(text, ledger=None, kind="emulator"):
    found, errors = lines.parse(text)
    assert not errors, errors
    return convert.convert(found, LEDGER if ledger is None else ledger, "msr+nmi", kind)


def value(got, item, metric, key="value"):
    found = [
        entry[key]
        for entry in got.measurements
        if (entry["item"], entry["metric"]) == (item, metric)
    ]
    assert len(found) == 1, (item, metric, got.measurements)
    return found[0]


class Regions(unittest.TestCase):
    def test_base_is_subtracted_per_operation(self):
        got = run(BASE + ITEM)
        self.assertEqual(got.errors, [])
        wanted = {
            "instructions": 114,
            "root_instructions": 113,
            "nonroot_instructions": 1,
            "exits": 1,
            "vmread": 5,
            "vmwrite": 1,
            "root_rdmsr": 0,
            "root_wrmsr": 0,
            f"exits:{CPUID}": 1,
            f"root_instructions:{CPUID}": 113,
            f"vmcs_accesses:{CPUID}": 6,
        }
        for metric, number in wanted.items():
            self.assertEqual(value(got, "cpuid", metric), number, metric)
            self.assertIs(value(got, "cpuid", metric, "exact"), True)
        self.assertIsInstance(value(got, "cpuid", "instructions"), int)

    def test_base_behind_its_item(self):
        self.assertEqual(value(run(ITEM + BASE), "cpuid", "instructions"), 114)

    def test_quotient_is_not_rounded(self):
        got = run(BASE + ITEM.replace("region=2", "region=5"))
        self.assertEqual(value(got, "cpuid", f"exits:{NMI}"), 0.01)
        self.assertEqual(value(got, "cpuid", "exits"), 1.01)

    def test_region_of_no_ledger_is_an_error(self):
        for text, ledger, word in (
            (ITEM.replace("region=2", "region=99"), None, "not in the ledger"),
            (ITEM.replace("region=2", "region=3"), None, "begun 2 times"),
            (ITEM.replace("region=2", "region=4"), None, "never ended"),
            (ITEM, {"regions": {}}, "not in the ledger"),
        ):
            got = run(BASE + text, ledger)
            mine = [error for error in got.errors if error.startswith("exit/cpuid")]
            self.assertEqual(len(mine), 1, got.errors)
            self.assertIn(word, mine[0])
            self.assertEqual([entry for entry in got.measurements if entry["item"] == "cpuid"], [])
            self.assertIn("cpuid", [entry["item"] for entry in got.skipped])

    def test_no_ledger_at_all(self):
        found, _ = lines.parse(BASE)
        got = convert.convert(found, None, "native", "emulator")
        self.assertIn("no ledger", got.errors[0])

    def test_ledger_of_another_shape(self):
        for ledger in (
            [],
            {"regions": []},
            {"regions": {"1": 5}},
            {"regions": {"1": {}}},
            {"regions": {"1": {**LEDGER["regions"]["1"], "exits": [1]}}},
        ):
            got = run(BASE, ledger)
            self.assertEqual(len(got.errors), 1, ledger)
            self.assertIn("region 1: this is no ledger", got.errors[0])

    def test_base_that_does_not_fit(self):
        got = run(ITEM)
        self.assertIn("base empty has no such line", got.errors[0])
        got = run(BASE.replace("ops=100", "ops=10") + ITEM)
        self.assertIn("has ops=10", got.errors[0])
        got = run('bench: experiment=exit item=empty skip="broken"\n' + ITEM)
        self.assertIn("was left out: broken", got.errors[0])

    def test_base_of_another_experiment_does_not_count(self):
        got = run(BASE.replace("experiment=exit", "experiment=msr") + ITEM)
        self.assertIn("base empty has no such line", got.errors[0])

    def test_hardware_has_no_regions(self):
        got = run(BASE + ITEM, {}, "metal")
        self.assertEqual(got.errors, [])
        self.assertEqual({entry["metric"] for entry in got.measurements}, {"time"})


class Times(unittest.TestCase):
    def test_cycles_on_hardware(self):
        got = run(BASE + ITEM, {}, "metal")
        self.assertEqual(value(got, "cpuid", "time", "unit"), "cycles")
        self.assertEqual(value(got, "cpuid", "time"), 114)
        self.assertEqual(value(got, "cpuid", "time", "min"), 112.95)
        self.assertEqual(value(got, "cpuid", "time", "p95"), 120)
        self.assertEqual(value(got, "cpuid", "time", "n"), 5)
        self.assertIs(value(got, "cpuid", "time", "exact"), False)

    def test_the_emulator_has_no_cycles(self):
        got = run(BASE + ITEM)
        self.assertEqual(
            {entry["unit"] for entry in got.measurements if entry["metric"] == "time"},
            {"instructions"},
        )

    def test_a_latency_is_one_operation(self):
        got = run(
            "bench: experiment=pmi item=nmi_self metric=time unit=tsc n=5 min=6 median=6 p95=6"
        )
        self.assertEqual(value(got, "nmi_self", "time"), 6)
        self.assertIs(value(got, "nmi_self", "time", "exact"), True)

    def test_times_that_differ_are_not_exact(self):
        self.assertIs(value(run(BASE + ITEM), "cpuid", "time", "exact"), False)

    def test_negative_after_the_base(self):
        got = run(BASE + ITEM.replace("min=11525", "min=200"), {}, "metal")
        self.assertEqual(value(got, "cpuid", "time", "min"), -0.3)


class Values(unittest.TestCase):
    LINE = "bench: experiment=profile item=plain metric=%s unit=%s value=%s"

    def test_counts_are_exact_in_the_emulator_only(self):
        for kind, exact in (("emulator", True), ("metal", False)):
            got = run(self.LINE % ("samples", "count", 500), {}, kind)
            self.assertIs(value(got, "plain", "samples", "exact"), exact)

    def test_nothing_of_nginx_is_exact(self):
        got = run(
            "bench: experiment=nginx item=plain region=1 ops=10 metric=requests unit=count "
            "value=10"
        )
        self.assertEqual(got.errors, [])
        self.assertEqual({entry["exact"] for entry in got.measurements}, {False})
        self.assertEqual(value(got, "plain", "instructions"), 23)

    def test_a_unit_that_the_metric_does_not_have(self):
        got = run(self.LINE % ("root_instructions", "bytes", 5))
        self.assertEqual(got.measurements, [])
        self.assertIn('profile/plain: unit: found "bytes", wanted instructions', got.errors[0])

    def test_times_and_rates_are_not_exact(self):
        for metric, unit in (("latency_avg", "ns"), ("rate", "count"), ("share", "percent")):
            got = run(self.LINE % (metric, unit, "3.5"))
            self.assertIs(value(got, "plain", metric, "exact"), False)
            self.assertEqual(value(got, "plain", metric), 3.5)

    def test_a_distribution_of_nanoseconds(self):
        got = run(
            "bench: experiment=a1 item=m100 region=1 ops=1 metric=time unit=ns n=30 min=5 "
            "median=7 p95=9"
        )
        self.assertEqual(
            [value(got, "m100", "time", key) for key in ("value", "min", "p95", "n")], [7, 5, 9, 30]
        )
        self.assertEqual(value(got, "m100", "instructions"), 230)

    def test_a_skip_is_kept(self):
        got = run('bench: experiment=exit item=vmcall skip="no hypervisor"')
        self.assertEqual(
            got.skipped,
            [{"column": "msr+nmi", "experiment": "exit", "item": "vmcall", "why": "no hypervisor"}],
        )
        self.assertEqual(got.errors, [])
