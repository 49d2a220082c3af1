# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from bench.cells import Cell, Table, number
from experiments.memory.analysis import memory, memory_cost, memory_log, memory_truth
from experiments.memory.tests import test_memory_cost as cost
from experiments.memory.tests import test_memory_truth as truth_test


def costs(lab):
    return {column: cost.jobs_of(lab, column)[0] for column in memory_cost.COLUMNS}


def of_write(lab, _machine):
    return memory_cost.cost_table(costs(lab), cost.reads_of(lab))


def of_curve(lab, _machine):
    jobs = costs(lab)
    return memory_cost.curve_table({column: jobs[column] for column in memory_cost.CURVES}, None)


def of_paper(_lab, _machine):
    return Table(
        "memory-paper",
        "Section 5.4: what the paper says, and what its own figures give",
        "",
        [],
        [],
        reading=[
            f"The paper: {text}. Its figures give: {found}."
            for text, found in cost.memory_paper.findings()
        ],
    )


def of_truth(table, lab, _machine):
    for text, mutant, ring in (("memtrace=writes", None, 32), ("naive", "naive_memory", 128)):
        rings, log = truth_test.boot(lab, 1, "writes", 1, ring, mutant=mutant)
        found = memory_truth.compare(memory.read(rings), memory_log.Log(log))
        table.add(
            text,
            [
                Cell(number(value))
                for value in (
                    found.units,
                    found.same,
                    sum(found.missed.values()),
                    sum(found.invented.values()),
                    sum(found.wrong.values()) + found.order,
                )
            ],
        )
