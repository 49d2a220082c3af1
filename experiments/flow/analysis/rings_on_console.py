# SPDX-License-Identifier: BSD-2-Clause
# rings_on_console.py: a trace that PMUvisor printed as its guest switched the machine off
# (trace_dump=), out of what the serial line's other end wrote down.
# Usage:
#   python3 -m experiments.flow.analysis.rings_on_console CONSOLE TRACE
# All other tools read TRACE.
import argparse
import re
import struct
import sys

from experiments.flow.analysis import kvm_trace
from experiments.flow.analysis.trace_source import Source
from experiments.shared.analysis import records

HEAD = re.compile(
    r"trace_dump: ring apic_id=(\d+) level=(\d+) tsc_khz=(\d+) first=(\d+) records=(\d+)$"
)
LINE = re.compile(r"trace_dump: ([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)$")
END = "trace_dump: end"
WORDS = struct.Struct("<QQQQ")


class BadDump(Exception):
    """The text says what is wrong with the console's."""


def rings(console):
    """Takes the console's text; gives a Source. Raises BadDump where there is no ring, or one is
    not whole: what else comes on the line may lie between."""
    source, number, wanted = Source(), None, 0
    for line in console.replace("\r", "").split("\n"):
        head, found = HEAD.search(line), LINE.search(line)
        if head:
            number, source.level, source.tsc_khz, first, wanted = (
                int(word) for word in head.groups()
            )
            source.processors[number], source.gaps[number] = [], {0: first} if first else {}
        elif found and number is not None:
            source.processors[number].append(
                records.record(WORDS.pack(*(int(word, 16) for word in found.groups())), 0)
            )
        elif line.endswith(END) and number is not None:
            if len(source.processors[number]) != wanted:
                raise BadDump(
                    f"processor {number}: found {len(source.processors[number])} records, wanted "
                    f"{wanted}"
                )
            number = None
    if not source.processors:
        raise BadDump(
            "found no line 'trace_dump: ring', wanted the console of a run with trace_dump=, to "
            "its end"
        )
    if number is not None:
        raise BadDump(f"processor {number}: the end of its ring is not there")
    return source


def main():
    parser = argparse.ArgumentParser(description="Gets a trace out of a console's text.")
    parser.add_argument("console", help="what the serial line's other end wrote down")
    parser.add_argument("trace", help="the file to write")
    options = parser.parse_args()
    try:
        with open(options.console, encoding="utf-8", errors="replace") as text:
            source = rings(text.read())
        with open(options.trace, "wb") as out:
            out.write(kvm_trace.trace_file(source))
    except (BadDump, OSError) as error:
        sys.exit(f"rings_on_console.py: {options.console}: {error}")
    print(
        f"{options.trace}: {sum(map(len, source.processors.values()))} records, {source.lost()} "
        f"before them lost"
    )


if __name__ == "__main__":
    main()
