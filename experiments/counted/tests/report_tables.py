# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from experiments.counted.analysis import counted, counted_kept, counted_table
from experiments.counted.tests import counted_boots


def of_answer(lab, _machine):
    columns, _ = counted_boots.all_counts(lab)
    return counted_table.table(counted.cells(columns))


def kept_answer():
    return counted_table.table(counted.cells(counted_kept.columns()))
