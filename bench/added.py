# SPDX-License-Identifier: BSD-2-Clause
# added.py: what experiments bring to the measurements. bench/ names none of them: each that is there
# has its part in experiments/*/analysis/, in files of these names:
#   bench_boots.py    BOOTS: further boots of Linux, as LINUX_BOOTS of plan.py; NOT_QUICK: those of
#                     them that a quick run leaves out under peers
#   bench_tables.py   SECTIONS: sections of the report
import dataclasses
import functools
import glob
import importlib.util
import os
import sys
from collections.abc import Callable

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclasses.dataclass
class OnPage:
    """A table that the page has, and the console has not."""
    table: object


@dataclasses.dataclass
class Drawn:
    """A figure's place, where it was drawn."""
    place: str


@dataclasses.dataclass
class Section:
    """One section of the report."""
    key: str
    title: str
    before: str        # the key of the section that follows it on the page
    # machine -> tables, and for the page alone texts, OnPage and Drawn, in their order
    parts: Callable
    # machine, prefix of the figures' keys -> {place: figure}
    figures: Callable = lambda machine, prefix: {}
    # machine -> [(name, sentence)] for the top of the page
    sentences: Callable = lambda machine: []
    sources: tuple = ()  # as published.py has them: who published what the section quotes


@functools.lru_cache(None)
def modules(name):
    """The files of this name, in the order of the experiments' names."""
    found = []
    for path in sorted(glob.glob(os.path.join(TOP, "experiments", "*", "analysis", f"{name}.py"))):
        folder = os.path.dirname(path)
        if folder not in sys.path:
            sys.path.append(folder)
        experiment = os.path.basename(os.path.dirname(folder))
        spec = importlib.util.spec_from_file_location(f"{experiment}_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(module)
    return found


def boots():
    return {key: boot for module in modules("bench_boots") for key, boot in module.BOOTS.items()}


def not_quick():
    return tuple(name for module in modules("bench_boots") for name in module.NOT_QUICK)


def sections(before=None):
    """All of them, or those before the section of this key."""
    return [section for module in modules("bench_tables") for section in module.SECTIONS
            if before in (None, section.before)]
