# SPDX-License-Identifier: BSD-2-Clause
# demos.py: the demo of an experiment, as its make target runs it, in the emulator. What it wrote is
# kept as long as all that goes in is the same.
import os
import subprocess
import sys
from types import SimpleNamespace

from testbed import boots
from testbed.machine import BACKSTOP_SECONDS, path
from testbed.store import digest, digest_any


def demo(lab, name, script, job):
    """Gives the folder that it filled and what it said. `script`: a module; `job`: whose
    image it boots."""
    image, efi = boots.initrd(name=job), path("build", "pmuvisor-lab.efi")
    parts = [
        os.path.dirname(path(*script.split("."))),
        path("experiments", "shared", "analysis"),
        path("run-qemu.sh"),
        path("testbed", "ledger.py"),
        image,
        efi,
        boots.kernel(),
    ]

    def make(folder):
        out = os.path.join(folder, "out")
        done = subprocess.run(
            [sys.executable, "-m", script, "--backend", "emulator", out],
            cwd=path(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BACKSTOP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return lab.value(
        name,
        lambda: [boots.bed(), digest(__file__), *map(digest_any, parts)],
        make,
        lambda folder, said: SimpleNamespace(folder=os.path.join(folder, "out"), said=said),
        targets=[image, efi],
    )
