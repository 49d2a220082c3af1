# SPDX-License-Identifier: BSD-2-Clause
# test_programs.py: tests that are programs: those of tests/unit/ (cmocka) and the test bed's own.
# One program has many tests, whose names are in its source; it runs once, and each is a result.
import glob
import os
import re

import pytest

from testbed.machine import Skip, path
from testbed.store import digest, digest_any
from tests.commands import run as run_command

# A line of the output is a test's result. cmocka lists failed tests once more at its end.
RESULT = re.compile(r"\[\s*(OK|FAILED|SKIPPED)\s*\] (\w+)\s*$|(ok|FAIL|SKIP)\s+(\w+)(?:: (.*))?")
# TEST() of tests/unit/unit.h and of tests/unit/testbed/check.h, and cmocka's own table.
NAME = r"(?:^TEST|\bcmocka_unit_test\w*)\((\w+)"
GOOD, SKIPPED = ("OK", "ok"), ("SKIPPED", "SKIP")
BED = path("testbed", "test.sh")


def programs():
    """{command: names of its tests}."""

    def names(pattern, *files):
        text = "".join(open(file, encoding="utf-8").read() for file in files)
        return list(dict.fromkeys(re.findall(pattern, text, re.MULTILINE)))

    found = {
        path("build", "unit", os.path.basename(file)[:-2]): names(NAME, file)
        for file in sorted(
            glob.glob(path("tests", "unit", "test_*.c"))
            + glob.glob(path("experiments", "*", "tests", "unit", "test_*.c"))
        )
    }
    found[BED] = names(
        NAME,
        *sorted(
            glob.glob(path("tests", "unit", "testbed", "*.cc"))
            + glob.glob(path("experiments", "*", "tests", "emulator", "*.cc"))
        ),
    )
    return found


def results_of(output):
    """{test: (result, text)} of a program's lines."""
    found = {}
    for line in output.splitlines():
        match = RESULT.match(line)
        if match:
            found.setdefault(match[2] or match[4], (match[1] or match[3], match[5] or ""))
    return found


def run(lab, command):
    """(exit status, output) of a program, once; kept while it is the same, or what a script
    builds."""
    ours = command.startswith(path("build", ""))
    inputs = (
        []
        if ours
        else [
            path("testbed"),
            path("tests", "unit", "testbed"),
            path("include"),
            *sorted(
                folder
                for part in ("emulator", "hypervisor", "tests/emulator")
                for folder in glob.glob(path("experiments", "*", part))
            ),
            "g++",
            "gcc",
        ]
    )

    return lab.value(
        f"unit-{os.path.basename(command)}",
        lambda: [digest(__file__), *map(digest_any, [command, *inputs])],
        lambda folder: list(run_command(command)),
        targets=[command] if ours else [],
        kind="unit programs",
    )


def wrong_lines(output, test):
    """What a failed test said of itself: cmocka's lines between its start and its result."""
    said = re.search(
        rf"\[\s*RUN\s*\] {test}\n(.*?)\[\s*FAILED\s*\] {test}$", output, re.DOTALL | re.MULTILINE
    )
    return said[1] if said and said[1] else output[-600:]


def judge(test, names, status, output):
    """The test's text; raises what is wrong."""
    found, last = results_of(output), (output.strip().splitlines() or ["no output"])[-1]
    unknown = sorted(set(found) - set(names))
    assert not unknown, f"the program ran {unknown}, which its source does not name"
    assert found, f"exit status {status}: the program ran no test: {last}"
    assert test in found, f"exit status {status}: the program did not run this: {last}"
    result, text = found[test]
    if result in SKIPPED:
        raise Skip(text or "the program skipped it")
    assert result in GOOD, text or wrong_lines(output, test)
    bad = [name for name, (other, _) in found.items() if other not in GOOD + SKIPPED]
    assert status == 0 or bad, f"exit status {status}: {last}"
    return text


CASES = [
    (command, names, test) for command, names in programs().items() for test in names or [""]
]  # without any it fails: each program has to run something


def cases(bed):
    found = [case for case in CASES if (case[0] == BED) == bed]
    return pytest.mark.parametrize(
        "command, names, test",
        found,
        ids=[f"{os.path.basename(command)}-{test}" for command, _, test in found],
    )


@cases(bed=False)
def test_unit(lab, command, names, test):
    """Of a program of build/unit/."""
    return judge(test, names, *run(lab, command))


@cases(bed=True)
def test_bed(lab, command, names, test):
    """Of the test bed's own."""
    return judge(test, names, *run(lab, command))


@pytest.mark.parametrize(
    "status, output, wrong",
    [
        (0, "", "ran no test"),
        (0, "ok one\nok two\n", "which its source does not name"),
        (0, "ok other\n", "did not run this"),
        (1, "ok one\n", "exit status 1"),
        (1, "FAIL one: because\n", "because"),
        (0, "[  FAILED  ] one\n", "FAILED"),
    ],
    ids=["nothing", "unknown", "missing", "status", "failed", "cmocka"],
)
def test_bad_program(status, output, wrong):
    """A program that ends badly fails its tests."""
    with pytest.raises(AssertionError, match=wrong):
        judge("one", ["one", "other"], status, output)
