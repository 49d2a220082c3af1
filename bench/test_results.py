# SPDX-License-Identifier: BSD-2-Clause
# test_results.py: the schema is enforced, each fault in one line; saving, loading and merging.
import copy
import json
import re

import pytest

from bench import results, rowfile, summary
from bench.cells import Machine
from bench.measurements import ALIKE
from bench.results import Trouble

ENTRY = {
    "column": "native",
    "experiment": "msr",
    "item": "rdpmc",
    "metric": "instructions",
    "unit": "instructions",
    "value": 1,
    "exact": True,
    "n": 1,
}
CELL = {"column": "kvm", "experiment": "a1", "item": "*", "why": "needs Linux under KVM"}
RUN = {"seconds": 61.5, "jobs": 2, "processors": 2, "whole": True, "second": 1}
ROW = {"column": "native", "experiment": "msr", "item": "rdpmc"}


def good(column="native", **changes):
    made = results.empty("emulator", "v1")
    made["environment"]["cpu"] = "model"
    made["columns"][column] = {"status": "ok", "why": "", "detail": "test kernel"}
    made["measurements"] = [{**ENTRY, "column": column, **changes}]
    return made


def change(made, *keys_and_value):
    made = copy.deepcopy(made)
    *keys, last, value = keys_and_value
    at = made
    for key in keys:
        at = at[key]
    at[last] = value
    return made


def of_machine(kind, **changes):
    return change(good(**changes), "environment", "kind", kind)


def without(key, *more):
    return {name: value for name, value in ENTRY.items() if name not in (key, *more)}


def name_of(**changes):
    return json.dumps([{**ENTRY, **changes}[part] for part in results.NAME])


UNITS = [
    ("root_instructions", "bytes"),
    ("root_instructions:CPUID", "count"),
    ("exits:CPUID", "instructions"),
    ("share", "count"),
    ("pmis", "ns"),
    ("time", "count"),
    ("latency_avg", "count"),
    ("other", "instructions"),
]
FIELDS = [
    ("column", "xen"),
    ("experiment", "msrs"),
    ("unit", "tsc"),
    ("value", "1"),
    ("value", float("nan")),
    ("value", True),
    ("exact", 1),
    ("n", 0),
    ("n", 1.5),
    ("min", None),
    ("item", 3),
    ("metric", "a\nb"),
]
REFUSED = [
    ([], "an object"),
    (change(good(), "extra", 1), '"extra"'),
    (change(good(), "schema", 1), "schema: found 1, wanted 2"),
    (change(good(), "environment", "tick", 100), "environment.tick: found 100, wanted 0"),
    (change(good(), "environment", "kind", "cloud"), "environment.kind"),
    (change(good(), "columns", "kvm", "why", ""), "columns.kvm.why"),
    (change(good(), "columns", "kvm", "status", "bad"), "columns.kvm.status"),
    (change(good(), "skipped", [{**CELL, "column": "x"}]), "skipped[0].column"),
    (
        change(good(), "measurements", [ENTRY, ENTRY]),
        f"measurements{name_of()}: found",
        "only once",
    ),
    (
        change(good(), "measurements", [without("exact")]),
        f"measurements{name_of()}: key 'exact' is",
    ),
    (change(good(), "measurements", [without("metric", "exact")]), "measurements[0]: key 'metric'"),
    (good(why="x"), f"measurements{name_of()}", '"why"'),
    (
        good(metric="time", unit="cycles", exact=False),
        f"measurements{name_of(metric='time')}.unit",
        "no cycles",
    ),
    (of_machine("metal", metric="time", unit="cycles"), "a time is not exact"),
    (good(again=2), "another value"),
    (of_machine("nested", metric="time", exact=False), "cycles or ns"),
    *(
        (change(good(), "run", {**RUN, key: bad}), f"run.{key}")
        for key, bad in (("seconds", -1), ("jobs", 0), ("processors", "2"), ("whole", 1))
    ),
    (change(good(), "run", {**RUN, "second": -1}), "run.second"),
    *((good(metric=name, unit=unit), f"{name_of(metric=name)}.unit", unit) for name, unit in UNITS),
    *(
        (change(good(), "measurements", 0, key, bad), f"measurements{name_of(**{key: bad})}.{key}")
        for key, bad in FIELDS
    ),
]


SAMPLED = {"low": 1, "high": 3, "value": 2, "n": 2, "samples": [[1, 1, 2], [2, 1, 3]]}
REPETITION = {"column": "native", "experiment": "msr", "round": 1, "position": 1, "number": 1}
REFUSED += [
    (good(**{**SAMPLED, "low": 2.5}), ".low: found [2.5, 2, 3]", "in order"),
    (good(low=1), ".low: found [1, 1]"),
    (good(**{**SAMPLED, "n": 3}), ".n: found 3"),
    *(
        (good(**{**SAMPLED, "samples": bad}), ".samples: found", "[round, number, value]")
        for bad in (3, [], [[1, 1]], [[0, 1, 2]], [[1, 1, "2"]], [[1, 1, 2], [1, 1, 3]])
    ),
    (change(good(), "repetitions", [{**REPETITION, "round": 0}]), "repetitions[0].round"),
    (change(good(), "repetitions", [{**REPETITION, "smis": "1"}]), "repetitions[0].smis"),
    (change(good(), "repetitions", [REPETITION] * 2), "each repetition only once"),
]


