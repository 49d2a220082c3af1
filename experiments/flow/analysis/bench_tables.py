# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
import virtflow_published
from added import Section

SECTIONS = (
    Section(
        "flow-of",
        "Execution flow from exits",
        "validity",
        kept.parts("flow"),
        short="Flow",
        sources=(virtflow_published.PAPER,),
    ),
)
