# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
import xu_published
from added import Section

SECTIONS = (
    Section(
        "precise-of",
        "PEBS in the guest",
        "validity",
        kept.parts("precise"),
        short="PEBS",
        sources=(xu_published.PAPER,),
    ),
)
