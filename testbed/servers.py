# SPDX-License-Identifier: BSD-2-Clause
# servers.py: servers of boots (README.md): emulators that have done what several boots begin with,
# and wait. All programs that boot machines in this tree share them. A server ends when nobody has
# asked for it for some minutes, or when its socket is removed.
import contextlib
import fcntl
import glob
import os
import re
import socket
import subprocess
import tempfile

from testbed.machine import TOP, environment, path
from testbed.store import key_of

# When each knob acts first: of the emulator's own and experiments' (instrument/knobs.cc, part.h).
ACTS = {}
for _pattern, *_place in (
    (r'^    \{"(\w+)", (\w+),', "testbed", "instrument", "knobs.cc"),
    (r"^PART\((\w+), (\w+),", "experiments", "*", "emulator", "parts.inc"),
):
    for _rows in glob.glob(os.path.join(TOP, *_place)):
        with open(_rows, encoding="utf-8") as _file:
            ACTS.update(re.findall(_pattern, _file.read(), re.MULTILINE))
LATE_KNOBS = {name for name, acts in ACTS.items() if acts != "EARLY"}
PATH_MAX = 107  # of a socket
NAME_LENGTH = 12  # of the key


def folder_of(top):
    """Where the servers of that tree have their files: below it, or where its path is too long for
    a socket's, in the user's folder of temporary files."""
    folder = os.path.join(top, "build", "servers")
    if len(os.fsencode(folder)) + len("/.socket") + NAME_LENGTH <= PATH_MAX:
        return folder
    temporary = tempfile.gettempdir()
    return os.path.join(temporary, f"pmuvisor-{os.geteuid()}-{key_of(top)[:NAME_LENGTH]}")


FOLDER = folder_of(TOP)
SERVERS_MAX = 10 + (os.cpu_count() or 1)  # each has some 100 MiB
IDLE_SECONDS = 600


def early_knobs(knobs):
    lines = (knobs or "").splitlines()
    words = [line.split("#")[0].split() for line in lines]
    return "".join(
        f"{line}\n" for line, word in zip(lines, words) if word and word[0] not in LATE_KNOBS
    )


def socket_of(inputs, disk, machine, knobs, own=()):
    """Returns the socket of a server for disks of this size, run.sh's options and these knobs.
    `inputs`: what else all its runs share. `own`: the sectors that each run has for itself, as
    run.sh wants them, what identifies all other sectors, and the knobs that act before these are
    read, if more than firmware runs until then. The server may have been started by an earlier run
    of this program."""
    early = "".join(own[2:]) + early_knobs(knobs)
    key = key_of([inputs, os.path.getsize(disk), machine, own, early])
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    assert os.stat(FOLDER).st_uid == os.geteuid(), f"{FOLDER}: it is another user's; remove it"
    name = os.path.join(FOLDER, key[:NAME_LENGTH])
    with open(f"{name}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            os.utime(f"{name}.socket")  # asked for: run.sh looks at this time
        if not answers(f"{name}.socket"):
            start(name, disk, [*machine, *(["--own", own[0]] if own else [])], early)
    waiting = sorted(glob.glob(os.path.join(FOLDER, "*.socket")), key=last_asked)
    for oldest in waiting[:-SERVERS_MAX]:
        remove(oldest)
    return f"{name}.socket"


def remove_all():
    for name in glob.glob(os.path.join(FOLDER, "*.socket")):
        remove(name)


def last_asked(name):
    """0 if another program has removed it meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.getmtime(name)
    return 0


def remove(name):
    """Its server ends, but not what the server has forked."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(name)


def answers(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        return client.connect_ex(name) == 0


def start(name, disk, options, early):
    remove(f"{name}.socket")
    with open(f"{name}.knobs", "w", encoding="ascii") as out:
        out.write(early)
    with open(f"{name}.errors", "w+", encoding="utf-8") as errors:
        server = subprocess.Popen(
            [
                path("testbed", "run.sh"),
                "--serve",
                f"{name}.socket",
                "--idle",
                str(IDLE_SECONDS),
                "--disk",
                disk,
                "--knobs",
                f"{name}.knobs",
                *options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env=environment(),
        )
        with server.stdout:
            ready = server.stdout.readline() == "ready\n"
        errors.seek(0)
        assert ready, f"no server of boots: {errors.read().strip()}"
