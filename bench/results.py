# SPDX-License-Identifier: BSD-2-Clause
# results.py: the file of results (README.md, "results.json"): load, validate, save, merge. Every
# fault in it is one Trouble, whose text says where it is, what was found and what is wanted.
import json
import math
import re

from bench import columns, rowfile
from bench.measurements import ALIKE, EXPERIMENTS, METRICS, OPTIONS

SCHEMA = 2
# Which counts of the emulator there are (README.md). Older results do not say.
COUNTS = 2
TICK = int(OPTIONS["tick"])
COLUMNS = columns.NAMES
KINDS = ("emulator", "nested", "metal")
UNITS = ("count", "instructions", "cycles", "ns", "percent", "bytes")
# A metric that is not known here comes from a program, which counts neither of the others.
PROGRAMS_UNITS = ("count", "ns", "percent", "bytes")
# What may change from column to column of one machine, and then says which column had which; its
# words on the page. KVM is below some columns alone, and each has its own.
BY_COLUMN = {"kvm": "KVM", **{key: one.words for key, one in ALIKE.items()}}
ENVIRONMENT = {
    "kind": "kind",
    "cpu": "processor",
    "emulator": "emulator",
    "kernel": BY_COLUMN["kernel"],
    "kvm": BY_COLUMN["kvm"],
    "compiler": "compiler",
    **BY_COLUMN,
    "date": "date",
    "tick": "tick",
}
NOT_RUN = "not run"
LEFT_OUT = "left out by --columns"
OLDER = "these results are older than this column"
# Of a column on a machine under KVM: what its figures have below them.
ONE_LEVEL = "one level of virtualisation, the host's KVM"
TWO_LEVELS = "two levels of virtualisation, PMUvisor on the host's KVM"
STATUSES = ("ok", NOT_RUN)
CELL = ("column", "experiment", "item")
NAME = (*CELL, "metric")  # of a measurement
REPETITION = ("column", "experiment", "round", "number")
# Parts of one set of results must agree in these.
SAME = ("kind", "cpu")
# COLUMN, COLUMN: VALUE; COLUMN: VALUE
SOME = "(?:{0})(?:, (?:{0}))*".format("|".join(map(re.escape, COLUMNS)))
EACH = re.compile(rf"(?:^|; )({SOME}): (.*?)(?=; {SOME}: |$)")


