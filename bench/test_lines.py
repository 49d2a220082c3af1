# SPDX-License-Identifier: BSD-2-Clause
# test_lines.py: what lines.py takes, and that it refuses everything else with a line that says why.
import pytest

from bench import lines

GOOD = (
    "bench: experiment=exit item=cpuid base=empty region=2010 ops=100 metric=time unit=tsc "
    "n=5 min=11300 median=11310 p95=11400"
)
A1, SKIPPED = "bench: experiment=a1 item=m100 ", "bench: experiment=exit item=vmcall "


@pytest.mark.parametrize(
    "text, wanted",
    [
        (GOOD, {"experiment": "exit", "item": "cpuid", "base": "empty", "region": 2010}),
        (GOOD, {"ops": 100, "n": 5, "min": 11300, "median": 11310, "p95": 11400}),
        (f"{A1}metric=share_a unit=percent value=29.97", {"unit": "percent", "value": 29.97}),
        (f"{A1}region=2303 ops=1", {"region": 2303}),
        (f'{SKIPPED}skip="no hypervisor"', {"skip": "no hypervisor"}),
        (f'{SKIPPED}base=empty skip="none"', {"skip": "none"}),
    ],
)
def test_good_line(text, wanted):
    (line,), errors = lines.parse(text)
    assert errors == [] and wanted.items() <= vars(line).items()


def test_other_lines_are_not_looked_at():
    found, errors = lines.parse(
        "a1: region=1 N=5\nok 1 - measure:msr\ntest kernel, native\n"
        "Kernel command line: tests=measure:exit\n" + GOOD + "\r\n"
    )
    assert (len(found), errors) == (1, [])


def test_an_item_may_have_a_line_for_each_metric():
    texts = [f"{A1}metric={metric} unit=count value=1" for metric in ("pmis", "branches")]
    found, errors = lines.parse("\n".join(texts))
    assert (len(found), errors) == (2, [])


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    "text, words",
    [
        (changed("min=", "least="), ["unknown key 'least'"]),
        (
            changed("region=2010 ops=100", "ops=100 region=2010"),
            ["the keys experiment item base ops region metric", "wanted experiment item"],
        ),
        (f"{GOOD} p95=1", ["the keys", "median p95 p95", "wanted"]),
        (changed("p95=11400", "p95="), ["KEY=VALUE"]),
        (changed(" median=11310", ""), ["the keys", " min p95", "wanted"]),
        (f"{A1}metric=pmis unit=count", ["the keys experiment item metric unit, wanted"]),
        (f"{A1}metric=pmis value=3", ["the keys experiment item metric value, wanted"]),
        (f"{A1}region=2300", ["the keys experiment item region, wanted"]),
        (A1.strip(), ["nothing is measured"]),
        ("bench: item=m100 region=2300 ops=1", ["the keys item region ops, wanted"]),
        (f'{SKIPPED}skip=""', ["reason"]),
        (changed("ops=100", "ops=many"), ["ops=many", "whole number"]),
        (changed("ops=100", "ops=0"), ["ops=0"]),
        (changed("min=11300", "min=0x10"), ["min=0x10"]),
        (changed("n=5", "n=5.5"), ["n=5.5"]),
        (changed("min=11300", "min=11311"), ["not in order"]),
        (changed("=exit", "=exits"), ["experiment=exits", "wanted one of msr"]),
        (changed("unit=tsc", "unit=cycles"), ["unit=cycles", "wanted one of tsc"]),
        (f"{A1}metric=pmis unit=tsc value=3", ["metric time"]),
        (f"[    1.5] foo: {A1}region=1 ops=1", ["torn"]),
        ("bench:experiment=a1 item=m100 region=1 ops=1", ["torn"]),
        (GOOD[:70], []),
    ],
)
def test_refused(text, words):
    found, (error,) = lines.parse(text)
    assert found == [] and "\n" not in error and all(word in error for word in words), error


def test_line_twice():
    found, (error,) = lines.parse(f"{GOOD}\n{GOOD}")
    assert len(found) == 1 and "twice" in error


def test_good_lines_around_a_bad_one_are_kept():
    bad = "bench: experiment=exit item=outl frob=1"
    found, errors = lines.parse(f"{GOOD}\n{bad}\n{changed('cpuid', 'inl')}")
    assert ([line.item for line in found], len(errors)) == (["cpuid", "inl"], 1)
