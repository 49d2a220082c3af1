# SPDX-License-Identifier: BSD-2-Clause
# programs.py: tests that are programs: those of tests/unit/ (cmocka) and the test bed's own. One
# program has many tests, whose names are in its source; it runs once, and each is a result.
import re
import subprocess
import time

import pytest
from machine import BACKSTOP_SECONDS, Skip, path
from outcome import deliver

# A line of the output is a test's result. cmocka lists failed tests once more at its end.
RESULT = re.compile(r"\[\s*(OK|FAILED|SKIPPED)\s*\] (\w+)\s*$|(ok|FAIL|SKIP)\s+(\w+)(?:: (.*))?")
# As cmocka has it, and by a macro of the program's.
CMOCKA_NAME = re.compile(r"\b(?:cmocka_unit_test\w*|CASE)\(\s*(?!test\b)(\w+)")
GOOD, SKIPPED = ("OK", "ok"), ("SKIPPED", "SKIP")


def pytest_collect_file(file_path, parent):
    if file_path.match("tests/unit/test_*.c"):
        return Program.from_parent(parent, path=file_path, names=CMOCKA_NAME,
                                   command=path("build", "unit", file_path.stem))
    if file_path.match("tests/unit/testbed/main.cc"):
        return Program.from_parent(parent, path=file_path, command=path("testbed", "test.sh"),
                                   names=re.compile(r"^TEST\((\w+)\)", re.MULTILINE),
                                   sources=sorted([
                                       *file_path.parent.glob("*.cc"), *file_path.parents[3].glob(
                                           "experiments/*/tests/emulator/*.cc")]))
    if file_path.match("testbed/selftest.sh"):
        return Program.from_parent(parent, path=file_path, command=str(file_path),
                                   names=re.compile(r'^echo "ok (\w+)"', re.MULTILINE))
    return None


def results_of(output):
    """{test: (result, text)} of a program's lines."""
    found = {}
    for line in output.splitlines():
        match = RESULT.match(line)
        if match:
            found.setdefault(match[2] or match[4], (match[1] or match[3], match[5] or ""))
    return found


def expect(right, text):
    if not right:
        raise AssertionError(text)


class Program(pytest.File):
    """One program. `names`: what finds a test's name in its sources."""

    def __init__(self, *, command, names, sources=None, **keywords):
        super().__init__(**keywords)
        self.command = command
        self.names = names
        self.sources = sources or [self.path]
        self.outcome = None

    def tests(self):
        text = "".join(source.read_text(encoding="utf-8") for source in self.sources)
        return list(dict.fromkeys(self.names.findall(text)))

    def collect(self):
        short = self.command.rpartition("/")[2]
        # Without any it fails: each program has to run something.
        for test in self.tests() or [""]:
            yield ProgramTest.from_parent(self, name=f"unit/{short}/{test}", test=test)

    def run(self):
        """(status, output, seconds)."""
        if self.outcome is None:
            started = time.monotonic()
            done = subprocess.run([self.command], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", check=False, timeout=BACKSTOP_SECONDS)
            self.outcome = done.returncode, done.stdout, time.monotonic() - started
        return self.outcome

    def judge(self, test):
        """The test's text, or what is wrong."""
        status, output, _ = self.run()
        found, last = results_of(output), (output.strip().splitlines() or ["no output"])[-1]
        unknown = sorted(set(found) - set(self.tests()))
        expect(not unknown, f"the program ran {unknown}, which its source does not name")
        expect(found, f"exit status {status}: the program ran no test: {last}")
        expect(test in found, f"exit status {status}: the program did not run this: {last}")
        result, text = found[test]
        if result in SKIPPED:
            raise Skip(text or "the program skipped it")
        expect(result in GOOD, text or wrong_lines(output, test))
        bad = [name for name, (other, _) in found.items() if other not in GOOD + SKIPPED]
        expect(status == 0 or bad, f"exit status {status}: {last}")
        return text

    def share(self):
        """Of the program's time, a test's."""
        return self.outcome[2] / len(self.tests() or [""]) if self.outcome else 0


def wrong_lines(output, test):
    """What a failed test said of itself: cmocka's lines between its start and its result."""
    said = re.search(rf"\[\s*RUN\s*\] {test}\n(.*?)\[\s*FAILED\s*\] {test}$", output,
                     re.DOTALL | re.MULTILINE)
    return said[1] if said and said[1] else output[-600:]


class ProgramTest(pytest.Item):
    """One test of a program."""

    def __init__(self, *, test, **keywords):
        super().__init__(**keywords)
        self.test = test

    def look(self):
        return self.parent.judge(self.test)

    def runtest(self):
        deliver(self, self.look)

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value)

    def reportinfo(self):
        return self.path, 0, self.name
