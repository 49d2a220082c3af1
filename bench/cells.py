# SPDX-License-Identifier: BSD-2-Clause
# cells.py: what a table of the report is made of, and how numbers look in it. Both renderings, text
# and HTML, come from these; touches nothing.
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.columns import PEERS, said, said_of_label
from bench.results import COLUMNS, values_of

NOT_RUN = "not run"
NONE = "-"
NS_PER_US = 1000
ENOUGH = 2  # decimals that show most values
MOST = 4  # decimals that a value has for others of its row


def small_places(size):
    """The decimals that show two digits of a value below 1."""
    return 1 - math.floor(math.log10(size))


def places(value):
    """The decimals of a count or of a quotient of counts: as exact as is readable."""
    size = abs(value)
    if size >= 1000 or abs(value - round(value)) < 1e-9 * max(1, size):
        return 0
    if size >= 100:
        return int(round(size, 1) != round(size))
    return ENOUGH if size >= 0.1 else small_places(size)


def ratio_places(times):
    """The same of a ratio: one that is not 1 does not look like 1."""
    size = abs(times)
    if times in (0, 1):
        return 0
    if round(size, ENOUGH) == 1:
        return MOST
    return small_places(size) if size < 0.1 else ENOUGH - (size >= 10) - (size >= 100)


def alike(value, others, own):
    """A value as text with the decimals of its row, whose `others` these are. own(value): the
    decimals that it needs itself. Only 0 has none, and no other value is rounded to 0."""
    wanted = max(own(each) for each in (value, *others))
    if others and round(value, MOST):
        wanted = min(wanted, MOST)
    return f"{value:,.{wanted}f}" if value else "0"


def number(value, others=()):
    """A count or a quotient of counts."""
    return alike(value, others, places)


def ratios(values, base):
    """How many times base each is; NONE where base is 0 or either is not known."""
    times = [None if value is None or base in (None, 0) else value / base for value in values]
    known = [each for each in times if each is not None]
    return [NONE if each is None else f"{alike(each, known, ratio_places)}x" for each in times]


def ratio(value, base):
    """The same of one that stands alone, in a sentence."""
    return (
        NONE if value is None or base in (None, 0) else f"{alike(value / base, (), ratio_places)}x"
    )


def duration(nanoseconds, others=()):
    """Of one row all in s or all in us, so that nobody has to convert."""
    row = (nanoseconds, *others)
    size, unit = (1e9, "s") if max(map(abs, row)) >= 1e9 else (NS_PER_US, "us")
    return f"{number(nanoseconds / size, [each / size for each in others])} {unit}"


def in_us(nanoseconds, others=()):
    """The same where the table's head has the unit."""
    return number(nanoseconds / NS_PER_US, [each / NS_PER_US for each in others])


def quoted(figure):
    """A published figure with its own decimals."""
    digits, point, rest = re.fullmatch(r"(\d*)(\.?)(.*)", str(figure)).groups()
    return f"{int(digits):,}{point}{rest}" if digits else str(figure)


def quoted_in_us(figure):
    """A published time, which is in ms unless it says its unit: as many digits, and no unit."""
    digits, _, unit = str(figure).partition(" ")
    places_in_us = len(digits.partition(".")[2]) - (0 if unit == "us" else 3)
    return f"{float(digits) * (1 if unit == 'us' else 1000):,.{max(places_in_us, 0)}f}"


def signed(value):
    """A difference of two counts."""
    return ("+" if value > 0 else "") + number(value)


def millions(value, _others=()):
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

    @property
    def beside(self):
        """{place of a published column: the place of ours beside which a page has it}"""
        first = self.groups[0][1] if self.groups else 0
        return {
            first + at: COLUMNS.index(name)
            for at, name in enumerate(self.theirs)
            if name in COLUMNS
        }

    def whys(self):
        """{place: reasons} of the columns in which nothing was measured."""
        rows, found = [row.cells for row in self.rows if row.kind != "group"], {}
        for at in range(len(self.heads)):
            cells = [row[at] for row in rows if at < len(row)]
            numbers = {cell.note for cell in cells if cell.kind == "missing" and cell.note}
            others = {cell.text for cell in cells if cell.kind != "missing"}
            if numbers and others <= {NONE, ""}:
                found[at] = [self.notes[number - 1] for number in sorted(numbers)]
        return found

    def not_run(self):
        """Why nothing of it was measured, "" where nobody knows; None: something was."""
        whys, ours = self.whys(), len(self.heads) - len(self.beside)
        if not self.rows:
            return None if self.reading else ""
        if len(whys) < ours:
            return None
        return "; ".join(dict.fromkeys(why for each in whys.values() for why in each))

    def shown(self):
        """The places of the columns in which something was measured or published."""
        whys = self.whys()
        return [at for at in range(len(self.heads)) if at not in whys]

    def in_pairs(self):
        """The same, each published column after the one that it is compared with."""
        beside = self.beside
        return sorted(self.shown(), key=lambda at: (beside.get(at, at), at))

    def absent(self):
        """Sentences on the columns that are not shown."""
        found = {}
        for at, why in self.whys().items():
            found.setdefault("; ".join(why), []).append(self.heads[at])
        return [f"Not run: {'; '.join(heads)} ({why})." for why, heads in found.items()]

    def marks(self, row, places):
        """{place: note}: of cells with the same note the first has its number."""
        first = {}
        for at in places:
            if row.cells[at].note:
                first.setdefault(row.cells[at].note, at)
        return {at: note for note, at in first.items()}

    def noted(self):
        """(number, text) of the notes of columns that are shown."""
        cells = [row.cells[at] for row in self.rows if row.cells for at in self.shown()]
        used = {cell.note for cell in cells}
        return [(at, text) for at, text in enumerate(self.notes, 1) if at in used]

    def spans(self):
        """(text, number of shown columns, style) of each group: whether it is another's than the
        first, and somebody else's."""
        shown, end = self.shown(), 0
        for at, (text, span) in enumerate(self.groups):
            found = sum(end <= place < end + span for place in shown)
            end += span
            if found:
                first = at > 0 and not self.beside
                yield text, found, "first " * first + "theirs" * text.startswith("published")

    def styles(self):
        """{place: style} of each column that is shown: that of its group, which only the first of
        them begins."""
        found = [
            style if place == 0 else style.removeprefix("first ")
            for _, span, style in self.spans()
            for place in range(span)
        ]
        return dict(zip(self.shown(), found))


@dataclass
class OnPage:
    """A table or a text that the page has, and the console has not."""

    what: object


@dataclass
class Drawn:
    """A figure, for the page alone. `draw` makes of a prefix for its key a plots.Figure, or None
    where its data is missing. What is said of it is for the console, too."""

    draw: Callable
    text: str = ""


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
            return "these results are older than this column"
        if status["status"] != "ok":
            return status["why"]
        if not self.items(experiment, column):
            if self.results["tool"]["quick"] and column in PEERS:
                return f"a quick run leaves experiment {experiment} out there"
            return f"no experiment {experiment} in this run"
        return f"no {experiment}/{item} in this run"

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
