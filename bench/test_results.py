# SPDX-License-Identifier: BSD-2-Clause
# test_results.py: the schema is enforced, each fault in one line; saving, loading and merging.
import copy
import json
import os
import tempfile
import unittest

from bench import results
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


def name_of(metric="instructions"):
    return f'["native", "msr", "rdpmc", "{metric}"]'


class Validate(unittest.TestCase):
    def refused(self, made, *words):
        with self.assertRaises(Trouble) as caught:
            results.validate(made)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        for word in words:
            self.assertIn(word, text)

    def test_good_results(self):
        self.assertIs(type(results.validate(good())), dict)

    def test_no_cycles_in_an_emulator(self):
        made = good(metric="time", unit="cycles", exact=False)
        self.refused(made, f"measurements{name_of('time')}.unit", "no cycles")
        results.validate(change(made, "environment", "kind", "metal"))

    def test_a_time_of_hardware_is_not_exact(self):
        self.refused(
            change(good(metric="time", unit="cycles"), "environment", "kind", "metal"), "exact"
        )

    def test_a_metric_has_its_unit(self):
        for metric, unit in (
            ("root_instructions", "bytes"),
            ("root_instructions:CPUID", "count"),
            ("exits:CPUID", "instructions"),
            ("share", "count"),
            ("pmis", "ns"),
            ("time", "count"),
            ("latency_avg", "count"),
            ("other", "instructions"),
        ):
            self.refused(
                good(metric=metric, unit=unit), f"measurements{name_of(metric)}.unit", unit
            )
        for metric, unit in (
            ("root_instructions:CPUID", "instructions"),
            ("exits:CPUID", "count"),
            ("time", "instructions"),
            ("time", "ns"),
            ("other", "bytes"),
        ):
            results.validate(good(metric=metric, unit=unit))
        hardware = change(good(metric="time", exact=False), "environment", "kind", "nested")
        self.refused(hardware, "cycles or ns")

    def test_how_long_it_took(self):
        run = {"seconds": 61.5, "jobs": 2, "processors": 2, "whole": True}
        results.validate(change(good(), "run", run))
        for key, bad in (("seconds", -1), ("jobs", 0), ("processors", "2"), ("whole", 1)):
            self.refused(change(good(), "run", {**run, key: bad}), f"run.{key}")

    def test_fields_of_a_measurement(self):
        for key, bad in (
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
        ):
            made = good()
            made["measurements"][0][key] = bad
            name = json.dumps([made["measurements"][0][part] for part in results.NAME])
            self.refused(made, f"measurements{name}.{key}")

    def test_keys_missing_or_unknown(self):
        made = good()
        del made["measurements"][0]["exact"]
        self.refused(made, f"measurements{name_of()}", "'exact' is missing")
        del made["measurements"][0]["metric"]
        self.refused(made, "measurements[0]", "'metric' is missing")
        self.refused(good(why="x"), f"measurements{name_of()}", '"why"')
        self.refused(change(good(), "extra", 1), '"extra"')
        self.refused(change(good(), "schema", 1), "schema", "found 1, wanted 2")
        self.refused([], "an object")

    def test_environment_and_columns(self):
        self.refused(change(good(), "environment", "tick", 100), "environment.tick", "wanted 0")
        self.refused(change(good(), "environment", "kind", "cloud"), "environment.kind")
        self.refused(change(good(), "columns", "kvm", "why", ""), "columns.kvm.why")
        self.refused(change(good(), "columns", "kvm", "status", "bad"), "columns.kvm.status")

    def test_each_measurement_only_once(self):
        made = good()
        made["measurements"] *= 2
        self.refused(made, f"measurements{name_of()}", "only once")

    def test_skipped_cells(self):
        cell = {"column": "kvm", "experiment": "a1", "item": "*", "why": "needs Linux under KVM"}
        results.validate(change(good(), "skipped", [cell]))
        self.refused(change(good(), "skipped", [{**cell, "column": "x"}]), "skipped[0].column")


