#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
# keep_demand.py: makes the boots and writes results/answers/demand.json, of which the table and the picture are
# made. One boot at a time. FRESH=1 makes them anew.
# Usage: keep_demand.py [FILE]
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += [os.path.join(TOP, folder) for folder in ("testbed", "tests/e2e", "experiments/demand/tests")]
import boots  # noqa: E402
import demand_boots  # noqa: E402
from lab import Lab  # noqa: E402
from machine import path  # noqa: E402


def main(target):
    cases = demand_boots.all_measured(Lab(path("build", "demand"), 1))
    commit = subprocess.run(["git", "-C", TOP, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=True).stdout.strip()
    kernel = os.path.basename(os.path.realpath(boots.kernel()))
    data = {"environment": f"emulator, corei7_skylake_x, one processor; Debian's {kernel}; commit {commit}; "
                           "instructions, not cycles", "cases": cases}
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as out:
        json.dump(data, out, indent=1, sort_keys=True)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "results", "answers", "demand.json"))
