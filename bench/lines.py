# SPDX-License-Identifier: BSD-2-Clause
# lines.py: the lines "bench: ..." of a console (README.md, "What a program prints"). Strict: what
# is not understood is an error with the line in it: a figure lost in silence makes a wrong table.
import dataclasses
import re

from results import EXPERIMENTS

PREFIX = "bench: "
# In the order in which a line has them.
KEYS = ("experiment", "item", "base", "region", "ops", "metric", "unit", "n", "min", "median",
        "p95", "value", "skip")
UNITS = ("tsc", "count", "percent", "ns", "bytes")
WHOLE = ("region", "ops", "n")
NUMBERS = ("min", "median", "p95", "value")
DISTRIBUTION = ("n", "min", "median", "p95")
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
    """The pairs of a line as a dictionary, in the order in which they stand there."""
    pairs = {}
    rest = text
    while rest:
        match = re.match(r'([a-z0-9_]+)=("[^"]*"|[^\s"]+)(?: |$)', rest)
        if not match:
            raise BadLine(f"found '{rest[:40]}', wanted KEY=VALUE")
        key, value = match[1], match[2]
        if key not in KEYS:
            raise BadLine(f"unknown key '{key}', wanted one of {', '.join(KEYS)}")
        if key in pairs:
            raise BadLine(f"key '{key}' is there twice")
        if pairs and KEYS.index(key) < KEYS.index(list(pairs)[-1]):
            raise BadLine(f"key '{key}' behind '{list(pairs)[-1]}', wanted the order "
                          f"{', '.join(KEYS)}")
        if value.startswith('"') != (key == "skip"):
            raise BadLine(f"value of '{key}': only skip is quoted, and always")
        pairs[key] = value.strip('"')
        rest = rest[match.end():]
    return pairs


def check_shape(pairs):
    """Which keys go together."""
    has = pairs.__contains__
    for key in ("experiment", "item"):
        if not has(key):
            raise BadLine(f"key '{key}' is missing")
    if has("skip"):
        if set(pairs) - {"experiment", "item", "base", "skip"}:
            raise BadLine("a line with skip has only experiment, item and base besides")
        if not pairs["skip"].strip():
            raise BadLine("skip is empty, wanted the reason")
        return
    if has("region") and not has("ops"):
        raise BadLine("region without ops")
    if has("metric") != has("unit"):
        raise BadLine("metric and unit belong together")
    given = [key for key in DISTRIBUTION if has(key)]
    if given and len(given) != len(DISTRIBUTION):
        missing = [key for key in DISTRIBUTION if not has(key)]
        raise BadLine(f"{', '.join(given)} without {', '.join(missing)}")
    if has("metric") and bool(given) == has("value"):
        raise BadLine(f"metric wants either value, or {', '.join(DISTRIBUTION)}")
    if not has("metric") and (given or has("value")):
        raise BadLine("a value without metric and unit")
    if not has("region") and not has("metric"):
        raise BadLine("neither region nor metric nor skip: nothing is measured")


def check_values(line):
    if line.experiment not in EXPERIMENTS:
        raise BadLine(f"unknown experiment '{line.experiment}', wanted one of "
                      f"{', '.join(EXPERIMENTS)}")
    for key in WHOLE:
        value = getattr(line, key)
        if value is not None and value < 1:
            raise BadLine(f"{key}={value}, wanted 1 or more")
    if line.unit is not None and line.unit not in UNITS:
        raise BadLine(f"unknown unit '{line.unit}', wanted one of {', '.join(UNITS)}")
    if (line.unit == "tsc") and line.metric != "time":
        raise BadLine(f"unit tsc of metric '{line.metric}', wanted metric time")
    if line.n is not None and not line.min <= line.median <= line.p95:
        raise BadLine(f"min={line.min}, median={line.median}, p95={line.p95} are not in order")


def parse_line(text):
    """One line without its prefix."""
    pairs = split(text)
    check_shape(pairs)
    for key in WHOLE + NUMBERS:
        if key in pairs:
            wanted = r"\d+" if key in WHOLE else r"-?\d+(\.\d+)?"
            if not re.fullmatch(wanted, pairs[key]):
                raise BadLine(f"{key}={pairs[key]}, wanted a {'whole ' if key in WHOLE else ''}"
                              "number")
            pairs[key] = number(pairs[key])
    line = Line(**pairs)
    check_values(line)
    return line


def parse(console):
    """(lines, errors) of a console's text; each error is one line of text."""
    found, errors = [], []
    seen = {}
    for text in console.splitlines():
        text = text.strip()
        if PREFIX + "experiment=" not in text and not text.startswith(PREFIX.strip()):
            continue
        shown = text[:LINE_SHOWN]
        if not text.startswith(PREFIX):
            errors.append(f"a torn line: '{shown}', wanted it to begin with '{PREFIX}'")
            continue
        try:
            line = parse_line(text[len(PREFIX):])
            for what in filter(None, ("region" if line.region else None, line.metric)):
                if (line.experiment, line.item, what) in seen:
                    raise BadLine(f"{line.experiment}/{line.item} has {what} twice")
                seen[line.experiment, line.item, what] = line
        except BadLine as trouble:
            errors.append(f"{trouble}: '{shown}'")
            continue
        found.append(line)
    return found, errors