class Files(unittest.TestCase):
    def test_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "new", "results.json")
            results.save(good(), name)
            self.assertEqual(results.load(name), good())
            self.assertEqual(os.listdir(os.path.dirname(name)), ["results.json"])

    def test_one_row_for_each_cell(self):
        made = good()
        for other in ({"item": "empty"}, {"metric": "exits", "unit": "count", "min": 0}):
            made["measurements"].append({**ENTRY, **other})
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "results.json")
            results.save(made, name)
            with open(name, encoding="utf-8") as source:
                lines = [line for line in source if '"item": ' in line]
            self.assertEqual(len(lines), 2)
            self.assertEqual([line.count('"metric": ') for line in lines], [2, 1])
            first, second, third = made["measurements"]
            self.assertEqual(results.load(name)["measurements"], [first, third, second])

    def test_files_with_a_row_for_each_measurement(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "old.json")
            with open(name, "w", encoding="utf-8") as out:
                json.dump({**good(), "schema": 1}, out)
            self.assertEqual(results.load(name), good())

    def test_rows_that_are_wrong(self):
        row = {"column": "native", "experiment": "msr", "item": "rdpmc"}
        for rows, words in (
            ({}, "measurements: found {}, wanted a list"),
            ([row], "measurements[0]: key 'values' is missing"),
            ([{**row, "values": []}], "measurements[0].values: found []"),
            ([{**row, "values": [1]}], "measurements[0].values: found 1, wanted objects"),
            ([{**row, "values": [{"metric": "exits"}]}], "\"exits\"]: key 'unit' is missing"),
        ):
            with tempfile.TemporaryDirectory() as folder:
                name = os.path.join(folder, "results.json")
                with open(name, "w", encoding="utf-8") as out:
                    json.dump({**good(), "measurements": rows}, out)
                with self.assertRaises(Trouble) as caught:
                    results.load(name)
                self.assertIn(words, str(caught.exception))

    def test_files_from_before_a_key_was_recorded(self):
        old = change(good(), "schema", results.FLAT_SCHEMA)
        for key in results.SINCE:
            del old["environment"][key]
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "old.json")
            with open(name, "w", encoding="utf-8") as out:
                json.dump(old, out)
            self.assertEqual(results.load(name), good())

    def test_files_from_before_a_column(self):
        made = good()
        del made["columns"]["msr"]
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "results.json")
            with open(name, "w", encoding="utf-8") as out:
                json.dump({**made, "schema": results.FLAT_SCHEMA}, out)
            self.assertEqual(results.load(name)["columns"]["msr"]["why"], results.OLDER)

    def test_one_text_or_one_for_each_column(self):
        for value, several in (
            ("", False),
            ("on", False),
            ("V 1; of 2024", False),
            ("native: on; msr: off", True),
            ("kvm, msr: on; native: off", True),
        ):
            self.assertEqual(results.of_columns(value), several, value)

    def test_bad_results_do_not_replace_good_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "results.json")
            results.save(good(), name)
            with self.assertRaises(Trouble):
                results.save(good(unit="cycles"), name)
            self.assertEqual(results.load(name), good())

    def test_a_place_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            taken = os.path.join(folder, "file")
            with open(taken, "w", encoding="utf-8"):
                pass
            with self.assertRaises(Trouble) as caught:
                results.save(good(), os.path.join(taken, "results.json"))
            self.assertIn("--out", str(caught.exception))
            self.assertEqual(os.listdir(folder), ["file"])

    def test_what_is_wrong_with_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "results.json")
            for text, word in (
                ("{", "not JSON"),
                ("[]", "an object"),
                (json.dumps(change(good(), "schema", 9)), "schema"),
            ):
                with open(name, "w", encoding="utf-8") as out:
                    out.write(text)
                with self.assertRaises(Trouble) as caught:
                    results.load(name)
                self.assertTrue(str(caught.exception).startswith(f"{name}: "))
                self.assertIn(word, str(caught.exception))
            with self.assertRaises(Trouble) as caught:
                results.load(os.path.join(folder, "none"))
            self.assertIn("make bench", str(caught.exception))


class Merge(unittest.TestCase):
    def test_columns_of_several_runs(self):
        merged, notes = results.merge([good("native"), good("msr", value=2)])
        self.assertEqual(notes, [])
        self.assertEqual(
            [name for name in results.COLUMNS if merged["columns"][name]["status"] == "ok"],
            ["native", "msr"],
        )
        self.assertEqual([entry["value"] for entry in merged["measurements"]], [1, 2])

    def test_the_last_one_is_taken_whole(self):
        first = good("native")
        first["measurements"].append({**ENTRY, "item": "empty"})
        merged, notes = results.merge([first, good("native", value=5)])
        self.assertEqual([entry["value"] for entry in merged["measurements"]], [5])
        self.assertEqual(len(notes), 1)
        self.assertIn("native", notes[0])

    def test_a_column_that_failed_does_not_replace_one_that_ran(self):
        failed = good()
        failed["columns"]["native"] = {"status": "not run", "why": "broken", "detail": ""}
        failed["measurements"] = []
        merged, _ = results.merge([good(), failed])
        self.assertEqual(merged["columns"]["native"]["status"], "ok")
        self.assertEqual(len(merged["measurements"]), 1)

    def test_of_one_machine_only(self):
        first = change(good(), "environment", "kernel", "Linux 6")
        first["environment"]["mitigations"] = "off"
        for key, value in (
            ("kind", "metal"),
            ("cpu", "other"),
            ("kernel", "Linux 7"),
            ("mitigations", "auto"),
        ):
            with self.assertRaises(Trouble) as caught:
                results.merge([first, change(first, "environment", key, value)])
            self.assertIn(key, str(caught.exception))

    def test_of_one_version_only(self):
        with self.assertRaises(Trouble) as caught:
            results.merge([good(), change(good("msr"), "tool", "version", "v2")])
        self.assertIn('tool.version of column msr: found "v2", wanted "v1"', str(caught.exception))
        merged, _ = results.merge([change(good(), "tool", "version", ""), good("msr")])
        self.assertEqual(merged["tool"]["version"], "v1")

    def test_what_differs_from_column_to_column_is_said(self):
        parts = [
            change(good(name), "environment", "turbo", value)
            for name, value in (("native", "off"), ("msr", "on"), ("msr+nmi", "off"))
        ]
        merged, notes = results.merge(parts)
        self.assertEqual(merged["environment"]["turbo"], "native, msr+nmi: off; msr: on")
        self.assertEqual(notes, ["turbo differs: native, msr+nmi: off; msr: on"])
        parts = [
            change(good(name), "environment", "kvm", f"of Linux {name}")
            for name in ("native", "msr")
        ]
        self.assertIn("kvm differs", results.merge(parts)[1][0])
