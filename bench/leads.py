# SPDX-License-Identifier: BSD-2-Clause
# leads.py: the sentences of tables.toml, their figures of several machines side by side, and the
# first screen of the report: the answer, and three pictures, each with a sentence and the command
# that measures it. Every number is of the results, of published.py or an estimate (predict.py).
import itertools
from dataclasses import dataclass

from bench import columns, estimate, plots, predict, results, tables
from bench.cells import NONE, Cell, Table, points, ratio
from bench.measurements import ALL

READING = (
    "Each row has figures of one unit, which its label names. An emulator counts instructions. A "
    "bare machine measures cycles and time. So compare figures in one row only. A cell is empty if "
    f"the machine has no figure in this unit, and has '{NONE}' if only the column has none."
)


PICTURES = 3


@dataclass
class Lead:
    key: str
    title: str
    axis: str  # what the bars are, with the unit
    bars: dict  # {column: plots.Bar} of the columns that ran
    sentence: str
    command: str

    def draw(self, prefix, alone=False):
        """A plots.Figure; None where nothing was measured. `alone`: as a file of its own."""
        return plots.bars_figure(prefix + self.key, self.title, self.axis, self.bars, alone)


def under(name, machine):
    if name == "native":
        return "natively"
    return f"{'in' if name == 'thesis' else 'under'} {columns.head(name, machine)}"


def times(machine, values, sure, shown):
    """The figures of these columns as times native's."""
    return "; ".join(
        f"{ratio(value, values['native'])}{sure[name]} {under(name, machine)}"
        for name, value in values.items()
        if name != "native" and name in shown
    )


def command_of(machine, what):
    """What measures it: on a bare machine the stick of a plan that has it."""
    if machine.environment["kind"] != "metal" or "of" not in what:
        return what["command"]
    found = f"{tables.cell_of_row(what['of'])[0]}:" in ALL.sections["plans"]["thesis"]
    return f"make usb BENCH={'thesis' if found else 'all'}"


def samples_of(machine, of, asked):
    """{column: its samples.Samples}, None where it has none."""
    if not asked.metric:
        return dict.fromkeys(asked)
    cell = (*tables.cell_of_row(of), asked.metric, asked.less)
    return {name: machine.samples(name, *cell) for name in asked}


def interval_of(one, value, text):
    """The interval of a value by its samples.Samples, in words; "" without samples."""
    base = one.summary() if one else {}
    if base and len(one.rounds) == 1:
        return " (of one round, which tells no difference)"
    if not base.get("value") or "low" not in base:
        return ""
    parts = (base[key] * value / base["value"] for key in ("low", "high"))
    return f" (95 %: {' to '.join(map(text, parts))})"


