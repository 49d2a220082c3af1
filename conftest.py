# SPDX-License-Identifier: BSD-2-Clause
# conftest.py: what the project's tests have beside pytest's own: the fixture `lab`, which gets
# boots (testbed/lab.py), markers of tests that only run if they are asked for, and the plugins of
# testbed/outcomes.py.
import os
import signal
import threading

import pytest

TOP = os.path.dirname(os.path.abspath(__file__))
# Helpers of the e2e tests that assert.
pytest.register_assert_rewrite("tests", "experiments", "metal")

pytest_plugins = ["testbed.browser"]
LAB = pytest.StashKey()
KEEP = os.path.join(TOP, "build", "e2e")


def pytest_addoption(parser):
    text = "where consoles and ledgers are shown, by the names of their boots"
    parser.addoption("--keep", default=KEEP, metavar="DIR", help=text)


def pytest_configure(config):
    """A worker of pytest-xdist gets from the first process what that knows (outcomes.py)."""
    from testbed import outcomes
    from testbed.lab import Lab
    from testbed.store import Store

    # As after Ctrl-C, what runs is ended. make passes SIGTERM on, timeout sends it to workers, and
    # pytest-xdist ends workers by SIGINT, which a shell's background jobs ignore.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
    keep, worker = config.option.keep, hasattr(config, "workerinput")
    if worker:
        known = config.workerinput["known"]
        lab = Lab(keep, Store(known["boots"]))
    else:
        lab = Lab(keep)
        # Whoever wants consoles in another folder wants all of them there.
        first = outcomes.Outcomes(lab.store, outcomes.tree() if keep == KEEP else [])
        config.pluginmanager.register(first, "outcomes")
        known = first.known
    config.stash[LAB] = lab
    config.pluginmanager.register(outcomes.Tests(lab, known), "tests")


def pytest_collection_modifyitems(config, items):
    """Leaves out what only FULL=1 or MORE=1 runs."""
    full, more = (os.environ.get(name) == "1" for name in ("FULL", "MORE"))
    off = {"full": not full, "more": not (full or more)}
    left_out = [one for one in items if any(off.get(mark.name) for mark in one.iter_markers())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def lab(request):
    """Gets boots (testbed/lab.py)."""
    return request.config.stash[LAB]
