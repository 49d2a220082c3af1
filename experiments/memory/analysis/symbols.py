# SPDX-License-Identifier: BSD-2-Clause
# symbols.py: names of functions for addresses of code, out of ELF files, as binutils' nm lists
# them. An address of a process says nothing of where the file was: a position-independent one needs
# it said.
import bisect
import struct
import subprocess

ELF_MAGIC, TYPE_AT, POSITION_INDEPENDENT = b"\x7fELF", 16, 3  # elf(5): e_type, ET_DYN
FUNCTIONS = ("FUNC", "IFUNC")
BYTES_MAX = 4096  # of one that has no size, as assembly's have


class NoSymbols(Exception):
    """The text says what is wrong with the file."""


class Symbols:
    """Functions of all files together."""

    def __init__(self, found=()):
        """Takes (address, bytes, name) of each; bytes 0: it has no size, and
        goes on to the next one."""
        rows = sorted(found)
        self.starts = [start for start, _, _ in rows]
        self.rows = rows

    def __bool__(self):
        return bool(self.rows)

    def function(self, address):
        """Gives the function's name and where in it the address is; None: in none that is known."""
        place = bisect.bisect_right(self.starts, address) - 1
        if place < 0:
            return None
        start, size, name = self.rows[place]
        return (name, address - start) if address < start + (size or BYTES_MAX) else None

    def text(self, address):
        """Gives "function+0x10", or ""."""
        found = self.function(address)
        return f"{found[0]}+{found[1]:#x}" if found else ""


NONE = Symbols()


def best(names):
    """Takes (class of nm, name) of one address; gives the name that a reader would look for."""
    return min(names, key=lambda one: (one[1].startswith("_"), one[0] == "W", one[1]))[1]


def listed(path, *words):
    """Gives {address: [(bytes, class, name)]} of the code that one call of nm lists."""
    try:
        done = subprocess.run(
            ["nm", "--defined-only", "--format=sysv", *words, "--", path],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise NoSymbols("nm is missing; install binutils") from None
    if done.returncode != 0:
        raise NoSymbols(done.stderr.strip().splitlines()[-1])
    found = {}
    for line in done.stdout.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7 or not fields[1]:
            continue
        name, address, kind, what, size, _, section = fields
        if what in FUNCTIONS or what == "NOTYPE" and "text" in section:
            found.setdefault(int(address, 16), []).append(
                (int(size or "0", 16), kind, name.partition("@")[0])
            )
    return found


def of_file(word):
    """Takes "FILE" or "FILE@ADDRESS", which is added to the file's own; yields (address, bytes,
    name). Raises NoSymbols, OSError."""
    path, sign, text = word.rpartition("@")
    try:
        base = int(text, 0) if sign else None
    except ValueError:
        base = None
    path = path if base is not None else word
    with open(path, "rb") as file:
        head = file.read(TYPE_AT + 2)
    if not head.startswith(ELF_MAGIC) or len(head) < TYPE_AT + 2:
        raise NoSymbols(f"{path}: is no ELF file")
    if struct.unpack_from("<H", head, TYPE_AT)[0] == POSITION_INDEPENDENT and base is None:
        raise NoSymbols(
            f"{path}: is position-independent, so wanted {path}@ADDRESS, where it was "
            "loaded (the first one of /proc/PID/maps)"
        )
    found = listed(path) or listed(path, "--dynamic")
    if not found:
        raise NoSymbols(f"{path}: has no names of functions; wanted one that is not stripped")
    for address, rows in found.items():
        yield (
            address + (base or 0),
            max(size for size, _, _ in rows),
            best([(kind, name) for _, kind, name in rows]),
        )


def read(words):
    """Takes what of_file() takes, of each file; gives Symbols."""
    return Symbols(row for word in words or () for row in of_file(word))
