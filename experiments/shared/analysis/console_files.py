# SPDX-License-Identifier: BSD-2-Clause
# console_files.py: the files that a guest printed on its console
# (experiments/shared/guest/print_file.c).
import base64
import binascii
import re

BEGIN = re.compile(r"print_file: begin (\w+)$")
END = re.compile(r"print_file: end (\w+) (\d+)$")


class BadFile(Exception):
    """A file is not whole: the text says which, and what was found."""


def decoded(name, lines, length):
    """Takes the lines of one file and the length that the guest named; gives its bytes."""
    try:
        data = b"".join(base64.b64decode(line, validate=True) for line in lines)
    except binascii.Error as error:
        raise BadFile(f"{name}: a line is not base64: {error}") from error
    if len(data) != length:
        raise BadFile(f"{name}: {len(data)} bytes on the console, the guest printed {length}")
    return data


def files(console):
    """Takes the console's text; gives {name: bytes}. Raises BadFile where one is damaged or cut:
    the kernel's own messages may come between, and a guess at what is missing is no trace."""
    found, name, lines = {}, None, []
    for line in console.replace("\r", "").split("\n"):
        begin, end = BEGIN.search(line), END.search(line)
        if begin:
            name, lines = begin[1], []
        elif name and end:
            if end[1] != name:
                raise BadFile(f"{name}: ends as {end[1]}")
            found[name] = decoded(name, lines, int(end[2]))
            name = None
        elif name and line:
            lines.append(line)
    if name:
        raise BadFile(f"{name}: its end is not on the console")
    return found
