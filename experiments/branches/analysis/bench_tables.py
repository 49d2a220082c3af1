# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
from added import Section

SECTIONS = (
    Section(
        "branches-of",
        "Lists of branches, and Table 4.8",
        "costs-of",
        kept.parts("branches"),
        short="Branches",
    ),
)
