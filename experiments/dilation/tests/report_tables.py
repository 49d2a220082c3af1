# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of its tests.
from added import Measured

import dilation_boot
import dilation_table

MEASURED = (
    Measured("answer-dilation", "Does dilation matter?", "make dilation",
             lambda lab, _machine: dilation_table.table(dilation_boot.answer(lab)), quick=False),
)
