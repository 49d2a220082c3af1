# SPDX-License-Identifier: BSD-2-Clause
# bench_tables.py: this experiment's section of the report, for bench/added.py.
import kept
from added import Section

SECTIONS = (
    Section(
        "inference-of",
        "What a host can infer about its guest",
        "validity",
        kept.parts("inference"),
        short="Inference",
    ),
)
