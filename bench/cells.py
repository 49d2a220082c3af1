# SPDX-License-Identifier: BSD-2-Clause
# cells.py: what a table of the report is made of, and how numbers look in it. Both renderings, text
# and HTML, come from these; touches nothing.
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.columns import PEERS, said, said_of_label
from bench.results import COLUMNS, values_of

NOT_RUN = "not run"
NONE = "-"
EXACT_RATIO = (0.9, 1.1)  # ratios this near to 1 are shown with four places


def number(value):
    """A count or a quotient of counts: as exact as is readable, never rounded to 0."""
    if value == 0:
        return "0"
    size = abs(value)
    if abs(value - round(value)) < 1e-9 * max(1, size):
        return f"{round(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def ratio(value, base):
    """How many times base; NONE where base is 0 or either is not known."""
    if value is None or base in (None, 0):
        return NONE
    times = value / base
    size = abs(times)
    if times in (0, 1):
        return f"{times:.0f}x"
    if EXACT_RATIO[0] < size < EXACT_RATIO[1]:
        return f"{times:.4f}x"
    if size >= 100:
        return f"{times:,.0f}x"
    if size >= 10:
        return f"{times:.1f}x"
    return f"{times:.2f}x" if size >= 0.1 else f"{times:.2g}x"


def signed(value):
    """A difference of two counts."""
    return ("+" if value > 0 else "") + number(value)


def millions(value):
    return f"{value / 1e6:,.2f} M"


def percent(value, places=1):
    return f"{value:.{places}f} %"


def points(value, places=2):
    return f"{round(value, places) + 0:+.{places}f}"


@dataclass
class Cell:
    text: str
    kind: str = "value"  # value, missing, ratio, range, published, good, bad or text
    note: int = 0  # of the table's notes, from 1; 0: none


@dataclass
class Row:
    label: str
    cells: list
    kind: str = "main"  # main, sub (derived from the row above) or group (a heading)


@dataclass
class Table:
    key: str
    title: str
    unit: str  # what the measured columns are counted in
    heads: list  # of the columns after the label
    groups: list  # (text, number of columns) above the heads
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    reading: list = field(default_factory=list)  # sentences above the table
    # columns of ours beside which something was published
    theirs: list = field(default_factory=list)
    command: str = ""  # what makes it

    def add(self, label, cells, kind="main"):
        """A row; where cells lack at its end they are empty, as nothing was published."""
        blank = Cell("", "published" if self.theirs else "value")
        self.rows.append(Row(label, cells + [blank] * (len(self.heads) - len(cells)), kind))

    def note(self, text):
        """The number of this note; the same text has the same number."""
        if text not in self.notes:
            self.notes.append(text)
        return self.notes.index(text) + 1

    def missing(self, why):
        return Cell(NOT_RUN, "missing", self.note(why))

    def group(self, label):
        self.rows.append(Row(label, [], "group"))

    def named(self, machine):
        """The table with the names for a reader in place of columns' keys."""
        for row in self.rows:
            row.label = (said if row.kind == "group" else said_of_label)(row.label, machine)
        self.heads = [said_of_label(text, machine) for text in self.heads]
        self.groups = [(said_of_label(text, machine), span) for text, span in self.groups]
        self.reading = [said(text, machine) for text in self.reading]
        self.notes = [said(text, machine) for text in self.notes]
        self.title = said(self.title, machine)
        return self

    def spans(self):
        """(text, number of columns, style) of each group: whether it is another's than the first,
        and somebody else's."""
        for at, (text, span) in enumerate(self.groups):
            yield text, span, "first " * (at > 0) + "theirs" * text.startswith("published")

    def styles(self):
        """Of each column: that of its group, which only the first of them begins."""
        return [
            style if place == 0 else style.removeprefix("first ")
            for _, span, style in self.spans()
            for place in range(span)
        ]


