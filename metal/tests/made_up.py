# SPDX-License-Identifier: BSD-2-Clause
# made_up.py: files of made-up systems, and commands that run on them.
import hashlib
import os
import subprocess
import sys

from testbed.machine import environment as machine_environment
from testbed.machine import path
from tests.e2e.scripts import run

INSTALLED = "columns.cfg grub.cfg initrd.img local.cfg pmuvisor.cfg pmuvisor.efi vmlinuz".split()
# metal/collect.py
COLLECT = (sys.executable, "-B", "-m", "metal.collect")
PARTS = ("vmlinuz", "initrd.img", "kernel.bzImage", "build.txt")
PARTS += ("vmlinuz-new", "initrd-new.img", "no_bookkeeping.efi")


def put(folder, name, data=b"", mode=0o644):
    """Writes a file, and the folders above it; returns its path."""
    full = os.path.join(folder, name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "wb") as out:
        out.write(data)
    os.chmod(full, mode)
    return full


def put_whole(folder, name, text, torn=""):
    """Writes a file of bench/ as auto.sh keeps it, with its sum in the last line. `torn` comes
    before, and the sum is not of it."""
    text += f"check: md5={hashlib.md5(text.encode()).hexdigest()}"
    put(folder, f"bench/{name}", f"{torn}{text}".encode())


def append(name, data):
    with open(name, "ab") as out:
        out.write(data)


def content(*names):
    with open(os.path.join(*names), "rb") as source:
        return source.read()


def new_esp(work):
    """(an empty EFI system partition, PMUvisor's folder there, which does not exist yet)."""
    esp = os.path.join(work, "esp")
    os.makedirs(os.path.join(esp, "EFI"))
    return esp, os.path.join(esp, "EFI", "pmuvisor")


def path_with(work, name, script):
    """A PATH on which this command is a script."""
    tools = os.path.join(work, "tools")
    put(tools, name, b"#!/bin/sh\n" + script, 0o755)
    return f"{tools}:{os.environ['PATH']}"


def path_without(work, *prefixes):
    """A PATH with all commands except those that begin with one of the prefixes."""
    tools = os.path.join(work, "bin")
    os.mkdir(tools)
    for folder in f"{os.environ['PATH']}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".split(":"):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if not name.startswith(prefixes) and not os.path.lexists(os.path.join(tools, name)):
                os.symlink(os.path.join(folder, name), os.path.join(tools, name))
    return tools


def make(*words, **environment):
    """Runs the project's make without the settings of a make above."""
    clean = {key: "" for key in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")}
    return run("make", "-C", path(), "--no-print-directory", *words, **clean, **environment)


def put_parts(folder, build=b"build.txt"):
    """The files that `make build/auto/stock/build.txt` makes, but small."""
    for name in PARTS:
        put(folder, name, build if name == "build.txt" else name.encode())
    return folder


def complaints(done):
    """What a command that failed said on stderr, without make's own lines."""
    assert done.returncode != 0, done
    return [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]


def mtools(command, image, *words):
    """Runs one of the mtools on an image of a FAT file system; returns its output, as bytes."""
    done = subprocess.run(
        [command, "-i", image, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env={**machine_environment(), "MTOOLS_SKIP_CHECK": "1"},
    )
    assert done.returncode == 0, f"{command} {words}: {done.stderr.decode()}"
    return done.stdout
