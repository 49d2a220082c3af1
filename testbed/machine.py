# SPDX-License-Identifier: BSD-2-Clause
# machine.py: boots for tests and measurements. A boot makes a disk, runs it in the emulator, under
# a limit of emulated instructions, or in QEMU, and keeps what came out: exit status, console and
# ledger. One boot answers many questions, so that each is made once, when it is first asked for.
import concurrent.futures
import functools
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Linux turns two mitigations on wherever it sees a hypervisor, because it cannot know what the host
# has ("If a VMM did not expose ITS_NO, assume that a guest could be running on a vulnerable
# hardware"). Both sides run without them, so that the guest's work can be compared with the native;
# and without FRED, which the guest does not see (docs/measuring.md).
PAYLOAD_APPEND = ("console=ttyS0,115200 quiet cryptomgr.notests=1 indirect_target_selection=off "
                  "spectre_bhi=off fred=off")

# Nothing is judged by the host's clock: this only ends what hangs, however busy the host is.
BACKSTOP_SECONDS = 6 * 3600
KILL_SECONDS = 60  # after the limit that the command has itself
LIMIT = 20_000  # millions of emulated instructions; Linux needs 1,000 to 2,000 to its init
STATUS_POWEROFF = 0
STATUS_RESET = 3
STATUS_REFUSED = 4  # run-qemu.sh only
STATUS_LIMIT = 5
STATUS_TEXT = 6
STATUS_TIMEOUT = 124


# Knobs that nothing asks for before the machine first reads its disk (instrument/knobs.cc).
LATE_KNOBS = {"allow_resets", "branch_trace", "cpuid", "exit_lines", "feature_control",
              "flow_log", "hide_control", "hide_cpuid", "hide_msr", "memory_log", "mov_ss_ignored", "msr", "nmi_handler",
              "nmi_root", "pebs", "pebs_late", "pmi_skid", "pmu", "regions_of_all",
              "reset_button", "unknown_msrs"}
# And those of what experiments write at a run's end.
for _rows in glob.glob(os.path.join(TOP, "experiments", "*", "emulator", "dumps.inc")):
    with open(_rows, encoding="utf-8") as _file:
        LATE_KNOBS.update(re.findall(r"^DUMP\((\w+),", _file.read(), re.MULTILINE))
SERVERS_MAX = 8  # at once; each has some 100 MiB


IN_MEMORY = "/dev/shm"
IN_MEMORY_ROOM = 4 << 30  # bytes that have to be free there


def scratch():
    """Where disks of runs are: each is written once and read once, so in memory, if there is room."""
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK):
        return tempfile.gettempdir()
    room = os.statvfs(IN_MEMORY)
    return IN_MEMORY if room.f_bavail * room.f_frsize >= IN_MEMORY_ROOM else tempfile.gettempdir()


SCRATCH = scratch()


def environment():
    """For what makes disks and runs them."""
    return {**os.environ, "TMPDIR": SCRATCH}


class Skip(Exception):
    """The test cannot be run here; its text says what is missing."""


def path(*parts):
    return os.path.join(TOP, *parts)


def tool(arguments, timeout=BACKSTOP_SECONDS):
    """Runs a project script and gives its stdout; a failure shows the last line it said."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, check=False, env=environment())
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing said"]
        raise AssertionError(f"{os.path.basename(arguments[0])}: {said[-1]}")
    return done.stdout


def read_file(disk, name):
    """The contents of a file on a FAT image; None: it is not there."""
    done = subprocess.run(["mtype", "-i", disk, name], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False,
                          env={**os.environ, "MTOOLS_SKIP_CHECK": "1"})
    return done.stdout if done.returncode == 0 else None


class Boot:
    """What one boot left behind."""

    def __init__(self, name, status, console, errors, ledger, seconds):
        self.name = name
        self.status = status
        self.console = re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]", "", console).replace("\r", "")
        self.errors = errors
        self.ledger = ledger
        self.seconds = seconds
        self.files = {}  # what emulator(read=) asked for: contents, or None where there is no such file

    def lines(self, job):
        """The lines 'job: key=value ...' of the guest's console, as dictionaries."""
        found = []
        for line in self.console.splitlines():
            if line.startswith(f"{job}: "):
                pairs = re.findall(r"(\w+)=(\"[^\"]*\"|\S+)", line[len(job) + 2:])
                found.append({key: value.strip('"') for key, value in pairs})
        return found

    def job_status(self, job):
        for line in self.lines("job"):
            if line.get("name") == job:
                return int(line["status"])
        raise AssertionError(f"job {job} did not end (boot {self.name}, exit status {self.status}, "
                             f"last line: {self.last_line()})")

    def last_line(self):
        lines = [line for line in self.console.splitlines() if line.strip()]
        return lines[-1].strip()[:160] if lines else "none"

    def squeezed(self):
        """The console without blanks: firmware breaks long lines where its screen ends."""
        return re.sub(r"\s+", "", self.console)

    def expect_status(self, wanted):
        if self.status != wanted:
            errors = self.errors.strip().splitlines() or ["none"]
            raise AssertionError(f"boot {self.name}: exit status {self.status}, wanted {wanted}; "
                                 f"error line: {errors[-1]}; last line: {self.last_line()}")

    def region(self, number):
        if not self.ledger:
            raise AssertionError(f"boot {self.name}: no ledger was written")
        region = self.ledger["regions"].get(str(number))
        if region is None:
            raise AssertionError(f"boot {self.name}: the ledger has no region {number}")
        return region


