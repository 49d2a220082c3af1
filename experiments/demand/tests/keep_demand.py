# SPDX-License-Identifier: BSD-2-Clause
# keep_demand.py: makes the boots and writes results/answers/demand.json, of which the table and the
# picture are made. One boot at a time. FRESH=1 makes them anew.
# Usage:
#   python3 -m experiments.demand.tests.keep_demand
import os

from experiments.demand.tests import demand_boots
from experiments.shared.analysis import answers
from testbed import boots
from testbed.lab import Lab
from testbed.machine import path


def main():
    cases = demand_boots.all_measured(Lab(path("build", "demand"), 1))
    kernel = os.path.basename(os.path.realpath(boots.kernel()))
    answers.keep("demand", f"corei7_skylake_x, one processor; Debian's {kernel}", {"cases": cases})


if __name__ == "__main__":
    main()
