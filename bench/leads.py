# SPDX-License-Identifier: BSD-2-Clause
# leads.py: the sentences of tables.toml, their figures of several machines side by side, and the
# first screen of the report: three questions, each with a picture, a sentence and the command that
# measures it. Every number is of the results or of published.py.
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from bench import plots, results, tables
from bench.cells import NONE, Cell, Table, points, ratio
from bench.measurements import ALL

READING = (
    "Each row has figures of one unit, which its label names. An emulator counts instructions. A "
    "bare machine measures cycles and time. So compare figures in one row only. A cell is empty if "
    f"the machine has no figure in this unit, and has '{NONE}' if only the column has none."
)


@dataclass
class Lead:
    key: str
    title: str
    values: dict  # of the columns that ran
    text: Callable  # how a value looks
    sentence: str
    command: str

    def draw(self, prefix, alone=False):
        """A plots.Figure; None where nothing was measured. `alone`: as a file of its own."""
        return plots.bars_figure(prefix + self.key, self.title, self.values, self.text, alone)


def times(values, sure):
    """Each column's figure as times native's."""
    ratios = ((name, ratio(value, values["native"])) for name, value in values.items())
    return ", ".join(f"{name} {text}{sure[name]}" for name, text in ratios if name != "native")


def cell_of_row(of):
    """[experiment, item] of a row's `of`."""
    return of.split()[1:3] if of.startswith("=") else of.split()[:2]


def command_of(machine, what):
    """What measures it: on a bare machine the stick of a plan that has it."""
    if machine.environment["kind"] != "metal":
        return what["command"]
    found = f"{cell_of_row(what['of'])[0]}:" in ALL.sections["plans"]["thesis"]
    return f"make usb BENCH={'thesis' if found else 'all'}"


def sureness(machine, of, asked, text):
    """{column: words}: of native's samples the interval, of another column's that of the ratio to
    native; "" without samples."""
    found = dict.fromkeys(asked)
    if asked.metric:
        cell = (*cell_of_row(of), asked.metric, asked.less)
        found = {name: machine.samples(name, *cell) for name in asked}
    words = dict.fromkeys(found, "")
    base = found["native"].summary() if found["native"] else {}
    if base and len(found["native"].rounds) == 1:
        words["native"] = " (of one round, which tells no difference)"
    elif base.get("value") and "low" in base:
        parts = (base[key] * asked["native"] / base["value"] for key in ("low", "high"))
        words["native"] = f" (95 %: {' to '.join(map(text, parts))})"
    for name, one in found.items():
        step = tables.difference_of(found["native"], one) if base and one else None
        if name != "native" and step:
            low, high = (ratio(100 + each, 100) for each in (step.low, step.high))
            words[name] = f" ({'' if step.told else 'no difference told, '}99 %: {low} to {high})"
    return words


def said(machine, what):
    """(values of the columns that ran, how one looks, the sentence: "" where it lacks a figure)"""
    words = {**what, "cost": machine.metric}
    of = what["of"].format_map(words) if "of" in what else ""
    asked = tables.values_of(machine, of) if of else tables.Values({}, None)
    values = {
        name: value
        for name, value in asked.items()
        if value is not None and name != what.get("but")
    }
    text, _ = tables.texts_of(machine, what.get("text", "number"), of.split())
    theirs = tables.figures_of(what, words, what.get("published", ""))
    if (of and not values) or ("{native}" in what["say"] and not values.get("native")):
        return values, text, ""
    looks = {name: text(value) for name, value in values.items()}
    sure = sureness(machine, of, asked, text) if of else {}
    more = times(values, sure) if "native" in values else ""
    pair = [values.get(name) for name in ("msr+nmi", "native")]
    words.update(
        native=looks.get("native", ""),
        native_sure=sure.get("native", ""),
        each=", ".join(f"{look} {name}" for name, look in looks.items()),
        named=", ".join(f"{name} {look}" for name, look in looks.items() if name != "native"),
        times=more,
        and_times=more and f"; {more}",
        points="" if None in pair else f" (msr+nmi {points(pair[0] - pair[1])} points to native)",
        theirs=theirs,
    )
    if "{their" in what["say"] and "native" in theirs:
        numbers = {name: float(value) for name, value in theirs.items()}
        words["their_ratio"] = {
            name: ratio(value, numbers["native"]) for name, value in numbers.items()
        }
    return values, text, what["say"].format_map(words)


def sentences(machine):
    """[(name, sentence)] of [sentence]."""
    for name, parts in tables.ENTRIES["sentence"].items():
        texts = []
        for what in tables.picked(parts, machine.exact):
            if not (what.get("or") and texts or what.get("after") and not texts):
                texts += filter(None, [said(machine, what)[2]])
        yield name, " ".join(texts)


def leads(machine):
    out = []
    for key, entry in tables.ENTRIES["lead"].items():
        what = tables.picked(entry, machine.exact)
        title = what["title"].format_map(what)
        out.append(Lead(key, title, *said(machine, what), command_of(machine, what)))
    return out


def main_figures(machine):
    """{(table, label, unit): (values, how one looks)} of the [sentence]s that have a label."""
    out = {}
    for name, parts in tables.ENTRIES["sentence"].items():
        found = {}
        for what in tables.picked(parts, machine.exact):
            if "label" in what and not (what.get("or") and found):
                values, text, _ = said(machine, what)
                found |= {(name, what["label"], what["unit"]): (values, text)} if values else {}
        out |= found
    return out


def side_by_side(named):
    """The table of several machines, each (name, Machine): a row for each main figure and unit."""
    columns = [results.ok_columns(machine.results) for _, machine in named]
    places = [(at, column) for at, ran in enumerate(columns) for column in ran]
    table = Table(
        "side-by-side",
        "Machines side by side",
        "",
        [column for _, column in places],
        [(name, len(ran)) for (name, _), ran in zip(named, columns) if ran],
        reading=[READING],
    )
    figures = [main_figures(machine) for _, machine in named]
    order = [
        (name, what.get("label"))
        for name, parts in tables.ENTRIES["sentence"].items()
        for what in parts
    ]
    keys = sorted(dict.fromkeys(itertools.chain(*figures)), key=lambda key: order.index(key[:2]))
    for name, rows in itertools.groupby(keys, key=lambda key: key[0]):
        table.group(f"Table {name}")
        for key in rows:
            table.add(", ".join(key[1:]), [cell_of(figures[at], key, one) for at, one in places])
    return table


def cell_of(figures, key, column):
    """A machine's cell. It is empty where the machine has no figure in this unit."""
    values, text = figures.get(key, ({}, str))
    return Cell(text(values[column]) if column in values else NONE if values else "")
