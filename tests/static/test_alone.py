# SPDX-License-Identifier: BSD-2-Clause
# test_alone.py: EXPERIMENTS="name ..." links these and those that they need, and no others.
import os
import re
import shutil
import subprocess

import pytest

from testbed.machine import TOP, made, path
from tests.commands import run
from tests.static import rooms

pytestmark = pytest.mark.more

BUILD = os.path.join("build", "alone")


def make(*words):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    words = ["make", "-s", f"--jobs={os.cpu_count()}", f"BUILD={BUILD}", *words]
    return run(*words, cwd=TOP, env=environment)


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
    copied = [*rooms.rooms(), *order, "flags", "offsets.inc"]
    command = ["cp", "-a", "--parents", *copied, os.path.abspath(path(BUILD))]
    subprocess.run(command, cwd=path("build"), check=True)
    for folder in order:
        name = folder.split("/")[1]
        status, text = make(f"EXPERIMENTS={name}", "lab")
        assert status == 0, f"{name}: {text[-600:]}"
        assert folder in linked() and len(linked()) < len(order), linked()
