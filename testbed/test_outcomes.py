# SPDX-License-Identifier: BSD-2-Clause
# test_outcomes.py: what passed is not run again, and what failed is, by whatever framework it was
# written.
import subprocess
import sys

import pytest

from testbed.machine import path

TESTS = """import unittest
def test_passes(): pass
def test_fails(): assert False
class Case(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail()
"""
RUN = """import types
import pytest
import conftest
class Plugin:
    outcomes = types.SimpleNamespace(said={{}})
    def pytest_collection_modifyitems(self, items):
        for item in items:
            conftest.pass_again(item, self.outcomes)
plugin = Plugin()
pytest.main(["-q", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null", {file!r}],
            plugins=[plugin])
print("kept:", *sorted(name.partition("::")[2] for name in plugin.outcomes.said))
"""


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
def test_only_what_passed_is_kept(tmp_path, framework):
    file = tmp_path / "test_made_up.py"
    file.write_text(TESTS, encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-B", "-c", RUN.format(file=str(file))],
        cwd=path(),
        capture_output=True,
        text=True,
        check=False,
    )
    kept = done.stdout.rpartition("kept: ")[2].split()
    wanted = {"pytest": "test_passes", "unittest": "Case::test_passes"}[framework]
    assert wanted in kept and wanted.replace("passes", "fails") not in kept, (
        done.stdout + done.stderr
    )
