# SPDX-License-Identifier: BSD-2-Clause
# report_tables.py: what the report has of this experiment (bench/added.py), made of the boots of
# its tests.
from added import Measured

import demand_boots
import demand_picture
import demand_tables

MEASURED = (
    Measured(
        "answer-demand",
        "When passing through on demand pays",
        "FULL=1 make e2e T=demand_cost/",
        lambda lab, _machine: demand_tables.answer(demand_boots.all_measured(lab)),
        quick=False,
        kept=lambda: demand_tables.answer(demand_picture.read()["cases"]),
    ),
)
