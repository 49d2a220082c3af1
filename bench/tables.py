# SPDX-License-Identifier: BSD-2-Clause
# tables.py: makes the tables of tables.toml from the results of one machine: a column for each of
# ours, ratios to native and to KVM, the published figures beside them.
import glob
import importlib
import os

import tomllib

from bench import columns, estimate, formulas, published
from bench.cells import (
    NONE,
    Cell,
    Table,
    columns_of,
    duration,
    in_us,
    millions,
    number,
    percent,
    points,
    quoted,
    quoted_in_us,
    ratios,
)
from bench.formulas import scaled
from bench.measurements import ALL, TOP
from bench.results import COLUMNS

# What the published ratios are of is cycles: beside them a ratio to one instruction means nothing.
ONE_INSTRUCTION = 1
# How a figure looks beside the others of its row, and how a published one does.
TEXTS = {
    "number": (number, quoted),
    "millions": (millions, quoted),
    "percent": (lambda value, _others=(): percent(value, 2), "{} %".format),
    "ns": (duration, quoted),
}
OPERATION = {
    "of": "{experiment} {item} {cost} time",
    "theirs": "{item}",
    "under": [{"timed": "range time"}, "exits = exits", "=estimated {experiment} {item}"],
}
RATIOS = ["x native", "x kvm"]
CHOICE = {"exact", "timed"}
# What an entry of each kind may have; of a table the last ones are words for its texts.
KEYS = {
    kind: set(keys.split())
    for kind, keys in {
        "table": "title unit theirs their_unit more_heads heads over reading rows more_rows counts "
        "metal fill needs like experiment item who figures ratios",
        "row": "group label of text theirs under known kind each rows but",
        "section": "title short before parts sentences sources",
        "fact": "",
        "lead": "title axis head command of text unit theirs published but say estimate",
        "sentence": "of text unit theirs published but say or after label",
        "made": "title command quick table unit heads over reading published",
    }.items()
}
COUNTED = ["root instructions = root_instructions", "VMREAD, VMWRITE = vmread vmwrite"]


def one_space(value):
    """The same without line breaks in its texts."""
    if isinstance(value, dict):
        return {key: one_space(each) for key, each in value.items()}
    if isinstance(value, list):
        return [one_space(each) for each in value]
    return " ".join(value.split()) if isinstance(value, str) else value


def check(entry, kind, where):
    """ValueError: a key that nothing reads."""
    if isinstance(entry, list):
        for one in entry:
            check(one, kind, where)
    for key, value in entry.items() if isinstance(entry, dict) else ():
        if key not in KEYS[kind] | CHOICE:
            raise ValueError(
                f"{where}: found '{key}', wanted one of {', '.join(sorted(KEYS[kind]))}"
            )
        of_rows = key in ("rows", "more_rows")
        if of_rows or key in CHOICE:
            check(value, "row" if of_rows else kind, where)


def add(found, path):
    """Adds the entries of a file."""
    try:
        with open(path, "rb") as source:
            kinds = one_space(tomllib.load(source))
    except tomllib.TOMLDecodeError as trouble:
        raise ValueError(f"{path}: {trouble}") from None
    for kind, entries in kinds.items():
        if kind not in found:
            raise ValueError(f"{path}: found '{kind}', wanted one of {', '.join(found)}")
        for key, entry in entries.items():
            where = f"{path}: {kind} '{key}'"
            if key in found[kind]:
                raise ValueError(f"{where}: found another of this name, wanted a new name")
            check(entry, kind, where)
            folder = {"folder": os.path.basename(os.path.dirname(path))}
            found[kind][key] = {**entry, **folder} if isinstance(entry, dict) else entry
    return found


def read():
    """{kind: {key: entry}} of tables.toml and those of experiments, each with the name of its
    folder. ValueError: one that is not understood, or is there already."""
    found = {kind: {} for kind in KEYS if kind != "row"}
    for path in (
        os.path.join(TOP, "bench", "tables.toml"),
        *sorted(glob.glob(os.path.join(TOP, "experiments", "*", "tables.toml"))),
    ):
        add(found, path)
    return found


ENTRIES = read()


def picked(value, exact):
    """The same with A or B for {exact = A, timed = B}; where that is missing, nothing."""
    if isinstance(value, dict):
        if value and set(value) <= CHOICE:
            return picked(value.get("exact" if exact else "timed"), exact)
        pairs = ((key, picked(each, exact)) for key, each in value.items())
        return {key: each for key, each in pairs if each is not None}
    if isinstance(value, list):
        return [each for each in (picked(one, exact) for one in value) if each is not None]
    return value


