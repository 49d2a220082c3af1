# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: the tables of this experiment's tables.toml that are made of the boots of its
# tests (bench/added.py).
from experiments.profile.analysis import profile_tables
from experiments.profile.tests import sampling_answer
from experiments.shared.analysis import answers


def answer(lab, machine):
    return sampling_answer.answer(
        lab, sampling_answer.QUICK if machine.quick else sampling_answer.ALL
    )


def of_answer(lab, machine):
    return profile_tables.of_distances(answer(lab, machine))


def kept_answer():
    return profile_tables.of_distances(answers.kept("profile"))


def of_answer_interrupts(lab, machine):
    return profile_tables.of_interrupts(answer(lab, machine))


def kept_answer_interrupts():
    return profile_tables.of_interrupts(answers.kept("profile"))
