# SPDX-License-Identifier: BSD-2-Clause
# lines.py: the lines "bench: ..." of a console (README.md, "What a program prints"). Strict: what
# is not understood is an error with the line in it: a figure lost in silence makes a wrong table.
import dataclasses
import re

from bench.measurements import EXPERIMENTS

PREFIX = "bench: "
# The keys of a line, in their order: what is in brackets may be left out, a bar is a choice.
FORM = "experiment item [base] (skip | [region ops | ops] [metric unit (n min median p95 | value)])"
FORM_KEYS = re.compile(
    r"experiment item( base)?( skip|( region ops| ops)?"
    r"( metric unit( n min median p95| value))?)"
)
UNITS = ("tsc", "count", "percent", "ns", "bytes")
# What a value has to be, by its key; of the others any text without blanks.
WHOLE, NUMBER = r"[1-9]\d*", r"-?\d+(\.\d+)?"
VALUES = {
    "experiment": "|".join(EXPERIMENTS),
    "unit": "|".join(UNITS),
    "skip": r'".*[^" ].*"',
    **dict.fromkeys(("region", "ops", "n"), WHOLE),
    **dict.fromkeys(("min", "median", "p95", "value"), NUMBER),
}
WANTED = {
    WHOLE: "a whole number above 0",
    NUMBER: "a number",
    VALUES["skip"]: "the reason in quotes",
    VALUES["experiment"]: f"one of {', '.join(EXPERIMENTS)}",
    VALUES["unit"]: f"one of {', '.join(UNITS)}",
}
LINE_SHOWN = 120


@dataclasses.dataclass
class Line:
    """One line; a key that it does not have is None."""

    experiment: str
    item: str
    base: str | None = None
    region: int | None = None
    ops: int | None = None
    metric: str | None = None
    unit: str | None = None
    n: int | None = None
    min: float | None = None
    median: float | None = None
    p95: float | None = None
    value: float | None = None
    skip: str | None = None


class BadLine(Exception):
    """The text says what is wrong with the line."""


def number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def split(text):
    """[(key, value)] of a line, in the order in which they stand there."""
    pairs = []
    while text:
        match = re.match(r'([a-z0-9_]+)=("[^"]*"|[^\s"]+)(?: |$)', text)
        if not match:
            raise BadLine(f"found '{text[:40]}', wanted KEY=VALUE")
        pairs.append(match.groups())
        text = text[match.end() :]
    return pairs


def parse_line(text):
    """One line without its prefix. BadLine: it is none."""
    pairs = split(text)
    for key, _ in pairs:
        if key not in Line.__dataclass_fields__:
            raise BadLine(
                f"unknown key '{key}', wanted one of {', '.join(Line.__dataclass_fields__)}"
            )
    keys = " ".join(key for key, _ in pairs)
    if not FORM_KEYS.fullmatch(keys):
        raise BadLine(f"found the keys {keys}, wanted {FORM}")
    for key, value in pairs:
        wanted = VALUES.get(key, r'[^"]*')
        if not re.fullmatch(wanted, value):
            raise BadLine(f"{key}={value}, wanted {WANTED.get(wanted, 'no quotes')}")
    line = Line(
        **{
            key: number(value) if VALUES.get(key) in (WHOLE, NUMBER) else value.strip('"')
            for key, value in pairs
        }
    )
    if line.skip is None and line.region is None and line.metric is None:
        raise BadLine("neither region nor metric nor skip: nothing is measured")
    if line.unit == "tsc" and line.metric != "time":
        raise BadLine(f"unit tsc of metric '{line.metric}', wanted metric time")
    if line.n is not None and not line.min <= line.median <= line.p95:
        raise BadLine(f"min={line.min}, median={line.median}, p95={line.p95} are not in order")
    return line


def parse(console):
    """(lines, errors) of a console's text; each error is one line of text."""
    found, errors, seen = [], [], set()
    for text in map(str.strip, console.splitlines()):
        if PREFIX + "experiment=" not in text and not text.startswith(PREFIX.strip()):
            continue
        try:
            if not text.startswith(PREFIX):
                raise BadLine(f"a torn line, wanted it to begin with '{PREFIX}'")
            line = parse_line(text[len(PREFIX) :])
            for what in filter(None, ("region" if line.region else None, line.metric)):
                if (line.experiment, line.item, what) in seen:
                    raise BadLine(f"{line.experiment}/{line.item} has {what} twice")
                seen.add((line.experiment, line.item, what))
        except BadLine as trouble:
            errors.append(f"{trouble}: '{text[:LINE_SHOWN]}'")
            continue
        found.append(line)
    return found, errors
