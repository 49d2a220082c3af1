# SPDX-License-Identifier: BSD-2-Clause
# tools_table.py: experiments/counters/guest/tools/tools.ini for Python: the tools that people use,
# and in which columns they are run. Touches nothing. As a program it prints the file /tool/cases
# for the guest, of one row and those in its boot: a case a line, its row, its name and the command.
# Usage: python3 -m experiments.counters.tests.tools_table ROW
import configparser
import functools
import os
import re
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "guest", "tools", "tools.ini")
KINDS = ("case", "run", "differs", "leave", "expect")
PLAIN = (
    "title version image words knobs memory cpus limit also quick what of only without takes "
    "leaves with columns fewer"
).split()
OWN = ("also", "quick", "leaves", "columns", "fewer")  # of no row that is `of` this one
BOOT = ("image", "words", "knobs", "memory", "cpus", "limit")  # of the row whose boot it is
MEMORY, LIMIT = 1024, 60_000  # MiB; millions of instructions


class Rule(NamedTuple):
    """What may differ. The reason is for readers of the table."""

    name: str
    expression: re.Pattern


class Tool:
    """One row."""

    def __init__(self, name, settings):
        self.name, self.settings = name, {}
        self.cases, self.differs, self.left_out, self.expect = {}, [], [], {}
        for key, text in settings.items():
            kind, _, what = key.partition(" ")
            text = " ".join(text.split()) if kind not in ("differs", "leave") else text.strip()
            if not what and kind in PLAIN:
                self.settings[kind] = text
            elif what and kind in KINDS:
                self.add(kind, what, text)
            else:
                raise ValueError(
                    f"tools.ini: [tool {name}]: found '{key}', wanted one of "
                    f"{', '.join(PLAIN)}, or of {', '.join(KINDS)} with more words"
                )

    def add(self, kind, what, text):
        if kind == "run":
            self.cases.update({name: what.format(name) for name in text.split()})
        elif kind in ("case", "expect"):
            (self.cases if kind == "case" else self.expect)[what] = text
        else:
            expression, *reason = text.splitlines()
            if not reason:
                raise ValueError(
                    f"tools.ini: [tool {self.name}]: {kind} {what}: wanted an expression, "
                    "and its reason in the lines after it"
                )
            rules = self.differs if kind == "differs" else self.left_out
            rules.append(Rule(what, re.compile(expression)))

    def get(self, key, default=""):
        return self.settings.get(key, default)

    def number(self, key, default):
        return int(self.settings.get(key, default))

    def like(self, other):
        """Takes from another row what is not its own: of = ROW."""
        self.settings = {
            **{key: text for key, text in other.settings.items() if key not in OWN},
            **self.settings,
        }
        only = self.words_of("only") or [
            name for name in other.cases if name not in self.words_of("without")
        ]
        self.cases = {
            **{name: other.cases[name] for name in only if name in other.cases},
            **self.cases,
        }
        self.differs, self.left_out = other.differs + self.differs, other.left_out + self.left_out

    def in_boot_of(self, other):
        """Its cases are run in another row's boot: with = ROW."""
        own = [key for key in BOOT if key in self.settings]
        if own:
            raise ValueError(
                f"tools.ini: [tool {self.name}]: found {own[0]}, wanted it in [tool {other.name}], "
                "whose boot it is"
            )
        self.settings.update({key: other.settings[key] for key in BOOT if key in other.settings})

    @property
    def host(self):
        """The row whose boot it is."""
        return self.get("with") or self.name

    @property
    def said_by(self):
        """The name that its image's job prints: of the row whose cases these are."""
        return self.get("of") or self.name

    def words_of(self, key):
        return self.get(key).split()


class Extra(NamedTuple):
    """A column that is another one of bench/measurements.ini with more options."""

    column: str
    options: str
    title: str


def parse(path=TABLE):
    """The sections, as configparser has them."""
    parser = configparser.ConfigParser(delimiters="=", comment_prefixes=";", interpolation=None)
    parser.optionxform = str
    with open(path, encoding="ascii") as source:
        parser.read_file(source)
    return parser


@functools.lru_cache(None)
def read(path=TABLE):
    """{name: Tool}, in the table's order."""
    parser = parse(path)
    found = {
        name: Tool(name, dict(parser[f"tool {name}"]))
        for name in (
            section.removeprefix("tool ") for section in parser.sections() if section != "columns"
        )
    }
    for tool in found.values():
        if tool.get("of"):
            tool.like(found[tool.get("of")])
        if tool.get("with"):
            tool.in_boot_of(found[tool.get("with")])
    return found


def in_boot(rows, host):
    """The rows that are run in that one's boot, itself among them, in the table's order."""
    return [tool for tool in rows.values() if tool.host == host]


def extras(path=TABLE):
    """{name: Extra}."""
    return {name: Extra(*text.split(maxsplit=2)) for name, text in parse(path)["columns"].items()}


if __name__ == "__main__":
    for row in in_boot(read(), sys.argv[1]):
        for case, command in row.cases.items() if not row.get("of") else ():
            print(row.name, case, command)
