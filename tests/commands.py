# SPDX-License-Identifier: BSD-2-Clause
# commands.py: runs a command to its end, from the top of the tree.
import subprocess

from testbed.machine import BACKSTOP_SECONDS, TOP


def run(*command, cwd=TOP, **more):
    """(exit status, what it said on stdout and stderr)."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BACKSTOP_SECONDS,
        check=False,
        **more,
    )
    return done.returncode, done.stdout