def of_experiment(name):
    """PACKAGE.MODULE.NAME of an experiment."""
    module, _, name = name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def called(text):
    """(function, words) of "=NAME WORDS"."""
    name, *words = text.removeprefix("=").split()
    if "." in name:
        return of_experiment(name), words
    if name == "interval":
        return interval, words
    for module in (formulas, estimate):
        if hasattr(module, name):
            return getattr(module, name), words
    raise ValueError(f"tables.toml: found '{text}', which is no function of formulas.py")


def new_table(key, title, unit, published_columns=None, published_name="", extra_heads=()):
    """A table with a column for each of ours, and one for each that was published."""
    theirs = published_columns or {}
    names = columns_of(theirs)
    heads = [*COLUMNS, *(theirs[name] for name in names), *extra_heads]
    groups = [(f"measured: {unit}", len(COLUMNS))]
    if len(heads) > len(COLUMNS):
        groups.append((published_name, len(heads) - len(COLUMNS)))
    return Table(key, title, unit, heads, groups, theirs=names)


class Values(dict):
    """One quantity in all columns, None where it is missing; `why` says of a column why it is.
    `metric`: of the measurement that it is, perhaps `less` that of another item; empty: it is none
    of these."""

    def __init__(self, values, why, metric="", less=""):
        super().__init__(values)
        self.why, self.metric, self.less = why, metric, less

    @property
    def known(self):
        return any(value is not None for value in self.values())


def asked(machine, experiment, item, *metrics):
    """The values of one item: of the first of the metrics that any column has."""
    values, metric = dict.fromkeys(COLUMNS), ""
    for metric in metrics:
        values = {name: machine.value(name, experiment, item, metric) for name in COLUMNS}
        if any(value is not None for value in values.values()):
            break
    return Values(values, lambda name: machine.why(name, experiment, item), metric)


def value_cells(table, values, text=number):
    known = [values[name] for name in COLUMNS if values[name] is not None]
    return [
        table.missing(values.why(name)) if values[name] is None else Cell(text(values[name], known))
        for name in COLUMNS
    ]


def published_ratios(table, figures, base):
    """Ratios of published figures; they are this project's division of the thesis's numbers."""
    if base not in figures:
        return []
    numbers = {name: float(str(text).split()[0]) for name, text in figures.items()}
    times = ratios([numbers[name] for name in table.theirs], numbers[base])
    return [Cell(text, "published") for text in times]


def difference(values, name):
    """To native's, in percentage points."""
    pair = values[name], values["native"]
    return NONE if None in pair else points(float(pair[0]) - float(pair[1]))


def range_rows(table, machine, experiment, item, metric):
    """Minimum and 95th percentile, where there were several runs."""
    for key, label in (("min", "minimum"), ("p95", "95th percentile")):
        found = [
            machine.metrics(name, experiment, item).get(metric, {}).get(key) for name in COLUMNS
        ]
        known = [value for value in found if value is not None]
        text, _ = texts_in(table, machine, "number", [experiment, item], [])
        if known:
            words = [NONE if value is None else text(value, known) for value in found]
            table.add(label, [Cell(each, "range") for each in words], "sub")


def sample_row(table, machine, cell, values, text, base=""):
    """A row for values with samples: the interval of each median. With a base: the difference to
    it, if its interval tells one."""
    found = {
        name: machine.samples(name, *cell, values.metric, values.less) if values.metric else None
        for name in COLUMNS
    }
    if not any(found.values()) or (base and not found[base]):
        return
    cells, ends = [], {}
    for name, one in found.items():
        summary = one.summary() if one and not base else {}
        if "low" in summary:
            ends[name] = summary["low"], summary["high"]
    known = [end for pair in ends.values() for end in pair]
    for name, one in found.items():
        words = NONE
        if base and one and name != base:
            words = told(found[base], one)
        elif name in ends:
            low, high = (text(end, known) for end in ends[name])
            unit = high.lstrip("-0123456789,.")  # is said once
            words = f"{low.removesuffix(unit)} to {high}"
        cells.append(Cell(words, "range"))
    label = f"differs from {columns.head(base, machine)} by (99 %)" if base else "95 % interval"
    table.add(label, cells, "sub")


