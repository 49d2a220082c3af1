# SPDX-License-Identifier: BSD-2-Clause
# conftest.py: what the tests of this folder share.
import sys

import pytest


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a check's main(); gives its exit status and all that it printed."""

    def main_of(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        status = module.main()
        said = capsys.readouterr()
        return status, said.out + said.err

    return main_of
