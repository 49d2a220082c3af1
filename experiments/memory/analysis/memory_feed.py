# SPDX-License-Identifier: BSD-2-Clause
# memory_feed.py: memory accesses as cache simulators read them.
#   lackey   what `valgrind --tool=lackey --trace-mem=yes` prints, without its instructions:
#            " S a,n", " L a,n", " M a,n" (store, load, modify; hexadecimal address, decimal bytes)
#   din      Dinero's: "0 a" reads, "1 a" writes; no sizes, so one line for each word of 8 bytes
LETTERS = {"R": "L", "W": "S", "RW": "M"}
DIN_BYTES = 8


def parts(access):
    """Yields (offset, bytes) of what is accessed; an unknown size is one byte."""
    yield from access.pieces or ((0, max(access.bytes, 1)),)


def address(access, physical):
    """None: a walk's linear address is not that of what it writes."""
    if physical:
        return access.gpa
    return None if access.kind == "walk" else access.gla


def lackey(access, physical=False):
    """Yields the lines of an access."""
    first = address(access, physical)
    if first is not None:
        for at, count in parts(access):
            yield f" {LETTERS[access.direction]} {first + at:08x},{count}"


def din(access, physical=False):
    first = address(access, physical)
    if first is None:
        return
    for at, count in parts(access):
        start, end = first + at, first + at + count
        for word in range(start & -DIN_BYTES, end, DIN_BYTES):
            for label in ("0" if access.read else "") + ("1" if access.write else ""):
                yield f"{label} {max(word, start):x}"


FORMATS = {"lackey": lackey, "din": din}


def write(accesses, out, kind, physical=False):
    """Writes the lines of a format of FORMATS; gives how many."""
    count = 0
    for access in accesses:
        for line in FORMATS[kind](access, physical):
            out.write(line + "\n")
            count += 1
    return count
