# SPDX-License-Identifier: BSD-2-Clause
# test_taken_away.py: what is left without experiments/ and metal/ is whole: in a copy of the tree it
# builds, passes its unit tests and static tests, and boots a guest.
import os
import shutil
import subprocess

import pytest
from machine import BACKSTOP_SECONDS, TOP

TAKEN = ("experiments", "metal")
COMPILERS = ("gcc-12", "gcc-14")
# Of the static tests, not those that take long and see the same here: the sources, and objects of
# which the same image is linked (test_builds).
STATIC = ["tests/static", "--deselect=tests/static/test_analyse.py::test_clang_tidy",
          "--ignore=tests/static/test_nmi_context.py"]


@pytest.fixture(scope="module", name="copy")
def fixture_copy(tmp_path_factory):
    if not all(os.path.isdir(os.path.join(TOP, folder)) for folder in TAKEN):
        pytest.skip(f"{' and '.join(TAKEN)} are not here")
    to = tmp_path_factory.mktemp("taken-away")
    names = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True,
                           check=True).stdout.splitlines()
    for name in names:
        if name.split("/")[0] in TAKEN or not os.path.isfile(os.path.join(TOP, name)):
            continue
        os.makedirs(to / os.path.dirname(name), exist_ok=True)
        shutil.copy2(os.path.join(TOP, name), to / name)
    yield to
    shutil.rmtree(to)


def run(copy, *command):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("MAKE", "MFLAGS", "PYTEST"))}
    done = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, errors="replace", timeout=BACKSTOP_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}"
    return done.stdout


def make(copy, *words):
    return run(copy, "make", "--no-print-directory", f"--jobs={os.cpu_count()}", *words)


def is_another(compiler):
    """It is there, and not what `gcc` is."""
    return shutil.which(compiler) and \
        os.path.realpath(shutil.which(compiler)) != os.path.realpath(shutil.which("gcc"))


def test_builds(copy):
    """With each gcc that is there; pmuvisor.efi is the same as the whole tree's."""
    for compiler in filter(is_another, COMPILERS):
        make(copy, f"CC={compiler}", f"BUILD=build/{compiler}", f"build/{compiler}/pmuvisor.efi")
    make(copy)
    with open(os.path.join(TOP, "build", "pmuvisor.efi"), "rb") as whole:
        assert (copy / "build" / "pmuvisor.efi").read_bytes() == whole.read()


def test_unit(copy):
    make(copy, "unit")


def test_static(copy):
    make(copy)
    run(copy, "/usr/bin/python3", "-B", "-m", "pytest", *STATIC)


def test_runs(copy):
    assert "PMIs: 1000 raised (0 masked), 1000 in non-root mode" in make(copy, "run")
