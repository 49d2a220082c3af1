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


@dataclasses.dataclass
class Section:
    """What a file says of one column."""

    name: str
    column: str | None = None
    environment: dict = dataclasses.field(default_factory=dict)
    version: str = ""
    options: str = ""
    bench: list = dataclasses.field(default_factory=list)
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
        elif key in results.ENVIRONMENT:
            section.environment[key] = value
        else:
            raise Trouble(
                f"{where}: unknown key '{key}', wanted column, version, options or one of "
                f"{', '.join(results.ENVIRONMENT)}"
            )
    elif text.startswith("end:"):
        match = DONE.fullmatch(text)
        if not match:
            raise Trouble(f"{where}: found '{text[:80]}', wanted end: column=C status=S")
        if section.end is not None:
            raise Trouble(f"{where}: a second line 'end:' of column {section.end[0]}")
        section.end = (match[1], int(match[2]), match[3] or "")
    elif lines.PREFIX.strip() in text:
        section.bench.append(text)


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
                common, column=begin[1], bench=[], end=None, environment=dict(common.environment)
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
    parsed, errors = lines.parse("\n".join(section.bench))
    got = convert.convert(parsed, ledgers.get(column), column, kind)
    errors += got.errors
    if not got.measurements:
        state["why"] = "it brought no figure"
        errors.append(state["why"])
    else:
        state.update(
            status="ok",
            why="",
            detail=", ".join(filter(None, (f"imported, {len(parsed)} lines", section.options))),
        )
    found["measurements"], found["skipped"] = pool.pooled(got.measurements), got.skipped
    return found, [f"{section.name}: column {column}: {text}" for text in errors]


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
    merged, notes = results.merge(parts)
    for part in parts:
        for column, state in part["columns"].items():
            # Why a column did not run says the file that is about it.
            if merged["columns"][column]["status"] != "ok" and state["why"] != ABSENT:
                merged["columns"][column] = state
    emulated = merged["environment"]["kind"] == "emulator"
    few = "" if emulated else judge.few_runs(merged["measurements"])
    return merged, said + notes + ([few] if few else []), 1 if said else 0
