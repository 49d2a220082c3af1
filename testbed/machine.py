# SPDX-License-Identifier: BSD-2-Clause
# machine.py: what all that boots machines has in common: limits, exit statuses, and how the
# project's scripts and make are called.
import concurrent.futures
import contextlib
import fcntl
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Linux turns two mitigations on wherever it sees a hypervisor, because it cannot know what the host
# has ("If a VMM did not expose ITS_NO, assume that a guest could be running on a vulnerable
# hardware"). Both sides run without them, so that the guest's work can be compared with the native;
# and without FRED, which the guest does not see (docs/measuring.md).
PAYLOAD_APPEND = (
    "console=ttyS0,115200 quiet cryptomgr.notests=1 indirect_target_selection=off "
    "spectre_bhi=off fred=off"
)

# Nothing is judged by the host's clock: this only ends what hangs, however busy the host is.
BACKSTOP_SECONDS = 6 * 3600
KILL_SECONDS = 60  # after the limit that the command has itself
END_SECONDS = 3  # for a command to end when it is told to
LIMIT = 20_000  # millions of emulated instructions; Linux needs 1,000 to 2,000 to its init
STATUS_POWEROFF = 0
STATUS_RESET = 3
STATUS_REFUSED = 4  # run-qemu.sh only
STATUS_LIMIT = 5
STATUS_TEXT = 6
STATUS_TIMEOUT = 124


IN_MEMORY = "/dev/shm"
IN_MEMORY_ROOM = 4 << 30  # bytes that have to be free there


def scratch():
    """Where disks of runs are: each is written once and read once, so in memory, if there is
    room."""
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


def tree_files(*more):
    """The files of this tree that git knows, from the top, in order; `more`: git's words for
    others. None in a copy that git knows nothing of."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", *more],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return sorted(name for name in set(listed.split("\0")) if os.path.isfile(path(name)))


def tool(arguments, timeout=BACKSTOP_SECONDS):
    """Runs a project script and gives its stdout; a failure shows the last line it said."""
    done = subprocess.run(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
        env=environment(),
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing said"]
        raise AssertionError(f"{os.path.basename(arguments[0])}: {said[-1]}")
    return done.stdout


running = set()  # processes of run_into()
stopping = threading.Event()


def run_into(folder, run, cwd=None, seconds=BACKSTOP_SECONDS):
    """Runs a command. Its stdout is folder/console, its stderr folder/errors. Ends the command
    after those seconds. Returns its exit status."""
    with open(os.path.join(folder, "console"), "wb") as console, open(
        os.path.join(folder, "errors"), "wb"
    ) as errors, subprocess.Popen(
        run,
        stdin=subprocess.DEVNULL,
        stdout=console,
        stderr=errors,
        cwd=cwd,
        start_new_session=True,
        env=environment(),
    ) as process:
        running.add(process)
        try:
            return process.wait(timeout=0 if stopping.is_set() else seconds + KILL_SECONDS)
        except subprocess.TimeoutExpired:
            return -signal.SIGTERM if stopping.is_set() else STATUS_TIMEOUT
        finally:
            running.discard(process)
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=END_SECONDS)


def call_all(functions, jobs):
    """Calls functions, that many at a time. Returns (their results, whether it was interrupted). An
    interrupt ends what runs; a function that has not ended by then has the result None."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        calls = []
        try:
            # An interrupt may come before all are submitted.
            calls.extend(map(pool.submit, functions))
            return [call.result() for call in calls], False
        except KeyboardInterrupt:
            ended = [call.done() for call in calls]
            pool.shutdown(wait=False, cancel_futures=True)
            stopping.set()
            for process in list(running):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
    stopping.clear()
    results = [call.result() if good else None for call, good in zip(calls, ended)]
    return results + [None] * (len(functions) - len(calls)), True


def run_make(words, variables):
    """Runs make, shows its lines on stderr while it works, and gives its exit status and the
    lines."""
    process = subprocess.Popen(
        ["make", "-C", TOP, "--no-print-directory", "-s", f"-j{os.cpu_count()}", *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            print(line, end="", file=sys.__stderr__, flush=True)
        return process.wait(), said
    finally:
        # An interrupted one would go on without the lock that made() has.
        if process.poll() is None:
            process.terminate()
            process.wait()


@functools.lru_cache(None)
def made(*targets):
    """The paths of these files, which make has made: one, or a list of several. A failure shows the
    last line that was said. The test build's have a make of their own (tests/tests.mk)."""
    names = [os.path.relpath(os.path.join(TOP, name), TOP) for name in targets]
    tests = [name for name in names if name.startswith("build/test/")]
    variables = {
        key: value
        for key, value in os.environ.items()
        if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    }
    os.makedirs(path("build"), exist_ok=True)
    with open(path("build", ".make.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for some, more in (
            (sorted(set(names) - set(tests)), []),
            (tests, ["TEST=1", "BUILD=build/test"]),
        ):
            if some:
                status, said = run_make([*more, *some], variables)
                if status != 0:
                    raise AssertionError(
                        f"make {' '.join(some)[:80]}: {' '.join(''.join(said).splitlines()[-2:])}"
                    )
    paths = [path(name) for name in names]
    return paths[0] if len(paths) == 1 else paths


def read_file(disk, name, at=0):
    """The contents of a file on a FAT volume, `at` so many bytes of an image; None: it is not
    there."""
    done = subprocess.run(
        ["mtype", "-i", f"{disk}@@{at}", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        env={**os.environ, "MTOOLS_SKIP_CHECK": "1"},
    )
    return done.stdout if done.returncode == 0 else None


@functools.lru_cache(None)
def firmware(name):
    """(image, GRUB's modules) of a Debian, by testbed/firmware.sh's name."""
    try:
        return tuple(tool([path("testbed", "firmware.sh"), name]).split())
    except AssertionError as trouble:
        raise Skip(trouble) from None


def exit_count(account):
    return sum(entry["count"] for entry in account["exits"].values())


def instructions(account):
    """Of the guest and, where there is a hypervisor, of root mode."""
    return account["nonroot"]["instructions"] + account["root"]["instructions"]
