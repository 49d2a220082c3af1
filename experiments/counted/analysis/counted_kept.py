# SPDX-License-Identifier: BSD-2-Clause
# counted_kept.py: keeps the answer in results/answers/counted.json, and makes of that the picture
# and the page's table.
import dataclasses

from bench import rowfile
from experiments.counted.analysis import counted, counted_picture, counted_table
from experiments.counted.analysis.counted_reasons import PAGE
from experiments.shared.analysis import answers
from testbed.machine import path

PICTURE = path("experiments", "counted", "counted.svg")


def columns():
    return {
        name: {row: counted.Count(**count) for row, count in column.items()}
        for name, column in answers.kept("counted")["columns"].items()
    }


def hosts():
    return answers.kept("counted")["environment"]["hosts"]


def write(found, others):
    """The file, the picture and the page's table, of boots; `others`: the hypervisors of columns
    that have another."""
    about = {
        "kind": "emulator",
        "processor": "Skylake-X model, one processor",
        "kernel": "the test kernel",
        "hosts": others,
        "commit": answers.commit(),
    }
    rows = {
        name: {row: dataclasses.asdict(count) for row, count in column.items()}
        for name, column in found.items()
    }
    kept = {"environment": about, "sources": answers.sources(), "columns": rows}
    rowfile.write(kept, answers.file_of("counted"))
    draw()


def draw():
    """The picture and the page's table, of the file alone."""
    cells = counted.cells(columns())
    with open(PICTURE, "w", encoding="utf-8") as out:
        out.write(counted_picture.picture(cells))
    answers.write_page(PAGE, counted_table.put, cells)


if __name__ == "__main__":
    draw()
