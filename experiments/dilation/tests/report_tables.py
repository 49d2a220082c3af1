# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of
# its tests.
from added import Measured

import dilation_boot
import dilation_picture
import dilation_table

MEASURED = (
    Measured(
        "answer-dilation",
        "Does dilation matter?",
        "make dilation",
        lambda lab, machine: dilation_table.table(
            dilation_boot.answer(
                lab, dilation_boot.ROUNDS_QUICK if machine.quick else dilation_boot.ROUNDS
            )
        ),
        quick=False,
        kept=lambda: dilation_table.table(dilation_picture.kept()),
    ),
)
