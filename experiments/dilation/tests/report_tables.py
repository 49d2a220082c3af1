# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from experiments.dilation.analysis import dilation_picture, dilation_table
from experiments.dilation.tests import dilation_boot


def of_answer(lab, machine):
    rounds = dilation_boot.ROUNDS_QUICK if machine.quick else dilation_boot.ROUNDS
    return dilation_table.table(dilation_boot.answer(lab, rounds))


def kept_answer():
    return dilation_table.table(dilation_picture.kept())
