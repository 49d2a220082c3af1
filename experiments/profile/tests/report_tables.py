# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of its tests.
from added import Measured

import profile_tables
import sampling_answer

COMMAND = "FULL=1 make e2e T=profile/"
MEASURED = (
    Measured("answer-profile", profile_tables.TITLE, COMMAND,
             lambda lab, _machine: profile_tables.of_distances(sampling_answer.answer(lab)), quick=False),
    Measured("answer-profile-interrupts", profile_tables.INTERRUPTS_TITLE, COMMAND,
             lambda lab, _machine: profile_tables.of_interrupts(sampling_answer.answer(lab)), quick=False),
)
