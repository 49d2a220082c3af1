# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import accuracy_tables
import kept
import perfctr_published
import perfctr_tables
from accuracy_figure import accuracy_figure
from added import Drawn, OnPage, Section


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


def paper_parts(machine):
    return [
        OnPage(perfctr_sentence()),
        *perfctr_tables.all_tables(machine),
        *kept.parts("counters")(machine),
    ]


def sentence(machine):
    of_path = accuracy_tables.worst(machine, accuracy_tables.OF_THE_PATH)
    of_caches = accuracy_tables.worst(machine, ("llc_references", "llc_misses"))

    def words(found):
        return ", ".join(
            f"{name} {accuracy_tables.percent_text(value)}" for name, value in found.items()
        )

    out = [
        f"{what}: {words(found)}"
        for what, found in (
            ("cycles, instructions and branches", of_path),
            ("references and misses of the last cache", of_caches),
        )
        if found
    ]
    return (
        "Largest error of a count relative to native. "
        + " ".join(text[0].upper() + text[1:] + "." for text in out)
        if out
        else ""
    )


SECTIONS = (
    Section(
        "accuracy-of",
        "Accuracy",
        "validity",
        parts,
        lambda machine: [("Accuracy", sentence(machine))],
    ),
    Section(
        "threads-of",
        "Counters of threads and programs, and tools",
        "validity",
        paper_parts,
        sources=(perfctr_published.PAPER,),
        short="Threads, programs, tools",
    ),
)
