# SPDX-License-Identifier: BSD-2-Clause
# demo_boot.py: what the demos of both traces do alike: the command line, and the boot of Linux
# under PMUvisor, with one job of the experiment's. The job hands its files over to the emulator.
# QEMU has no such channel, and Debian's cloud kernel no file system that it shares: there the job
# prints them (console_files.py).
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

from experiments.shared.analysis import console_files
from experiments.shared.analysis.ctf_writer import CannotWrite
from experiments.shared.analysis.records import BadRecords
from testbed.machine import made

TOP = pathlib.Path(__file__).resolve().parents[3]


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


def file_of(found, name, folder):
    """Gives one of the guest's files."""
    if name not in found:
        raise DemoFailed(f"the guest left no file '{name}' (see {folder / 'console'})")
    return found[name]


def paths(folder, rows):
    """Lines of (name in the folder, what reads it)."""
    return [f"{os.path.relpath(folder / name):<34} {what}" for name, what in rows]


def main(text, job, config, render, errors=()):
    """A demo's command line. `text`: its description; `render`: writes all, of the folder, the
    guest's files and what stands beside a time, and gives the lines to print; `errors`: what it
    raises besides."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--timeout", type=int, default=1200, metavar="S")
    parser.add_argument("--backend", default="auto", help="as run-qemu.sh has it")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = boot(folder, job, config, options.cpus, options.timeout, options.backend)
        print("\n".join(render(folder, found, where(options.backend))))
    except (
        DemoFailed,
        BadRecords,
        CannotWrite,
        console_files.BadFile,
        subprocess.CalledProcessError,
        ValueError,
        OSError,
        *errors,
    ) as error:
        sys.exit(f"{parser.prog}: {error}")