@functools.lru_cache(None)
def firmware(name):
    """(image, GRUB's modules) of a Debian, by testbed/firmware.sh's name."""
    try:
        return tuple(tool([path("testbed", "firmware.sh"), name]).split())
    except AssertionError as trouble:
        raise Skip(trouble) from None


def exit_count(account):
    return sum(entry["count"] for entry in account["exits"].values())


class Servers:
    """Emulators that have started their firmware and wait for a disk, by the machine that each is.
    They end with this program, whose pipe they hold."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pmuvisor-servers.", dir=SCRATCH)
        self.lock = threading.Lock()
        self.found = {}
        self.count = 0

    def socket(self, disk, machine, knobs, own=()):
        """The socket of a server for this disk's size, run.sh's options and knobs. `own`: what is
        the run's own of the disk, as run.sh has it, and a name for what all disks share."""
        early = "".join(line + "\n" for line in (knobs or "").splitlines()
                        if line.split("#")[0].split()[:1] and line.split()[0] not in LATE_KNOBS)
        key = (os.path.getsize(disk), *machine, *own, early)
        with self.lock:
            server = self.found.pop(key, None) or Server(self, early)
            self.found[key] = server
            if len(self.found) > SERVERS_MAX:
                self.found.pop(next(iter(self.found))).end()
        return server.ready(disk, machine + (["--own", own[0]] if own else []))

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
                    [path("testbed", "run.sh"), "--serve", f"{self.name}.socket", "--disk", disk,
                     "--knobs", f"{self.name}.knobs", *machine], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    start_new_session=True, env=environment())
                self.said = self.process.stdout.readline()
            if self.said != "ready\n":
                raise AssertionError(f"no server of boots: {self.process.stderr.read().strip()}")
        return f"{self.name}.socket"

    def end(self):
        with self.lock:
            if self.process:
                self.process.stdin.close()
                self.process.wait()


