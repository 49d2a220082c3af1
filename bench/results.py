# SPDX-License-Identifier: BSD-2-Clause
# results.py: the file of results (README.md, "results.json"): load, validate, save, merge. Every
# fault in it is one Trouble, whose text says where it is, what was found and what is wanted.
import json
import math
import os

SCHEMA = 1
COLUMNS = ("native", "kvm", "intercept", "msr", "msr+nmi")
KINDS = ("emulator", "nested", "metal")
UNITS = ("count", "instructions", "cycles", "ns", "percent", "bytes")
EXPERIMENTS = ("msr", "exit", "pmi", "a1k", "a1", "profile", "nginx", "accuracy", "ablation")
ENVIRONMENT = ("kind", "cpu", "kernel", "kvm", "emulator", "compiler", "date", "tick",
               "mitigations", "turbo", "frequency")
NOT_RUN = "not run"
STATUSES = ("ok", NOT_RUN)
CELL = ("column", "experiment", "item")
REQUIRED = CELL + ("metric", "unit", "value", "exact", "n")
OPTIONAL = ("min", "p95")


class Trouble(Exception):
    """Something about the measurements is wrong; the text is one line for the user."""


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def need(fact, where, found, wanted):
    if not fact:
        raise Trouble(f"{where}: found {json.dumps(found)[:120]}, wanted {wanted}")


def check_keys(entry, where, required, optional=()):
    need(isinstance(entry, dict), where, entry, "an object")
    for key in required:
        if key not in entry:
            raise Trouble(f"{where}: key '{key}' is missing")
    for key in entry:
        need(key in required or key in optional, where, key,
             f"one of the keys {', '.join((*required, *optional))}")


def check_texts(entry, where, keys):
    for key in keys:
        need(isinstance(entry[key], str) and "\n" not in entry[key], f"{where}.{key}", entry[key],
             "text of one line")


def check_cell(entry, where):
    check_texts(entry, where, CELL)
    need(entry["column"] in COLUMNS, f"{where}.column", entry["column"],
         f"one of {', '.join(COLUMNS)}")
    need(entry["experiment"] in EXPERIMENTS, f"{where}.experiment", entry["experiment"],
         f"one of {', '.join(EXPERIMENTS)}")


def check_measurement(entry, where, kind):
    check_keys(entry, where, REQUIRED, OPTIONAL)
    check_cell(entry, where)
    check_texts(entry, where, ("metric", "unit"))
    need(entry["unit"] in UNITS, f"{where}.unit", entry["unit"], f"one of {', '.join(UNITS)}")
    need(entry["unit"] != "cycles" or kind != "emulator", f"{where}.unit", entry["unit"],
         "instructions: an emulator has no cycles")
    for key in ("value", *OPTIONAL):
        need(key not in entry or is_number(entry[key]), f"{where}.{key}", entry.get(key),
             "a number")
    need(isinstance(entry["exact"], bool), f"{where}.exact", entry["exact"], "true or false")
    need(kind == "emulator" or not entry["exact"] or entry["unit"] not in ("cycles", "ns"),
         f"{where}.exact", entry["exact"], "false: a time is not exact")
    need(type(entry["n"]) is int and entry["n"] > 0, f"{where}.n", entry["n"],
         "a whole number above 0")


def check_environment(environment):
    check_keys(environment, "environment", ENVIRONMENT)
    need(environment["kind"] in KINDS, "environment.kind", environment["kind"],
         f"one of {', '.join(KINDS)}")
    need(is_number(environment["tick"]) and environment["tick"] == 0, "environment.tick",
         environment["tick"], "0: everything is measured without a tick")
    check_texts(environment, "environment", [key for key in ENVIRONMENT if key != "tick"])


def check_columns(columns):
    check_keys(columns, "columns", COLUMNS)
    for name, column in columns.items():
        where = f"columns.{name}"
        check_keys(column, where, ("status", "why", "detail"))
        check_texts(column, where, ("status", "why", "detail"))
        need(column["status"] in STATUSES, f"{where}.status", column["status"],
             f"one of {', '.join(STATUSES)}")
        need(column["status"] == "ok" or column["why"], f"{where}.why", column["why"],
             "the reason why it was not run")


