# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from experiments.demand.analysis import demand_picture, demand_tables
from experiments.demand.tests import demand_boots


def of_answer(lab, _machine):
    return demand_tables.answer(demand_boots.all_measured(lab))


def kept_answer():
    return demand_tables.answer(demand_picture.read()["cases"])
