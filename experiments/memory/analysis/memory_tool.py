# SPDX-License-Identifier: BSD-2-Clause
"""Prints, sums up, draws and hands on a trace of memory accesses.

TRACE is a file of the program memtrace, an image of memory with rings, or perf's samples of
stores as text (perf script --ns -F time,event,addr,ip). experiments/memory/memtrace.md says how to
make one.

  print  TRACE          one line for each access
  sums   TRACE          how many of which kind, process and instruction
  page   TRACE FILE     addresses over time, working sets and sums, as one HTML page
  ctf    TRACE FOLDER   CTF 1.8, for babeltrace2 and Trace Compass
  feed   TRACE FILE     for cache simulators: Valgrind's lackey format, or Dinero's
  cache  TRACE          misses of a cache, by Valgrind's cachegrind
  doubles TRACE         what a system call reads twice of its process's memory

Needs Debian's python3-capstone; page python3-matplotlib, ctf python3-bt2, --elf binutils.
"""

import argparse
import pathlib
import sys

from bench import plots
from experiments.memory.analysis import (
    memory,
    memory_cache,
    memory_ctf,
    memory_doubles,
    memory_feed,
    memory_filter,
    memory_page,
    memory_samples,
    memory_sums,
    operand,
    symbols,
)
from experiments.shared.analysis import records, traces_page
from experiments.shared.analysis.ctf_writer import CannotWrite

TOP = 10


def line(access, start, khz, names):
    """An access as text: ms after the first one, processor, retired instructions, CR3, RIP, kind,
    direction, bytes, addresses, value, instruction and its function. "?": not known."""
    value = access.value[::-1].hex() or "?"
    return (
        f"{(access.tsc - start) / (khz or 1_000_000):12.6f} {access.processor:2d} "
        f"{access.retired:10d} {access.cr3:12x} {access.rip:16x} {access.kind:11s} "
        f"{access.direction:2s} {access.bytes or '?':>4} {access.gla:16x} {access.gpa:12x} "
        f"{value:>16s} {access.text}  {names.text(access.rip)}".rstrip()
    )


def sums(found, accesses, names=symbols.NONE):
    """Yields lines."""
    yield (
        f"{len(accesses)} accesses of {sum(map(len, found.processors.values()))}, "
        f"{found.lost} lost, {found.joined} updates of page tables joined"
    )
    for (kind, direction), (count, size) in sorted(memory_sums.counted(accesses).items()):
        yield f"{kind:12s} {direction:2s} {count:10d} accesses {size:12d} bytes"
    for why, count in found.unknown.most_common():
        yield f"size not known {count:8d}  {why}"
    for process, count in memory_sums.top(accesses, memory_filter.process_of, TOP):
        yield f"process {process:12x} {count:10d}"
    texts = {access.rip: access.text for access in accesses if access.text}
    for rip, count in memory_sums.top(accesses, lambda access: access.rip, TOP):
        yield f"rip {rip:16x} {count:10d}  {texts.get(rip, '')}  {names.text(rip)}".rstrip()


def do_print(options, found, accesses, start):
    for access in accesses:
        print(line(access, start, found.tsc_khz, options.names))


def do_sums(options, found, accesses, start):
    print("\n".join(sums(found, accesses, options.names)))


def do_page(options, found, accesses, start):
    if not accesses:
        raise ValueError("no access is left to draw")
    made = memory_page.html(
        found, accesses, options.title, options.by == "physical", options.names, options.where
    )
    pathlib.Path(options.out).write_text(made, encoding="utf-8")


def do_ctf(options, found, accesses, start):
    processors = {}
    for access in accesses:
        processors.setdefault(access.processor, []).append(access)
    # Where others are left out, a loss has no place between those that stay.
    whole = len(accesses) == sum(map(len, found.processors.values()))
    memory_ctf.write(processors, found.gaps if whole else {}, options.out, found.tsc_khz)


def do_feed(options, found, accesses, start):
    with open(options.out, "w", encoding="ascii") as out:
        memory_feed.write(accesses, out, options.format, options.by == "physical")


def do_cache(options, found, accesses, start):
    each = memory_cache.misses(accesses, options.cache, physical=options.by == "physical")["all"]
    print(
        f"{each.reads} reads, {each.read_misses} of them misses; {each.writes} writes, "
        f"{each.write_misses} misses"
    )


def do_doubles(options, found, accesses, start):
    for (first, second), count, double in memory_doubles.counted(memory_doubles.find(accesses)):
        print(
            f"{count} times {double.bytes} bytes, as at {double.gla:x}: rip {first:x} "
            f"{options.names.text(first)}, "
            f"then {second:x} {options.names.text(second)}".rstrip()
        )


def parser():
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for name, function, out in (
        ("print", do_print, None),
        ("sums", do_sums, None),
        ("page", do_page, "FILE"),
        ("ctf", do_ctf, "FOLDER"),
        ("feed", do_feed, "FILE"),
        ("cache", do_cache, None),
        ("doubles", do_doubles, None),
    ):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("trace", metavar="TRACE")
        if out:
            command.add_argument("out", metavar=out)
        if name in ("page", "feed", "cache"):
            command.add_argument(
                "--by",
                choices=("linear", "physical"),
                default="linear",
                help="addresses; walks have physical ones alone",
            )
        if name == "page":
            command.add_argument("--title", default="Memory accesses of a guest")
            traces_page.add_where(command)
        if name == "cache":
            command.add_argument(
                "--cache",
                metavar="BYTES,WAYS,LINE",
                default="32768,8,64",
                help="as valgrind's --D1 has it; default: %(default)s",
            )
        if name in ("print", "sums", "page", "doubles"):
            command.add_argument(
                "--elf",
                metavar="FILE[@ADDRESS]",
                action="append",
                help="names of functions, of the program and of what it loads; "
                "ADDRESS is where a position-independent one was loaded",
            )
        if name == "feed":
            command.add_argument("--format", choices=memory_feed.FORMATS, default="lackey")
        command.add_argument(
            "--xcr0",
            type=lambda text: int(text, 0),
            help="the guest's, where the trace has it not; XSAVE's size needs it",
        )
        memory_filter.add_options(command)
    return made


def main():
    options = parser().parse_args()
    try:
        options.names = symbols.read(getattr(options, "elf", None))
        found = (
            memory_samples.read(options.trace)
            if memory_samples.is_text(options.trace)
            else memory.read(options.trace, options.xcr0)
        )
        ordered = found.ordered()
        start = ordered[0].tsc if ordered else 0
        accesses = list(memory_filter.wanted(options, ordered, start, found.tsc_khz))
        for text in found.complaints:
            print(f"memory_tool.py: {text}", file=sys.stderr)
        options.function(options, found, accesses, start)
    except BrokenPipeError:  # `head` has seen enough
        sys.stderr.close()
    except (
        records.BadRecords,
        operand.NoDecoder,
        plots.NoPlots,
        CannotWrite,
        memory_cache.NoCachegrind,
        symbols.NoSymbols,
        ValueError,
        OSError,
    ) as error:
        sys.exit(f"memory_tool.py: {error}")


if __name__ == "__main__":
    main()
