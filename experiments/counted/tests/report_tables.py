# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of
# its tests.
from added import Measured

import counted
import counted_boots
import counted_kept
import counted_table


def of_answer(lab, _machine):
    columns, _ = counted_boots.all_counts(lab)
    return counted_table.table(counted.cells(columns))


MEASURED = (
    Measured(
        "answer-counted",
        "What do virtual PMUs count?",
        "FULL=1 make e2e T=counted/answer",
        of_answer,
        quick=False,
        kept=lambda: counted_table.table(counted.cells(counted_kept.columns())),
    ),
)
