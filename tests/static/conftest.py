# SPDX-License-Identifier: BSD-2-Clause
# conftest.py: what the tests of this folder share.
import glob
import os
import sys

import pytest

from testbed.machine import made, path

MUTANTS = [
    f"build/static/{os.path.basename(file)[:-2]}.elf"
    for file in glob.glob(path("tests", "static", "*.c"))
    if not file.endswith("/bad.c")
]


@pytest.fixture(scope="session", autouse=True)
def built():
    """The objects that these tests read are those of the sources, whoever calls pytest. A test that
    passed on older ones would be known as one that has passed on these sources."""
    made("build/flags", "build/pmuvisor.elf", "build/pmuvisor-lab.elf", *MUTANTS)


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a check's main(); gives its exit status and all that it printed."""

    def main_of(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        status = module.main()
        said = capsys.readouterr()
        return status, said.out + said.err

    return main_of
