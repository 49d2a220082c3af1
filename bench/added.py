# SPDX-License-Identifier: BSD-2-Clause
# added.py: what experiments bring to the measurements. bench/ names none of them: each that is
# there has its part in experiments/*/analysis/, in files of these names:
#   bench_tables.py   SECTIONS: sections of the report
# and in experiments/*/tests/
#   report_tables.py  MEASURED: tables that are made of boots, and kept in the results (kept.py)
# What is measured of them is a measurements.ini in the experiment's folder (measurements.py).
import functools
import glob
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass
class OnPage:
    """A table or a text that the page has, and the console has not."""

    what: object
    style: str = ""


@dataclass
class Drawn:
    """A figure, for the page alone. `draw` makes of a prefix for its key a plots.Figure, or None
    where its data is missing."""

    draw: Callable


@dataclass
class Section:
    """One section of the report."""

    key: str
    title: str
    before: str  # the key of the section that follows it on the page; of the report's own: ""
    # machine -> tables, texts, facts, OnPage and Drawn, in their order
    parts: Callable
    # machine -> [(name, sentence)] for the top of the page
    sentences: Callable = lambda machine: []
    sources: tuple = ()  # as published.py has them: who published what the section quotes
    short: str = ""  # its name in the contents; default: its title


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
    experiment: str = ""  # its folder; filled in here
    # -> the same of what results/answers/ has, without a boot; None: it keeps nothing there
    kept: Callable | None = None


# What the files of experiments import beside each other.
NEEDED = ("experiments/*/tests", "experiments/*/analysis", "tests/e2e", "testbed")


@functools.lru_cache(None)
def modules(name, part="analysis"):
    """The files of this name in that folder of each experiment, in the order of the experiments'
    names."""
    for pattern in NEEDED:
        sys.path += [
            folder
            for folder in sorted(glob.glob(os.path.join(TOP, pattern)))
            if folder not in sys.path
        ]
    found = []
    for path in sorted(glob.glob(os.path.join(TOP, "experiments", "*", part, f"{name}.py"))):
        folder = os.path.dirname(path)
        experiment = os.path.basename(os.path.dirname(folder))
        spec = importlib.util.spec_from_file_location(f"{experiment}_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(module)
    return found


def sections(before=None):
    """All of them, or those before the section of this key."""
    return [
        section
        for module in modules("bench_tables")
        for section in module.SECTIONS
        if before in (None, section.before)
    ]


def measured():
    """All tables that are made of boots."""
    return [
        replace(one, experiment=os.path.basename(os.path.dirname(os.path.dirname(module.__file__))))
        for module in modules("report_tables", "tests")
        for one in module.MEASURED
    ]
