# SPDX-License-Identifier: BSD-2-Clause
# importer.py: console logs, and the files that a bare machine leaves, to results (README.md,
# "Importing"). Boots nothing.
import dataclasses
import json
import re

from bench import convert, judge, lines, pool, results
from bench.measurements import OPTIONS
from bench.results import Trouble

BEGIN = re.compile(r"BENCH BEGIN column=(\S+)")
END = re.compile(r"BENCH END column=(\S+)")
ENV = re.compile(r'env: ([a-z_]+)="([^"]*)"')
ABSENT = "not in these files"
DONE = re.compile(r'end: column=(\S+) status=(\d+)(?: why="([^"]*)")?')
# A repetition of a job begins: its lines `bench:` follow.
SAMPLE = re.compile(r"sample: job=(\S+) number=([1-9]\d*)((?: [a-z_]+=\d+(?:\.\d+)?)*)")
PLACES = ("round", "position")


@dataclasses.dataclass
class Section:
    """What a file says of one column: of one start."""

    name: str
    column: str | None = None
    environment: dict = dataclasses.field(default_factory=dict)
    version: str = ""
    options: str = ""
    place: dict = dataclasses.field(default_factory=dict)  # of the start
    bench: list = dataclasses.field(default_factory=list)
    repetitions: list = dataclasses.field(default_factory=list)  # (what it is, its lines)
    end: tuple | None = None


def take(section, text, where):
    """One line of a section; what is none of ours is not looked at."""
    if text.startswith("env:"):
        match = ENV.fullmatch(text)
        if not match:
            raise Trouble(f"{where}: found '{text[:80]}', wanted env: KEY=\"VALUE\"")
        key, value = match.groups()
        if key == "column":
            section.column = value
        elif key in ("version", "options"):
            setattr(section, key, value)
            found = re.search(r"\bmitigations=(\w+)", value) if key == "options" else None
            if found:
                section.environment["root_mitigations"] = found[1]
        elif key in PLACES:
            if not re.fullmatch(r"[1-9]\d*", value):
                raise Trouble(f"{where}: {key} is '{value}', wanted a whole number above 0")
            section.place[key] = int(value)
        elif key in results.ENVIRONMENT:
            section.environment[key] = value
        else:
            raise Trouble(
                f"{where}: unknown key '{key}', wanted column, version, options, round, "
                f"position or one of {', '.join(results.ENVIRONMENT)}"
            )
    elif text.startswith("end:"):
        match = DONE.fullmatch(text)
        if not match:
            raise Trouble(f"{where}: found '{text[:80]}', wanted end: column=C status=S")
        if section.end is not None:
            raise Trouble(f"{where}: a second line 'end:' of column {section.end[0]}")
        section.end = (match[1], int(match[2]), match[3] or "")
    elif text.startswith("sample:"):
        match = SAMPLE.fullmatch(text)
        if not match:
            raise Trouble(f"{where}: found '{text[:80]}', wanted sample: job=J number=N KEY=NUMBER")
        facts = dict(pair.split("=") for pair in match[3].split())
        what = {key: lines.number(value) for key, value in facts.items()}
        what.update(experiment=match[1], number=int(match[2]))
        section.repetitions.append((what, []))
    elif lines.PREFIX.strip() in text:
        (section.repetitions[-1][1] if section.repetitions else section.bench).append(text)


def read(names):
    """{name: text} of these files."""
    texts = {}
    for name in names:
        try:
            with open(name, encoding="utf-8", errors="replace") as source:
                texts[name] = source.read()
        except OSError as trouble:
            raise Trouble(f"{name}: {trouble.strerror}") from None
    return texts


def sections_of(name, texts):
    """The sections of one file: one for each pair of markers, or one for all of it."""
    common, sections, inside = Section(name), [], None
    for at, text in enumerate(texts.replace("\r", "").splitlines(), 1):
        text, where = text.strip(), f"{name}:{at}"
        begin, end = BEGIN.fullmatch(text), END.fullmatch(text)
        if begin:
            if inside:
                raise Trouble(f"{where}: column {begin[1]} begins inside column {inside.column}")
            inside = dataclasses.replace(
                common,
                column=begin[1],
                bench=[],
                repetitions=[],
                end=None,
                environment=dict(common.environment),
                place=dict(common.place),
            )
            sections.append(inside)
        elif end:
            if not inside or inside.column != end[1]:
                raise Trouble(
                    f"{where}: column {end[1]} ends, but "
                    f"{inside.column if inside else 'none'} has begun"
                )
            inside = None
        elif inside or not sections:
            take(inside or common, text, where)
    if inside:
        # A log that was cut: what is there has no end line, or has one and is whole.
        sections[-1].end = sections[-1].end or (inside.column, 1, "the log ends inside the column")
    return sections or [common]


