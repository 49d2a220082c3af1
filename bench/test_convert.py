# SPDX-License-Identifier: BSD-2-Clause
# test_convert.py: bases, operations, units and exactness; regions that the ledger does not have.
import pytest

from bench import convert, lines
from bench.measurements import METRICS

CPUID, NMI = "CPUID", "Exception or NMI"


def spread(total, count):
    return {"samples": count, "sum": total, "min": 0, "max": total}


def region(root=0, nonroot=0, exits=(), begins=1, is_open=False, vmread=0, vmwrite=0, **more):
    """`more`: what the worlds executed by the metric's name, and `injected`."""
    executed = {
        world: {kind: more.get(f"{world}_{kind}", 0) for kind in convert.EXECUTED if kind != "nmi"}
        for world in ("root", "nonroot")
    }
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
        "executed": executed,
        "nmi": {name: more.get(f"{name}_nmi", 0) for name in ("root", "nonroot", "injected")},
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


def entry(got, item, metric):
    (found,) = [one for one in got.measurements if (one["item"], one["metric"]) == (item, metric)]
    return found


def value(got, item, metric):
    return entry(got, item, metric)["value"]


# ---- regions ----


def test_base_is_subtracted_per_operation():
    got = run(BASE + ITEM)
    assert got.errors == []
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
    found = {metric: entry(got, "cpuid", metric) for metric in wanted}
    assert {metric: one["value"] for metric, one in found.items()} == wanted
    assert all(one["exact"] is True for one in found.values())
    assert type(found["instructions"]["value"]) is int
    assert value(run(ITEM + BASE), "cpuid", "instructions") == 114, "the base behind its item"


def test_quotient_is_not_rounded():
    got = run(BASE + ITEM.replace("region=2", "region=5"))
    assert (value(got, "cpuid", f"exits:{NMI}"), value(got, "cpuid", "exits")) == (0.01, 1.01)


def test_what_a_world_executes_is_a_metric_unless_it_is_none():
    ledger = {
        "regions": {
            "1": region(nonroot_cpuid=5, nonroot_iret=7),
            "2": region(
                nonroot_cpuid=105,
                nonroot_iret=7,
                root_spec_ctrl=200,
                root_nmi=100,
                nonroot_nmi=100,
                injected_nmi=50,
            ),
        }
    }
    found = {
        one["metric"]: (one["value"], one["unit"], one["exact"])
        for one in run(BASE + ITEM, ledger).measurements
        if one["item"] == "cpuid" and one["metric"] in convert.SPARSE
    }
    assert found == {
        "nonroot_cpuid": (1, "count", True),
        "root_spec_ctrl": (2, "count", True),
        "root_nmi": (1, "count", True),
        "nonroot_nmi": (1.5, "count", True),
    }
    assert convert.SPARSE <= set(METRICS["count"])


@pytest.mark.parametrize(
    "number, ledger, words",
    [
        (99, None, "not in the ledger"),
        (3, None, "begun 2 times"),
        (4, None, "never ended"),
        (2, {"regions": {}}, "not in the ledger"),
    ],
)
def test_region_of_no_ledger_is_an_error(number, ledger, words):
    got = run(BASE + ITEM.replace("region=2", f"region={number}"), ledger)
    (mine,) = [error for error in got.errors if error.startswith("exit/cpuid")]
    assert words in mine and "cpuid" not in [one["item"] for one in got.measurements]
    assert "cpuid" in [one["item"] for one in got.skipped]


def test_no_ledger_at_all():
    found, _ = lines.parse(BASE)
    assert "no ledger" in convert.convert(found, None, "native", "emulator").errors[0]


@pytest.mark.parametrize(
    "ledger",
    [
        [],
        {"regions": []},
        {"regions": {"1": 5}},
        {"regions": {"1": {}}},
        {"regions": {"1": {**LEDGER["regions"]["1"], "exits": [1]}}},
    ],
)
def test_ledger_of_another_shape(ledger):
    (error,) = run(BASE, ledger).errors
    assert "region 1: this is no ledger" in error


@pytest.mark.parametrize(
    "text, words",
    [
        (ITEM, "base empty has no such line"),
        (BASE.replace("ops=100", "ops=10") + ITEM, "has ops=10"),
        ('bench: experiment=exit item=empty skip="broken"\n' + ITEM, "was left out: broken"),
        (BASE.replace("experiment=exit", "experiment=msr") + ITEM, "base empty has no such line"),
    ],
)
def test_base_that_does_not_fit(text, words):
    assert words in run(text).errors[0]


# ---- times ----


def test_hardware_has_cycles_and_no_regions():
    got = run(BASE + ITEM, {}, "metal")
    assert got.errors == [] and {one["metric"] for one in got.measurements} == {"time"}
    wanted = {"value": 114, "min": 112.95, "p95": 120, "n": 5, "unit": "cycles", "exact": False}
    assert wanted.items() <= entry(got, "cpuid", "time").items()
    got = run(BASE + ITEM.replace("min=11525", "min=200"), {}, "metal")
    assert entry(got, "cpuid", "time")["min"] == -0.3, "negative after the base"


def test_the_emulator_has_no_cycles():
    got = run(BASE + ITEM)
    assert {one["unit"] for one in got.measurements if one["metric"] == "time"} == {"instructions"}
    assert entry(got, "cpuid", "time")["exact"] is False, "times that differ"
    pmi = "bench: experiment=pmi item=nmi_self metric=time unit=tsc n=5 min=6 median=6 p95=6"
    latency = entry(run(pmi), "nmi_self", "time")
    assert (latency["value"], latency["exact"]) == (6, True)


# ---- values ----

VALUE = "bench: experiment=profile item=plain metric=%s unit=%s value=%s"


@pytest.mark.parametrize(
    "kind, metric, unit, exact",
    [
        ("emulator", "samples", "count", True),
        ("metal", "samples", "count", False),
        ("emulator", "latency_avg", "ns", False),
        ("emulator", "rate", "count", False),
        ("emulator", "share", "percent", False),
    ],
)
def test_what_is_exact(kind, metric, unit, exact):
    found = entry(run(VALUE % (metric, unit, "3.5"), {}, kind), "plain", metric)
    assert (found["value"], found["exact"]) == (3.5, exact)


def test_nothing_of_nginx_is_exact():
    nginx = "bench: experiment=nginx item=plain region=1 ops=10 metric=requests unit=count value=10"
    got = run(nginx)
    assert got.errors == [] and {one["exact"] for one in got.measurements} == {False}
    assert value(got, "plain", "instructions") == 23


def test_a_unit_that_the_metric_does_not_have():
    got = run(VALUE % ("root_instructions", "bytes", 5))
    assert got.measurements == []
    assert 'profile/plain: unit: found "bytes", wanted instructions' in got.errors[0]


def test_a_distribution_of_nanoseconds():
    values = "metric=time unit=ns n=30 min=5 median=7 p95=9"
    got = run(f"bench: experiment=a1 item=m100 region=1 ops=1 {values}")
    wanted = {"value": 7, "min": 5, "p95": 9, "n": 30}
    assert wanted.items() <= entry(got, "m100", "time").items()
    assert value(got, "m100", "instructions") == 230


def test_a_skip_is_kept():
    got = run('bench: experiment=exit item=vmcall skip="no hypervisor"')
    cell = {"column": "msr+nmi", "experiment": "exit", "item": "vmcall"}
    assert (got.skipped, got.errors) == ([{**cell, "why": "no hypervisor"}], [])