def validate(results):
    """Raises Trouble at the first thing that is not as README.md says; gives the results back."""
    check_keys(results, "results", ("schema", "tool", "environment", "columns", "measurements",
                                    "skipped"))
    need(results["schema"] == SCHEMA, "schema", results["schema"], SCHEMA)
    check_keys(results["tool"], "tool", ("version", "quick"))
    check_texts(results["tool"], "tool", ("version",))
    need(isinstance(results["tool"]["quick"], bool), "tool.quick", results["tool"]["quick"],
         "true or false")
    check_environment(results["environment"])
    check_columns(results["columns"])
    for key in ("measurements", "skipped"):
        need(isinstance(results[key], list), key, results[key], "a list")
    seen = set()
    for at, entry in enumerate(results["measurements"]):
        where = f"measurements[{at}]"
        check_measurement(entry, where, results["environment"]["kind"])
        name = (*cell_of(entry), entry["metric"])
        need(name not in seen, where, " ".join(name), "each measurement only once")
        seen.add(name)
    for at, entry in enumerate(results["skipped"]):
        where = f"skipped[{at}]"
        check_keys(entry, where, (*CELL, "why"))
        check_cell(entry, where)
        check_texts(entry, where, ("why",))
    return results


def cell_of(entry):
    return tuple(entry[key] for key in CELL)


def empty(kind, version="", quick=False, why="not asked for"):
    """Results with nothing in them: every column not run."""
    environment = {key: "" for key in ENVIRONMENT}
    environment.update(kind=kind, tick=0)
    return {"schema": SCHEMA, "tool": {"version": version, "quick": quick},
            "environment": environment,
            "columns": {name: {"status": NOT_RUN, "why": why, "detail": ""} for name in COLUMNS},
            "measurements": [], "skipped": []}


def load(name):
    try:
        with open(name, encoding="utf-8") as source:
            results = json.load(source)
    except OSError as trouble:
        raise Trouble(f"{name}: {trouble.strerror}; make bench writes one") from None
    except ValueError as trouble:
        raise Trouble(f"{name}: not JSON: {trouble}") from None
    try:
        return validate(results)
    except Trouble as trouble:
        raise Trouble(f"{name}: {trouble}") from None


def save(results, name):
    """Validated first, and never half written."""
    validate(results)
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    new = f"{name}.{os.getpid()}.new"
    with open(new, "w", encoding="utf-8") as out:
        json.dump(results, out, indent=1)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, name)


def merge(parts):
    """One machine's results out of several: a column that ran is taken whole from the last of them
    in which it did. Gives the results, and one line for each column that came more than once."""
    need(len(parts) > 0, "merge", [], "at least one file of results")
    first = parts[0]
    merged = empty(first["environment"]["kind"])
    notes = []
    for part in parts:
        for key in ("kind", "cpu"):
            need(part["environment"][key] == first["environment"][key], f"environment.{key}",
                 part["environment"][key],
                 f"{json.dumps(first['environment'][key])}: runs of one machine")
        for key, value in part["environment"].items():
            if value != "":
                merged["environment"][key] = value
        merged["tool"]["version"] = part["tool"]["version"] or merged["tool"]["version"]
        merged["tool"]["quick"] |= part["tool"]["quick"]
        for name, column in part["columns"].items():
            known = merged["columns"][name]
            if column["status"] != "ok" and known["status"] == "ok":
                continue
            if column["status"] == "ok" and known["status"] == "ok":
                notes.append(f"column {name} is there more than once; the last one is taken")
            merged["columns"][name] = dict(column)
            for key in ("measurements", "skipped"):
                merged[key] = [entry for entry in merged[key] if entry["column"] != name] + \
                    [entry for entry in part[key] if entry["column"] == name]
    return validate(merged), notes
