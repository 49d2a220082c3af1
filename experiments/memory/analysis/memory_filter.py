# SPDX-License-Identifier: BSD-2-Clause
# memory_filter.py: which accesses of a memory trace are wanted, by the words of a command line; and
# whose they are.
import argparse

from experiments.memory.analysis import memory
from experiments.shared.analysis.cr3 import PTI_USER_TABLE, TABLE_MASK

KERNEL_HALF = 1 << 63


def process_of(access):
    """The table that a process is known by: CR3 without what page-table isolation changes."""
    return access.cr3 & TABLE_MASK & ~PTI_USER_TABLE


def span(text):
    """Takes "A-B" (B is the first one after) or "A+N", or "A" alone. Gives (A, B)."""
    try:
        for sign in "-+":
            first, found, last = text.partition(sign)
            if found:
                low, high = int(first, 0), int(last, 0)
                return low, high if sign == "-" else low + high
        return int(text, 0), int(text, 0) + 1
    except ValueError:
        raise argparse.ArgumentTypeError(f"found '{text}', wanted A-B, A+N or A") from None


def milliseconds(text):
    try:
        first, _, last = text.partition("-")
        return float(first or 0), float(last or "inf")
    except ValueError:
        raise argparse.ArgumentTypeError(f"found '{text}', wanted A-B in ms") from None


def add_options(parser):
    group = parser.add_argument_group("what is taken; several words narrow it down")
    group.add_argument("--process", metavar="CR3", type=lambda text: int(text, 0))
    group.add_argument("--address", metavar="A-B", type=span, help="linear")
    group.add_argument("--physical", metavar="A-B", type=span)
    group.add_argument("--rip", metavar="A-B", type=span)
    group.add_argument("--kind", choices=memory.KINDS, action="append")
    group.add_argument("--direction", choices=("R", "W"), help="RW is both")
    group.add_argument(
        "--time", metavar="A-B", type=milliseconds, help="ms behind the first access"
    )
    group.add_argument("--processor", metavar="N", type=int)


def touches(first, size, wanted):
    """Whether any byte is in the range; of an unknown size the first one counts."""
    return first < wanted[1] and first + max(size, 1) > wanted[0]


def wanted(options, accesses, start, khz):
    """Yields those of the accesses that the options want. `start`: the trace's first TSC. Without a
    known frequency a tick is 1 ns."""
    begin, end = options.time or (0, float("inf"))
    ticks = khz or 1_000_000
    process = None if options.process is None else options.process & TABLE_MASK & ~PTI_USER_TABLE
    for access in accesses:
        if (
            options.processor is not None
            and access.processor != options.processor
            or process is not None
            and process_of(access) != process
            or options.kind
            and access.kind not in options.kind
            or options.direction
            and options.direction not in access.direction
            or options.rip
            and not options.rip[0] <= access.rip < options.rip[1]
        ):
            continue
        # What a walk writes has no linear address that the record knows.
        if options.address and (
            access.kind == "walk" or not touches(access.gla, access.bytes, options.address)
        ):
            continue
        if options.physical and not touches(access.gpa, access.bytes, options.physical):
            continue
        if begin <= (access.tsc - start) / ticks < end:
            yield access