@pytest.mark.parametrize("made, words", [(made, words) for made, *words in REFUSED])
def test_refused(made, words):
    with pytest.raises(Trouble) as caught:
        results.validate(made)
    text = str(caught.value)
    assert "\n" not in text and all(word in text for word in words), text


@pytest.mark.parametrize(
    "made",
    [
        good(),
        of_machine("metal", metric="time", unit="cycles", exact=False),
        change(good(), "run", RUN),
        change(good(), "skipped", [CELL]),
        good(metric="root_instructions:CPUID", unit="instructions"),
        good(metric="exits:CPUID", unit="count"),
        good(metric="time", unit="instructions"),
        good(metric="time", unit="ns"),
        good(metric="other", unit="bytes"),
        good(**SAMPLED),
        change(good(), "repetitions", [REPETITION, {**REPETITION, "number": 2, "seconds": 2.5}]),
    ],
)
def test_good_results(made):
    assert results.validate(made) is made


# ---- files ----


@pytest.fixture
def file(tmp_path):
    return tmp_path / "new" / "results.json"


def written(file, made):
    file.parent.mkdir()
    file.write_text(made if isinstance(made, str) else json.dumps(made), encoding="utf-8")
    return str(file)


def test_saved_and_loaded(file):
    made = change(good(), "run", RUN)
    results.save(made, str(file))
    assert results.load(str(file)) == made
    assert [one.name for one in file.parent.iterdir()] == ["results.json"]
    with pytest.raises(Trouble):
        results.save(good(unit="cycles"), str(file))
    assert results.load(str(file)) == made, "bad results replaced good ones"


@pytest.mark.parametrize(
    "run", [None, {key: value for key, value in RUN.items() if key != "second"}]
)
def test_no_count_of_an_old_file_is_exact(file, run):
    """It is of one run, whatever the file says."""
    made = change(good(), "run", run) if run else good()
    results.save(made, str(file))
    (entry,) = results.load(str(file))["measurements"]
    assert entry == {**made["measurements"][0], "exact": False}


def test_one_row_for_each_cell(file):
    made = change(good(), "run", RUN)
    for other in ({"item": "empty"}, {"metric": "exits", "unit": "count", "min": 0}):
        made["measurements"].append({**ENTRY, **other})
    results.save(made, str(file))
    lines = [line for line in file.read_text().splitlines() if '"item": ' in line]
    assert [line.count('"metric": ') for line in lines] == [2, 1]
    first, second, third = made["measurements"]
    assert results.load(str(file))["measurements"] == [first, third, second]


@pytest.mark.parametrize(
    "made, words",
    [
        ("{", "not JSON"),
        ("[]", "an object"),
        (change(good(), "schema", 9), "schema"),
        *(
            (change(good(), "measurements", rows), words)
            for rows, words in (
                ({}, "measurements: found {}, wanted a list"),
                ([ROW], "measurements[0]: key 'values' is missing"),
                ([{**ROW, "values": []}], "measurements[0].values: found []"),
                ([{**ROW, "values": [1]}], "measurements[0].values: found 1, wanted objects"),
                ([{**ROW, "values": [{"metric": "exits"}]}], "\"exits\"]: key 'unit' is missing"),
            )
        ),
    ],
)
def test_what_is_wrong_with_a_file(file, made, words):
    name = written(file, made)
    with pytest.raises(Trouble) as caught:
        results.load(name)
    assert str(caught.value).startswith(f"{name}: ") and words in str(caught.value)


def test_places_that_cannot_be_used(tmp_path):
    with pytest.raises(Trouble, match="make bench"):
        results.load(str(tmp_path / "none"))
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(Trouble, match="--out"):
        results.save(good(), str(taken / "results.json"))
    assert list(tmp_path.iterdir()) == [taken]


def test_files_from_before_a_column(file):
    made = change(good(), "measurements", [])
    del made["columns"]["msr"]
    rowfile.write(made, str(file))
    assert results.load(str(file))["columns"]["msr"]["why"] == results.OLDER


# ---- merging ----


@pytest.mark.parametrize(
    "value, several",
    [
        ("", False),
        ("on", False),
        ("V 1; of 2024", False),
        ("native: on; msr: off", True),
        ("kvm, msr: on; native: off", True),
        ("msr, msr+nmi: off", False),
    ],
)
def test_one_text_or_one_for_each_column(value, several):
    assert results.of_columns(value) == several


def values(merged):
    return [entry["value"] for entry in merged["measurements"]]


def test_columns_of_several_runs():
    merged, notes = results.merge([good("native"), good("msr", value=2)])
    assert notes == [] and results.ok_columns(merged) == ["native", "msr"]
    assert values(merged) == [1, 2]


def test_the_last_one_is_taken_whole():
    first = good("native")
    first["measurements"].append({**ENTRY, "item": "empty"})
    merged, (note,) = results.merge([first, good("native", value=5)])
    assert values(merged) == [5] and "native" in note


