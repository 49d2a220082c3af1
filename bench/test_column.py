# SPDX-License-Identifier: BSD-2-Clause
# test_column.py: a column more is a row of measurements.ini and no failure of a test: in a copy of
# the tree with columns before, between and after those that are there, all tests pass that know of
# columns.
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from bench.measurements import TOP

# Before all others; between them; and after them an experiment's, with a policy of its own.
FIRST = "first = pmuvisor policy=msr/unblock=lazy PMUvisor, a first column\n"
BETWEEN = "between = peer host=trixie-backports KVM, a column between\n"
LAST = "last = pmuvisor policy=last PMUvisor, a last column\n"
EXPERIMENT = '    .policy = {"last", POLICY_MSR},\n'
SECTION, BEFORE = "[columns]\n", "msr  "
NOT_COPIED = ("build", ".git", "out", "__pycache__")


def with_columns(top):
    """Makes the copy."""
    shutil.copytree(TOP, top, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    name = os.path.join(top, "bench", "measurements.ini")
    with open(name, encoding="ascii") as source:
        head, section, rows = source.read().partition(SECTION)
    with open(name, "w", encoding="ascii") as out:
        out.write(head + section + FIRST + rows.replace(f"\n{BEFORE}", f"\n{BETWEEN}{BEFORE}", 1))
    last = os.path.join(top, "experiments", "zz")
    os.makedirs(os.path.join(last, "hypervisor"))
    for name, text in (
        ("measurements.ini", SECTION + LAST),
        ("hypervisor/experiment.c", EXPERIMENT),
    ):
        with open(os.path.join(last, name), "w", encoding="ascii") as out:
            out.write(text)


def run(top, *command):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-B", *command],
        cwd=top,
        env=kept,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


IMAGES = """\
from bench import launch, plan
for boot in plan.make("emulator", ("first", "between", "last"), only=("kernel-", "a1-")):
    print(boot.name, launch.Launcher.efi(boot).rpartition("/")[2])
"""


class Column(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="pmuvisor-columns.")
        cls.addClassCleanup(folder.cleanup)
        cls.top = os.path.join(folder.name, "copy")
        with_columns(cls.top)

    def test_each_has_boots_with_its_image(self):
        said = run(self.top, "-c", IMAGES).stdout
        images = {"first": "pmuvisor.efi", "between": "pmuvisor.efi", "last": "pmuvisor-lab.efi"}
        self.assertEqual(
            said.splitlines(),
            [
                f"{boot}-{column} {image}"
                for boot in ("kernel", "a1")
                for column, image in images.items()
            ],
        )

    def test_all_that_knows_of_columns_passes(self):
        tables = glob.glob("experiments/*/measurements.ini", root_dir=self.top)
        analyses = [os.path.join(os.path.dirname(name), "analysis") for name in tables]
        done = run(
            self.top,
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "-rf",
            "bench",
            f"--ignore=bench/{os.path.basename(__file__)}",
            *(name for name in analyses if os.path.isdir(os.path.join(self.top, name))),
        )
        self.assertEqual(done.returncode, 0, done.stdout.partition("= short")[2])


if __name__ == "__main__":
    unittest.main()
