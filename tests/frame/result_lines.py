# SPDX-License-Identifier: BSD-2-Clause
# result_lines.py: one line per test, PASS, FAIL or SKIP, with its name, its time and what it said
# or why; the last line of all is "N passed, N failed, N skipped". SKIP is not PASS, and a run in
# which nothing passed has failed.
import pytest
from names import NAME

TEXT_MAX = 600
RESULTS = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}


def reason_of(error):
    if isinstance(error, (AssertionError, pytest.fail.Exception)):
        return str(error) or "assertion"
    return f"{type(error).__name__}: {error}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.test = item.stash[NAME]
    if report.failed:
        report.said = reason_of(call.excinfo.value)
    elif report.skipped and isinstance(report.longrepr, tuple):
        report.said = report.longrepr[2].removeprefix("Skipped: ")


class Lines:
    """Prints and counts."""

    def __init__(self, config):
        self.config = config
        self.count = dict.fromkeys(RESULTS, 0)
        self.over = False

    def say(self, line):
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        if terminal:
            terminal.write_line(line)
            terminal.flush()

    def result(self, outcome, name, seconds, text):
        text = " ".join(text.split())[:TEXT_MAX]
        self.count[outcome] += 1
        self.say(f"{RESULTS[outcome]} {name} ({seconds:.1f} s){f': {text}' if text else ''}")

    def pytest_runtest_logreport(self, report):
        # What passes is the call; each of the other phases can fail or skip.
        if report.when == "call" or not report.passed:
            self.result(report.outcome, report.test, report.duration, getattr(report, "said", ""))

    def pytest_collectreport(self, report):
        if report.failed:
            self.result("failed", report.nodeid, 0, "cannot be collected; see below")

    @staticmethod
    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(report):
        """No dots and letters; category and word are those of pytest's own report at the end."""
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return report.outcome if report.when == "call" or report.skipped else "", "", ""

    def pytest_sessionfinish(self, session, exitstatus):
        self.over = not self.config.option.collectonly
        if self.over and exitstatus == pytest.ExitCode.OK and not self.count["passed"]:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        if self.over:
            self.say(", ".join(f"{number} {outcome}" for outcome, number in self.count.items()))


def pytest_configure(config):
    config.pluginmanager.register(Lines(config), "result_lines_of_session")
