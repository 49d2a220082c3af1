# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of
# its tests.
from added import Measured

import answers
import profile_tables
import sampling_answer


def answer(lab, machine):
    return sampling_answer.answer(
        lab, sampling_answer.QUICK if machine.quick else sampling_answer.ALL
    )


COMMAND = "FULL=1 make e2e T=profile/"
MEASURED = (
    Measured(
        "answer-profile",
        profile_tables.TITLE,
        COMMAND,
        lambda lab, machine: profile_tables.of_distances(answer(lab, machine)),
        quick=False,
        kept=lambda: profile_tables.of_distances(answers.kept("profile")),
    ),
    Measured(
        "answer-profile-interrupts",
        profile_tables.INTERRUPTS_TITLE,
        COMMAND,
        lambda lab, machine: profile_tables.of_interrupts(answer(lab, machine)),
        quick=False,
        kept=lambda: profile_tables.of_interrupts(answers.kept("profile")),
    ),
)
