# SPDX-License-Identifier: BSD-2-Clause
# servers.py: servers of boots (README.md): emulators that have done what several boots begin with,
# and wait. They end with this program, whose pipe they hold.
import glob
import os
import re
import subprocess
import tempfile
import threading

from testbed.machine import SCRATCH, TOP, environment, path

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
OWN_KNOBS = {name for name, acts in ACTS.items() if acts == "AFTER_INIT"}
KERNEL_KNOBS = {name for name, acts in ACTS.items() if acts == "WITH_KERNEL"}
SERVERS_MAX = 10  # at once; each has some 100 MiB


class Servers:
    """By the machine that each is."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pmuvisor-servers.", dir=SCRATCH)
        self.lock = threading.Lock()
        self.found = {}
        self.count = 0

    def socket(self, disk, machine, knobs, own=()):
        """The socket of a server for this disk's size, run.sh's options and knobs. `own`: what is
        the run's own of the disk, as run.sh has it, a name for what all disks share, and the knobs
        that act before a run's own sectors are read, if more than firmware runs until then."""
        lines = "".join(own[2:]).splitlines() + [
            line
            for line in (knobs or "").splitlines()
            if line.split("#")[0].split()[:1] and line.split()[0] not in LATE_KNOBS
        ]
        early = "".join(line + "\n" for line in lines)
        key = (os.path.getsize(disk), *machine, *own, early)
        with self.lock:
            server = self.found.pop(key, None) or Server(self, early)
            self.found[key] = server
            self.drop()
        return server.ready(disk, machine + (["--own", own[0]] if own else []))

    def at_init(self, boot):
        """The socket of a server that has started this boot (boots.py) up to its init."""
        server = Server(self, boot.early_knobs())
        with tempfile.TemporaryDirectory(prefix="pmuvisor-init.", dir=SCRATCH) as work:
            socket = server.ready(
                boot.disk(work)[0],
                ["--at", "init", "--limit", str(boot.machine.limit), *boot.machine.options()],
            )
        with self.lock:
            self.found[socket] = server
            self.drop()
        return socket

    def there(self, socket):
        """Whether that server at init still waits."""
        with self.lock:
            if socket in self.found:
                self.found[socket] = self.found.pop(socket)  # now the newest
            return socket in self.found

    def end(self, socket):
        with self.lock:
            server = self.found.pop(socket, None)
        if server:
            server.end()

    def drop(self):
        if len(self.found) > SERVERS_MAX:
            self.found.pop(next(iter(self.found))).end()

    def name(self, early):
        self.count += 1
        name = os.path.join(self.folder.name, str(self.count))
        with open(f"{name}.knobs", "w", encoding="ascii") as out:
            out.write(early)
        return name


class Server:
    """One of them. What it forks goes on when it ends."""

    def __init__(self, servers, early):
        self.name = servers.name(early)
        self.lock = threading.Lock()
        self.process = None

    def ready(self, disk, machine):
        with self.lock:
            if self.process is None:
                self.process = subprocess.Popen(
                    [
                        path("testbed", "run.sh"),
                        "--serve",
                        f"{self.name}.socket",
                        "--disk",
                        disk,
                        "--knobs",
                        f"{self.name}.knobs",
                        *machine,
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                    env=environment(),
                )
                self.said = self.process.stdout.readline()
            if self.said != "ready\n":
                raise AssertionError(f"no server of boots: {self.process.stderr.read().strip()}")
        return f"{self.name}.socket"

    def end(self):
        with self.lock:
            if self.process:
                self.process.stdin.close()
                self.process.wait()
