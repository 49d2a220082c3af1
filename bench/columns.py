# SPDX-License-Identifier: BSD-2-Clause
# columns.py: the columns of measurements.ini, their names for a reader, their parts, and their
# other configurations.
import re
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

    @property
    def head(self):
        """A column's name for a reader, without a release."""
        return self.title.partition(": ")[0]

    @property
    def words(self):
        """What the column is, in words."""
        return self.title.partition(": ")[2]


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


RELEASE = re.compile(r"\bLinux (\d+\.\d+)")


def head(name, machine):
    """The column's name for a reader of this machine's report. A KVM has the release of its Linux,
    if the results have it."""
    found = RELEASE.search(machine.kvm(name)) if is_kvm(name) else None
    mediated = ", mediated vPMU" * bool(option(name, "mediated"))
    return f"KVM, Linux {found[1]}{mediated}" if found else COLUMNS[name].head


# Keys that are a column's wherever they stand; the others are words of other things as well, unless
# they follow `column`. An option's value, a part of a path or of code is no column.
PLAIN = "|".join(re.escape(name) for name in NAMES if re.search("[+-]", name))
KEYS = re.compile(
    rf"(?<![\w=/`+-])(?:column ({'|'.join(map(re.escape, NAMES))})|({PLAIN}))(?![\w=`+-])"
)


def said(text, machine):
    """A text with the names for a reader in place of columns' keys."""
    return KEYS.sub(lambda found: head(found[1] or found[2], machine), text)


def said_of_label(text, machine):
    """The same of a table's head or label, whose parts between commas and colons may be keys."""
    parts = re.split(r"(, |: )", text)
    return said("".join(head(one, machine) if one in COLUMNS else one for one in parts), machine)
