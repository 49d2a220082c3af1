# SPDX-License-Identifier: BSD-2-Clause
# accuracy_section.py: what this experiment's sections of the report have (its tables.toml).
from bench import leads
from bench.cells import Drawn, OnPage
from experiments.counters.analysis import accuracy_tables, perfctr_published
from experiments.counters.analysis.accuracy_figure import accuracy_figure


def perfctr_sentence():
    figures_in_print = "; ".join(
        f"main(), {event}: {', '.join(ratios)}" for event, ratios in perfctr_published.MAIN
    )
    return (
        f"Published for comparison: {perfctr_published.PAPER['source']} "
        f"({perfctr_published.PAPER['machine']}). {perfctr_published.PAPER['text']} "
        f"{figures_in_print}."
    )


def parts(machine):
    return [
        Drawn(
            lambda prefix: accuracy_figure(
                f"{prefix}errors",
                "Relative error of counts, by event",
                accuracy_tables.errors(machine),
            )
        ),
        accuracy_tables.short_table(machine),
        accuracy_tables.reads_table(machine),
        accuracy_tables.modes_table(machine),
        OnPage(accuracy_tables.long_table(machine)),
    ]


def paper(_machine):
    return [OnPage(perfctr_sentence())]


def sentences(machine):
    of_path = accuracy_tables.worst(machine, accuracy_tables.OF_THE_PATH)
    of_caches = accuracy_tables.worst(machine, ("llc_references", "llc_misses"))

    def words(found):
        return "; ".join(
            f"{accuracy_tables.percent_text(value)} {leads.under(name, machine)}"
            for name, value in found.items()
        )

    out = [
        f"{what}: {words(found)}"
        for what, found in (
            ("cycles, instructions and branches", of_path),
            ("references and misses of the last cache", of_caches),
        )
        if found
    ]
    text = "".join(f" {each[0].upper()}{each[1:]}." for each in out)
    return [("Accuracy", f"Largest error of a count relative to native.{text}" if out else "")]
