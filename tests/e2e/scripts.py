# SPDX-License-Identifier: BSD-2-Clause
# scripts.py: runs the commands that a user types, and reads how they refuse.
import os
import re
import subprocess

from testbed.machine import BACKSTOP_SECONDS, STATUS_TIMEOUT, TOP, path


def run(*arguments, **environment):
    return subprocess.run(
        arguments,
        cwd=TOP,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=BACKSTOP_SECONDS,
        check=False,
        env={**os.environ, **environment},
    )


def expect_line(done, *fragments):
    """The command failed with one line on stderr that has the fragments."""
    assert done.returncode not in (0, STATUS_TIMEOUT), f"exit status {done.returncode}"
    lines = [
        line
        for line in done.stderr.splitlines()
        if not re.search(r"backend (kvm|emulator|tcg): ", line)
    ]
    assert len(lines) == 1, f"{len(lines)} lines: {lines}"
    for fragment in fragments:
        assert fragment in lines[0], f"'{fragment}' is not in: {lines[0]}"


def run_qemu(*arguments, **keywords):
    return run(path("run-qemu.sh"), *arguments, **keywords)
