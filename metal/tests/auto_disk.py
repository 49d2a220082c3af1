# SPDX-License-Identifier: BSD-2-Clause
# auto_disk.py: for tests of `make install BENCH=NAME`: the disk as it fills it, a run in the
# emulator, and what is on the disk then.
import os
import subprocess
import tempfile

from metal.tests.made_up import append, content, make, mtools, put
from testbed.boots import initrd, kernel
from testbed.machine import BACKSTOP_SECONDS, STATUS_TEXT, made, path, tool

RESETS = 30
LIMIT = 600_000  # millions of instructions
MEMORY_MIB = 1024


def install(esp, columns, words, plan, minutes):
    """`columns`: those of the plan, where it is ""."""
    os.makedirs(os.path.join(esp, "EFI"))
    files = (f"KERNEL={kernel()}", f"INITRD={made(initrd())}")
    done = make("install", f"ESP={esp}", f"BENCH={plan}", "GUEST=cloud", *files, REAL="0")
    assert done.returncode == 0, f"make install: {done.stderr.strip().splitlines()[-1:]}"
    assert "make collect" in done.stdout, "make install does not say how to see the results"
    lines = ["timeout=0", "bench_end=poweroff", f'bench_words="{words}"']
    lines += [f'bench_columns="{columns}"'] if columns else []
    lines += [f"bench_minutes={minutes}"] if minutes else []
    text = "".join(f"set {line}\n" for line in lines)
    append(os.path.join(esp, "EFI", "pmuvisor", "local.cfg"), text.encode())


def read_folder(disk, work, number):
    """{name: bytes} of EFI/pmuvisor/bench's results on the disk."""
    target = os.path.join(work, f"bench{number}")
    os.mkdir(target)
    mtools("mcopy", disk, "-s", "-n", "::/EFI/pmuvisor/bench", target)
    return {
        os.path.relpath(os.path.join(folder, name), target): content(folder, name)
        for folder, _, names in os.walk(target)
        for name in names
        if name.endswith((".txt", ".ok", "plan.cfg"))
    }


def put_on(disk, work, name, text):
    """Writes a file of EFI/pmuvisor on the disk."""
    source = put(work, "put", text.encode())
    mtools("mcopy", disk, "-o", source, f"::/EFI/pmuvisor/{name}")


def run(disk, knobs, work, console_file, cut, cpus=1, model=None):
    """One run, to its end or to the cut; its exit status, None when it was cut."""
    command = [path("testbed", "run.sh"), "--disk", disk, "--knobs", knobs]
    command += f"--memory {MEMORY_MIB} --cpus {cpus} --limit {LIMIT}".split()
    command += ["--timeout", str(BACKSTOP_SECONDS)]
    command += ["--model", model] if model else []
    if cut:
        command += ["--until", cut[0], "--after", str(cut[1])]
    with open(console_file, "wb") as console:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": work},
            check=False,
        )
    return None if done.returncode == STATUS_TEXT else done.returncode


def make_disk(work, columns, words, knobs="", cpus=1, plan="all", minutes=0):
    """(disk image, knobs file): what `make install` fills, on a disk that the emulator boots."""
    esp, acpi = os.path.join(work, "esp"), os.path.join(work, "acpi")
    disk = os.path.join(work, "disk.img")
    install(esp, columns, words, plan, minutes)
    tool([path("testbed", "acpi", "build.sh"), acpi, str(cpus)])
    tool([path("testbed", "disk.sh"), "--out", disk, "--acpi", acpi, "--tree", esp])
    return disk, put(work, "knobs", f"allow_resets {RESETS}\n{knobs}".encode())


def read_console(name):
    with open(name, encoding="utf-8", errors="replace") as console:
        return console.read().replace("\r", "")


def run_once(
    lab, name, columns, words, knobs="", cpus=1, change=lambda disk, work: None, model=None, **plan
):
    """Makes a disk, changes it, and runs it to its end: (status, {name: bytes}, console)."""
    console_file = os.path.join(lab.keep, f"auto-{name}.console")
    with tempfile.TemporaryDirectory(prefix="pmuvisor-auto.") as work:
        disk, knobs_file = make_disk(work, columns, words, knobs, cpus, **plan)
        change(disk, work)
        status = run(disk, knobs_file, work, console_file, None, cpus, model)
        return status, read_folder(disk, work, 0), read_console(console_file)
