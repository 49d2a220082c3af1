# SPDX-License-Identifier: BSD-2-Clause
# test_lines.py: what lines.py takes, and that it refuses everything else with a line that says why.
import unittest

from bench import lines

GOOD = (
    "bench: experiment=exit item=cpuid base=empty region=2010 ops=100 metric=time unit=tsc "
    "n=5 min=11300 median=11310 p95=11400"
)


def one(text):
    """The only line of a console, which must be good."""
    found, errors = lines.parse(text)
    assert not errors, errors
    assert len(found) == 1, found
    return found[0]


class Good(unittest.TestCase):
    def test_line_with_region_and_time(self):
        line = one(GOOD)
        self.assertEqual((line.experiment, line.item, line.base), ("exit", "cpuid", "empty"))
        self.assertEqual((line.region, line.ops, line.n), (2010, 100, 5))
        self.assertEqual((line.min, line.median, line.p95), (11300, 11310, 11400))

    def test_line_with_value(self):
        line = one(
            "bench: experiment=profile item=profiled metric=share_a unit=percent value=29.97"
        )
        self.assertEqual((line.metric, line.unit, line.value), ("share_a", "percent", 29.97))

    def test_line_with_region_alone(self):
        self.assertEqual(one("bench: experiment=a1 item=m100 region=2303 ops=1").region, 2303)

    def test_line_with_skip(self):
        self.assertEqual(
            one('bench: experiment=exit item=vmcall skip="no hypervisor"').skip, "no hypervisor"
        )
        self.assertEqual(
            one('bench: experiment=exit item=vmcall base=empty skip="none"').skip, "none"
        )

    def test_other_lines_are_not_looked_at(self):
        found, errors = lines.parse(
            "a1: region=1 N=5\nok 1 - measure:msr\ntest kernel, native\n"
            "Kernel command line: tests=measure:exit\n" + GOOD + "\r\n"
        )
        self.assertEqual((len(found), errors), (1, []))

    def test_an_item_may_have_a_line_for_each_metric(self):
        text = "\n".join(
            f"bench: experiment=a1 item=m100 metric={metric} unit=count value=1"
            for metric in ("pmis", "branches")
        )
        found, errors = lines.parse(text)
        self.assertEqual((len(found), errors), (2, []))


class Refused(unittest.TestCase):
    def refused(self, text, *words):
        found, errors = lines.parse(text)
        self.assertEqual(found, [], text)
        self.assertEqual(len(errors), 1, f"{text}: {errors}")
        self.assertNotIn("\n", errors[0])
        for word in words:
            self.assertIn(word, errors[0])

    def test_unknown_key(self):
        self.refused(GOOD.replace("min=", "least="), "unknown key 'least'")

    def test_keys_out_of_order(self):
        self.refused(
            GOOD.replace("region=2010 ops=100", "ops=100 region=2010"),
            "the keys experiment item base ops region metric",
            "wanted experiment item",
        )

    def test_key_twice(self):
        self.refused(GOOD + " p95=1", "the keys", "median p95 p95", "wanted")

    def test_missing_value(self):
        self.refused(GOOD.replace("p95=11400", "p95="), "KEY=VALUE")
        self.refused(GOOD.replace(" median=11310", ""), "the keys", " min p95", "wanted")
        self.refused(
            "bench: experiment=a1 item=m100 metric=pmis unit=count",
            "the keys experiment item metric unit, wanted",
        )
        self.refused(
            "bench: experiment=a1 item=m100 metric=pmis value=3",
            "the keys experiment item metric value, wanted",
        )
        self.refused(
            "bench: experiment=a1 item=m100 region=2300", "the keys experiment item region, wanted"
        )
        self.refused("bench: experiment=a1 item=m100", "nothing is measured")
        self.refused("bench: item=m100 region=2300 ops=1", "the keys item region ops, wanted")
        self.refused('bench: experiment=exit item=vmcall skip=""', "reason")

    def test_not_a_number(self):
        self.refused(GOOD.replace("ops=100", "ops=many"), "ops=many", "whole number")
        self.refused(GOOD.replace("ops=100", "ops=0"), "ops=0")
        self.refused(GOOD.replace("min=11300", "min=0x10"), "min=0x10")
        self.refused(GOOD.replace("n=5", "n=5.5"), "n=5.5")

    def test_numbers_out_of_order(self):
        self.refused(GOOD.replace("min=11300", "min=11311"), "not in order")

    def test_unknown_names(self):
        self.refused(
            GOOD.replace("experiment=exit", "experiment=exits"),
            "experiment=exits",
            "wanted one of msr",
        )
        self.refused(GOOD.replace("unit=tsc", "unit=cycles"), "unit=cycles", "wanted one of tsc")
        self.refused("bench: experiment=a1 item=m100 metric=pmis unit=tsc value=3", "metric time")

    def test_torn_line(self):
        self.refused("[    1.5] foo: bench: experiment=a1 item=m100 region=1 ops=1", "torn")
        self.refused("bench:experiment=a1 item=m100 region=1 ops=1", "torn")
        self.refused(GOOD[:70], "KEY=VALUE" if GOOD[69] == "=" else "")

    def test_line_twice(self):
        found, errors = lines.parse(GOOD + "\n" + GOOD)
        self.assertEqual((len(found), len(errors)), (1, 1))
        self.assertIn("twice", errors[0])

    def test_good_lines_around_a_bad_one_are_kept(self):
        found, errors = lines.parse(
            GOOD + "\nbench: experiment=exit item=outl frob=1\n" + GOOD.replace("cpuid", "inl")
        )
        self.assertEqual(([line.item for line in found], len(errors)), (["cpuid", "inl"], 1))