class Trouble(Exception):
    """Something about the measurements is wrong; the text is one line for the user."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def need(fact, where, found, wanted):
    if not fact:
        raise Trouble(f"{where}: found {json.dumps(found)[:120]}, wanted {wanted}")


def one_of(names):
    return names.__contains__, f"one of {', '.join(names)}"


# What a value has to be: a test, and its words.
TEXT = (lambda value: isinstance(value, str) and "\n" not in value, "text of one line")
NUMBER = (is_number, "a number")
WHOLE = (lambda value: type(value) is int and value > 0, "a whole number above 0")
FLAG = (lambda value: isinstance(value, bool), "true or false")
LIST = (lambda value: isinstance(value, list), "a list")
ANY = (lambda value: True, "")
SAMPLES = (
    lambda value: isinstance(value, list)
    and value
    and all(
        isinstance(one, list)
        and len(one) == 3
        and WHOLE[0](one[0])
        and WHOLE[0](one[1])
        and is_number(one[2])
        for one in value
    )
    and len({tuple(one[:2]) for one in value}) == len(value),
    "a list of [round, number, value], each round and number once",
)
# README.md has the meaning of each.
CELL_SHAPE = {"column": one_of(COLUMNS), "experiment": one_of(EXPERIMENTS), "item": TEXT}
SHAPES = {
    "results": {
        "schema": (lambda value: value == SCHEMA, SCHEMA),
        "tool": ANY,
        "environment": ANY,
        "columns": ANY,
        "measurements": LIST,
        "skipped": LIST,
    },
    "tool": {"version": TEXT, "quick": FLAG},
    "environment": {
        **dict.fromkeys(ENVIRONMENT, TEXT),
        "kind": one_of(KINDS),
        "tick": (
            lambda value: is_number(value) and value == TICK,
            f"{TICK}: as in every measurement",
        ),
    },
    "columns": dict.fromkeys(COLUMNS, ANY),
    "column": {"status": one_of(STATUSES), "why": TEXT, "detail": TEXT},
    "run": {
        "seconds": (lambda value: is_number(value) and value >= 0, "seconds"),
        "jobs": WHOLE,
        "processors": WHOLE,
        "whole": FLAG,
    },
    "measurement": {
        **CELL_SHAPE,
        "metric": TEXT,
        "unit": one_of(UNITS),
        "value": NUMBER,
        "exact": FLAG,
        "n": WHOLE,
    },
    "row": {
        **CELL_SHAPE,
        "values": (lambda value: isinstance(value, list) and value, "a list of values"),
    },
    "skipped": {**CELL_SHAPE, "why": TEXT},
    "repetitions": {
        "column": one_of(COLUMNS),
        "experiment": one_of((*EXPERIMENTS, *columns.ALL_PARTS)),
        **dict.fromkeys(("round", "position", "number"), WHOLE),
    },
    "tables": {
        "experiment": TEXT,
        "key": TEXT,
        "title": TEXT,
        "command": TEXT,
        "why": TEXT,
        "table": ANY,
    },
}
OPTIONAL = {
    "results": {"run": ANY, "tables": LIST, "repetitions": LIST},
    "tool": {"counts": (lambda value: value == COUNTS, COUNTS), "sources": TEXT},
    "run": {"second": (lambda value: type(value) is int and value >= 0, "a number of boots")},
    "measurement": {
        **dict.fromkeys(("min", "p95", "max", "low", "high", "again"), NUMBER),
        "samples": SAMPLES,
    },
    "repetitions": dict.fromkeys(("seconds", "smis", "aperf_per_mperf", "mperf_per_tsc"), NUMBER),
}


def check(entry, kind, where):
    """Raises Trouble where an object has not the shape of its kind."""
    wanted, optional = SHAPES[kind], OPTIONAL.get(kind, {})
    need(isinstance(entry, dict), where or kind, entry, "an object")
    for key in wanted:
        if key not in entry:
            raise Trouble(f"{where or kind}: key '{key}' is missing")
    for key, value in entry.items():
        good, words = {**wanted, **optional}.get(key, (None, ""))
        need(good, where or kind, key, f"one of the keys {', '.join((*wanted, *optional))}")
        need(good(value), f"{where}.{key}".removeprefix("."), value, words)


def units_of(metric, kind):
    """The units that a metric may have on this kind of machine."""
    if metric == "time":
        return ("instructions" if kind == "emulator" else "cycles", "ns")
    for unit, names in METRICS.items():
        if metric.partition(":")[0] in names:
            return (unit,)
    return PROGRAMS_UNITS


def check_unit(metric, unit, where, kind):
    need(unit in UNITS, where, unit, f"one of {', '.join(UNITS)}")
    need(
        unit != "cycles" or kind != "emulator",
        where,
        unit,
        "instructions: an emulator has no cycles",
    )
    allowed = units_of(metric, kind)
    need(unit in allowed, where, unit, f"{' or '.join(allowed)}: the metric is {metric}")


def check_measurement(entry, where, kind):
    check(entry, "measurement", where)
    check_unit(entry["metric"], entry["unit"], f"{where}.unit", kind)
    need(
        kind == "emulator" or not entry["exact"] or entry["unit"] not in ("cycles", "ns"),
        f"{where}.exact",
        entry["exact"],
        "false: a time is not exact",
    )
    need(
        not entry["exact"] or "again" not in entry,
        f"{where}.exact",
        entry["exact"],
        "false: a second run had another value",
    )
    interval = [entry[key] for key in ("low", "value", "high") if key in entry]
    need(
        len(interval) in (1, 3) and interval == sorted(interval),
        f"{where}.low",
        interval,
        "low, value and high in order",
    )
    need(
        entry["n"] <= len(entry.get("samples", ())) or "samples" not in entry,
        f"{where}.n",
        entry["n"],
        "at most the number of samples",
    )


def validate(results):
    """Raises Trouble at the first thing that is not as README.md says; gives the results back."""
    check(results, "results", "")
    for key in ("tool", "environment", "columns", "run"):
        if key in results:
            check(results[key], key, key)
    for name, column in results["columns"].items():
        check(column, "column", f"columns.{name}")
        need(
            column["status"] == "ok" or column["why"],
            f"columns.{name}.why",
            column["why"],
            "the reason why it was not run",
        )
    seen = set()
    for at, entry in enumerate(results["measurements"]):
        where = f"measurements{name_of(entry) or [at]}"
        check_measurement(entry, where, results["environment"]["kind"])
        name = tuple(entry[key] for key in NAME)
        need(name not in seen, where, " ".join(name), "each measurement only once")
        seen.add(name)
    for at, entry in enumerate(results["skipped"]):
        check(entry, "skipped", f"skipped[{at}]")
    seen = set()
    for at, entry in enumerate(results.get("repetitions", [])):
        check(entry, "repetitions", f"repetitions[{at}]")
        name = tuple(entry[key] for key in REPETITION)
        need(name not in seen, f"repetitions[{at}]", name, "each repetition only once")
        seen.add(name)
    for at, entry in enumerate(results.get("tables", [])):
        check(entry, "tables", f"tables[{at}]")
        need(
            (entry["table"] is None) == bool(entry["why"]),
            f"tables[{at}].why",
            entry["why"],
            "the reason why there is no table, where there is none",
        )
    return results


def cell_of(entry):
    return tuple(entry[key] for key in CELL)


def name_of(entry):
    """A measurement's name for a message, as JSON. Empty: the entry has no whole name."""
    named = isinstance(entry, dict) and all(key in entry for key in NAME)
    return json.dumps([entry[key] for key in NAME]) if named else ""


