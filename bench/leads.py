# SPDX-License-Identifier: BSD-2-Clause
# leads.py: the sentences of tables.toml, and the first screen of the report: three questions, each
# with a picture, a sentence and the command that measures it. Every number is of the results or of
# published.py.
from collections.abc import Callable
from dataclasses import dataclass

from bench import plots, tables
from bench.cells import points, ratio


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


def times(values):
    """Each column's figure as times native's."""
    ratios = ((name, ratio(value, values["native"])) for name, value in values.items())
    return ", ".join(f"{name} {text}" for name, text in ratios if name != "native")


def said(machine, what):
    """(values of the columns that ran, how one looks, the sentence: "" where it lacks a figure)"""
    words = {**what, "cost": machine.metric}
    of = what["of"].format_map(words) if "of" in what else ""
    values = {
        name: value
        for name, value in (tables.values_of(machine, of) if of else {}).items()
        if value is not None and name != what.get("but")
    }
    text, _ = tables.texts_of(machine, what.get("text", "number"), of.split())
    theirs = tables.figures_of(what, words, what.get("published", ""))
    if (of and not values) or ("{native}" in what["say"] and not values.get("native")):
        return values, text, ""
    looks = {name: text(value) for name, value in values.items()}
    more = times(values) if "native" in values else ""
    pair = [values.get(name) for name in ("msr+nmi", "native")]
    words.update(
        native=looks.get("native", ""),
        each=", ".join(f"{look} {name}" for name, look in looks.items()),
        named=", ".join(f"{name} {look}" for name, look in looks.items() if name != "native"),
        times=more,
        and_times=more and f"; {more}",
        points="" if None in pair else f" (msr+nmi {points(pair[0] - pair[1])} points to native)",
        theirs=theirs,
    )
    if "{their" in what["say"] and "native" in theirs:
        numbers = {name: float(value) for name, value in theirs.items()}
        words["their_times"] = times(numbers)
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
        out.append(Lead(key, title, *said(machine, what), what["command"]))
    return out
