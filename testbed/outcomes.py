# SPDX-License-Identifier: BSD-2-Clause
# outcomes.py: which tests have passed, and what they returned. They are a function of the files of
# this tree, Debian's packages and the kernel: while these stay the same, no test runs again. And
# where the time of this run went.
import collections
import contextlib
import inspect
import json
import os
import platform

import pytest

from testbed.machine import TOP, Skip, path, tree_files
from testbed.minutes import FUNCTIONS, Minutes
from testbed.store import digest, key_of

PACKAGES = "/var/lib/dpkg/status"
# Of the environment: what says who calls, from where, and which tests.
CALLERS = (
    "_",
    "COLUMNS",
    "LINES",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MAKE_TERMERR",
    "MAKE_TERMOUT",
    "MFLAGS",
    "MORE",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "TERM",
)
SAID = "said.json"
SAID_MAX = 600
LAB_SECONDS = 10  # of a test with boots of which nothing is known
SECONDS = path("build", "test_seconds.json")


def tree():
    """The files of this tree but those that git ignores; none where git knows nothing of it."""
    return tree_files("--others", "--exclude-standard")


def host():
    """Who runs the tests, and what the processor and KVM can do for them."""
    with open("/proc/cpuinfo", encoding="utf-8") as source:
        lines = {line for line in source if line.startswith(("model name", "flags"))}
    return [os.geteuid(), os.access("/dev/kvm", os.R_OK | os.W_OK), *sorted(lines)]


def tree_key(names):
    """Of these files and all else that tests depend on."""
    files = {name: os.path.join(TOP, name) for name in names}
    return key_of(
        [
            {name: [digest(file), os.lstat(file).st_mode] for name, file in files.items()},
            digest(PACKAGES),
            platform.release(),
            host(),
            TOP,
            {
                name: value
                for name, value in os.environ.items()
                if name not in CALLERS and not name.startswith("PYTEST")
            },
        ]
    )


def of_files(known):
    """Without tests whose file is gone."""
    return {name: what for name, what in known.items() if os.path.exists(path(name.split("::")[0]))}


class Tests:
    """A plugin of each process of pytest. `known`: see Outcomes."""

    def __init__(self, lab, known):
        self.lab, self.known = lab, known

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """The files that take longest come first."""
        taken = collections.Counter()
        for item in items:
            unknown = LAB_SECONDS if "lab" in item.fixturenames else 0
            if item.nodeid not in self.known["passed"]:
                taken[item.path] += self.known["seconds"].get(item.nodeid, unknown)
        items.sort(key=lambda item: -taken[item.path])

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """Calls a test, unless it has passed with the same files, or is marked to be called each
        time; what it returns is shown."""
        said = self.known["passed"].get(pyfuncitem.nodeid)
        if pyfuncitem.get_closest_marker("always"):
            said = None
        if said is None:
            given = pyfuncitem.funcargs
            names = [name for name in inspect.signature(pyfuncitem.obj).parameters if name in given]
            try:
                said = pyfuncitem.obj(**{name: given[name] for name in names}) or ""
            except Skip as reason:
                pytest.skip(str(reason))
        pyfuncitem.user_properties.append(("said", " ".join(str(said).split())[:SAID_MAX]))
        return True

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        yield
        item.user_properties.append(("minutes", self.lab.minutes.take()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report):
        """The word of a result, with -v: what a test returned goes with it."""
        if report.when == "call" and report.passed:
            said = dict(report.user_properties).get("said", "")
            return "passed", ".", f"PASSED ({report.duration:.1f} s) {said}".strip()
        return None


class Outcomes:
    """A plugin of pytest's first process. `known`: what its workers have to know as well:
    `passed`, what each test that has passed returned, by its name; `seconds`, how long each test
    has taken at most; `boots`, the folder of the store."""

    def __init__(self, store, names):
        self.store, self.key, self.minutes, self.good = store, None, Minutes(), 0
        self.known = {"boots": store.folder, "passed": {}, "seconds": {}}
        with contextlib.suppress(OSError, ValueError), open(SECONDS, encoding="utf-8") as source:
            self.known["seconds"] = json.load(source)
        if names and os.path.exists(PACKAGES):
            self.key = tree_key(names)
            found = store.find(self.key)
            if found:
                with open(os.path.join(found[1], SAID), encoding="utf-8") as source:
                    self.known["passed"] = json.load(source)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["known"] = self.known

    def pytest_runtest_logreport(self, report):
        name, passed, seconds = report.nodeid, self.known["passed"], self.known["seconds"]
        if report.failed:
            passed.pop(name, None)
        if report.when != "call":
            # The lab's share of it comes with the call.
            self.minutes.add({FUNCTIONS: [report.duration, 0]})
            return
        properties = dict(report.user_properties)
        taken = properties.get("minutes", {})
        self.minutes.add(taken)
        rest = report.duration - sum(spent for spent, _ in taken.values())
        self.minutes.add({FUNCTIONS: [rest, 1]})
        seconds[name] = max(round(report.duration, 1), seconds.get(name, 0.0))
        if report.passed:
            self.good += 1
            passed[name] = properties.get("said", "")

    def pytest_terminal_summary(self, terminalreporter):
        for line in self.minutes.lines() if self.minutes.seconds else ():
            terminalreporter.write_line(line)

    def pytest_sessionfinish(self, session, exitstatus):
        """A run in which nothing passed has failed."""
        if (
            exitstatus == pytest.ExitCode.OK
            and not self.good
            and not session.config.option.collectonly
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self.good:
            self.keep()
        self.store.close()

    def keep(self):
        """What has passed is kept, unless the tree has changed meanwhile."""
        part = f"{SECONDS}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as out:
            json.dump(of_files(self.known["seconds"]), out, indent=0, sort_keys=True)
        os.replace(part, SECONDS)
        if not self.key or tree_key(tree()) != self.key:
            return
        with self.store.making(self.key) as folder:
            with open(os.path.join(folder, SAID), "w", encoding="utf-8") as out:
                json.dump(of_files(self.known["passed"]), out)
            self.store.remove(os.path.join(self.store.folder, self.key))
            self.store.keep(self.key, folder, {})