def rows_of(measurements):
    """A file's rows: one for each cell, with all values of the cell."""
    rows = {}
    for entry in measurements:
        value = {key: value for key, value in entry.items() if key not in CELL}
        rows.setdefault(cell_of(entry), []).append(value)
    return [{**dict(zip(CELL, cell)), "values": values} for cell, values in rows.items()]


def measurements_of(rows):
    """The measurements in a file's rows."""
    need(isinstance(rows, list), "measurements", rows, "a list")
    found = []
    for at, row in enumerate(rows):
        where = f"measurements[{at}]"
        check(row, "row", where)
        cell = dict(zip(CELL, cell_of(row)))
        for value in row["values"]:
            need(isinstance(value, dict), f"{where}.values", value, "objects")
            found.append({**cell, **value})
    return found


def empty(kind, version="", quick=False, why="not asked for"):
    """Results with nothing in them: every column not run."""
    environment = {key: "" for key in ENVIRONMENT}
    environment.update(kind=kind, tick=TICK)
    return {
        "schema": SCHEMA,
        "tool": {"version": version, "quick": quick, "counts": COUNTS},
        "environment": environment,
        "columns": {name: {"status": NOT_RUN, "why": why, "detail": ""} for name in COLUMNS},
        "measurements": [],
        "skipped": [],
    }


def seen_once(results):
    """Files of before there were second runs call counts of one run exact."""
    if results["environment"]["kind"] == "emulator" and "second" not in results.get("run", {}):
        for entry in results["measurements"]:
            entry["exact"] = False
    return results


def load(name):
    try:
        with open(name, encoding="utf-8") as source:
            results = json.load(source)
    except OSError as trouble:
        raise Trouble(f"{name}: {trouble.strerror}; make bench writes one") from None
    except ValueError as trouble:
        raise Trouble(f"{name}: not JSON: {trouble}") from None
    if isinstance(results, dict) and isinstance(results.get("columns"), dict):
        for column in COLUMNS:
            results["columns"].setdefault(column, {"status": NOT_RUN, "why": OLDER, "detail": ""})
    if isinstance(results, dict) and isinstance(results.get("environment"), dict):
        for key in BY_COLUMN:
            results["environment"].setdefault(key, "")
    try:
        if isinstance(results, dict) and results.get("schema") == SCHEMA:
            results["measurements"] = measurements_of(results.get("measurements"))
        return seen_once(validate(results))
    except Trouble as trouble:
        raise Trouble(f"{name}: {trouble}") from None


def save(results, name):
    """Validates results before it writes them. The file is never half written."""
    validate(results)
    try:
        rowfile.write({**results, "measurements": rows_of(results["measurements"])}, name)
    except OSError as trouble:
        raise Trouble(
            f"{name}: {trouble.strerror}; give a folder that can be written and has "
            "room with --out"
        ) from None


def ok_columns(part):
    return [name for name, column in part["columns"].items() if column["status"] == "ok"]


def differences(part, other):
    """What keeps two parts from being of one set, as (key, what the part has, what the other)."""
    pairs = [
        (f"environment.{key}", part["environment"][key], other["environment"][key]) for key in SAME
    ]
    pairs.append(("tool.version", part["tool"]["version"], other["tool"]["version"]))
    # Of which machine a part is must be known; another value may be missing in one of them.
    return [
        (key, mine, its)
        for key, mine, its in pairs
        if mine != its and (key in ("environment.kind", "environment.cpu") or (mine and its))
    ]


def values_of(text, names):
    """{column: value} of an environment's text about these columns (by_column() makes it)."""
    if not EACH.match(text):
        return dict.fromkeys(names, text) if text else {}
    return {name: value for some, value in EACH.findall(text) for name in some.split(", ")}


