# SPDX-License-Identifier: BSD-2-Clause
# memory_cache.py: counts the misses of a trace in a simulated cache of one level. The least
# recently used line of a set leaves, and a write takes its line in.
import collections

from experiments.memory.analysis import memory_feed

Misses = collections.namedtuple("Misses", "reads read_misses writes write_misses")


def misses(accesses, cache, physical=False, counted=lambda access: True):
    """Takes accesses in order, and the cache as "bytes,ways,line". All accesses go through the
    cache; returns the Misses of those that are `counted`. An access counts once for each line that
    it touches. An access that reads and writes counts as a read. Raises ValueError."""
    size, ways, line = map(int, cache.split(","))
    if not 0 < ways * line <= size:
        raise ValueError(f"found the cache {cache}, wanted BYTES,WAYS,LINE")
    sets = [collections.OrderedDict() for _ in range(size // ways // line)]
    counts = collections.Counter()
    for access in accesses:
        first = memory_feed.address(access, physical)
        for at, count in memory_feed.parts(access) if first is not None else ():
            for number in range((first + at) // line, (first + at + count - 1) // line + 1):
                lines = sets[number % len(sets)]
                counts[access.read, number not in lines] += counted(access)
                lines[number] = True
                lines.move_to_end(number)
                if len(lines) > ways:
                    lines.popitem(last=False)
    reads, read_misses = counts[True, False], counts[True, True]
    writes, write_misses = counts[False, False], counts[False, True]
    return Misses(reads + read_misses, read_misses, writes + write_misses, write_misses)