def results_of(section, ledgers):
    """(results with one column, errors)."""
    end_column, status, why = section.end or (section.column, None, "")
    column = section.column or end_column
    if column not in results.COLUMNS:
        raise Trouble(
            f"{section.name}: column '{column}', wanted one of {', '.join(results.COLUMNS)}"
        )
    if end_column != column:
        raise Trouble(f"{section.name}: column {column}, but the line 'end:' says {end_column}")
    kind = section.environment.get("kind")
    if kind not in results.KINDS:
        raise Trouble(
            f"{section.name}: column {column}: env kind is {json.dumps(kind)}, wanted "
            f"one of {', '.join(results.KINDS)}"
        )
    found = results.empty(kind, section.version, why=ABSENT)
    tick = section.environment.get("tick", OPTIONS["tick"])
    if tick != OPTIONS["tick"]:
        raise Trouble(
            f"{section.name}: column {column}: tick={tick}, wanted {OPTIONS['tick']}; measure "
            "it again"
        )
    found["environment"].update(section.environment, tick=results.TICK)
    state = found["columns"][column]
    if status != 0:
        state["why"] = why or (
            "no line 'end:': it was cut off" if status is None else f"it ended with status {status}"
        )
        return found, [f"{section.name}: column {column}: {state['why']}"]
    errors, count, place = [], 0, {"round": 1, "position": 1, **section.place}
    for what, text in [(None, section.bench), *section.repetitions]:
        parsed, wrong = lines.parse("\n".join(text))
        got = convert.convert(parsed, ledgers.get(column), column, kind)
        errors += wrong + got.errors
        count += len(parsed)
        measurements = pool.pooled(pool.compared(got.measurements, ()))
        if what:
            found.setdefault("repetitions", []).append({"column": column, **place, **what})
            measurements = [
                {**entry, "samples": [[place["round"], what["number"], entry["value"]]]}
                for entry in measurements
            ]
        found["measurements"] += measurements
        found["skipped"] += got.skipped
    if not found["measurements"]:
        state["why"] = "it brought no figure"
        errors.append(state["why"])
    else:
        detail = filter(None, (f"imported, {count} lines", section.options))
        state.update(status="ok", why="", detail=", ".join(detail))
    return found, [f"{section.name}: column {column}: {text}" for text in errors]


def one_column(column, starts):
    """The results of one column from those of its starts that are whole: each value with the
    samples of all of them."""
    whole = [one for one in starts if results.ok_columns(one)]
    if not any("repetitions" in one for one in whole):
        return starts  # as one start: the last one is taken
    out, values = whole[-1], {}
    for one in whole:
        for key, value in one["environment"].items():
            known = whole[0]["environment"][key]
            alike = results.ALIKE.get(key)
            if alike and alike.refuse and value != known:
                raise Trouble(
                    f"starts of column {column} differ in {alike.words} ({key}): found '{known}' "
                    f"and '{value}', wanted one value; measure again"
                )
        for entry in one["measurements"]:
            name = tuple(entry[key] for key in results.NAME)
            known = values.get(name, {}).get("samples", [])
            values[name] = {**entry, "exact": entry["exact"] and values.get(name, entry)["exact"]}
            if "samples" in entry:
                values[name]["samples"] = known + entry["samples"]
    out["measurements"] = [
        sampled(entry) if "samples" in entry else entry for entry in values.values()
    ]
    out["repetitions"] = [each for one in whole for each in one.get("repetitions", [])]
    there = {tuple(entry[key] for key in results.CELL) for entry in out["measurements"]}
    skipped = {results.cell_of(each): each for one in whole for each in one["skipped"]}
    out["skipped"] = [each for cell, each in skipped.items() if cell not in there]
    out["columns"][column]["detail"] += f", of {len(whole)} starts"
    return [out]


def sampled(entry):
    """A measurement with its median and interval, in place of what one of its samples had."""
    from bench import samples  # scipy, which results without samples do not need

    out = {key: value for key, value in entry.items() if key not in ("min", "p95", "max")}
    equal = len({value for _, _, value in entry["samples"]}) == 1
    out.update(samples.Samples(entry["samples"]).summary(), exact=entry["exact"] and equal)
    return out


def column_of(part):
    """The column that this part is about."""
    return next(name for name, state in part["columns"].items() if state["why"] != ABSENT)


def read_ledgers(pairs):
    ledgers = {}
    for pair in pairs:
        column, _, name = pair.partition("=")
        if column not in results.COLUMNS or not name:
            raise Trouble(f"--ledger {pair}: wanted COLUMN=FILE")
        try:
            with open(name, encoding="utf-8") as source:
                ledgers[column] = json.load(source)
        except (OSError, ValueError) as trouble:
            raise Trouble(f"--ledger {pair}: {trouble}") from None
    return ledgers


def run(texts, ledgers=None):
    """(results, lines to say, exit status) of files, each a name with its text; `ledgers`: the
    emulator's, by column."""
    parts, said = [], []
    for name, text in texts.items():
        for section in sections_of(name, text):
            part, errors = results_of(section, ledgers or {})
            parts.append(part)
            said += errors
    starts = {}
    for part in parts:
        starts.setdefault(column_of(part), []).append(part)
    merged, notes = results.merge([one for each in starts.items() for one in one_column(*each)])
    for part in parts:
        for column, state in part["columns"].items():
            # Why a column did not run says the file that is about it.
            if merged["columns"][column]["status"] != "ok" and state["why"] != ABSENT:
                merged["columns"][column] = state
    emulated = merged["environment"]["kind"] == "emulator"
    few = "" if emulated else judge.few_runs(merged["measurements"])
    return merged, said + notes + ([few] if few else []), 1 if said else 0
