# SPDX-License-Identifier: BSD-2-Clause
# counted_kept.py: keeps the answer in results/answers/counted.json, and makes of that the picture
# and the page's table.
import dataclasses
import json

from bench import rowfile
from experiments.counted.analysis import counted, counted_picture, counted_table
from experiments.shared.analysis import answers
from testbed.machine import path

FILE = answers.file_of("counted")
PICTURE = path("experiments", "counted", "counted.svg")
PAGE = path("experiments", "counted", "README.md")


def columns(file=FILE):
    with open(file, encoding="ascii") as source:
        kept = json.load(source)["columns"]
    return {
        name: {row: counted.Count(**count) for row, count in column.items()}
        for name, column in kept.items()
    }


def hosts(file=FILE):
    with open(file, encoding="ascii") as source:
        return json.load(source)["environment"]["hosts"]


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
    rowfile.write({"environment": about, "columns": rows}, FILE)
    draw()


def draw():
    """The picture and the page's table, of the file alone."""
    cells = counted.cells(columns())
    with open(PICTURE, "w", encoding="utf-8") as out:
        out.write(counted_picture.picture(cells))
    with open(PAGE, encoding="utf-8") as source:
        page = source.read()
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(counted_table.put(page, cells))


if __name__ == "__main__":
    draw()
