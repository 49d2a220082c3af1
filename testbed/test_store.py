# SPDX-License-Identifier: BSD-2-Clause
# test_store.py: a boot's key says all that goes in, and the store gives what came out or nothing.
import dataclasses
import os
import signal
import subprocess
import sys

import pytest

from testbed import boots
from testbed.boots import Emulated, Machine, Volume
from testbed.machine import path
from testbed.outcomes import Outcomes
from testbed.store import ENTRY, PART, Store, key_of

KEY = "0" * 40


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
    with store.making() as folder:
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


def test_two_at_once(tmp_path):
    """Both have made it: one of them is kept, and both have it."""
    first, second = (Store(str(tmp_path / "boots")) for _ in range(2))
    with second.making() as folder:
        with open(os.path.join(folder, "console"), "wb") as out:
            out.write(b"same")
        one = kept(first)
        assert second.keep(KEY, folder, {"status": 0}) == one
    assert second.find(KEY) == ({"status": 0}, one) and os.listdir(second.folder) == [KEY]


HALF = """
import os, sys
from testbed.store import Store
store = Store({folder!r})
with store.making() as folder:
    with open(os.path.join(folder, "console"), "wb") as out:
        out.write(b"half")
    print("ready", flush=True)
    {then}
"""


def half(store, then):
    return subprocess.Popen(
        [sys.executable, "-c", HALF.format(folder=store, then=then)],
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
    assert Store(folder).find(KEY) is None and os.listdir(folder) == []


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
    """A test without boots passes again while no file, package or variable is another one; where
    git knows nothing of the tree none is known."""
    store, file, packages = Store(str(tmp_path / "boots")), tmp_path / "file", tmp_path / "status"
    file.write_bytes(b"a")
    packages.write_bytes(b"p")
    monkeypatch.setattr("testbed.outcomes.TOP", str(tmp_path))
    monkeypatch.setattr("testbed.outcomes.PACKAGES", str(packages))
    monkeypatch.setattr("testbed.outcomes.tree", lambda: ["file"])

    def known(names=("file",)):
        return Outcomes(store, list(names)).said

    first = Outcomes(store, ["file"])
    first.said["test"] = "said"
    first.keep()
    assert known() == {"test": "said"} and known(()) == {}
    for change in (
        lambda: file.write_bytes(b"b"),
        lambda: packages.write_bytes(b"q"),
        lambda: monkeypatch.setenv("FIRMWARE", "another"),
        lambda: monkeypatch.setenv("FULL", "2"),
    ):
        change()
        assert known() == {}
    # What has changed while tests ran belongs to neither state.
    late = Outcomes(store, ["file"])
    late.said["test"] = "said"
    file.write_bytes(b"c")
    late.keep()
    assert known() == {}
    file.write_bytes(b"b")
    assert known() == {}
