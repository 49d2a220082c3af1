# SPDX-License-Identifier: BSD-2-Clause
# conftest.py: what the project's tests have of their own beside pytest's. A test that takes `lab`,
# and parameters, names boots and reads them (testbed/lab.py): before pytest runs the first test,
# all such tests are asked for their boots. What a test returns is shown with its result.
#
#   pytest -k "WORD or WORD"     tests with a word in their file's name, their name or parameters
#   pytest --boots               which boots the tests want, and which of them would be made now
import functools
import inspect
import os
import signal

import pytest

TOP = os.path.dirname(os.path.abspath(__file__))
# Helpers of the e2e tests that assert.
pytest.register_assert_rewrite("tests", "experiments", "metal")

LAB, CALL, SAID, OUTCOMES = (pytest.StashKey() for _ in range(4))
SAID_MAX = 600
KEEP = os.path.join(TOP, "build", "e2e")


def pytest_addoption(parser):
    parser.addoption("--jobs", type=int, metavar="N", help="boots at once; default: the processors")
    parser.addoption(
        "--keep",
        default=KEEP,
        metavar="DIR",
        help="where consoles and ledgers are shown, by the names of their boots",
    )
    parser.addoption("--boots", action="store_true", help="name the boots, and make none")


def pytest_collection_modifyitems(config, items):
    """Those marked as full run with FULL=1 alone."""
    if os.environ.get("FULL") != "1":
        left_out = [item for item in items if item.get_closest_marker("full")]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]


def wants_boots(item):
    """Whether it can be asked beforehand: it has `lab`, parameters, and nothing else of
    pytest's."""
    if not isinstance(item, pytest.Function) or item.cls is not None:
        return False
    given = set(item.callspec.params) if hasattr(item, "callspec") else set()
    names = set(inspect.signature(item.obj).parameters)
    return "lab" in names and names | set(item.fixturenames) <= given | {"lab", "request"}


def function_of(item, lab):
    given = item.callspec.params if hasattr(item, "callspec") else {}
    names = inspect.signature(item.obj).parameters
    return functools.partial(
        item.obj, **{name: lab if name == "lab" else given[name] for name in names}
    )


def pass_again(item, outcomes):
    """Has a test run only where it has not passed with the same files (testbed/outcomes.py), or has
    asked for what does not repeat."""
    run = item.runtest

    def runtest():
        if item.nodeid in outcomes.said:
            item.stash[SAID] = outcomes.said[item.nodeid]
            return
        run()
        # Where pytest keeps what a unittest.TestCase has raised.
        if getattr(item, "_excinfo", None):
            return
        call = item.stash.get(CALL, None)
        if call.repeats if call else "lab" not in item.fixturenames:
            outcomes.said[item.nodeid] = item.stash.get(SAID, "")

    item.runtest = runtest


def pytest_runtestloop(session):
    """Before pytest's own loop, which this is not."""
    if session.config.option.collectonly or session.testsfailed:
        return
    from testbed.lab import Lab
    from testbed.outcomes import Outcomes, tree

    option = session.config.option
    # make passes it on; as after Ctrl-C, pytest_sessionfinish() ends what runs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    lab = session.config.stash[LAB] = Lab(option.keep, option.jobs)
    # Who wants consoles and ledgers in another folder wants all of them there.
    outcomes = session.config.stash[OUTCOMES] = Outcomes(
        lab.store, tree() if option.keep == KEEP else []
    )
    # Tests without boots first: meanwhile there are boots.
    items = [
        item
        for item in session.items
        if wants_boots(item) and (option.boots or item.nodeid not in outcomes.said)
    ]
    ahead = set(items)
    session.items.sort(key=lambda item: item in ahead)
    calls = lab.plan([function_of(item, lab) for item in items], start=not option.boots)
    for item, call in zip(items, calls):
        item.stash[CALL] = call
    for item in session.items:
        pass_again(item, outcomes)
    if option.boots:
        for name, kept in lab.boots():
            print(f"{'kept' if kept else 'boot'} {name}")
        session.items.clear()


@pytest.fixture(scope="session")
def lab(request):
    """Gives boots (testbed/lab.py)."""
    return request.config.stash[LAB]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """The outcome, where the test was called before."""
    from testbed import machine

    call = pyfuncitem.stash.get(CALL, None)
    names = pyfuncitem._fixtureinfo.argnames
    try:
        said = (
            call.future.result()
            if call and not pyfuncitem.config.option.usepdb
            else pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
        )
    except machine.Skip as reason:
        pytest.skip(str(reason))
    pyfuncitem.stash[SAID] = " ".join(str(said or "").split())[:SAID_MAX]
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.said = item.stash.get(SAID, "")
    ahead = item.stash.get(CALL, None)
    if ahead and call.when == "call":
        report.duration = ahead.seconds


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    """The word of a result, with -v: what a test said goes with it."""
    if report.when == "call" and report.passed:
        return "passed", ".", f"PASSED ({report.duration:.1f} s) {report.said}".strip()
    return None


def pytest_sessionfinish(session, exitstatus):
    """A run in which nothing passed has failed."""
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if (
        terminal
        and exitstatus == pytest.ExitCode.OK
        and not session.config.option.boots
        and not session.config.option.collectonly
        and not terminal.stats.get("passed")
    ):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if OUTCOMES in session.config.stash:
        session.config.stash[OUTCOMES].keep()
    if LAB in session.config.stash:
        session.config.stash[LAB].close()


def pytest_terminal_summary(terminalreporter, config):
    if LAB in config.stash and not config.option.boots:
        terminalreporter.write_line(f"{len(config.stash[LAB].booted)} boots were made")
