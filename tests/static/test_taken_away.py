# SPDX-License-Identifier: BSD-2-Clause
# test_taken_away.py: what is left without experiments/ and metal/ is whole: in a copy of the tree
# it builds, passes its unit tests and static tests, and boots a guest.
import os
import shutil
import subprocess

from testbed.boots import bed
from testbed.machine import BACKSTOP_SECONDS, TOP, Skip, made, path, tree_files
from testbed.store import digest, digest_any

TAKEN = ("experiments", "metal")
COMPILERS = ("gcc-12", "gcc-14")
# Of the static tests, not those that take long and see the same here: the sources, and objects of
# which the same image is linked (test_builds).
STATIC = [
    "tests/static",
    "--deselect=tests/static/test_analyse.py::test_clang_tidy",
    "--ignore=tests/static/test_nmi_context.py",
]


def tree():
    """The files that are left."""
    return [name for name in tree_files() if name.split("/")[0] not in TAKEN]


def make_copy(lab):
    def make():
        if not all(os.path.isdir(os.path.join(TOP, folder)) for folder in TAKEN):
            raise Skip(f"{' and '.join(TAKEN)} are not here")
        to = path("build", "taken-away")
        shutil.rmtree(to, ignore_errors=True)
        for name in tree():
            os.makedirs(os.path.join(to, os.path.dirname(name)), exist_ok=True)
            shutil.copy2(os.path.join(TOP, name), os.path.join(to, name))
        return to

    return lab.once("taken-away", make, True).wait()


def run(copy, *command):
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MAKE", "MFLAGS", "PYTEST"))
    }
    done = subprocess.run(
        command,
        cwd=copy,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        errors="replace",
        timeout=BACKSTOP_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}"
    return done.stdout


def make(copy, *words):
    return run(copy, "make", "--no-print-directory", f"--jobs={os.cpu_count()}", *words)


def is_another(compiler):
    """It is there, and not what `gcc` is."""
    return shutil.which(compiler) and os.path.realpath(shutil.which(compiler)) != os.path.realpath(
        shutil.which("gcc")
    )


def builds(copy):
    """With each gcc that is there; pmuvisor.efi is the same as the whole tree's."""
    for compiler in filter(is_another, COMPILERS):
        make(copy, f"CC={compiler}", f"BUILD=build/{compiler}", f"build/{compiler}/pmuvisor.efi")
    make(copy)
    with open(made("build/pmuvisor.efi"), "rb") as whole, open(
        os.path.join(copy, "build", "pmuvisor.efi"), "rb"
    ) as ours:
        assert ours.read() == whole.read()


def whole(lab):
    """Builds, unit tests and static tests: while what is left is the same, but for its pages."""

    def look(_):
        copy = make_copy(lab)
        builds(copy)
        make(copy, "unit")
        run(copy, "/usr/bin/python3", "-B", "-m", "pytest", *STATIC)
        return "builds, unit tests, static tests"

    names = [os.path.join(TOP, name) for name in tree() if not name.endswith(".md")]
    return lab.value(
        "taken-away-whole",
        lambda: [digest(name) for name in names]
        + [digest_any(name) for name in ("gcc", *COMPILERS, "clang")],
        look,
    ).wait()


def test_whole(lab):
    return whole(lab)


def test_runs(lab):
    """Kept while the image and what boots it are the same."""

    def look(_):
        whole(lab)
        assert "PMIs: 1000 raised (0 masked), 1000 in non-root mode" in make(make_copy(lab), "run")
        return "1000 PMIs"

    names = [
        os.path.join(TOP, name)
        for name in tree()
        if name.split("/")[0] in ("testbed", "programs", "run-qemu.sh", "Makefile")
    ]
    return lab.value(
        "taken-away-runs",
        lambda: [bed(), digest(made("build/pmuvisor.efi")), *map(digest, names)],
        look,
    ).wait()
