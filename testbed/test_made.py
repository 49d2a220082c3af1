# SPDX-License-Identifier: BSD-2-Clause
# test_made.py: what make makes for tests (machine.py), and that an image is the same bytes for the
# same files (programs/payload/pack.sh).
import glob
import os
import re
import subprocess
import sys

import pytest

from testbed.machine import TOP, made, path

CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
PLACES = (TOP, os.environ.get("PMUVISOR_CACHE", os.path.join(CACHE, "pmuvisor")))


def test_failure_is_one_line():
    with pytest.raises(AssertionError, match="no.cloud.img: .*No rule to make target"):
        made("build/payload/no-cloud.img")
    with pytest.raises(
        AssertionError, match="kernel.sh: unknown flavour 'red', wanted cloud, stock or rt"
    ):
        made("build/payload/kernel-red.txt")


def test_progress(tmp_path):
    """While make works its lines are on stderr; of the emulator's files, one line for each
    tenth, as soon as that is compiled: here make ends only after the first of these lines."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os; from testbed import machine; machine.run_make("
            f"['BUILD={tmp_path}', '{tmp_path}/programs/loop'], os.environ)",
        ],
        cwd=path(),
        check=True,
        capture_output=True,
        text=True,
    )
    assert "programs/payload/loop.asm" in done.stderr, done
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "Makefile").write_text(
        "bochs: "
        + " ".join(f"f{n}" for n in range(30))
        + "\n\t@for try in `seq 200`; do [ ! -e seen ] || exit 0; sleep 0.1; done; exit 1"
        + "\nf%:\n\t: g++ -c $@.cc\n"
    )
    with open(path("testbed", "build.sh"), encoding="utf-8") as source:
        compile_it = re.search(r"^compile\(\) {.*?^}", source.read(), re.MULTILINE | re.DOTALL)[0]
    with subprocess.Popen(
        ["bash", "-c", f"set -euo pipefail\n{compile_it}\ncompile {tmp_path}"],
        stderr=subprocess.PIPE,
        text=True,
    ) as done:
        lines = [done.stderr.readline()]
        (tmp_path / "build" / "seen").touch()
        lines += done.stderr.readlines()
    assert done.returncode == 0, f"the first line came after make's end: {lines}"
    assert (
        len(lines) == 10 and lines[-1] == "testbed: 30 of 30 files of Bochs are compiled\n"
    ), lines


def test_made_once(tmp_path):
    """What one target's flags are is not what all are made with: nothing is made again."""

    def make(*words):
        subprocess.run(
            ["make", "-C", path(), "-s", f"BUILD={tmp_path}", *words],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": ""},
        )

    make(f"{tmp_path}/apic/apic.o")
    flags = (tmp_path / "flags").read_text()
    for name in ("boot/screen.o", "tests/plan/main.o"):
        make(f"{tmp_path}/{name}")
        assert (tmp_path / "flags").read_text() == flags, name


def test_same_bytes(tmp_path):
    """Neither times, nor a word that is there twice, nor the folder's order count."""
    images = []
    for number, words in enumerate((("b=one", "a/"), ("a/", "b=two", "b=one", "a/"))):
        for name in ("one", "two"):
            (tmp_path / name).write_text(name, encoding="ascii")
            os.utime(tmp_path / name, (number, number))
        image = tmp_path / f"{number}.img"
        subprocess.run(
            [path("programs", "payload", "pack.sh"), image, "none", "none", *words],
            cwd=tmp_path,
            check=True,
        )
        images.append(image.read_bytes())
    assert images[0] == images[1] and b"one" in images[0]


def test_no_place():
    """No program and no module contains the path of the tree or of the cache: one more byte of an
    image moves each interrupt of a boot."""
    names = [
        *glob.glob(path("build", "programs", "*")),
        *glob.glob(path("build", "*", "*", "*.ko")),
    ]
    names = [name for name in names if os.path.isfile(name) and not name.endswith("/flags")]
    names += [path("build", "programs", "init"), path("build", "module", "cloud", "pmuvisor.ko")]
    made(*names)
    wrong = []
    for name in names:
        with open(name, "rb") as source:
            data = source.read()
        wrong += [name for place in PLACES if os.fsencode(place) in data]
    assert not wrong, wrong
