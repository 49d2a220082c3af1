# SPDX-License-Identifier: BSD-2-Clause
# demo_boot.py: the boot of an experiment's demo: Linux under PMUvisor, with one job of the
# experiment's, which prints its files on the console (console_files.py).
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(TOP / "testbed"))

import initramfs  # noqa: E402


class DemoFailed(Exception):
    """The text says what did not happen, and where to look."""


def image(folder, name):
    """Writes the guest's root: the project's own, and after it the job and its tool, which
    experiments/NAME builds. Gives the path."""
    small, programs = (subprocess.run([TOP / part / "build.sh"], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout.splitlines()
                       for part in ("programs/payload", f"experiments/{name}/guest"))
    return initramfs.with_jobs(small[0], programs, folder / "initramfs.img")


def boot(folder, name, job, config, cpus, seconds, backend):
    """Boots, with the console in FOLDER/console; gives its text. `name`: of image(). Raises
    DemoFailed."""
    console = folder / "console"
    with open(folder / "run.log", "wb") as log:
        done = subprocess.run(
            [TOP / "run-qemu.sh", "--backend", backend, "--cpus", str(cpus),
             "--timeout", str(seconds), "--initrd", image(folder, name), "--serial", console,
             "--config", f"{config} user_hypercalls=1",
             # The watchdog's NMIs would come between, and are none of the load.
             "--append", f"nmi_watchdog=0 pmv.run={job} pmv.print=1"],
            stdout=subprocess.DEVNULL, stderr=log, check=False)
    if done.returncode != 0:
        said = (folder / "run.log").read_text(encoding="utf-8", errors="replace").strip()
        raise DemoFailed(f"the boot ended with {done.returncode}: {said[-300:]} (see {console})")
    return console.read_text(encoding="utf-8", errors="replace")
