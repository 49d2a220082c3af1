# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
import counted
import counted_boots
import counted_kept
import counted_table


def of_answer(lab, _machine):
    columns, _ = counted_boots.all_counts(lab)
    return counted_table.table(counted.cells(columns))


def kept_answer():
    return counted_table.table(counted.cells(counted_kept.columns()))
