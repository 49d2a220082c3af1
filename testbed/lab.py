# SPDX-License-Identifier: BSD-2-Clause
# lab.py: gets boots, for tests and measurements alike: from the store, or from the emulator, as
# many at a time as there are processors, the longest first.
#
# Whoever wants a boot names it and gets a promise; what is read of it is there, or is waited for.
# plan() calls functions that want boots before any of those is made. A function that reads a boot
# too early is broken off, and called again when that boot is there. So all boots are known early,
# and no processor waits for the end of one function to see what the next one wants.
import collections
import concurrent.futures
import contextlib
import heapq
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time

from testbed import boots, machine
from testbed.boots import Boot, Emulated, Machine, Volume
from testbed.machine import PAYLOAD_APPEND, path
from testbed.servers import Servers
from testbed.store import Store, digest, digest_any, key_of

FORMAT = 1  # of what is kept
SECONDS = "seconds.json"
BOOT_SECONDS = 15.0  # of one of which nothing is known
TEST_KERNEL = path("build", "kernel.bzImage")
WORDS_MAX = 2047  # run.sh's
ADDRESS = re.compile(r" at 0x\w+")  # of a function, in a description
FIRST, LATER = range(2)  # in the queue: what somebody waits for, all else


class NotYet(BaseException):
    """A function reads what is not there yet. No function catches it."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted = wanted


class Later(Exception):
    """The thread turns to something else: what this waits for puts it back into the queue."""


class Promise:
    """A boot or another value that was asked for: what is read of it is read of the value."""

    def __init__(self, lab, wanted):
        self._lab, self._wanted = lab, wanted

    def wait(self):
        """Gives the value itself."""
        return self._lab.get(self._wanted)

    def __getattr__(self, name):
        return getattr(self.wait(), name)


class Wanted:
    """Something that is made once. `make(folder)` makes it there and gives what JSON can say of it;
    `value(folder, that)` makes of both what is read. `inputs()`: what it is a function of; None: it
    does not repeat, and what make() gives is the value. `targets()`: files that make makes first.
    """

    def __init__(
        self,
        name,
        make,
        value=None,
        inputs=None,
        targets=tuple,
        identity=None,
        boot=None,
        repeats=True,
    ):
        self.name, self.make, self.value, self.inputs = name, make, value, inputs
        self.boot = boot  # its description, if it is one
        self.key = self.group = None
        self.repeats = repeats  # with the same tree it would be the same again
        self.targets, self.identity = targets, identity or name
        self.future = concurrent.futures.Future()
        self.enlisted = False
        self.taken = False  # by a thread, or by another one with the same key
        self.followers = []  # with the same key
        self.calls = []  # functions that were broken off because this was not there


class Group:
    """Boots that differ in their words alone. The first of several starts a server for all."""

    def __init__(self):
        self.count = 0  # of those that are not in the store
        self.server = None  # a socket; "": it is being started
        self.waiting = []


class Call:
    """A function that wants boots, and what becomes of it."""

    def __init__(self, function):
        self.function = function
        self.future = concurrent.futures.Future()
        self.seconds = 0.0
        self.repeats = True  # all that it asked for would be the same again


class Lab:
    """`keep`: the folder of consoles and ledgers, by the names of their boots. `jobs`: how many at
    once; None: as many as there are processors."""

    def __init__(self, keep, jobs=None, store=None):
        self.keep = keep
        os.makedirs(keep, exist_ok=True)
        self.store = store or Store(path("build", "boots"), os.environ.get("FRESH") == "1")
        self.jobs = jobs or len(os.sched_getaffinity(0))
        self.servers = Servers() if os.environ.get("FORK", "1") != "0" else None
        self.lock = threading.Condition()
        self.known, self.keys, self.targets = {}, {}, set()
        self.groups = collections.defaultdict(Group)
        self.queue, self.order = [], itertools.count()
        # Functions that can go on. Python runs one at a time, whatever the threads; so boots go on.
        self.calls, self.calling = collections.deque(), False
        self.threads, self.running, self.stopped = [], set(), False
        self.planned = False  # the store is not asked before make has made what boots hold
        self.here = threading.local()
        self.booted = []  # the names of the boots that were made now
        self.seconds, self.seconds_file = {}, path("build", SECONDS)
        with contextlib.suppress(OSError, ValueError), open(
            self.seconds_file, encoding="utf-8"
        ) as source:
            self.seconds = json.load(source)

    # What goes in.

    kernel = staticmethod(boots.kernel)

    def volume(
        self,
        entry="msr+nmi",
        append="",
        config="",
        jobs="report",
        end="poweroff",
        kernel=None,
        initrd=None,
        efi=None,
        menu=None,
        add=None,
        flavour="cloud",
        tools=False,
    ):
        """Without a tick and mitigations, unless the boot is about them: every figure is so. And
        nobody is there to press a key."""
        defaults = [
            word
            for word in ("tick=0", "mitigations=off", "wait=0")
            if word.split("=", maxsplit=1)[0] + "=" not in config
        ]
        kernel = kernel or boots.kernel(flavour)
        words = f"pmv.run={jobs} pmv.end={end} {append}".split()
        # Where Linux has the project's init, the words of that come late: boots that differ in them
        # alone have the same disk.
        late = (
            []
            if menu or kernel == TEST_KERNEL
            else [word for word in words if word.startswith("pmv.")]
        )
        if len(" ".join(late)) > WORDS_MAX:
            late = []
        early = [word for word in words if word not in late]
        return Volume(
            entry,
            " ".join([PAYLOAD_APPEND, *early]),
            " ".join([*defaults, config]).strip(),
            kernel,
            initrd or boots.initrd(flavour, "tools" if tools else "initrd"),
            efi or boots.image(config),
            menu,
            dict(add or {}),
            " ".join(late),
        )

    # Asking.

    def emulator(
        self,
        name,
        cpus=1,
        memory=512,
        model=None,
        panic=None,
        knobs=None,
        limit=machine.LIMIT,
        until=None,
        fork=True,
        firmware=None,
        listed=0,
        tables=None,
        read=(),
        **volume,
    ):
        """One boot in the emulator (boots.py). See testbed/README.md for knobs and models; a file
        that a knob names is the boot's own (Boot.path()). `limit`: after so many millions of
        emulated instructions the run ends with STATUS_LIMIT. `until`: a little after this text on
        the console it ends with STATUS_TEXT. `firmware`: of another Debian, as machine.firmware()
        gives it. `fork`: from a server of boots, unless FORK=0; else from power-on. `volume`: see
        volume().
        """
        image, grub = firmware or ("", "")
        return self.boot(
            Emulated(
                name,
                self.volume(**volume),
                Machine(cpus, memory, model, panic, image, knobs, limit, until, fork),
                listed,
                tables,
                grub,
                tuple(read),
            )
        )

    def boot(self, what, see=lambda boot: boot):
        """A boot by its description, which has `name`, targets(), inputs() and make(lab, folder).
        see(boot) is what is given."""
        return self.ask(
            Wanted(
                what.name,
                lambda folder, *server: what.make(self, folder, *server),
                lambda folder, about: see(Boot(what.name, folder, about)),
                what.inputs,
                what.targets,
                ADDRESS.sub("", repr(what)),
                what,
            )
        )

    def watch(self, name, run, seconds=machine.BACKSTOP_SECONDS):
        """What a command boots that does not repeat, QEMU's machine, as a Boot."""
        return self.once(name, lambda: self.watched(name, run, seconds))

    def watched(self, name, run, seconds=machine.BACKSTOP_SECONDS):
        """The same, now."""
        folder = os.path.join(self.keep, f"{name}.run")
        os.makedirs(folder, exist_ok=True)
        about = {"status": self.process(run, folder, seconds=seconds)}
        self.link(name, folder)
        return Boot(name, folder, about)

    def once(self, name, make, repeats=False):
        """What make() gives, made once for all that ask by this name. Nothing of it is kept.
        `repeats`: it would be the same again."""
        return self.ask(Wanted(name, make, repeats=repeats))

    def value(self, name, inputs, make, value=lambda _, about: about, targets=()):
        """The same where it is a function of what inputs() gives: kept. See Wanted."""
        return self.ask(Wanted(name, make, value, inputs, lambda: targets))

    def kept(self, name, function, *inputs):
        """What function() gives, which JSON can say: kept as long as its own file and these files,
        folders and programs stay as they are. An AssertionError of it is no value."""
        return self.value(
            name,
            lambda: [digest(function.__code__.co_filename), *map(digest_any, inputs)],
            lambda folder: function(),
        )

    def ask(self, wanted):
        with self.lock:
            wanted = self.known.setdefault(wanted.identity, wanted)
        if self.asking():
            self.here.asked.append(wanted)
        return Promise(self, wanted)

    def asking(self):
        """Whether this thread calls a function that is broken off where it reads too early."""
        return getattr(self.here, "asked", None) is not None

    def get(self, wanted):
        """Its value: there, or waited for."""
        if not wanted.future.done():
            if self.asking():
                if not (self.planned and self.look(wanted)):
                    raise NotYet(wanted)
                return wanted.future.result()
            if getattr(self.here, "worker", False):
                if self.take(wanted):
                    self.settle(wanted)
            else:
                self.push(FIRST, wanted)
        return wanted.future.result()

    # Functions.

    def plan(self, functions, start=True):
        """Calls for these functions, one each, in their order. All that they want is known when
        this returns, but for what they find out later; with `start` it is being made."""
        calls, asked = [Call(function) for function in functions], []
        broken = []
        for call in calls:
            wanted, found = self.attempt(call)
            asked += found
            if wanted:
                broken.append((call, wanted))
        with self.lock:
            for call, wanted in broken:
                wanted.calls.append(call)
        if start:
            self.enlist(asked)
            self.planned = True
        return calls

    def boots(self):
        """Of all that is kept by a key: (name, whether the store has it)."""
        wanted = [one for one in self.known.values() if one.inputs]
        self.make_targets(name for one in wanted for name in one.targets())
        # Another thread may have found it and be reading it.
        return [
            (one.name, self.look(one) or self.store.find(one.key) is not None)
            for one in wanted
            if one.boot
        ]

    def attempt(self, call):
        """Calls the function. Gives what it waits for, None when it is over, and all that it
        wants."""
        began = time.monotonic()
        self.here.asked = []
        try:
            call.future.set_result(call.function())
            waits = None
        except NotYet as early:
            waits = early.wanted
        except BaseException as trouble:  # pytest's own exceptions are none of Exception's
            call.future.set_exception(trouble)
            waits = None
        asked, self.here.asked = self.here.asked, None
        call.repeats &= all(wanted.repeats for wanted in asked)
        call.seconds = time.monotonic() - began
        return waits, asked

    def go_on(self, call):
        waits, asked = self.attempt(call)
        self.enlist(asked)
        if waits:
            with self.lock:
                if not waits.future.done():
                    waits.calls.append(call)
                    return
            self.call(call)

    # The queue.

    def enlist(self, asked):
        """Takes what the store has; what it has not goes into the queue."""
        with self.lock:
            new = [wanted for wanted in dict.fromkeys(asked) if not wanted.enlisted]
            for wanted in new:
                wanted.enlisted = True
        with contextlib.suppress(AssertionError):  # each one says so itself
            self.make_targets(name for wanted in new for name in wanted.targets())
        left = [wanted for wanted in new if not self.look(wanted)]
        with self.lock:  # so that the longest one is the first
            for wanted in left:
                self.push(LATER, wanted)

    def look(self, wanted):
        """Whether it is over: the store has it, or it cannot be."""
        if not wanted.inputs or wanted.key:
            return wanted.future.done()
        try:
            self.make_targets(wanted.targets())
            key = key_of([FORMAT, wanted.inputs()])
            found = self.store.find(key)
            if found and self.take(wanted):
                self.end(wanted, wanted.value, *reversed(found))
            elif wanted.boot and hasattr(wanted.boot, "group"):
                wanted.group = wanted.boot.group()
                with self.lock:
                    self.groups[wanted.group].count += 1
            wanted.key = key
        except BaseException as trouble:
            wanted.taken = True
            self.fail(wanted, trouble)
        return wanted.future.done()

    def server(self, wanted):
        """The server that this boot goes on from, or None; waits: raises Later."""
        if not wanted.group or not self.servers:
            return None
        group = self.groups[wanted.group]
        with self.lock:
            if group.server == "":
                group.waiting.append(wanted)
                raise Later
            if group.server and self.servers.there(group.server):
                return group.server
            if group.count < 2:
                return None
            group.server = ""
        try:
            socket = self.servers.at_init(wanted.boot)
        except BaseException:
            socket = None
            raise
        finally:
            with self.lock:
                group.server, waiting = socket, group.waiting
                group.waiting = []
            for one in waiting:
                one.taken = False
                self.push(LATER, one)
        return socket

    def leave(self, wanted):
        """The last one of a group ends its server."""
        group = self.groups[wanted.group] if wanted.group else None
        if group:
            with self.lock:
                group.count -= 1
            if group.server and group.count == 0:
                self.servers.end(group.server)

    def seconds_of(self, wanted):
        """How long it took, or may take, for all that is known."""
        if wanted.name in self.seconds or not hasattr(wanted.boot, "machine"):
            return self.seconds.get(wanted.name, BOOT_SECONDS)
        what = wanted.boot.machine
        return BOOT_SECONDS * max(1, what.limit / machine.LIMIT) * (2 if what.cpus > 1 else 1)

    def push(self, rank, item):
        with self.lock:
            if item.taken:
                return
            longest = -self.seconds_of(item) if rank == LATER else 0
            heapq.heappush(self.queue, (rank, longest, next(self.order), item))
            self.start()

    def call(self, call):
        with self.lock:
            self.calls.append(call)
            self.start()

    def start(self):
        """One thread more, while there may be, and wakes one."""
        if len(self.threads) < self.jobs:
            thread = threading.Thread(target=self.work, daemon=True)
            self.threads.append(thread)
            thread.start()
        self.lock.notify()

    def take(self, wanted):
        """Whether it is this thread that has to see to it."""
        with self.lock:
            mine, wanted.taken = not wanted.taken, True
            return mine

    def work(self):
        self.here.worker = True
        while True:
            with self.lock:
                while not self.stopped and not self.queue and (self.calling or not self.calls):
                    self.lock.wait()
                if self.stopped:
                    return
                function = self.calls and not self.calling
                item = self.calls.popleft() if function else heapq.heappop(self.queue)[-1]
                self.calling |= bool(function)
            if function:
                self.go_on(item)
                with self.lock:
                    self.calling = False
                    self.lock.notify()
            elif self.take(item):
                self.settle(item)

    def settle(self, wanted):
        """Makes it, or finds that another one of the same key is being made."""
        try:
            if not wanted.inputs:
                self.end(wanted, wanted.make)
                return
            if self.look(wanted):
                return
            with self.lock:
                first = self.keys.setdefault(wanted.key, wanted)
                if first is not wanted:
                    first.followers.append(wanted)
                    return
            found = self.store.find(wanted.key) or self.run(wanted)
            with self.lock:  # who comes later finds it in the store
                self.keys.pop(wanted.key, None)
                followers, wanted.followers = wanted.followers, []
            for one in [wanted, *followers]:
                self.end(one, one.value, *reversed(found))
        except Later:
            with self.lock:
                self.keys.pop(wanted.key, None)
                followers, wanted.followers = wanted.followers, []
            for one in followers:
                one.taken = False
                self.push(LATER, one)
        except BaseException as trouble:
            with self.lock:
                self.keys.pop(wanted.key, None)
            self.fail(wanted, trouble)

    def end(self, wanted, function, *arguments):
        try:
            if arguments:
                self.link(wanted.name, arguments[0])
            wanted.future.set_result(function(*arguments))
        except BaseException as trouble:
            self.fail(wanted, trouble)
        self.wake(wanted)

    def fail(self, wanted, trouble):
        for one in [wanted, *wanted.followers]:
            if not one.future.done():
                one.future.set_exception(trouble)
            self.wake(one)

    def wake(self, wanted):
        with self.lock:
            calls, wanted.calls = wanted.calls, []
        for call in calls:
            self.call(call)

    def run(self, wanted):
        server = self.server(wanted)
        began = time.monotonic()
        with self.store.making() as folder:
            about = wanted.make(folder, server) if server else wanted.make(folder)
            self.leave(wanted)
            if self.stopped:
                raise KeyboardInterrupt
            seconds = round(time.monotonic() - began, 1)
            if wanted.boot:
                self.check_ended(wanted.name, about["status"], seconds)
                about["seconds"] = seconds
            kept = self.store.keep(wanted.key, folder, about)
        with self.lock:
            self.seconds[wanted.name] = seconds
            if wanted.boot:
                self.booted.append(wanted.name)
        return about, kept

    @staticmethod
    def check_ended(name, status, seconds):
        """A boot that the clock or a signal has ended would end elsewhere the next time: it is not
        kept."""
        if status == machine.STATUS_TIMEOUT or status < 0:
            how = "the clock" if status == machine.STATUS_TIMEOUT else f"signal {-status}"
            raise AssertionError(
                f"boot {name}: ended by {how} after {seconds:.0f} seconds, wanted its own end or "
                "its limit of instructions; it is not kept"
            )

    def make_targets(self, names):
        """All at once, so that make sees what they share."""
        with self.lock:
            new = sorted(set(names) - self.targets)
        if new:
            machine.made(*new)
            with self.lock:
                self.targets.update(new)

    def link(self, name, folder):
        """Shows a boot's files under its name."""
        for inside, shown in (("console", "console"), ("errors", "errors"), ("ledger", "json")):
            target, link = os.path.join(folder, inside), os.path.join(self.keep, f"{name}.{shown}")
            with contextlib.suppress(OSError):
                if os.path.lexists(link):
                    os.remove(link)
                if os.path.exists(target):
                    os.symlink(os.path.relpath(target, self.keep), link)

    def process(self, run, folder, cwd=None, seconds=machine.BACKSTOP_SECONDS):
        """Runs a command; its stdout is folder/console, its stderr folder/errors. Ends it after
        those seconds. Gives its exit status."""
        with open(os.path.join(folder, "console"), "wb") as console, open(
            os.path.join(folder, "errors"), "wb"
        ) as errors:
            process = subprocess.Popen(
                run,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=errors,
                cwd=cwd,
                start_new_session=True,
                env=machine.environment(),
            )
            self.running.add(process)
            if self.stopped:
                self.stop()
            try:
                return process.wait(timeout=seconds + machine.KILL_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return machine.STATUS_TIMEOUT
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                self.running.discard(process)

    def stop(self):
        """Ends what runs in other threads, and makes no more."""
        with self.lock:
            self.stopped = True
            self.lock.notify_all()
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def close(self):
        """The same; waits for the threads, and remembers how long boots took."""
        self.stop()
        for thread in self.threads:
            thread.join()
        part = f"{self.seconds_file}.{os.getpid()}"
        with contextlib.suppress(OSError):
            with open(part, "w", encoding="utf-8") as out:
                json.dump(self.seconds, out, indent=0, sort_keys=True)
            os.replace(part, self.seconds_file)
        self.store.close()
