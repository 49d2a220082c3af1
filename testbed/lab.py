# SPDX-License-Identifier: BSD-2-Clause
# lab.py: gets boots and other values, for tests and measurements alike: from the store, or made
# now. Programs that want the same value at the same time wait for the first of them (store.py).
import contextlib
import functools
import os
import time

from testbed import boots, emulated, machine, servers
from testbed.boots import Boot
from testbed.machine import path
from testbed.minutes import BUILDS, LOCKS, Minutes
from testbed.store import Store, digest, digest_any, key_of

FORMAT = 2  # of what is kept
REFUSAL = b"PMUvisor refuses to start"
ENDS = (machine.STATUS_POWEROFF, machine.STATUS_RESET, machine.STATUS_LIMIT, machine.STATUS_TEXT)
CHANGED = "{}: its inputs changed while it was made, so it is not kept; run the test again"


class Lab:
    """`keep`: the folder that shows consoles and ledgers, by the names of their boots."""

    kernel = staticmethod(boots.kernel)

    def __init__(self, keep, store=None):
        self.keep = keep
        os.makedirs(keep, exist_ok=True)
        self.store = store or Store(path("build", "boots"), os.environ.get("FRESH") == "1")
        self.minutes = Minutes()
        self.known, self.targets = {}, set()

    def emulator(self, name, **words):
        """One boot in the emulator. `words`: see emulated.emulated()."""
        return self.boot(emulated.emulated(name, **words))

    def boot(self, what, see=lambda boot: boot):
        """A boot by its description, which has `name`, kind(), targets(), inputs() and
        make(folder). Returns see(boot)."""

        def make(folder):
            began = time.monotonic()
            about = what.make(folder)
            check_ended(what.name, about["status"], folder)
            return {**about, "seconds": round(time.monotonic() - began, 1)}

        def value(folder, about):
            boots.show(self.keep, what.name, folder)
            return see(Boot(what.name, folder, about))

        return self.value(
            what.name, what.inputs, make, value, what.targets(), kind_of(what), shared=True
        )

    def watch(self, name, run, seconds=machine.BACKSTOP_SECONDS):
        """What a command boots that does not repeat, QEMU's machine, as a Boot."""
        folder = os.path.join(self.keep, f"{name}.run")
        os.makedirs(folder, exist_ok=True)
        with self.minutes.counted("other boots"):
            status = machine.run_into(folder, run, seconds=seconds)
        boots.show(self.keep, name, folder)
        return Boot(name, folder, {"status": status})

    def once(self, name, make):
        """What make() returns, or its failure: made once for all in this process that ask by this
        name."""
        if name not in self.known:
            try:
                self.known[name] = make(), None
            except Exception as trouble:
                self.known[name] = None, trouble
        value, trouble = self.known[name]
        if trouble:
            raise trouble
        return value

    def value(
        self, name, inputs, make, value=lambda _, about: about, targets=(), kind=None, shared=False
    ):
        """What make(folder) makes in that folder and returns, which JSON can say: kept as long as
        what inputs() returns stays the same. value(folder, that) is what the caller gets.
        `targets`: files that make makes first. `kind`: of the time that this takes; or a function
        of the folder that says so afterwards. `shared`: values of other names with the same inputs
        are this value, too."""

        def key_now():
            return key_of([FORMAT, *([] if shared else [name]), inputs()])

        self.make_targets(targets)
        key = key_now()

        def get():
            found = self.store.find(key)
            if not found:
                with contextlib.ExitStack() as stack:
                    with self.minutes.counted(LOCKS):
                        folder = stack.enter_context(self.store.making(key))
                    found = self.store.find(key)
                    if not found:
                        what = functools.partial(kind, folder) if callable(kind) else kind
                        with self.minutes.counted(what or "other values"):
                            about = make(folder)
                        for known in (boots.bed, boots.menu, boots.grub_modules):
                            known.cache_clear()
                        if key_now() != key:
                            servers.remove_all()  # one may have started from the new files
                            raise AssertionError(CHANGED.format(name))
                        found = about, self.store.keep(key, folder, about)
            about, folder = found
            return value(folder, about)

        return self.once((name, key), get)

    def kept(self, name, function, *inputs, kind=None):
        """What function() returns, which JSON can say: kept as long as its own file and these
        files, folders and programs stay as they are. An AssertionError of it is no value."""
        return self.value(
            name,
            lambda: [digest(function.__code__.co_filename), *map(digest_any, inputs)],
            lambda folder: function(),
            kind=kind,
        )

    def make_targets(self, names):
        new = sorted(set(names) - self.targets)
        if new:
            with self.minutes.counted(BUILDS):
                machine.made(*new)
            self.targets.update(new)

    def close(self):
        self.store.close()


def kind_of(what):
    """A boot's own kind, unless PMUvisor has refused to start."""

    def look(folder):
        with contextlib.suppress(OSError), open(f"{folder}/console", "rb") as console:
            if REFUSAL in console.read():
                return "refusals"
        return what.kind()

    return look


def check_ended(name, status, folder):
    """A boot that the clock, a signal, a full disk or the end of its server has ended would end
    elsewhere the next time: it is not kept."""
    if status in ENDS:
        return
    if status == machine.STATUS_TIMEOUT:
        how = "the clock"
    elif status < 0:
        how = f"signal {-status}"
    else:
        with open(f"{folder}/errors", encoding="utf-8", errors="replace") as errors:
            how = f"a failure of the test bed: {(errors.read().splitlines() or ['none said'])[-1]}"
    raise AssertionError(
        f"boot {name}: ended by {how}, wanted its own end or its limit of instructions; it is "
        "not kept"
    )
