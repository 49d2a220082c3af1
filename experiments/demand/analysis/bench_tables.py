# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
from added import Section

SECTIONS = (
    Section(
        "demand-of",
        "Passing through on demand",
        "validity",
        kept.parts("demand"),
        short="On demand",
    ),
)
