# SPDX-License-Identifier: BSD-2-Clause
# added.py: the sections of the report, and what experiments bring to it, from tables.toml and those
# of experiments. bench/ names no experiment. What one adds by functions is in the Python files of
# its analysis/ and of its tests/.
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from bench import columns, figures, kept, tables
from bench.cells import OnPage, Table


@dataclass
class Measured:
    """A table of an experiment that is made of boots."""

    key: str
    title: str
    command: str  # what shows it by itself
    # (testbed/lab.py's Lab, cells.Machine of the measurements) -> cells.Table; AssertionError: why
    # not
    table: Callable
    quick: bool = True  # whether a quick run has it that was not asked for it by name
    experiment: str = ""  # its folder
    # -> the same of what results/answers/ has, without a boot; None: it keeps nothing there
    kept: Callable | None = None


def filled(key, what, function, lab, machine):
    """The table of an entry that has its heads, with the rows and sentences of its function."""
    table = tables.with_heads(key, what["table"], what["unit"], what)
    table.reading += what.get("reading", [])
    function(table, lab, machine)
    wide = [row.label for row in table.rows if len(row.cells) > len(table.heads)]
    assert not wide, f"found more cells than heads in the row {wide[0]}"
    return table


def measured():
    """All tables that are made of boots: of each entry [made.KEY] report_tables.py has a function
    of_NAME, where NAME is the key without the experiment's name, and perhaps kept_NAME. Where the
    entry has heads, of_NAME adds the rows, else it makes the table. Those of long tests are not
    quick."""
    out = []
    for key, what in tables.ENTRIES["made"].items():
        experiment = what["folder"]
        module = importlib.import_module(f"experiments.{experiment}.tests.report_tables")
        name = "_".join(word for word in key.split("-") if word != experiment)
        command, function = what["command"], getattr(module, f"of_{name}")
        if "heads" in what:
            function = functools.partial(filled, key, what, function)
        out.append(
            Measured(
                key,
                what["title"],
                command,
                function,
                what.get("quick", not command.startswith("FULL=1 ")),
                experiment,
                getattr(module, f"kept_{name}", None),
            )
        )
    return out


def attribute(name):
    """PACKAGE.MODULE.NAME of an experiment, or NAME of figures.py."""
    return tables.of_experiment(name) if "." in name else getattr(figures, name)


def named(part, machine):
    """A part with the names for a reader in place of columns' keys."""
    if isinstance(part, OnPage):
        return OnPage(named(part.what, machine))
    if isinstance(part, Table):
        return part.named(machine)
    return columns.said(part, machine) if isinstance(part, str) else part


class Section:
    """One section of the report."""

    def __init__(self, key, what):
        self.key, self.what, self.title = key, what, what["title"]
        self.short = what.get("short", self.title)

    def parts(self, machine):
        """Tables, texts, facts, OnPage and Drawn, in their order. A reader sees no column's key."""
        return [named(part, machine) for part in self.parts_with_keys(machine)]

    def parts_with_keys(self, machine):
        out = []
        for part in tables.picked(self.what.get("parts", ["=kept"]), machine.exact):
            if isinstance(part, dict):
                out.append(OnPage(part["page"]))
            elif part == "=kept":
                out += kept.parts(self.what["folder"], machine)
            elif part == "=others":
                out += [tables.make(machine, key) for key in others(machine)]
            elif part.startswith("="):
                name, *words = part.removeprefix("=").split()
                out += attribute(name)(machine, *words)
            elif " " in part:
                out.append(part)
            elif tables.has_results(machine, part):
                out.append(tables.make(machine, part))
        return out

    def sentences(self, machine):
        """[(name, sentence)] for the top of the page."""
        name = self.what.get("sentences")
        return attribute(name.removeprefix("="))(machine) if name else []

    @property
    def sources(self):
        """Who published what the section quotes, as published.py has them."""
        return [attribute(name) for name in self.what.get("sources", ())]


def others(machine):
    """The tables of experiments that no section names."""
    named = str([what.get("parts") for what in tables.ENTRIES["section"].values()])
    for key, what in tables.ENTRIES["table"].items():
        own = what["folder"] == "bench" or f"'{key}'" in named
        if not own and not (machine.exact and what.get("metal")):
            yield key


def sections():
    """All of them, in the order of the page: an experiment's stands before one of the report's."""
    found = [Section(key, what) for key, what in tables.ENTRIES["section"].items()]
    return [
        one
        for own in found
        if "before" not in own.what
        for one in [*(each for each in found if each.what.get("before") == own.key), own]
    ]
