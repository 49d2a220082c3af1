# SPDX-License-Identifier: BSD-2-Clause
# columns.py: the columns of measurements.ini, their parts, and their other configurations.
from typing import NamedTuple

from bench import measurements

PART = "abl_"
PEER = "peer"
PLACES = ("machine", "kvm", "pmuvisor", PEER)
IMAGE = "image"


class Row(NamedTuple):
    """One column, one part of a column, or one configuration of it."""

    name: str
    on: str
    options: str  # as pmuvisor.cfg has them, without those of the column that a part belongs to
    title: str
    efi: str = ""  # below build/, of what needs another image than the usual one

    @property
    def variant(self):
        return self.name.removeprefix(PART)


def rows_of(section, places, table):
    """{name: Row} of a section whose rows are on one of these places. ValueError: a row that is
    not."""
    found = {}
    for name, text in table.sections.get(section, {}).items():
        words = text.split(maxsplit=2)
        if len(words) != 3 or words[0] not in places:
            raise ValueError(
                f"measurements.ini: [{section}]: found '{name} = {text}', wanted one of "
                f"{', '.join(places)}, options, title"
            )
        options = [] if words[1] == "-" else words[1].split("/")
        images = [word.partition("=")[2] for word in options if word.startswith(f"{IMAGE}=")]
        found[name] = Row(
            name,
            words[0],
            " ".join(word for word in options if not word.startswith(f"{IMAGE}=")),
            words[2],
            *(f"mutants/{image}.efi" for image in images),
        )
    return found


def read(table):
    """(columns, parts, configurations) of a table: three dictionaries of rows by their names."""
    there = rows_of("columns", PLACES, table)
    return there, rows_of("parts", there, table), rows_of("configurations", there, table)


COLUMNS, ALL_PARTS, CONFIGS = read(measurements.ALL)
VARIANTS = {part.variant: part for part in ALL_PARTS.values()}
# Those that the boot menu and bare machines have as well: an image of its own is the emulator's.
PARTS = {name: part for name, part in ALL_PARTS.items() if not part.efi}
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
