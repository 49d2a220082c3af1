# SPDX-License-Identifier: BSD-2-Clause
# columns.py: the table columns.txt for Python: the columns and the parts of columns, in its order; and
# after it those of experiments, which add configurations of a column.
import glob
import os
import re
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "columns.txt")
TABLES = (TABLE, *sorted(glob.glob(os.path.join(os.path.dirname(HERE), "experiments", "*",
                                                "columns.txt"))))
PART = "abl_"
CONFIG = "cfg_"
# These take such a name as it is: GRUB for ids and values, FAT by its long names (GRUB, Linux and
# mtools alike), the kernel's command line, shells.
NAME = re.compile(r"[a-z0-9_+-]+")
PEER = "peer"
PLACES = ("machine", "kvm", "pmuvisor", PEER)


class Row(NamedTuple):
    """One column, or one part of a column."""
    name: str
    on: str
    options: str  # as pmuvisor.cfg has them, without those of the column that a part belongs to
    title: str

    @property
    def variant(self):
        return self.name.removeprefix(PART).removeprefix(CONFIG)


def lines_of(tables):
    for name in tables:
        with open(name, encoding="ascii") as source:
            yield from ((name, number, line) for number, line in enumerate(source, 1))


def read(*tables):
    """(columns, parts, configurations): three dictionaries of rows by their names."""
    columns, parts, configs = {}, {}, {}
    for name, number, line in lines_of(tables or TABLES):
        words = line.split(maxsplit=3)
        if not words or line.startswith("#"):
            continue
        kind, known = (parts, columns) if words[0].startswith(PART) else \
            (configs, columns) if words[0].startswith(CONFIG) else (columns, PLACES)
        wanted = 4 if kind is columns else 3
        if len(words) != wanted or not NAME.fullmatch(words[0]) or words[0] in kind or \
                words[1] not in known:
            raise ValueError(f"{name}:{number}: found '{line.strip()}', wanted {wanted} "
                             f"fields: a new name of a to z, 0 to 9, _, + and -, one of "
                             f"{', '.join(known)}, ...")
        options = "" if words[2] == "-" else words[2].replace("/", " ")
        title = words[3].strip() if kind is columns else ""
        kind[words[0]] = Row(words[0], words[1], options, title)
    return columns, parts, configs


COLUMNS, PARTS, CONFIGS = read()
NAMES = tuple(COLUMNS)
PEERS = tuple(name for name in NAMES if COLUMNS[name].on == PEER)


def option(name, key):
    """The value of one of the column's options; empty: it has none of that name."""
    words = dict(word.split("=", 1) for word in COLUMNS[name].options.split())
    return words.get(key, "")


def is_kvm(name):
    """Whether KVM is below the kernel of this column."""
    return COLUMNS[name].on in ("kvm", PEER)


def is_pmuvisor(name):
    """Whether PMUvisor is below the kernel of this column."""
    return COLUMNS[name].on == "pmuvisor"