def test_a_column_that_failed_does_not_replace_one_that_ran():
    failed = change(good(), "columns", "native", {"status": "not run", "why": "x", "detail": ""})
    merged, _ = results.merge([good(), change(failed, "measurements", [])])
    assert merged["columns"]["native"]["status"] == "ok" and values(merged) == [1]


@pytest.mark.parametrize("key, value", [("kind", "metal"), ("cpu", "other")])
def test_of_one_machine_only(key, value):
    with pytest.raises(Trouble, match=key):
        results.merge([good(), change(good(), "environment", key, value)])


def test_of_one_version_only():
    with pytest.raises(Trouble, match='tool.version of column msr: found "v2", wanted "v1"'):
        results.merge([good(), change(good("msr"), "tool", "version", "v2")])
    merged, _ = results.merge([change(good(), "tool", "version", ""), good("msr")])
    assert merged["tool"]["version"] == "v1"


def test_counts_are_known_of_new_results_alone():
    old = good("msr")
    del old["tool"]["counts"]
    results.validate(old)
    assert results.merge([good(), good("msr")])[0]["tool"]["counts"] == results.COUNTS
    for parts in ([good(), old], [old, good()]):
        assert "counts" not in results.merge(parts)[0]["tool"]
    with pytest.raises(Trouble, match="tool.counts: found 3, wanted 2"):
        results.validate(change(old, "tool", "counts", 3))


def with_values(key, **values):
    """Parts with one column each, whose environment has this value."""
    return [
        change(good(name.replace("_", "+")), "environment", key, value)
        for name, value in values.items()
    ]


def test_what_differs_from_column_to_column_is_said():
    parts = with_values("turbo", native="off", msr="on", msr_nmi="off")
    merged, notes = results.merge(parts)
    assert merged["environment"]["turbo"] == "native, msr+nmi: off; msr: on"
    assert notes == ["turbo differs: native, msr+nmi: off; msr: on"]
    parts = with_values("compiler", native="gcc", msr="clang")
    assert "compiler differs" in results.merge(parts)[1][0]


def test_each_kvm_is_named():
    parts = with_values("kvm", native="", kvm="Linux 6.1, kvm_intel", msr="of Linux 7.3 ept=Y")
    merged, notes = results.merge(parts)
    assert not notes
    assert merged["environment"]["kvm"] == "kvm: Linux 6.1, kvm_intel; msr: of Linux 7.3 ept=Y"
    assert summary.where(Machine(merged)).endswith(" KVM: Linux 6.1 and Linux 7.3.")
    assert not [text for text in summary.unlike(Machine(merged)) if "KVM" in text]


# ---- what columns must have in common ----


def test_each_column_keeps_its_own_value_through_every_merge():
    """A value that native cannot have is not given to it by another column."""
    parts = with_values("root_mitigations", native="", msr="off", kvm="auto", msr_nmi="off")
    half, _ = results.merge(parts[:2])
    assert half["environment"]["root_mitigations"] == "msr: off"
    merged, _ = results.merge([half, results.merge(parts[2:])[0]])
    said = "kvm: auto; msr, msr+nmi: off"
    assert merged["environment"]["root_mitigations"] == said
    assert results.merge([merged])[0]["environment"]["root_mitigations"] == said
    # A column is taken whole from the last part that has it.
    again = with_values("root_mitigations", kvm="off")
    merged, _ = results.merge([merged, *again])
    assert merged["environment"]["root_mitigations"] == "kvm, msr, msr+nmi: off"
    merged, _ = results.merge([merged, *with_values("root_mitigations", kvm="")])
    assert merged["environment"]["root_mitigations"] == "msr, msr+nmi: off"


def test_a_mixed_pair_is_refused():
    mixed, _ = results.merge(
        with_values("root_mitigations", native="", kvm="auto", msr="off", msr_nmi="off")
    )
    with pytest.raises(Trouble) as caught:
        results.check_alike(mixed)
    text = str(caught.value)
    assert "kvm: auto; msr, msr+nmi: off; wanted one value" in text
    # The columns that it names are alike.
    (names,) = re.findall(r"--columns (\S+)", text)
    assert names == "native,kvm"
    results.check_alike(results.only(mixed, names.split(",")))
    alike = results.only(mixed, ["native", "msr", "msr+nmi"])
    results.check_alike(alike)
    assert alike["environment"]["root_mitigations"] == "msr, msr+nmi: off"
    assert results.ok_columns(results.validate(alike)) == ["native", "msr", "msr+nmi"]
    assert {entry["column"] for entry in alike["measurements"]} == {"native", "msr", "msr+nmi"}


@pytest.mark.parametrize("key, one", ALIKE.items())
def test_every_key_that_must_be_alike(key, one):
    mixed, _ = results.merge(with_values(key, native="1", msr="2"))
    if not one.refuse:
        results.check_alike(mixed)
        return
    with pytest.raises(Trouble, match=f"[(]{key}[)]: native: 1; msr: 2; wanted"):
        results.check_alike(mixed)
    results.check_alike(results.merge(with_values(key, native="1", msr=""))[0])
