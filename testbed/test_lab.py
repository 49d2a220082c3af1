# SPDX-License-Identifier: BSD-2-Clause
# test_lab.py: the lab makes what is wanted once, the longest first, and functions have it when it
# is there.
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from testbed.lab import Lab
from testbed.machine import path
from testbed.store import Store


@dataclasses.dataclass
class Fake:
    """A boot that says its name. `same`: what its key is made of; `log`: where the order is
    noted."""

    name: str
    same: str
    log: list = dataclasses.field(repr=False)
    fails: bool = False
    words: str = ""
    status: int = 0

    def targets(self):
        return []

    def inputs(self):
        return [self.same, self.words]

    def group(self):
        return self.same if self.words else None

    def make(self, _, folder, server=None):
        self.log.append((self.name, server))
        if self.fails:
            raise AssertionError("no disk")
        with open(f"{folder}/console", "wb") as out:
            out.write(self.name.encode())
        with open(f"{folder}/errors", "wb"):
            return {"status": self.status}


@pytest.fixture(name="lab")
def fixture_lab(tmp_path):
    lab = Lab(str(tmp_path / "keep"), 1, Store(str(tmp_path / "boots")))
    lab.seconds = {}
    lab.seconds_file = str(tmp_path / "seconds.json")
    yield lab
    lab.close()


def results(lab, functions):
    return [call.future.result(60) for call in lab.plan(functions)]


def test_repeats(lab):
    """A function that has asked for what is kept under a key alone gives the same again."""
    calls = lab.plan(
        [
            lambda: lab.boot(Fake("one", "same", [])).console,
            lambda: lab.once("two", lambda: 2).wait(),
            lambda: lab.once("three", lambda: 3, True).wait(),
        ]
    )
    for call in calls:
        call.future.result(60)
    assert [call.repeats for call in calls] == [True, False, True]


def test_once(lab):
    """Two functions, two names, one key: one boot."""
    log = []
    names = results(
        lab,
        [lambda name=name: lab.boot(Fake(name, "same", log)).console for name in ("one", "two")],
    )
    assert names == ["one", "one"] and [name for name, _ in log] == ["one"]
    assert lab.booted == ["one"]


def test_again(lab, tmp_path):
    """Another run finds it; with one byte in another key it does not."""
    log = []
    assert results(lab, [lambda: lab.boot(Fake("one", "same", log)).console]) == ["one"]
    other = Lab(str(tmp_path / "other"), 1, Store(lab.store.folder))
    assert results(other, [lambda: other.boot(Fake("new", "same", log)).console]) == ["one"]
    assert results(other, [lambda: other.boot(Fake("new", "samf", log)).console]) == ["new"]
    assert other.booted == ["new"]
    other.close()


def test_longest_first(lab):
    """All boots are known before the first is made, those of a function that reads early too."""
    log = []
    lab.seconds = {"b": 3, "c": 9, "a": 1}

    def both():
        one, two = (lab.boot(Fake(name, name, log)) for name in "ac")
        return one.console + two.console

    assert results(lab, [both, lambda: lab.boot(Fake("b", "b", log)).console]) == ["ac", "b"]
    assert [name for name, _ in log] == ["c", "b", "a"]


def test_chain(lab):
    """What one boot says decides what the next one is."""
    log, calls = [], []

    def chain():
        calls.append(1)
        first = lab.boot(Fake("first", "x", log)).console
        return lab.boot(Fake(f"{first}-second", "y", log)).console

    assert results(lab, [chain]) == ["first-second"]
    assert len(calls) == 3 and len(log) == 2


def test_function_in_a_description(lab):
    """Each call of the test makes another function of it, and the boot is the same one."""
    log = []

    def asks():
        what = Fake("one", "same", log)
        what.fails = lambda: None
        what.make = lambda _, folder: Fake("one", "same", log).make(_, folder)
        return lab.boot(what).console

    assert results(lab, [asks, asks]) == ["one", "one"] and len(log) == 1


def test_failure(lab):
    """Each function that reads it fails; the others go on."""
    log = []
    calls = lab.plan(
        [
            functools.partial(
                lambda name, fails: lab.boot(Fake(name, name, log, fails)).console, name, fails
            )
            for name, fails in (("bad", True), ("bad", True), ("good", False))
        ]
    )
    for call in calls[:2]:
        with pytest.raises(AssertionError, match="no disk"):
            call.future.result(60)
    assert calls[2].future.result(60) == "good" and len(log) == 2


@pytest.mark.parametrize("status, how", [(124, "the clock"), (-9, "signal 9")])
def test_ended_from_outside(lab, status, how):
    """A boot that the clock or a signal has ended is no result, and is made again."""
    log = []
    for name in ("one", "two"):
        (call,) = lab.plan(
            [
                functools.partial(
                    lambda name: lab.boot(Fake(name, "same", log, status=status)).console, name
                )
            ]
        )
        with pytest.raises(AssertionError, match=f"ended by {how} after"):
            call.future.result(60)
    assert len(log) == 2


def test_sigterm(tmp_path):
    """A run of tests that is ended by SIGTERM, as make passes it on, leaves none of its boots
    running."""
    pid = tmp_path / "pid"
    with tempfile.TemporaryDirectory(prefix="sigterm.", dir=path("build")) as folder:
        test = os.path.join(folder, "test_sleeps.py")
        with open(test, "w", encoding="ascii") as out:
            out.write(
                f"def test_sleeps(lab):\n    assert lab.watch('sleeps', ['sh', '-c', 'echo $$ > "
                f"{pid}.part; "
                f"mv {pid}.part {pid}; exec sleep 1000']).status\n"
            )
        run = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--keep", tmp_path / "keep", test],
            cwd=path(),
            stdout=subprocess.DEVNULL,
        )
        while not pid.exists():
            assert run.poll() is None, "the tests ended"
            time.sleep(0.1)
        run.terminate()
        run.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def fake_servers(at_init, ended):
    return type(
        "Servers",
        (),
        {
            "at_init": at_init,
            "there": lambda _, socket: socket not in ended,
            "end": lambda _, socket: ended.append(socket),
        },
    )()


def test_groups(lab):
    """Boots that differ in their words have one server; one that is alone has none."""
    log, started = [], []
    ended = []
    lab.servers = fake_servers(lambda _, boot: started.append(boot.same) or "socket", ended)
    found = results(
        lab,
        [
            functools.partial(
                lambda name, same: lab.boot(Fake(name, same, log, words=name)).console, name, same
            )
            for name, same in (("a", "g"), ("b", "g"), ("c", "g"), ("d", "alone"))
        ],
    )
    assert found == ["a", "b", "c", "d"] and started == ["g"] and ended == ["socket"]
    assert {name: server for name, server in log} == {
        "a": "socket",
        "b": "socket",
        "c": "socket",
        "d": None,
    }


def test_while_a_server_starts(lab):
    """Others of the group wait in the queue, and what is not of it goes on."""
    log, other = [], threading.Event()
    lab.jobs = 2

    def at_init(_self, _boot):
        assert other.wait(60), "nothing else was made meanwhile"
        return "socket"

    lab.servers = fake_servers(at_init, [])
    lab.seconds = {"a": 9, "b": 8, "alone": 1}

    def alone():
        found = lab.once("alone", lambda: other.set() or [1])
        return len(found.wait())

    assert results(
        lab,
        [
            lambda: lab.boot(Fake("a", "g", log, words="a")).console,
            lambda: lab.boot(Fake("b", "g", log, words="b")).console,
            alone,
        ],
    ) == ["a", "b", 1]
    assert {server for _, server in log} == {"socket"}
