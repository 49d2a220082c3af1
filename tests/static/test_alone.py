# SPDX-License-Identifier: BSD-2-Clause
# test_alone.py: EXPERIMENTS="name ..." links these and those that they need, and no others.
import os
import re
import shutil
import subprocess

from testbed.machine import TOP, made, path
from tests.static import rooms

BUILD = os.path.join("build", "alone")


def make(*words):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(
        ["make", "-s", f"--jobs={os.cpu_count()}", f"BUILD={BUILD}", *words],
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def linked():
    """Folders of experiments/ that the last image has something of."""
    with open(os.path.join(TOP, BUILD, "pmuvisor-lab.map"), encoding="utf-8") as source:
        return set(
            re.findall(rf"^ .*{BUILD}/(experiments/\w+/hypervisor)/", source.read(), re.MULTILINE)
        )


def test_each_alone():
    """Each links without the others, whatever of theirs it might have used. The objects are those
    of the whole image."""
    order = rooms.experiments()
    made("build/pmuvisor-lab.efi")
    shutil.rmtree(path(BUILD), ignore_errors=True)
    os.makedirs(path(BUILD))
    subprocess.run(
        [
            "cp",
            "-a",
            "--parents",
            *rooms.rooms(),
            *order,
            "flags",
            "offsets.inc",
            os.path.abspath(path(BUILD)),
        ],
        cwd=path("build"),
        check=True,
    )
    for folder in order:
        name = folder.split("/")[1]
        done = make(f"EXPERIMENTS={name}", "lab")
        assert done.returncode == 0, f"{name}: {done.stderr[-600:]}"
        assert folder in linked() and len(linked()) < len(order), linked()
