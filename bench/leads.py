# SPDX-License-Identifier: BSD-2-Clause
# leads.py: the first screen of the report: three questions, each with a picture, a sentence and the
# command that measures it. Every number is of the results or of published.py.
from collections.abc import Callable
from dataclasses import dataclass

import plots
import published
from cells import number, percent, ratio
from formulas import LAST, PMIS, extra, extra_in_print, profile_overhead
from results import COLUMNS


@dataclass
class Lead:
    key: str
    title: str
    values: dict  # of the columns that ran
    text: Callable  # how a value looks
    sentence: str
    command: str

    def draw(self, prefix, alone=False):
        """A plots.Figure; None where nothing was measured. `alone`: as a file of its own."""
        return plots.bars_figure(prefix + self.key, self.title, self.values, self.text, alone)


def ran(ask):
    found = {name: ask(name) for name in COLUMNS}
    return {name: value for name, value in found.items() if value is not None}


def beside(values):
    """Each column's figure as times native's."""
    return ", ".join(
        f"{name} {ratio(value, values['native'])}"
        for name, value in values.items()
        if name != "native"
    )


def pmi(machine):
    unit = "instructions" if machine.exact else "ns"

    def of(name):
        value = extra(machine, name, "a1", LAST)
        return None if value is None else value / PMIS

    values, theirs = ran(of), extra_in_print(LAST)
    sentence = (
        ""
        if "native" not in values
        else (
            f"A PMI that Linux handles takes {number(values['native'])} {unit} natively. As "
            f"multiples of native: {beside(values)}. "
            "The thesis, as multiples of native, in time: "
            + ", ".join(
                f"{name} {ratio(value, theirs['native'])}"
                for name, value in theirs.items()
                if name != "native"
            )
            + "."
        )
    )
    return Lead(
        "pmi",
        f"One PMI of program A.1 under Linux ({unit})",
        values,
        number,
        sentence,
        "make bench ONLY=a1",
    )


def switch(machine):
    unit = "instructions" if machine.exact else "ns"
    metric = "instructions" if machine.exact else "time"
    values = ran(lambda name: machine.value(name, "context_switch", "counted", metric))
    sentence = (
        ""
        if "native" not in values
        else (
            f"Natively, a switch between two processes that count takes {number(values['native'])} "
            f"{unit} more than a "
            "switch between two processes that do not count. This difference as multiples of "
            f"native: {beside(values)}."
        )
    )
    return Lead(
        "switch",
        f"Four counters at a switch of processes ({unit})",
        values,
        number,
        sentence,
        "make bench ONLY=a1",
    )


def record(machine):
    values = ran(lambda name: profile_overhead(machine, name))
    theirs = published.TABLE_4_5_OVERHEAD
    sentence = (
        ""
        if "native" not in values
        else (
            "perf record adds: "
            + ", ".join(f"{percent(value, 2)} {name}" for name, value in values.items())
            + f". The thesis, in time: {theirs['native']} % bare, {theirs['kvm']} % KVM, "
            f"{theirs['msr+nmi']} % passed "
            "through."
        )
    )
    return Lead(
        "record",
        "What perf record adds (%)",
        values,
        lambda value: percent(value, 2),
        sentence,
        "make bench ONLY=profile",
    )


def leads(machine):
    return [pmi(machine), switch(machine), record(machine)]
