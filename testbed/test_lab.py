# SPDX-License-Identifier: BSD-2-Clause
# test_lab.py: the lab makes each value once, however many processes ask for it; what is interrupted
# leaves nothing running; servers of boots are shared and end.
import concurrent.futures
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from testbed import servers
from testbed.lab import Lab
from testbed.machine import path
from testbed.minutes import LOCKS, Minutes
from testbed.store import Store


@dataclasses.dataclass
class Fake:
    """A boot that says its name. `same`: what its key is made of; `log`: lists who was made."""

    name: str
    same: str
    log: list
    fails: bool = False
    status: int = 0

    def kind(self):
        return "fakes"

    def targets(self):
        return []

    def inputs(self):
        return [self.same]

    def make(self, folder):
        self.log.append(self.name)
        if self.fails:
            raise AssertionError("no disk")
        with open(f"{folder}/console", "wb") as out:
            out.write(self.name.encode())
        with open(f"{folder}/errors", "wb"):
            return {"status": self.status}


@pytest.fixture(name="lab")
def fixture_lab(tmp_path):
    return Lab(str(tmp_path / "keep"), Store(str(tmp_path / "boots")))


def test_once(lab, tmp_path):
    """Two names, one key: one boot, in this process and in another one; with one byte more in the
    key it is another boot."""
    log = []
    assert [lab.boot(Fake(name, "same", log)).console for name in ("one", "two")] == ["one"] * 2
    other = Lab(str(tmp_path / "other"), Store(lab.store.folder))
    assert other.boot(Fake("new", "same", log)).console == "one"
    assert other.boot(Fake("new", "same!", log)).console == "new"
    assert log == ["one", "new"]
    assert sorted(os.listdir(other.keep)) == ["new.console", "new.errors"]
    assert (lab.minutes.number["fakes"], other.minutes.number["fakes"]) == (1, 1)


def test_at_the_same_time(tmp_path):
    """Four that want the same value: one makes it, the others wait for that."""
    log, all_want_it = [], threading.Barrier(4)

    def make(folder):
        log.append(folder)
        time.sleep(0.5)
        return "made"

    def inputs():
        with contextlib.suppress(threading.BrokenBarrierError):
            all_want_it.wait(0 if log else 60)
        return ["same"]

    def ask(number):
        lab = Lab(str(tmp_path / f"keep{number}"), Store(str(tmp_path / "boots")))
        return lab.value("name", inputs, make), lab.minutes.seconds[LOCKS]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert [value for value, _ in found] == ["made"] * 4 and len(log) == 1
    assert sum(waited > 0.2 for _, waited in found) == 3


def test_name(lab):
    """Values of two names are two, even if the same goes in."""
    assert [lab.value(name, lambda: ["same"], lambda _, name=name: name) for name in "ab"] == [
        "a",
        "b",
    ]


def test_changed_meanwhile(lab, monkeypatch, tmp_path):
    """What was made while its inputs changed belongs to neither state, nor do servers that have
    started meanwhile."""
    monkeypatch.setattr(servers, "FOLDER", str(tmp_path))
    (tmp_path / "a.socket").touch()
    boot = Fake("one", "old", [])
    make = boot.make
    boot.make = lambda folder: (setattr(boot, "same", "new"), make(folder))[1]
    with pytest.raises(AssertionError, match="one: its inputs changed while it was made"):
        lab.boot(boot)
    assert os.listdir(lab.store.folder) == [] and not (tmp_path / "a.socket").exists()


def test_failure(lab):
    """Each who asks has the failure, which is made once; nothing is kept."""
    log = []
    for _ in range(2):
        with pytest.raises(AssertionError, match="no disk"):
            lab.boot(Fake("bad", "bad", log, True))
    assert log == ["bad"] and os.listdir(lab.store.folder) == []


@pytest.mark.parametrize(
    "status, how",
    [(124, "the clock"), (-9, "signal 9"), (2, "a failure of the test bed: none said")],
    ids=["clock", "signal", "bed"],
)
def test_ended_from_outside(lab, status, how):
    """A boot that the clock, a signal or the test bed has ended is no result, and is made again."""
    log = []
    for name in ("one", "two"):
        with pytest.raises(AssertionError, match=f"ended by {how}"):
            lab.boot(Fake(name, "same", log, status=status))
    assert len(log) == 2


