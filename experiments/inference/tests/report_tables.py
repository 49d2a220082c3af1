# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import Cell, Table
from experiments.inference.analysis import inference_picture
from experiments.inference.tests import test_inference

TITLE = "What a host can tell of its guest, and for how much"
# Of the page's columns (inference_picture.HEADS): all of them are wider than a report.
SHOWN = (2, 3, 5, 7, 9)


def table(answer):
    heads = [inference_picture.HEADS[place] for place in SHOWN]
    made = Table(
        "answer-inference",
        TITLE,
        "count",
        heads,
        [("emulator; of two boots", len(heads))],
        reading=[
            "Who ran, against the guest's own scheduler. Exits and root instructions are what "
            "looking adds, "
            "for each switch of processes. What PT costs is in bytes."
        ],
    )
    for name, rows in inference_picture.hosts(answer):
        texts = [name, *inference_picture.cells(answer, rows)]
        made.add(name, [Cell(texts[place]) for place in SHOWN])
    return made


def of_answer(lab, _machine):
    return table(test_inference.answer(lab))


def kept_answer():
    return table(inference_picture.read())
