# SPDX-License-Identifier: BSD-2-Clause
# outcomes.py: which tests have passed, and what they said. They are a function of the files of this
# tree, Debian's packages and the kernel: while these are the same, they pass again. But those that
# ask for what does not repeat, QEMU's machines, are run each time.
import json
import os
import platform

from testbed.machine import TOP, tree_files
from testbed.store import digest, key_of

PACKAGES = "/var/lib/dpkg/status"
# Of the environment: what says who calls, and from where.
CALLERS = (
    "_",
    "COLUMNS",
    "LINES",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MAKE_TERMERR",
    "MAKE_TERMOUT",
    "MFLAGS",
    "OLDPWD",
    "PWD",
    "PYTEST_CURRENT_TEST",
    "SHLVL",
    "TERM",
)
SAID = "said.json"


def tree():
    """The files of this tree but those that git ignores; none where git knows nothing of it."""
    return tree_files("--others", "--exclude-standard")


class Outcomes:
    """`said`: what each test that passed has said, by its pytest name."""

    def __init__(self, store, names):
        self.store, self.key, self.said, self.known = store, None, {}, 0
        if not names or not os.path.exists(PACKAGES):
            return
        self.key = key_of(
            [
                {name: digest(os.path.join(TOP, name)) for name in names},
                digest(PACKAGES),
                platform.release(),
                TOP,
                {name: value for name, value in os.environ.items() if name not in CALLERS},
            ]
        )
        found = store.find(self.key)
        if found:
            with open(os.path.join(found[1], SAID), encoding="utf-8") as source:
                self.said = json.load(source)
        self.known = len(self.said)

    def keep(self):
        """Those that have passed since, too. Not where the tree has changed meanwhile."""
        if (
            not self.key
            or len(self.said) == self.known
            or Outcomes(self.store, tree()).key != self.key
        ):
            return
        self.store.remove(os.path.join(self.store.folder, self.key))
        with self.store.making() as folder:
            with open(os.path.join(folder, SAID), "w", encoding="utf-8") as out:
                json.dump(self.said, out)
            self.store.keep(self.key, folder, {})
