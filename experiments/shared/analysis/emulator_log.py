# SPDX-License-Identifier: BSD-2-Clause
# emulator_log.py: reads a list that the emulator writes down by itself, by a knob: records of one
# size, after eight bytes that name the kind of list. The knobs flow_log and memory_log write such
# lists.
AT_ONCE = 16384  # records


class BadLog(Exception):
    """The text says what is wrong with the file."""


def rows(path, magic, record):
    """`record`: a struct.Struct. Gives its fields, record by record. Raises BadLog if the file is
    another one or ends within a record, OSError if it cannot be read."""
    with open(path, "rb") as source:
        found = source.read(len(magic))
        if found != magic:
            raise BadLog(
                f"{path}: found {found!r} at its start, wanted {magic!r}; was the run made with "
                "the knob that writes it, and did the guest turn it on?"
            )
        while data := source.read(AT_ONCE * record.size):
            if len(data) % record.size:
                raise BadLog(f"{path}: ends within a record: the run did not end by itself")
            yield from record.iter_unpack(data)
