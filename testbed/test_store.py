# SPDX-License-Identifier: BSD-2-Clause
# test_store.py: a boot's key says all that goes in, and the store gives what came out or nothing.
import dataclasses
import os
import signal
import subprocess
import sys
import threading

import pytest

from testbed import boots
from testbed.boots import Emulated, Machine, Volume
from testbed.machine import path
from testbed.outcomes import Outcomes
from testbed.store import ENTRY, PART, Store, digest_below, key_of

KEY = "0" * 40
TEST = "conftest.py::test"


@pytest.fixture(name="boot")
def fixture_boot(tmp_path):
    """A description with a file of each kind, which is never booted."""
    for name in ("kernel", "initrd", "efi", "added", "job", "firmware"):
        (tmp_path / name).write_bytes(name.encode())
    file = {name: str(tmp_path / name) for name in os.listdir(tmp_path)}
    return Emulated(
        "name",
        Volume(
            "msr",
            "quiet",
            "tick=0",
            file["kernel"],
            (file["initrd"], {"jobs/x": file["job"]}, b"bytes"),
            file["efi"],
            "menu",
            {"/EFI/x": file["added"]},
            "pmv.run=a1",
        ),
        Machine(1, 512, "model", "report", file["firmware"], "pmi_skid 3\n", 100, "text"),
        tables=lambda folder: None,
        read=("log",),
    )


def key(boot):
    return key_of(boot.inputs())


FILES = ("kernel", "initrd", "efi", "added", "job", "firmware")
WORDS = {
    "entry": "msr+nmi",
    "append": "quiet x",
    "config": "tick=1",
    "menu": "menv",
    "words": "pmv.run=a2",
    "initrd": (b"bytez",),
    "add": {"/EFI/y": b""},
}
MACHINE = {
    "cpus": 2,
    "memory": 513,
    "model": "modem",
    "panic": "fatal",
    "knobs": "pmi_skid 4\n",
    "limit": 101,
    "until": "test",
    "fork": False,
}


@pytest.mark.parametrize("name", FILES)
def test_byte_of_a_file(boot, tmp_path, name):
    before = key(boot)
    (tmp_path / name).write_bytes(name[:-1].encode() + b"!")
    assert key(boot) != before
    (tmp_path / name).write_bytes(name.encode())
    assert key(boot) == before


@pytest.mark.parametrize("name", [*WORDS, *MACHINE])
def test_word(boot, name):
    before = key(boot)
    if name in WORDS:
        boot.volume = dataclasses.replace(boot.volume, **{name: WORDS[name]})
    else:
        boot.machine = dataclasses.replace(boot.machine, **{name: MACHINE[name]})
    assert key(boot) != before


def change_table(folder):
    with open(os.path.join(folder, "dsdt.aml"), "r+b") as table:
        table.write(bytes([table.read(1)[0] ^ 1]))


@pytest.mark.parametrize(
    "name, value",
    [("listed", 3), ("read", ("log", "other")), ("tables", change_table), ("grub", path("lib"))],
    ids=["listed", "read", "tables", "grub"],
)
def test_rest(boot, name, value):
    before = key(boot)
    setattr(boot, name, value)
    assert key(boot) != before


@pytest.mark.parametrize("name", ["bochs", *boots.BED, os.path.basename(boots.VGA), *boots.TOOLS])
def test_bed(boot, monkeypatch, name):
    """The emulator, the scripts and the tools: what is said of each is in the key."""
    before = key(boot)
    for function in ("digest", "digest_any"):
        real = getattr(boots, function)
        monkeypatch.setattr(
            boots,
            function,
            lambda file, real=real: "another" if os.path.basename(file) == name else real(file),
        )
    boots.bed.cache_clear()
    try:
        assert key(boot) != before
    finally:
        boots.bed.cache_clear()


def test_name_is_no_input(boot):
    before = key(boot)
    boot.name = "another"
    assert key(boot) == before


def kept(store, text=b"console"):
    with store.making(KEY) as folder:
        os.mkdir(os.path.join(folder, "files"))
        for name in ("console", "files/log"):
            with open(os.path.join(folder, name), "wb") as out:
                out.write(text)
        return store.keep(KEY, folder, {"status": 0})


def test_what_was_kept(tmp_path):
    store = Store(str(tmp_path / "boots"))
    assert store.find(KEY) is None
    folder = kept(store)
    assert Store(store.folder).find(KEY) == ({"status": 0}, folder)
    assert os.listdir(store.folder) == [KEY]


def flip(name):
    with open(name, "r+b") as file:
        first = file.read(1)[0]
        file.seek(0)
        file.write(bytes([first ^ 1]))


