# SPDX-License-Identifier: BSD-2-Clause
# run_ahead.py: runs tests on as many threads as there are processors, in one process, so that all
# share the boots of one lab. pytest itself is not made for threads: the threads run a test's
# function ahead, and pytest's own loop, in this thread, takes the outcomes in the order in which
# they come. What a function returns is said in its result line. The tests of one file run one after
# another. Tests that use pytest's fixtures, but for `lab` and parameters, run in this thread in
# their turn.
import concurrent.futures
import contextlib
import inspect
import itertools
import os
import queue
import threading

import machine
import pytest
from names import NAME
from outcome import OUTCOME, Outcome, deliver
from programs import ProgramTest

# The long ones first, so that none is left alone at the end; a group, or a file's first test. Files
# that are marked as long come where the empty name is.
LONG = ["nested/a1_msr_nmi", "smp_linux", "auto", "workloads", "analyse", "host", "kernel",
        "nested", "fuzz_targets", "policies", "kernels", "kvm", "fuzz", "make_bench",
        "", "unit/selftest.sh", "unit/test.sh", "model", "guest",
        "smp_kernel", "measure", "apic", "native", "containment", "host_linux"]
LAB = pytest.StashKey[machine.Lab]()


def pytest_addoption(parser):
    parser.addoption("--jobs", type=int, default=os.cpu_count(), metavar="N",
                     help="files of tests at once; default: the processors")
    parser.addoption("--keep", default=machine.path("build", "e2e"), metavar="DIR",
                     help="where boots leave their consoles and ledgers")


def known(item, lab):
    """What a function that runs ahead can be given, by name."""
    return {"lab": lab, **(item.callspec.params if hasattr(item, "callspec") else {})}


def arguments(item):
    return set(inspect.signature(item.obj).parameters)


def may_run_ahead(item):
    if item.config.option.usepdb:
        return False
    if isinstance(item, ProgramTest):
        return True
    # A method of unittest's is a Function as well. `lab` itself uses `request`.
    return type(item) is pytest.Function and item.cls is None and \
        arguments(item) | set(item.fixturenames) - {"request"} <= set(known(item, None))


def outcome_ahead(item, lab):
    if isinstance(item, ProgramTest):
        outcome = Outcome(item.look)
        outcome.seconds = item.parent.share()
        return outcome
    values = known(item, lab)
    return Outcome(item.obj, **{name: values[name] for name in arguments(item)})


def rank(items):
    """The place of a file's tests in the order."""
    if items[0].get_closest_marker("long"):
        return LONG.index("")
    name = items[0].stash[NAME]
    return next((n for n, group in enumerate(LONG) if f"{name}/".startswith(f"{group}/")),
                len(LONG))


class Threads:
    """Runs files of tests, `jobs` at a time, and hands tests over as they are done. There are more
    threads than that: one that waits for a boot of another one's gives its turn away (Lab)."""

    def __init__(self, items, lab, jobs):
        self.lab = lab
        self.stopped = False
        self.over = queue.SimpleQueue()
        files = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        self.left = len(files)
        self.pool = concurrent.futures.ThreadPoolExecutor(2 * jobs)
        for tests in sorted(files.values(), key=rank):
            self.pool.submit(self.run_file, tests)

    def run_file(self, items):
        try:
            with self.lab.slots:
                for ahead, some in itertools.groupby(items, may_run_ahead):
                    if ahead:
                        self.run_functions(some)
                    else:
                        self.hand_over(list(some)).wait()
        finally:
            self.over.put((None, None))

    def run_functions(self, items):
        for item in items:
            if not self.stopped:
                item.stash[OUTCOME] = outcome_ahead(item, self.lab)
                self.hand_over([item])

    def hand_over(self, items):
        ended = threading.Event()
        self.over.put((items, ended))
        return ended

    def tests(self):
        """Tests in a row, when they are done or when it is their turn, until there are no more."""
        while self.left:
            items, ended = self.over.get()
            if items is None:
                self.left -= 1
                continue
            try:
                if not self.stopped:
                    yield items
            finally:
                ended.set()

    def stop(self):
        """Ends the boots that run, and waits for the threads."""
        self.stopped = True
        self.lab.stop()
        for _ in self.tests():
            pass
        self.pool.shutdown()


def run_tests(session, threads):
    with contextlib.closing(threads.tests()) as tests:
        for items in tests:
            # The session in the place of the next test: what belongs to the session stays.
            for item, following in zip(items, items[1:] + [session]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)


def pytest_runtestloop(session):
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        errors = f"{session.testsfailed} error{'s' if session.testsfailed != 1 else ''}"
        raise session.Interrupted(f"{errors} during collection")
    if session.config.option.collectonly:
        return True
    options = session.config.option
    lab = machine.Lab(options.keep, threading.Semaphore(options.jobs))
    session.config.stash[LAB] = lab
    threads = Threads(session.items, lab, options.jobs)
    try:
        run_tests(session, threads)
    finally:
        threads.stop()
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    names = pyfuncitem._fixtureinfo.argnames
    deliver(pyfuncitem, pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call" and OUTCOME in item.stash:
        report.duration = item.stash[OUTCOME].seconds
        report.said = str(item.stash[OUTCOME].value or "")
