# SPDX-License-Identifier: BSD-2-Clause
# measurements.py: the table measurements.ini, and those of experiments, for Python: what is
# measured. columns.py has its columns.
import configparser
import glob
import os
import re
from typing import NamedTuple

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# These take such a name as it is: GRUB for ids and values, FAT by its long names (GRUB, Linux and
# mtools alike), the kernel's command line, shells.
NAME = re.compile(r"[a-z0-9_+-]+")


class Item(NamedTuple):
    """One item of an experiment."""

    experiment: str
    name: str
    tables: tuple
    label: str


class Alike(NamedTuple):
    """What the columns of one set must have in common, and whether those that differ in it are
    refused or only said."""

    refuse: bool
    words: str


class Experiment:
    """One experiment: its settings, as measurements.ini has them, and its own items (None: any)."""

    def __init__(self, name, settings, items):
        self.name, self.settings, self.items = name, settings, items

    def get(self, key, default=""):
        """The value of a setting."""
        return self.settings.get(key, default)

    @property
    def repeats(self):
        return self.get("repeats") != "no"


class Measurements:
    """All tables below a folder, by default this project's."""

    def __init__(self, top=TOP):
        self.sections = {}  # {section: {name: value}}
        for path in (
            os.path.join(top, "bench", "measurements.ini"),
            *sorted(glob.glob(os.path.join(top, "experiments", "*", "measurements.ini"))),
        ):
            self.read(path)
        self.experiments = {}
        for title, settings in self.sections.items():
            kind, _, section = title.partition(" ")
            if kind != "experiment":
                continue
            rows = self.sections.get(f"items {section}")
            self.experiments[section] = Experiment(
                section,
                settings,
                (
                    None
                    if rows is None
                    else [item(section, name, text or "-") for name, text in rows.items()]
                ),
            )

    def read(self, path):
        """Adds the rows of one file. ValueError: one that is not understood, or is there
        already."""
        parser = configparser.ConfigParser(
            delimiters="=", comment_prefixes=";", interpolation=None, allow_no_value=True
        )
        parser.optionxform = str
        try:
            with open(path, encoding="ascii") as source:
                parser.read_file(source)
        except configparser.Error as trouble:
            raise ValueError(" ".join(str(trouble).split())) from None
        for section in parser.sections():
            rows = self.sections.setdefault(section, {})
            for name, value in parser[section].items():
                if name in rows or not NAME.fullmatch(name):
                    raise ValueError(
                        f"{path}: [{section}]: found '{name}', wanted a new name of a to "
                        "z, 0 to 9, _, + and -"
                    )
                rows[name] = " ".join((value or "").split())

    def alike(self):
        """{key: Alike} of [alike]. ValueError: a row that is not understood."""
        found = {}
        for key, text in self.sections.get("alike", {}).items():
            action, _, words = text.partition(" ")
            if action not in ("refuse", "say") or not words:
                raise ValueError(
                    f"measurements.ini: [alike]: found '{key} = {text}', wanted refuse or say, "
                    "and words"
                )
            found[key] = Alike(action == "refuse", words)
        return found

    def items(self, experiment):
        """The items that each boot of it brings; None: any."""
        found = self.experiments[experiment]
        return self.items(found.get("of")) if found.get("of") else found.items

    def names(self, experiment):
        """The names of these; None: any."""
        found = self.items(experiment)
        return None if found is None else tuple(each.name for each in found)

    def items_in(self, table, experiment=None):
        """The items, of this experiment or of any, that are in a table."""
        return [
            each
            for found in self.experiments.values()
            for each in found.items or ()
            if table in each.tables and experiment in (None, found.name)
        ]

    def of_program(self, program):
        """The experiments that this program measures (kernel, linux)."""
        return [found for found in self.experiments.values() if found.get("program") == program]


def item(experiment, name, text):
    """A row of [items]."""
    tables, _, label = text.partition(" ")
    return Item(experiment, name, tuple(tables.split(",")) if tables != "-" else (), label)


ALL = Measurements()
EXPERIMENTS = tuple(ALL.experiments)
ALIKE = ALL.alike()
METRICS = {unit: tuple(names.split()) for unit, names in ALL.sections["metrics"].items()}
# As in every measurement: PMUvisor's options, and words of every Linux.
OPTIONS = dict(word.split("=", 1) for word in ALL.sections["measured"]["pmuvisor"].split())
LINUX = ALL.sections["measured"]["linux"]
