# SPDX-License-Identifier: BSD-2-Clause
# auto_disk.py: for tests of `make install BENCH=auto`: the disk as it fills it, a run in the
# emulator, and what is on the disk then.
import os
import subprocess

from boots import initrd, kernel
from machine import BACKSTOP_SECONDS, STATUS_TEXT, made, path, tool

RESETS = 30
LIMIT = 600_000  # millions of instructions
MEMORY_MIB = 1024


def clean_environment(**more):
    """Of a make that this runs under, nothing."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    }
    return {**kept, **more}


def install(lab, esp, columns, words):
    os.makedirs(os.path.join(esp, "EFI"))
    done = subprocess.run(
        [
            "make",
            "-C",
            path(),
            "--no-print-directory",
            "install",
            f"ESP={esp}",
            "BENCH=auto",
            "GUEST=cloud",
            f"KERNEL={kernel()}",
            f"INITRD={made(initrd())}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(REAL="0"),
        timeout=BACKSTOP_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"make install: {done.stdout.strip().splitlines()[-1:]}"
    assert "make collect" in done.stdout, "make install does not say how to see the results"
    with open(os.path.join(esp, "EFI", "pmuvisor", "local.cfg"), "a", encoding="ascii") as local:
        local.write(
            f'set timeout=0\nset bench_end=poweroff\nset bench_columns="{columns}"\n'
            f'set bench_words="{words}"\n'
        )


def read_folder(disk, work, number):
    """{name: bytes} of EFI/pmuvisor/bench's results on the disk."""
    target = os.path.join(work, f"bench{number}")
    os.mkdir(target)
    subprocess.run(
        ["mcopy", "-s", "-n", "-i", disk, "::/EFI/pmuvisor/bench", target],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MTOOLS_SKIP_CHECK": "1"},
    )
    found = {}
    for folder, _, names in os.walk(target):
        for name in names:
            if name.endswith((".txt", ".ok")):
                with open(os.path.join(folder, name), "rb") as source:
                    found[os.path.relpath(os.path.join(folder, name), target)] = source.read()
    return found


def put(disk, work, name, text):
    """Writes a file of EFI/pmuvisor on the disk."""
    source = os.path.join(work, "put")
    with open(source, "w", encoding="ascii") as out:
        out.write(text)
    subprocess.run(
        ["mcopy", "-o", "-i", disk, source, f"::/EFI/pmuvisor/{name}"],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MTOOLS_SKIP_CHECK": "1"},
    )


def run(disk, knobs, work, console_file, cut, cpus=1):
    """One run, to its end or to the cut; its exit status, None when it was cut."""
    command = [
        path("testbed", "run.sh"),
        "--disk",
        disk,
        "--knobs",
        knobs,
        "--memory",
        str(MEMORY_MIB),
        "--cpus",
        str(cpus),
        "--timeout",
        str(BACKSTOP_SECONDS),
        "--limit",
        str(LIMIT),
    ]
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


def make_disk(lab, work, columns, words, knobs="", cpus=1):
    """(disk image, knobs file): what `make install` fills, on a disk that the emulator boots."""
    esp, acpi = os.path.join(work, "esp"), os.path.join(work, "acpi")
    disk, knobs_file = os.path.join(work, "disk.img"), os.path.join(work, "knobs")
    install(lab, esp, columns, words)
    tool([path("testbed", "acpi", "build.sh"), acpi, str(cpus)])
    tool([path("testbed", "disk.sh"), "--out", disk, "--acpi", acpi, "--tree", esp])
    with open(knobs_file, "w", encoding="ascii") as out:
        out.write(f"allow_resets {RESETS}\n{knobs}")
    return disk, knobs_file


def read_console(name):
    with open(name, encoding="utf-8", errors="replace") as console:
        return console.read().replace("\r", "")