def of_columns(text):
    """Whether columns have different values."""
    return len(set(values_of(text, ()).values())) > 1


def by_column(values, names):
    """One text: the value of all these columns. If they differ, or some have none: each value with
    its columns."""
    values = {name: values[name] for name in names if values.get(name)}
    different = list(dict.fromkeys(values.values()))
    if len(different) == 1 and len(values) == len(names):
        return different[0]
    return "; ".join(
        f"{', '.join(name for name in values if values[name] == one)}: {one}" for one in different
    )


def alike(found):
    """The columns that ran, less those that differ from an earlier one in what must be alike."""
    names = ok_columns(found)
    values = [
        values_of(found["environment"][key], names) for key, one in ALIKE.items() if one.refuse
    ]
    chosen = []
    for name in names:
        if all(len({one[each] for each in (*chosen, name) if each in one}) < 2 for one in values):
            chosen.append(name)
    return chosen


def check_alike(found):
    """Raises Trouble if columns differ in what must be alike."""
    different = [
        f"{one.words} ({key}): {found['environment'][key]}"
        for key, one in ALIKE.items()
        if one.refuse and of_columns(found["environment"][key])
    ]
    if different:
        raise Trouble(
            f"no report of columns that are not alike: found {'; '.join(different)}; wanted one "
            "value; measure again, or take columns that are alike: "
            f"python3 -m bench.report --columns {','.join(alike(found))} RESULTS.json"
        )


def only(found, names):
    """The same with these columns alone."""
    out = {**found, "environment": dict(found["environment"])}
    gone = {"status": NOT_RUN, "why": LEFT_OUT, "detail": ""}
    out["columns"] = {
        name: column if name in names else gone for name, column in found["columns"].items()
    }
    for key in ("measurements", "skipped", "repetitions"):
        if key in found:
            out[key] = [entry for entry in found[key] if entry["column"] in names]
    for key in BY_COLUMN:
        values = values_of(found["environment"][key], ok_columns(found))
        out["environment"][key] = by_column(values, ok_columns(out))
    return out


def merge(parts):
    """One machine's results out of several: a column that ran is taken whole from the last of them
    in which it did. Gives the results, and a line for whatever came more than once or differs."""
    need(len(parts) > 0, "merge", [], "at least one file of results")
    merged = empty(parts[0]["environment"]["kind"])
    notes = []
    for at, part in enumerate(parts):
        for other in parts[:at]:
            for key, mine, its in differences(part, other):
                where = f"{key} of column {', '.join(ok_columns(part)) or 'none'}"
                need(
                    False,
                    where,
                    mine,
                    f"{json.dumps(its)}: of one machine and version; keep "
                    "them apart, or measure again",
                )
        for key, value in part["environment"].items():
            known = merged["environment"][key]
            if key in ("compiler", "emulator") and value and known and value != known:
                notes.append(f"{key} differs: '{known}' and '{value}'; the last one is named")
            if value != "":
                merged["environment"][key] = value
        merged["tool"]["version"] = part["tool"]["version"] or merged["tool"]["version"]
        merged["tool"]["quick"] |= part["tool"]["quick"]
        if "counts" not in part["tool"]:
            merged["tool"].pop("counts", None)
        for name, column in part["columns"].items():
            known = merged["columns"][name]
            if column["status"] != "ok" and known["status"] == "ok":
                continue
            if column["status"] == "ok" and known["status"] == "ok":
                notes.append(f"column {name} is there more than once; the last one is taken")
            merged["columns"][name] = dict(column)
            for key in ("measurements", "skipped", "repetitions"):
                both = [entry for entry in merged.get(key, ()) if entry["column"] != name] + [
                    entry for entry in part.get(key, ()) if entry["column"] == name
                ]
                if both or key in merged:
                    merged[key] = both
    # A table that was made wins over one that was not, and the later over the earlier.
    tables = {}
    for part in parts:
        for entry in part.get("tables", []):
            if entry["table"] or entry["key"] not in tables:
                tables[entry["key"]] = entry
    if tables:
        merged["tables"] = list(tables.values())
    for key in BY_COLUMN:
        values = {}
        for part in parts:
            there = values_of(part["environment"][key], ok_columns(part))
            values.update((name, there.get(name, "")) for name in ok_columns(part))
        text = by_column(values, ok_columns(merged))
        if values:
            merged["environment"][key] = text
        if (
            key in ALIKE
            and of_columns(text)
            and text not in [part["environment"][key] for part in parts]
        ):
            notes.append(f"{key} differs: {text}")
    return validate(merged), notes
