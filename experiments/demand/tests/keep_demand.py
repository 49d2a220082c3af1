#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# keep_demand.py: makes the boots and writes results/answers/demand.json, of which the table and the
# picture are made. One boot at a time. FRESH=1 makes them anew. Usage: keep_demand.py
import os
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += [
    os.path.join(TOP, folder)
    for folder in (
        "bench",
        "testbed",
        "tests/e2e",
        "experiments/demand/tests",
        "experiments/shared/analysis",
    )
]
import answers  # noqa: E402
import boots  # noqa: E402
import demand_boots  # noqa: E402
from lab import Lab  # noqa: E402
from machine import path  # noqa: E402


def main():
    cases = demand_boots.all_measured(Lab(path("build", "demand")))
    kernel = os.path.basename(os.path.realpath(boots.kernel()))
    answers.keep("demand", f"corei7_skylake_x, one processor; Debian's {kernel}", {"cases": cases})


if __name__ == "__main__":
    main()