DAMAGE = {
    "console": lambda folder: flip(folder / "console"),
    "file": lambda folder: flip(folder / "files" / "log"),
    "cut": lambda folder: os.truncate(folder / "console", 3),
    "missing": lambda folder: os.remove(folder / "console"),
    "more": lambda folder: (folder / "errors").write_bytes(b""),
    "entry": lambda folder: flip(folder / ENTRY),
    "no-entry": lambda folder: os.remove(folder / ENTRY),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged(tmp_path, damage):
    """It is found, goes, and can be made again."""
    store = Store(str(tmp_path / "boots"))
    kept(store)
    damage(tmp_path / "boots" / KEY)
    assert store.find(KEY) is None and os.listdir(store.folder) == []
    kept(store)
    assert store.find(KEY)


HALF = """
import os, sys
from testbed.store import Store
store = Store({folder!r})
with store.making({key!r}) as folder:
    with open(os.path.join(folder, "console"), "wb") as out:
        out.write(b"half")
    print("ready", flush=True)
    {then}
"""


def half(store, then):
    return subprocess.Popen(
        [sys.executable, "-c", HALF.format(folder=store, then=then, key=KEY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def test_killed(tmp_path):
    """What a killed run leaves is no entry and goes; what another run is at stays."""
    folder = str(tmp_path / "boots")
    with half(folder, "sys.stdin.read()") as one:
        assert one.stdout.readline() == "ready\n"
        Store(folder)
        parts = [name for name in os.listdir(folder) if name.startswith(PART)]
        assert len(parts) == 1, "another run's folder was removed under it"
        one.send_signal(signal.SIGKILL)
    store = Store(folder)
    assert store.find(KEY) is None and os.listdir(folder) == []


def test_killed_meanwhile(tmp_path):
    """Who waits for a run that is killed makes it, without what that has left."""
    folder = str(tmp_path / "boots")
    store = Store(folder)
    with half(folder, "sys.stdin.read()") as one:
        assert one.stdout.readline() == "ready\n"
        killed = threading.Event()
        threading.Timer(0.3, lambda: (killed.set(), one.kill())).start()
        with store.making(KEY) as part:
            assert killed.is_set() and os.listdir(part) == []


def test_cannot_be_removed(tmp_path, monkeypatch):
    """Who cannot remove what a killed run has left says so, and does not try for ever."""
    store = Store(str(tmp_path / "boots"))
    left = tmp_path / "boots" / (PART + KEY)
    left.mkdir()
    (left / "console").touch()
    monkeypatch.setattr("testbed.store.shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(PermissionError, match="remove it by hand"), store.making(KEY):
        pass


def test_python_cache(tmp_path):
    """What Python writes beside its sources is no input."""
    before = digest_below(str(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert digest_below(str(tmp_path)) == before


def test_full_disk(tmp_path):
    """A write that fails leaves nothing, and the run says so."""
    folder = str(tmp_path / "boots")
    with half(
        folder,
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8)); "
        f"store.keep({KEY!r}, folder, {{'status': 0}})",
    ) as one:
        assert one.stdout.readline() == "ready\n" and one.wait() != 0
    assert Store(folder).find(KEY) is None and os.listdir(folder) == []


def test_fresh(tmp_path):
    """Nothing of before is read, and nothing is left."""
    folder = str(tmp_path / "boots")
    kept(Store(folder))
    fresh = Store(folder, fresh=True)
    assert fresh.find(KEY) is None
    kept(fresh, b"other")
    fresh.close()
    assert os.listdir(tmp_path) == ["boots"] and Store(folder).find(KEY)


def test_oldest_goes(tmp_path, monkeypatch):
    store = Store(str(tmp_path / "boots"))
    kept(store)
    monkeypatch.setattr("testbed.store.BYTES_MAX", 1)
    assert Store(store.folder).find(KEY) is None


def test_outcomes(tmp_path, monkeypatch):
    """A test that has passed is known while no file, package or variable is another one; where git
    knows nothing of the tree none is known."""
    store, file, packages = Store(str(tmp_path / "boots")), tmp_path / "file", tmp_path / "status"
    file.write_bytes(b"a")
    packages.write_bytes(b"p")
    monkeypatch.setattr("testbed.outcomes.TOP", str(tmp_path))
    monkeypatch.setattr("testbed.outcomes.PACKAGES", str(packages))
    monkeypatch.setattr("testbed.outcomes.tree", lambda: ["file"])

    def known(names=("file",)):
        return Outcomes(store, list(names)).known["passed"]

    def passes():
        outcomes = Outcomes(store, ["file"])
        outcomes.known["passed"][TEST] = "said"
        return outcomes

    monkeypatch.setattr("testbed.outcomes.SECONDS", str(tmp_path / "seconds"))
    passes().keep()
    assert known() == {TEST: "said"} and known(()) == {}
    for change in (
        lambda: file.write_bytes(b"b"),
        lambda: packages.write_bytes(b"q"),
        lambda: file.chmod(0o755),
        lambda: monkeypatch.setattr("testbed.outcomes.host", lambda: ["another"]),
        lambda: monkeypatch.setenv("FIRMWARE", "another"),
        lambda: monkeypatch.setenv("FULL", "2"),
    ):
        change()
        assert known() == {}
    # What has changed while tests ran belongs to neither state.
    late = passes()
    file.write_bytes(b"c")
    late.keep()
    assert known() == {}
    file.write_bytes(b"b")
    assert known() == {}