def sureness(machine, of, asked, text):
    """{column: words}: of native's samples the interval, of another column's that of the ratio to
    native; "" without samples."""
    found = samples_of(machine, of, asked)
    words = dict.fromkeys(found, "")
    words["native"] = interval_of(found["native"], asked["native"], text)
    base = found["native"].summary() if found["native"] else {}
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
    shown = ANSWERED if "title" in what else values
    more = times(machine, values, sure, shown) if "native" in values else ""
    pair = [values.get(name) for name in ("msr+nmi", "native")]
    words.update(
        native=looks.get("native", ""),
        native_sure=sure.get("native", ""),
        each="; ".join(f"{look} {under(name, machine)}" for name, look in looks.items()),
        times=more,
        and_times=more and f"; as multiples of that: {more}",
        points="" if None in pair else f" (PMUvisor {points(pair[0] - pair[1])} points to native)",
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
    """The first three that have figures; without results for three, others without figures, too."""
    out = []
    for key, entry in tables.ENTRIES["lead"].items():
        what = tables.picked(entry, machine.exact)
        bars, sentence = (estimated if "estimate" in what else counted)(machine, what)
        out.append(
            Lead(key, what["title"], what["axis"], bars, sentence, command_of(machine, what))
        )
    return sorted(out, key=lambda one: not one.bars)[:PICTURES]


def counted(machine, what):
    """({column: plots.Bar}, the sentence)"""
    values, text, sentence = said(machine, what)
    bars = {
        name: plots.Bar(columns.head(name, machine), value, text(value))
        for name, value in values.items()
    }
    return bars, sentence


def estimates(machine, name, *more):
    """{column: an Estimate}, by a function of estimate.py; {}: there are none."""
    of = getattr(estimate, name, None)
    found = (
        {one: of(machine, one, *more) for one in results.COLUMNS} if machine.exact and of else {}
    )
    return {name: one for name, one in found.items() if one}


def estimated(machine, what):
    """The same of estimates, each with its interval."""
    bars = {
        name: plots.Bar(columns.head(name, machine), one.middle, looks(one), one.low, one.high)
        for name, one in estimates(machine, what["estimate"]).items()
    }
    return bars, what["say"].format(misses=estimate.misses(machine)[0]) if bars else ""


def looks(one, unit=""):
    """An Estimate with its interval."""
    return predict.text(one, unit)


# The columns of the answer, what it says of their exits, the other columns of its table, and its
# samples of perf record a second.
ANSWERED = ("native", "kvm", "kvm-mediated", "thesis", "msr+nmi")
EXITS = {
    "thesis": " (J.-H. Chen, 2024), which has one VM exit for each PMI",
    "msr+nmi": ", whose guest takes its PMIs without a VM exit, as natively",
}
TABLED = ("kvm-new",)
RATE = 1000


def listed(texts):
    return "; ".join(texts[:-1] + [f"and {texts[-1]}"] if len(texts) > 1 else texts)


def answer(machine):
    """What the first screen says first, as a sentence and a table: what one PMI takes, and what
    perf record takes. []: no PMI was measured natively."""
    pmi, record = (
        tables.picked(tables.ENTRIES["lead"][key], machine.exact) for key in ("pmi", "record")
    )
    values, text, _ = said(machine, pmi)
    shown = [name for name in ANSWERED if name in values]
    if "native" not in shown:
        return []
    exits = EXITS if machine.exact else {}
    each = [f"{text(values[name])} {under(name, machine)}{exits.get(name, '')}" for name in shown]
    each[0] = each[0].replace(" ", f" {pmi['unit']} ", 1)
    found = samples_of(machine, pmi["of"], tables.values_of(machine, pmi["of"]))
    added, percent, _ = said(machine, record)
    parts = {
        f"one PMI: {pmi['head']}": {
            name: text(value) + interval_of(found[name], value, text)
            for name, value in values.items()
        },
        "one PMI: cycles, estimate": {
            name: looks(one) for name, one in estimates(machine, "of_pmi").items()
        },
        f"perf record, {RATE:,} samples a second: % of time, estimate": {
            name: looks(one, " %") for name, one in estimates(machine, "of_rate", RATE).items()
        },
    }
    if not machine.exact:
        parts["perf record: % more time"] = {name: percent(value) for name, value in added.items()}
    parts = {head: texts for head, texts in parts.items() if texts}
    table = Table("answer", "", "", list(parts), [("", len(parts))])
    for name in (one for one in values if one in (*ANSWERED, *TABLED)):
        cells = [Cell(texts.get(name, NONE)) for texts in parts.values()]
        table.add(columns.head(name, machine), cells)
    return [f"One PMI (the interrupt of a counter that overflows) takes {listed(each)}.", table]


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
    ok = [results.ok_columns(machine.results) for _, machine in named]
    places = [(at, column) for at, ran in enumerate(ok) for column in ran]
    table = Table(
        "side-by-side",
        "Machines side by side",
        "",
        [columns.head(column, named[at][1]) for at, column in places],
        [(name, len(ran)) for (name, _), ran in zip(named, ok) if ran],
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