def interval(table, machine, experiment, item, base, metric="time"):
    """A row: how much more an item is than another of the same column."""
    found = [
        [machine.samples(name, experiment, one, metric) for one in (base, item)] for name in COLUMNS
    ]
    if any(None not in pair for pair in found):
        cells = [Cell(NONE if None in pair else told(*pair), "range") for pair in found]
        table.add(f"differs from {base} by (99 %)", cells, "sub")


def difference_of(base, other):
    """The samples.Difference of two samples.Samples; None: there is none."""
    from bench.samples import difference as of_samples  # scipy, which other results do not need

    return of_samples(base, other)


def told(base, other):
    """The same in words."""
    found = difference_of(base, other)
    if found is None:
        return NONE
    return str(found) if found.told else "no difference told"


def count_row(table, machine, label, experiment, item, *metrics):
    """A row of exact counts under an operation: the sum of these metrics."""
    found = [
        [machine.value(column, experiment, item, metric) for metric in metrics]
        for column in COLUMNS
    ]
    sums = [None if None in each else sum(each) for each in found]
    known = [each for each in sums if each is not None]
    if known:
        texts = [NONE if each is None else number(each, known) for each in sums]
        table.add(label, [Cell(text) for text in texts], "sub")


def under(table, machine, what, cell, values, figures):
    """A row below the one of these values, which are of this experiment and item."""
    if what.startswith("="):
        function, words = called(what)
        function(table, machine, *words)
    elif what.startswith("x "):
        base, ours = what.removeprefix("x ").rstrip("!?"), what.endswith("?")
        alone = base == "native" and values[base] == ONE_INSTRUCTION
        unlike = base == "kvm" and formulas.levels(machine)
        if not (alone or unlike) and (
            values[base] is not None or (base in figures and what[-1] not in "!?")
        ):
            known = {name: value for name, value in values.items() if value != ONE_INSTRUCTION}
            times = ratios([known.get(name) for name in COLUMNS], values[base])
            cells = [Cell(text, "ratio") for text in times]
            theirs = [] if ours else published_ratios(table, figures, base)
            table.add(f"x {columns.head(base, machine)}", cells + theirs, "sub")
            sample_row(table, machine, cell, values, number, base)
    elif what == "points":
        cells = [Cell(difference(values, name), "ratio") for name in COLUMNS]
        both = table.theirs if figures else []
        theirs = [Cell(difference(figures, name), "published") for name in both]
        table.add("points to native", cells + theirs, "sub")
    elif what.startswith("range "):
        range_rows(table, machine, *cell, what.removeprefix("range "))
    else:
        label, _, metrics = what.partition(" = ")
        count_row(table, machine, label, *cell, *metrics.split())


def values_of(machine, of):
    """The values of a row's `of`."""
    if not of.startswith("="):
        return asked(machine, *of.split())
    function, words = called(of)
    why = asked(machine, *words[:2]).why
    less_base = function in (formulas.extra, formulas.extra_of_one)
    of_samples = (machine.metric, formulas.BASE) if less_base else ()
    return Values({name: function(machine, name, *words) for name in COLUMNS}, why, *of_samples)


def unit_of(machine, experiment, item, metric):
    """What programs count it in; "" where no column has it."""
    entries = (machine.entry(name, experiment, item, metric) for name in COLUMNS)
    return next((entry["unit"] for entry in entries if entry), "")


def texts_of(machine, text, of):
    """(how a figure looks beside the others of its row, how a published one does)"""
    if text == "scaled":
        unit = unit_of(machine, *of)
        if unit == "ns":
            return duration, lambda figure: f"{quoted_in_us(figure)} us"
        return lambda value, _others=(): scaled(value, unit), quoted
    return TEXTS.get(text) or (text.format, "{}".format)


def texts_in(table, machine, text, cell, of):
    """The same in a table, which has one unit of time."""
    if text == "number" and table.unit.startswith("us"):
        if unit_of(machine, *cell, machine.metric) == "ns":
            return in_us, quoted_in_us
    return texts_of(machine, text, of)


def cell_of_row(of):
    """[experiment, item] of a row's `of`."""
    return of.split()[1:3] if of.startswith("=") else of.split()[:2]


def figures_of(row, words, theirs):
    """The published figures of a row, by column."""
    key = row.get("theirs", "").format_map(words)
    if key.startswith("="):
        function, arguments = called(key)
        return function(*arguments)
    return getattr(published, key, None) or getattr(published, theirs, {}).get(key, {})


