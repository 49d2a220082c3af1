# SPDX-License-Identifier: BSD-2-Clause
# store.py: what came out of a boot, kept under a key of all that went in. The emulator repeats
# exactly, so the same inputs give the same console, ledger and files, and need no second run.
#
# An entry is a folder, build/boots/KEY. It is written beside and renamed when it is whole; its
# `entry.json` has a digest of each file in it. So a reader sees a whole entry or none, whoever was
# killed, and however full the disk was: what does not agree is no entry.
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import tempfile

ENTRY = "entry.json"
PART = ".part."
BYTES_MAX = 16 << 30  # of all entries; the ones not used for longest go first
DIGEST_BYTES = 20
REMOVALS = 10  # tries: a run that is orphaned may still write
NO_INPUTS = "__pycache__"  # Python writes it while something is made


def digest_of(data):
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


@functools.lru_cache(None)
def digest_as(name, _size, _changed, _inode):
    found = hashlib.blake2b(digest_size=DIGEST_BYTES)
    with open(name, "rb") as source:
        while piece := source.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def digest(name):
    """Of the contents of a file; read again only where the file is another one by now."""
    known = os.stat(name)
    return digest_as(os.path.abspath(name), known.st_size, known.st_mtime_ns, known.st_ino)


def digest_below(folder):
    """Of the names and contents of all files below a folder; of a file, its contents."""
    if not os.path.isdir(folder):
        return digest(folder)
    return key_of(
        {
            os.path.relpath(os.path.join(where, name), folder): digest(os.path.join(where, name))
            for where, _, names in os.walk(folder)
            for name in names
            if os.path.basename(where) != NO_INPUTS
        }
    )


def digest_any(name):
    """Of a file or what is below a folder; of a program that is called by its name; where there is
    none, that says so."""
    if not os.path.exists(name) and os.sep not in name:
        name = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""
    return digest_below(name) if name else ""


def key_of(inputs):
    """Of what goes in: anything that JSON can say, whatever the order of its names."""
    return digest_of(json.dumps(inputs, sort_keys=True).encode())


def files_below(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(where, name), folder)


def is_open_as(file, name):
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(name))
    return False


def locked(folder):
    """Makes the folder, which is empty, and locks it; the lock goes when what this returns is
    closed."""
    tries = REMOVALS
    while True:
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever had it may have kept it, or may have been killed.
            if is_open_as(lock, folder):
                if not os.listdir(folder):
                    return lock
                shutil.rmtree(folder, ignore_errors=True)
                if is_open_as(lock, folder):
                    tries -= 1
            os.close(lock)
        if not tries:
            raise PermissionError(f"{folder}: cannot be removed; remove it by hand")


class Store:
    """Entries in a folder. `fresh`: what is there is not read, and nothing is left."""

    def __init__(self, folder, fresh=False):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        self.fresh = (
            tempfile.TemporaryDirectory(
                prefix=os.path.basename(folder) + ".", dir=os.path.dirname(folder)
            )
            if fresh
            else None
        )
        self.folder = self.fresh.name if fresh else folder
        os.makedirs(self.folder, exist_ok=True)
        self.tidy()

    def find(self, key):
        """(what was said of the entry, its folder); None: there is none. One that is damaged
        goes."""
        folder = os.path.join(self.folder, key)
        try:
            with open(os.path.join(folder, ENTRY), encoding="utf-8") as source:
                said = json.load(source)
            right = said["digests"] == {
                name: digest(os.path.join(folder, name))
                for name in files_below(folder)
                if name != ENTRY
            }
            if right:
                os.utime(folder)
                return said["about"], folder
        except FileNotFoundError:
            if not os.path.isdir(folder):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.remove(folder)
        return None

    @contextlib.contextmanager
    def making(self, key):
        """A folder for the entry of that key. Waits until nobody else is making the same; by then
        find() may know the entry. The folder goes if nobody keeps it."""
        folder = os.path.join(self.folder, PART + key)
        lock = locked(folder)
        try:
            yield folder
        finally:
            if is_open_as(lock, folder):
                shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)

    def keep(self, key, folder, about):
        """Makes the folder, from making(), the entry of that key. Returns its path."""
        said = {
            "about": about,
            "digests": {name: digest(os.path.join(folder, name)) for name in files_below(folder)},
        }
        with open(os.path.join(folder, ENTRY), "w", encoding="utf-8") as out:
            json.dump(said, out)
        target = os.path.join(self.folder, key)
        os.rename(folder, target)
        return target

    def remove(self, folder):
        """At once for whoever looks; the files go after."""
        with contextlib.suppress(OSError):
            gone = tempfile.mkdtemp(prefix=PART, dir=self.folder)
            os.rename(folder, os.path.join(gone, "entry"))
            shutil.rmtree(gone, ignore_errors=True)

    def tidy(self):
        """Removes what killed runs have left, and the oldest entries where all are too many."""
        entries = []
        for item in os.scandir(self.folder):
            if not item.is_dir(follow_symlinks=False):
                continue
            if item.name.startswith(PART):
                with contextlib.suppress(OSError):
                    lock = os.open(item.path, os.O_RDONLY)
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        if is_open_as(lock, item.path):
                            shutil.rmtree(item.path, ignore_errors=True)
                    finally:
                        os.close(lock)
                continue
            with contextlib.suppress(OSError):
                size = sum(
                    os.lstat(os.path.join(item.path, name)).st_size
                    for name in files_below(item.path)
                )
                entries.append((item.stat().st_mtime, size, item.path))
        total = sum(size for _, size, _ in entries)
        for _, size, folder in sorted(entries):
            if total <= BYTES_MAX:
                break
            self.remove(folder)
            total -= size

    def close(self):
        if self.fresh:
            self.fresh.cleanup()