MAKE = """
from unittest import mock
import os, signal, subprocess, threading
from testbed import machine
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
start = subprocess.Popen
with mock.patch("subprocess.Popen", lambda run, **how: start(["sleep", "1000"], **how)):
    try:
        machine.run_make([], None)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_make_is_ended():
    """An interrupt ends make, which would build on without the lock."""
    done = subprocess.run(
        [sys.executable, "-c", MAKE], cwd=path(), capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_minutes():
    """What is counted inside another kind is not counted twice."""
    minutes = Minutes()
    with minutes.counted("outer"):
        with minutes.counted("inner"):
            time.sleep(0.2)
    assert minutes.seconds["inner"] >= 0.2 > minutes.seconds["outer"]
    total = Minutes()
    total.add(minutes.take())
    total.add({"inner": [60.0, 2]})
    assert list(total.lines())[1].split() == ["1.0", "3", "inner"] and not minutes.seconds


@pytest.mark.parametrize(
    "workers, end", [(0, os.kill), (1, os.kill), (1, os.killpg)], ids=["alone", "worker", "group"]
)
def test_sigterm(tmp_path, workers, end):
    """A run of tests that is ended by SIGTERM, as make passes it on or as timeout sends it to the
    whole group, leaves none of its boots running."""
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
            [sys.executable, "-m", "pytest", f"-n{workers}", "--keep", tmp_path / "keep", test],
            cwd=path(),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        while not pid.exists():
            assert run.poll() is None, "the tests ended"
            time.sleep(0.1)
        time.sleep(1)  # the worker, too, has the command's number by then
        end(run.pid, signal.SIGTERM)
        run.wait()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


INTERRUPTED = """
import os, signal
from testbed import machine
# Whoever runs this in the background ignores the signal, and so would this program.
signal.signal(signal.SIGINT, signal.default_int_handler)
def run():
    os.kill(os.getpid(), signal.SIGINT)
    machine.run_into({folder!r}, ["sleep", "1000"])
print(machine.call_all([lambda: "ended"], 1))
print(machine.call_all([lambda: "ended", run, lambda: "never"], 1))
# Interrupted while its functions are submitted.
class Early(list):
    def __iter__(self):
        yield from super().__iter__()
        raise KeyboardInterrupt
print(machine.call_all(Early([lambda: machine.run_into({folder!r}, ["sleep", "1000"])]), 1))
"""


def test_interrupt(tmp_path):
    """What runs at the same time ends by an interrupt, and what has ended is kept."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(folder=str(tmp_path))],
        cwd=path(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "(['ended'], False)",
        "(['ended', None, None], True)",
        "([None], True)",
    ], done.stdout


@pytest.fixture(name="fakes")
def fixture_fakes(tmp_path, monkeypatch):
    """Servers that note their start and listen, until their socket is removed."""
    listeners, started = {}, []

    def start(name, _disk, options, early):
        servers.remove(f"{name}.socket")
        listeners[name] = servers.socket.socket(
            servers.socket.AF_UNIX, servers.socket.SOCK_SEQPACKET
        )
        listeners[name].bind(f"{name}.socket")
        listeners[name].listen()
        started.append((options, early))

    folder = tempfile.TemporaryDirectory(prefix="servers.")
    monkeypatch.setattr(servers, "FOLDER", folder.name)
    monkeypatch.setattr(servers, "start", start)
    (tmp_path / "disk").write_bytes(b"disk")
    yield lambda inputs, *more: servers.socket_of([inputs], str(tmp_path / "disk"), [], *more), (
        started,
        listeners,
    )
    folder.cleanup()


def test_server_is_shared(fakes):
    """Runs that share all but late knobs share a server; one that does not answer is replaced."""
    ask, (started, listeners) = fakes
    first = ask("a", "mwait_wake 5\npmi_skid 3\n")
    assert ask("a", "# nothing\nmwait_wake 5\npmi_skid 4\n") == first
    assert started == [([], "mwait_wake 5\n")]
    others = [
        ask("a", "mwait_wake 6\n"),
        ask("b", "mwait_wake 5\n"),
        ask("a", "mwait_wake 5\n", ("1+2", "c")),
    ]
    assert len({first, *others}) == 4 and len(started) == 4
    listeners[first.removesuffix(".socket")].close()
    assert ask("a", "mwait_wake 5\n") == first and len(started) == 5


@pytest.mark.parametrize("length", [10, 73, 74, 200])
def test_long_path(length):
    """However long a tree's path is, a socket has room."""
    top = "/" + "x" * (length - 1)
    folder = servers.folder_of(top)
    assert folder.startswith(top) == (length <= 73)
    assert len(f"{folder}/{'0' * servers.NAME_LENGTH}.socket") <= 107


def test_servers_are_few(fakes, monkeypatch):
    """The server that nobody has asked for longest goes first."""
    ask, _ = fakes
    monkeypatch.setattr(servers, "SERVERS_MAX", 2)
    names = [ask(name, "") for name in "ab"]
    for at, name in enumerate(names):
        os.utime(name, (at, at))
    assert ask("a", "") == names[0]
    new = ask("c", "")
    assert [os.path.exists(name) for name in (*names, new)] == [True, False, True]