def add_row(table, machine, row, words, theirs):
    if "group" in row:
        table.group(row["group"].format_map(words))
        return
    of = row["of"].format_map(words)
    cell = cell_of_row(of)
    text, their_text = texts_in(table, machine, row.get("text", "number"), cell, of.split())
    figures = figures_of(row, words, theirs)
    values = values_of(machine, of) if len(of.split()) > 2 else None
    if row.get("known") and not values.known:
        return
    label = row.get("label", "{label}" if "label" in words else "").format_map(words)
    if label:
        cells = value_cells(table, values, text)
        cells += [
            Cell(their_text(figures[name]) if name in figures else "", "published")
            for name in table.theirs
        ]
        more = table.heads[len(cells) :]
        cells += [Cell(str(figures[head]), "published") for head in more if head in figures]
        table.add(label, cells, row.get("kind", "main"))
    if label:
        sample_row(table, machine, cell, values, text)
    for what in row.get("under", ()):
        for one in words["ratios"] if what == "{ratios}" else [what.format_map(words)]:
            under(table, machine, one, cell, values, figures)


def each_of(machine, each, words):
    """The words for each of a row's `each`."""
    if isinstance(each, str) and each.startswith("="):
        function, arguments = called(each.format_map(words))
        each = function(machine, *arguments)
    if isinstance(each, str):
        each = ALL.items_in(each)
    for one in each:
        if isinstance(one, (list, tuple)) and len(one) == 2:
            yield {"name": one[0], "label": one[1]}
        else:
            pmis = published.TABLE_4_2_PMIS.get(one.name, "")
            yield {"experiment": one.experiment, "item": one.name, "label": one.label, "pmis": pmis}


def add_rows(table, machine, rows, words, theirs=""):
    for row in rows:
        if "each" not in row:
            add_row(table, machine, row, words, theirs)
            continue
        for more in each_of(machine, row["each"], words):
            for one in row.get("rows", [row]):
                if one.get("but") not in (more.get("item", ""), more.get("name", "")):
                    add_row(table, machine, one, {**more, **words}, theirs)


def operations(machine, each, counts, ratios=RATIOS):
    """The rows of what these items cost."""
    below = [*ratios, *OPERATION["under"], *(COUNTED if counts else [])]
    return picked([{**OPERATION, "under": below, "each": each}], machine.exact)


def entry_of(key):
    """The entry of a table, with what it has of another."""
    own = ENTRIES["table"][key]
    base = ENTRIES["table"][own["like"]] if "like" in own else {}
    lists = {
        name: base.get(name, []) + own.get(name, []) for name in ("reading", "rows", "more_rows")
    }
    return {**base, **own, **lists}


def with_heads(key, title, unit, what):
    """A table with columns of its own, still without rows. Its blank cells are published ones where
    the entry says so."""
    heads, over = what["heads"], what["over"]
    heads = called(heads)[0]() if isinstance(heads, str) else list(heads)
    groups = [(over, len(heads))] if isinstance(over, str) else [tuple(one) for one in over]
    return Table(key, title, unit, heads, groups, theirs=[0] if what.get("published") else [])


def has_results(machine, key):
    """Whether the experiment that the table needs has run."""
    needs = ENTRIES["table"][key].get("needs")
    return needs is None or machine.ran(needs)


def make(machine, key):
    """The table of this key."""
    what = picked(entry_of(key), machine.exact)
    words = {name: text for name, text in what.items() if isinstance(text, str)}
    words |= {"cost": machine.metric, "ratios": what.get("ratios", RATIOS)}
    title, unit = what["title"].format_map(words), what.get("unit", machine.unit())
    theirs = what.get("theirs", "").format_map(words)
    if "heads" in what:
        table = with_heads(key, title, unit, what)
    else:
        others = getattr(published, f"{theirs}_COLUMNS", {})
        name, more = what.get("their_unit", ""), what.get("more_heads", ())
        table = new_table(key, title, unit, others, name, more)
    if "fill" in what:
        called(what["fill"])[0](table, machine)
    else:
        if not what["rows"]:
            table.reading += formulas.levels(machine)
        rows = what["rows"] or operations(
            machine, key, what.get("counts"), what.get("ratios", RATIOS)
        )
        add_rows(table, machine, rows + what["more_rows"], words, theirs)
    for text in what["reading"]:
        if isinstance(text, dict):
            table.reading.append(text["text"].format_map(called(text["of"])[0](machine)))
        elif text.startswith("="):
            function, arguments = called(text.format_map(words))
            table.reading += function(machine, *arguments)
        else:
            table.reading.append(text)
    if not table.rows:
        table.reading.clear()  # nothing is there to be read
    return table
