# SPDX-License-Identifier: BSD-2-Clause
# test_outcomes.py: which of the project's tests run, in which order, and what is shown of them.
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pytest

from testbed.machine import path

QUICK = """import unittest
import pytest
def test_passes(lab): return lab.value("tests-{name}", lambda: [{name!r}], lambda _: "made")
def test_fails(): assert False
class Case(unittest.TestCase):
    def test_case(self): pass
@pytest.mark.more
def test_more(): pass
@pytest.mark.full
def test_full(): pass
"""
SLOW = """import time
def test_slow(): time.sleep(1)
"""


@pytest.fixture(name="folder")
def fixture_folder():
    """In the tree, as conftest.py is for tests below it; git knows nothing of it."""
    with tempfile.TemporaryDirectory(prefix="tests.", dir=path("build")) as folder:
        for name, text in (("a", QUICK.format(name=os.path.basename(folder))), ("b", SLOW)):
            with open(os.path.join(folder, f"test_{name}.py"), "w", encoding="ascii") as out:
                out.write(text)
        yield folder


def run(folder, workers=0, **variables):
    """How each test ended, by its name, in this order; what was said; the exit status."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", "-v", f"-n{workers}", folder],
        cwd=path(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "FULL": "0", "MORE": "0", "SEED": "test_outcomes.py", **variables},
    )
    ended = {}
    for line in done.stdout.splitlines():
        words = set(line.split()) & {"PASSED", "FAILED", "SKIPPED"}
        name = re.search(r"::(\w+)( |$)", line)
        if words and name and "%]" in line:
            ended[name[1]] = words.pop()
    return ended, done.stdout, done.returncode


@pytest.mark.parametrize("workers", [0, 2])
def test_passes_once(folder, workers):
    """What has passed passes at once while no file has changed; what failed runs again. A table
    says where the time went. The file that took longest is the first one."""
    wanted = {"test_passes": "PASSED", "test_fails": "FAILED", "test_case": "PASSED"}
    wanted["test_slow"] = "PASSED"
    first, said, status = run(folder, workers)
    assert first == wanted and status == 1, said
    for text in (
        r"1 other values",
        r"4 test functions",
        r"PASSED \(1\.",
        r"PASSED \(0\.. s\) made",
    ):
        assert re.search(text, said), said
    second, said, _ = run(folder, workers)
    assert second == wanted and re.search(r"PASSED \(0\.0 s\) made", said), said
    assert "other values" not in said and "PASSED (1." not in said, said
    again, said, _ = run(folder, SEED="another of test_outcomes.py")
    assert list(again)[0] == "test_slow" and "PASSED (1." in said, said


@pytest.mark.parametrize(
    "variable, runs", [("TERM", 0), ("MORE", 1), ("FULL", 2)], ids=["short", "more", "full"]
)
def test_markers(folder, variable, runs):
    ended, said, _ = run(folder, **{variable: "1"})
    assert set(ended) & {"test_more", "test_full"} == {*["test_more", "test_full"][:runs]}, said


def test_always(folder):
    """A test that depends on more than files runs each time."""
    log = os.path.join(folder, "log")
    with open(os.path.join(folder, "test_b.py"), "w", encoding="ascii") as out:
        out.write(
            "import pytest\n"
            "@pytest.mark.always\n"
            f"def test_logs(): print('again', file=open({log!r}, 'a'))\n"
        )
    for times in (1, 2):
        assert run(folder)[0]["test_logs"] == "PASSED"
        with open(log, encoding="ascii") as lines:
            assert len(list(lines)) == times


@pytest.mark.parametrize("in_setup", [False, True], ids=["call", "setup"])
def test_minutes(folder, in_setup):
    """A boot in a fixture is not taken off the time of test functions."""
    where = "@pytest.fixture\n" if in_setup else ""
    use = "made" if in_setup else "lab"
    with open(os.path.join(folder, "test_b.py"), "w", encoding="ascii") as out:
        out.write(
            f"import pytest, time\n{where}"
            "def made(lab): return lab.value(" + repr(folder + str(in_setup)) + ", lambda: [], "
            "lambda _: time.sleep(2))\n"
            f"def test_made({use}): {'pass' if in_setup else 'made(lab)'}\n"
        )
    said = run(os.path.join(folder, "test_b.py"))[1]
    spent = re.search(r"^ +(-?[\d.]+) +\d+ test functions", said, re.MULTILINE)
    assert spent and spent[1] == "0.0", said


@pytest.mark.parametrize("build, cache", [("build", "/a tree/build"), ("/out", "/out")])
def test_blank_in_path(tmp_path, build, cache):
    """make calls Python in a tree whose path has a blank."""
    tree = tmp_path / "a tree"
    tree.mkdir()
    shutil.copy(path("Makefile"), tree)
    # The make that runs this has variables of its own, which the copy does not know.
    own = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["make", "-n", "unit", f"BUILD={build}"], cwd=tree, env=own, capture_output=True, text=True
    )
    words = shlex.split(done.stdout.splitlines()[-1])
    assert words[0].endswith(f"{cache}/python") and words[1] == "/usr/bin/python3", words


def test_nothing_passes(folder):
    """A run in which nothing passes has failed."""
    os.remove(os.path.join(folder, "test_a.py"))
    with open(os.path.join(folder, "test_b.py"), "w", encoding="ascii") as out:
        out.write("import pytest\ndef test_skipped(): pytest.skip('none')\n")
    ended, said, status = run(folder)
    assert ended == {"test_skipped": "SKIPPED"} and status == 1, said