class Lab:
    """Makes boots and remembers them; for several threads, of which each may hold one of `slots`
    (a semaphore): while it waits for a boot that another one makes, it gives its slot back."""

    def __init__(self, keep, slots=None):
        self.lock = threading.Lock()
        self.slots = slots
        self.boots = {}
        self.keep = keep
        os.makedirs(keep, exist_ok=True)
        self.kernels = {}
        self.running = set()
        self.stopped = False
        self.servers = Servers() if os.environ.get("FORK", "1") != "0" else None

    def kernel(self, flavour="cloud", suite=""):
        """Debian's kernel of this machine's suite, or of another one."""
        if (flavour, suite) not in self.kernels:
            other = ["--suite", suite] if suite else []
            said = tool([path("programs", "kernel.sh"), *other, flavour])
            self.kernels[flavour, suite] = said.split()[0]
        return self.kernels[flavour, suite]

    def initrd(self, flavour="cloud", tools=False):
        arguments = [path("programs", "payload", "build.sh")] + (["--tools"] if tools else [])
        return tool(arguments + [flavour]).strip()

    @staticmethod
    def efi_path(config="", *folder):
        """The image that has these options; testbed/image.sh says which."""
        return tool([path("testbed", "image.sh"), config, path("build", *folder)]).strip()

    @staticmethod
    def built(image):
        if not os.path.exists(image):
            raise AssertionError(f"{image} is missing; run: make lab")
        return image

    def efi(self, config=""):
        return self.built(self.efi_path(config))

    def boot(self, name, make):
        """The boot of that name, made now or earlier. One that cannot be made fails each test."""
        with self.lock:
            mine = name not in self.boots
            result = self.boots.setdefault(name, concurrent.futures.Future())
        if mine:
            try:
                result.set_result(make())
            except BaseException as trouble:
                result.set_exception(trouble)
        elif self.slots and not result.done():
            self.slots.release()
            concurrent.futures.wait([result])
            self.slots.acquire()
        return result.result()

    def emulator(self, name, entry="msr+nmi", flavour="cloud", tools=False, append="", config="",
                 jobs="report", end="poweroff", knobs=None, model=None, memory=512, cpus=1,
                 listed=None, menu=None, add=(), kernel=None, initrd=None, efi=None, limit=LIMIT,
                 until=None, panic=None, fork=True, read=(), tables=None, firmware=None):
        """One boot in the emulator. See testbed/README.md for knobs and models. `listed`: processors
        in the MADT, where they are not those that are there. `limit`: after so many millions of
        emulated instructions the run ends with STATUS_LIMIT. `until`: a little after this text on
        the console it ends with STATUS_TEXT, for consoles after which nothing else happens.
        `tables`: called with the folder of the machine's ACPI tables, to change them.
        `firmware`: of another Debian, as firmware() gives it.
        `fork`: from a server of boots, unless FORK=0; else from power-on. `read`: files of
        EFI/pmuvisor on the disk, as the run left them."""
        def make():
            with tempfile.TemporaryDirectory(prefix="pmuvisor-e2e.", dir=SCRATCH) as work:
                disk = os.path.join(work, "disk.img")
                acpi = os.path.join(work, "acpi")
                tool([path("testbed", "acpi", "build.sh"), acpi, str(listed or cpus)])
                if tables:
                    tables(acpi)
                words = f"{PAYLOAD_APPEND} pmv.run={jobs} pmv.end={end} {append}".strip()
                image, modules = firmware or (None, None)
                tool([path("testbed", "disk.sh"), "--out", disk, "--acpi", acpi,
                      *(["--grub", modules] if modules else []), *self.volume(
                          work, entry, words, config, kernel or self.kernel(flavour),
                          initrd or self.initrd(flavour, tools), efi, menu, add)])
                machine = ["--memory", str(memory), "--cpus", str(cpus)]
                if image:
                    machine += ["--firmware", image]
                if model:
                    machine += ["--model", model]
                if panic:
                    machine += ["--panic", panic]
                boot = self.run_disk(name, work, disk, machine, knobs, limit, until, fork)
                for file in read:
                    boot.files[file] = read_file(disk, f"::/EFI/pmuvisor/{file}")
                return boot
        return self.boot(name, make)

    def volume(self, work, entry, append, config, kernel, initrd, efi=None, menu=None, add=()):
        """disk.sh's options for what is on the volume."""
        # Without a tick and mitigations, unless the test is about them: every figure is so. And
        # nobody is there to press a key.
        defaults = [word for word in ("tick=0", "mitigations=off", "wait=0")
                    if word.split("=", maxsplit=1)[0] + "=" not in config]
        options = ["--entry", entry, "--append", append,
                   "--config", " ".join(defaults + [config]).strip(),
                   "--kernel", kernel, "--initrd", initrd]
        image = efi or self.efi_path(config)
        if entry != "native" or os.path.exists(image):
            options += ["--efi", self.built(image)]
        if menu:
            menu_file = os.path.join(work, "menu.cfg")
            with open(menu_file, "w", encoding="ascii") as out:
                out.write(menu)
            options += ["--menu", menu_file]
        for pair in add:
            options += ["--add", pair]
        return options

    def run_disk(self, name, work, disk, machine, knobs, limit, until, fork=True, own=()):
        """Runs a disk in the emulator. `machine`: run.sh's options of the machine; `own`: see
        Servers.socket()."""
        ledger_file = os.path.join(self.keep, f"{name}.json")
        if os.path.exists(ledger_file):
            os.remove(ledger_file)
        run = [path("testbed", "run.sh"), "--disk", disk, "--ledger", ledger_file,
               "--timeout", str(BACKSTOP_SECONDS), "--limit", str(limit)]
        if until:
            run += ["--until", until]
        if knobs is not None:
            knobs_file = os.path.join(work, "knobs")
            with open(knobs_file, "w", encoding="ascii") as out:
                out.write(knobs)
            run += ["--knobs", knobs_file]
        if self.servers and fork:
            machine = ["--from", self.servers.socket(disk, machine, knobs, own)]
        return self.watch(name, run + machine, ledger_file)

    def qemu_without_vmx(self, name):
        """One boot in QEMU without VMX (TCG), through the project's own run-qemu.sh."""
        def make():
            run = [path("run-qemu.sh"), "--backend", "tcg", "--efi", self.efi(),
                   "--kernel", self.kernel(), "--initrd", self.initrd(),
                   "--config", "wait=0", "--timeout", str(BACKSTOP_SECONDS)]
            return self.watch(name, run)
        return self.boot(name, make)

    def stop(self):
        """Ends the boots that run in other threads, and makes no more."""
        self.stopped = True
        for process in list(self.running):
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass

    def watch(self, name, run, ledger_file=None, seconds=BACKSTOP_SECONDS):
        """Runs the command with its console kept in a file; ends it after those seconds."""
        console_file = os.path.join(self.keep, f"{name}.console")
        started = time.monotonic()
        with open(console_file, "wb") as console, \
                open(os.path.join(self.keep, f"{name}.errors"), "w+b") as errors:
            process = subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=console,
                                       stderr=errors, start_new_session=True,
                                       env=environment())
            self.running.add(process)
            if self.stopped:
                self.stop()
            try:
                status = process.wait(timeout=seconds + KILL_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = STATUS_TIMEOUT
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                self.running.discard(process)
            errors.seek(0)
            error_text = errors.read().decode("utf-8", "replace")
        took = time.monotonic() - started
        with open(console_file, "rb") as console:
            text = console.read().decode("utf-8", "replace")
        ledger = None
        # Empty where the emulator itself has crashed.
        if ledger_file and os.path.exists(ledger_file) and os.path.getsize(ledger_file):
            with open(ledger_file, encoding="utf-8") as source:
                ledger = json.load(source)
        return Boot(name, status, text, error_text, ledger, took)
