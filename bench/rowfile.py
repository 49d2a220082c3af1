# SPDX-License-Identifier: BSD-2-Clause
# rowfile.py: writes the files of results/. The files are JSON. Each row is one line, so that a
# change of one row is a change of one line.
import contextlib
import json
import os

ROW_LEVELS = 2  # a row is an object in which objects nest at most this deep


def levels(value):
    """How deep objects nest in a value. A list adds no level."""
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    return max(map(levels, value), default=0) if isinstance(value, list) else 0


def is_one_line(value):
    """Whether a value is a row or part of one. A list of objects is several rows."""
    return levels(value) <= (ROW_LEVELS if isinstance(value, dict) else 0)


def lines_of(value, indent):
    """An object or a list above the rows: each member begins a line."""
    inner = indent + " "
    if isinstance(value, dict):
        first, last = "{}"
        members = [(f"{json.dumps(key)}: ", one) for key, one in value.items()]
    else:
        first, last = "[]"
        members = [("", one) for one in value]
    lines = ",\n".join(
        inner + name + (json.dumps(one) if is_one_line(one) else lines_of(one, inner))
        for name, one in members
    )
    return f"{first}\n{lines}\n{indent}{last}"


def text_of(data):
    """The text of a file. `data` is an object."""
    # JSON's own types: keys become texts, and tuples become lists.
    return lines_of(json.loads(json.dumps(data)), "") + "\n"


def write(data, name):
    """Writes a file whole, or leaves the old file as it was."""
    text = text_of(data)
    new = f"{name}.{os.getpid()}.new"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
        with open(new, "w", encoding="ascii") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, name)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
