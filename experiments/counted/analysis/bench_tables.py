# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
from added import Section

SECTIONS = (
    Section(
        "counted-of", "What virtual PMUs count", "validity", kept.parts("counted"), short="Counted"
    ),
)
