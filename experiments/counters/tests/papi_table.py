# SPDX-License-Identifier: BSD-2-Clause
# papi_table.py: experiments/counters/guest/tools/papi.ini for Python: PAPI's utilities and tests.
# As a program it prints a line for each, for the image and its build: NAME SOURCE OPTIONS ARGUMENTS
# SECONDS WHEN. The seconds of a slow test come by a word of the kernel's command line.
# Usage: python3 -m experiments.counters.tests.papi_table
from typing import NamedTuple

from experiments.counters.tests import tools_table
from testbed.machine import path

RESULTS = "PASSED WARNED SKIPPED FAILED ENDED TIMEOUT CRASHED -".split()


class Test(NamedTuple):
    source: str
    options: str
    arguments: str
    seconds: str
    when: str
    result: str


def read():
    """{name: Test}"""
    found = {}
    table = tools_table.parse(path("experiments", "counters", "guest", "tools", "papi.ini"))
    for head, names in table["papi"].items():
        source, *words = head.split()[:6]
        assert words[-1] in RESULTS, f"papi.ini: found {words[-1]}, wanted one of {RESULTS}"
        found |= {name: Test(source.format(name), *words) for name in names.split()}
    return found


if __name__ == "__main__":
    for name, test in read().items():
        seconds = "-" if test.when == "slow" else test.seconds
        print(name, test.source, test.options, test.arguments, seconds, test.when)
