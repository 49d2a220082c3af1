# SPDX-License-Identifier: BSD-2-Clause
# demo_boot.py: the boot of an experiment's demo: Linux under PMUvisor, with one job of the
# experiment's, which hands its files over to the emulator. QEMU has no such channel, and Debian's
# cloud kernel no file system that it shares: there the job prints them (console_files.py).
import os
import pathlib
import shutil
import subprocess

from experiments.shared.analysis import console_files

TOP = pathlib.Path(__file__).resolve().parents[3]

from testbed.machine import made


class DemoFailed(Exception):
    """The text says what did not happen, and where to look."""


def backend_of(wanted):
    """Where run-qemu.sh runs it: of "auto" what works here."""
    done = subprocess.run(
        [TOP / "run-qemu.sh", "--backend", wanted, "--probe"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise DemoFailed(done.stderr.strip())
    return done.stdout.strip()


def where(backend):
    """What stands beside each time on a page of what ran there."""
    return f" ({backend_of(backend)})"


def boot(folder, job, config, cpus, seconds, backend):
    """Boots, with the console in FOLDER/console; gives {name: bytes}, the job's files. The job
    has an image of its own. Raises DemoFailed."""
    image = made(f"build/payload/{job}-{os.environ.get('GUEST', 'cloud')}.img")
    console, handed = folder / "console", folder / "files"
    backend = backend_of(backend)
    own = ["--knobs", folder / "knobs"] if backend == "emulator" else []
    shutil.rmtree(handed, ignore_errors=True)  # an earlier run's
    (folder / "knobs").write_text(f"guest_files {handed}\n", encoding="utf-8")
    with open(folder / "run.log", "wb") as log:
        done = subprocess.run(
            [
                TOP / "run-qemu.sh",
                "--backend",
                backend,
                "--cpus",
                str(cpus),
                "--timeout",
                str(seconds),
                "--initrd",
                image,
                "--serial",
                console,
                *own,
                "--config",
                f"{config} user_hypercalls=1",
                # The watchdog's NMIs would come between, and are none of the load.
                "--append",
                f"nmi_watchdog=0 pmv.run={job} pmv.print={0 if own else 1}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=log,
            check=False,
        )
    if done.returncode != 0:
        said = (folder / "run.log").read_text(encoding="utf-8", errors="replace").strip()
        raise DemoFailed(f"the boot ended with {done.returncode}: {said[-300:]} (see {console})")
    if own:
        return {file.name: file.read_bytes() for file in handed.glob("*")}
    return console_files.files(console.read_text(encoding="utf-8", errors="replace"))