@dataclass
class OnPage:
    """A table or a text that the page has, and the console has not."""

    what: object


@dataclass
class Drawn:
    """A figure, for the page alone. `draw` makes of a prefix for its key a plots.Figure, or None
    where its data is missing."""

    draw: Callable


class Machine:
    """The results of one machine, for asking."""

    def __init__(self, results):
        self.results = results
        self.environment = results["environment"]
        self.exact = self.environment["kind"] == "emulator"
        self.quick = results["tool"]["quick"]
        self.number = 0  # of the sets of one processor, where there are several
        self.by_cell = {}
        for entry in results["measurements"]:
            cell = (entry["column"], entry["experiment"], entry["item"])
            self.by_cell.setdefault(cell, {})[entry["metric"]] = entry
        self.sampled = {}
        self.repetitions = results.get("repetitions", [])
        self.skips = {
            (entry["column"], entry["experiment"], entry["item"]): entry["why"]
            for entry in results["skipped"]
        }

    def entry(self, column, experiment, item, metric):
        return self.by_cell.get((column, experiment, item), {}).get(metric)

    def value(self, column, experiment, item, metric):
        entry = self.entry(column, experiment, item, metric)
        return None if entry is None else entry["value"]

    def samples(self, column, experiment, item, metric, less=""):
        """samples.Samples of a measurement, less another item's of the same repetitions; None: it
        has none."""
        name = (column, experiment, item, metric, less)
        if name not in self.sampled:
            parts = [self.entry(column, experiment, one, metric) or {} for one in (item, less)]
            own, base = ({tuple(x[:2]): x[2] for x in one.get("samples", ())} for one in parts)
            values = [
                [*place, value - base.get(place, 0)]
                for place, value in own.items()
                if not less or place in base
            ]
            if values:
                from bench.samples import Samples  # scipy, which other results do not need
            self.sampled[name] = Samples(values) if values else None
        return self.sampled[name]

    def metrics(self, column, experiment, item):
        return self.by_cell.get((column, experiment, item), {})

    def items(self, experiment, column=None):
        """In the order of the results."""
        found = {}
        for there, name, item in self.by_cell:
            if name == experiment and column in (None, there):
                found[item] = True
        return list(found)

    def kvm(self, column):
        """What the results say of the KVM in a column: release and parameters; "": nothing."""
        said_of_all = values_of(self.environment["kvm"], ("kvm",))
        column_state = self.results["columns"].get(column, {})
        return said_of_all.get(column) or column_state.get("detail", "")

    def ran(self, experiment):
        return any(name == experiment for _, name, _ in self.by_cell)

    def why(self, column, experiment, item):
        """Why a cell is empty: its own reason, else its experiment's, else its column's."""
        if (column, experiment, item) in self.skips:
            return self.skips[(column, experiment, item)]
        others = {
            why
            for (there, name, _), why in self.skips.items()
            if (there, name) == (column, experiment)
        }
        if len(others) == 1 and not self.items(experiment, column):
            return others.pop()
        if not self.ran(experiment):
            return f"these results have no experiment {experiment}"
        status = self.results["columns"].get(column)
        if status is None:
            return f"these results have no column {column}: they are older than it"
        if status["status"] != "ok":
            return f"column {column}: {status['why']}"
        if not self.items(experiment, column):
            if self.results["tool"]["quick"] and column in PEERS:
                return f"column {column}: a quick run leaves experiment {experiment} out there"
            return f"column {column}: no experiment {experiment} in this run"
        return f"column {column}: no {experiment}/{item} in this run"

    @property
    def metric(self):
        """What an operation costs here: exact instructions in the emulator, time elsewhere."""
        return "instructions" if self.exact else "time"

    def unit(self):
        if self.exact:
            return "instructions (count)"
        return "cycles: median, minimum, 95th percentile"


def columns_of(values):
    """The columns of ours in a mapping, in the report's order."""
    return [column for column in COLUMNS if column in values]
