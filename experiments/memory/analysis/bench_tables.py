# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
from added import Section
from schmidt_published import SCHMIDT

SECTIONS = (
    Section(
        "memory-of",
        "Memory tracing by EPT",
        "validity",
        kept.parts("memory"),
        short="Memory",
        sources=(SCHMIDT,),
    ),
)
