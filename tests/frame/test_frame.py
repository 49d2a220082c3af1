# SPDX-License-Identifier: BSD-2-Clause
# test_frame.py: tests of what this folder adds to pytest: result lines, the last line and the exit
# status, names and which tests run, and programs that end badly.
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from machine import BACKSTOP_SECONDS, Skip, path
from programs import Program

PLUGINS = [word for name in ("names", "programs", "run_ahead", "result_lines")
           for word in ("-p", name)]
TESTS = """
import machine
import pytest

def test_good():
    return "said"

def test_bad():
    assert 1 + 1 == 3, "found 2"

def test_broken():
    return {}["key"]

def test_left_out():
    raise machine.Skip("a reason")

@pytest.mark.parametrize("number", [1, 2], ids=["first", "second"])
def test_number(number):
    return number

def test_with_fixture(tmp_path):
    return tmp_path.exists()

def test_wrong_with_fixture(tmp_path):
    assert not tmp_path.exists()

@pytest.mark.full
def test_long():
    pass
"""


@pytest.fixture
def run(tmp_path):
    """(exit status, lines without times) of pytest on TESTS."""
    def pytest_on(*arguments, **environment):
        name = tmp_path / "test_x.py"
        name.write_text(TESTS, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-c", path("pytest.ini"), "--rootdir",
             str(tmp_path), "-p", "no:cacheprovider", *PLUGINS, "--keep", str(tmp_path / "keep"),
             str(name), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "FULL": "0", "PYTEST_ADDOPTS": "", **environment,
                 "PYTHONPATH": os.pathsep.join([path("tests", "frame"), path("testbed"),
                                                os.environ.get("PYTHONPATH", "")])},
            timeout=BACKSTOP_SECONDS, check=False)
        return done.returncode, [re.sub(r" \([0-9.]+ s\)", "", line)
                                 for line in done.stdout.splitlines()]
    return pytest_on


def test_lines_and_status(run):
    status, lines = run()
    for line in ("PASS x/good: said", "FAIL x/bad: found 2",
                 "FAIL x/broken: KeyError: 'key'", "SKIP x/left_out: a reason", "PASS x/first: 1",
                 "PASS x/second: 2", "PASS x/with_fixture: True"):
        assert sum(found.startswith(line) for found in lines) == 1, (line, lines)
    assert lines[-1] == "4 passed, 3 failed, 1 skipped" and status != 0, (status, lines)


def test_names_choose(run):
    status, lines = run("--named", "x/good second")
    assert [line for line in lines if re.match("PASS|FAIL|SKIP", line)] == \
        ["PASS x/good: said", "PASS x/second: 2"], lines
    assert lines[-1] == "2 passed, 0 failed, 0 skipped" and status == 0, (status, lines)


def test_nothing_passed(run):
    """Skipped tests alone are no success, and neither is none."""
    for words, line in (("left_out", "0 passed, 0 failed, 1 skipped"),
                        ("absent", "0 passed, 0 failed, 0 skipped")):
        status, lines = run("--named", words)
        assert lines[-1] == line and status != 0, (status, lines)


def test_full(run):
    assert run("--named", "long")[1][-1] == "0 passed, 0 failed, 0 skipped"
    assert run("--named", "long", FULL="1")[1][-1] == "1 passed, 0 failed, 0 skipped"


def test_stops(run):
    """At the first failure, of a function that ran ahead and of one that had its turn."""
    for words, line in (("bad good", "1 passed, 1 failed, 0 skipped"),
                        ("with_fixture", "1 passed, 1 failed, 0 skipped")):
        status, lines = run("-x", "--named", words)
        assert lines[-1] == line and status != 0, (status, lines)


def judged(status, output):
    """Of a program with two tests: None for each that passed, else what is wrong."""
    program = SimpleNamespace(run=lambda: (status, output, 1), tests=lambda: ["one", "two"])
    found = []
    for test in ("one", "two"):
        try:
            Program.judge(program, test)
            found.append(None)
        except (AssertionError, Skip) as trouble:
            found.append(f"{type(trouble).__name__}: {trouble}")
    return found


OK = "[       OK ] one\n[       OK ] two\n"


@pytest.mark.parametrize("status, output, wanted", [
    (0, OK, [None, None]),
    (0, "ok one\nok two\n", [None, None]),
    (1, "[ RUN      ] one\nfile.c:1\n[  FAILED  ] one\n[       OK ] two\n", ["file.c:1", None]),
    (1, "FAIL one: why\nSKIP two: no time\n", ["AssertionError: why", "Skip: no time"]),
    (23, OK, ["exit status 23", "exit status 23"]),
    (-11, "[       OK ] one\n", ["exit status -11", "did not run this"]),
    (0, "", ["ran no test", "ran no test"]),
    (0, OK + "[       OK ] three\n", ["['three']", "['three']"]),
], ids=[f"program_{case}" for case in ("good", "good_shell", "failed", "failed_shell", "bad_end",
                                       "crash", "no_test", "unknown")])
def test_program(status, output, wanted):
    """Each test of a program is a result, and a program that ends badly fails."""
    for said, part in zip(judged(status, output), wanted):
        assert said is part is None or part and part in (said or ""), (said, part)
