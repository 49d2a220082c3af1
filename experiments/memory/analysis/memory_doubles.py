# SPDX-License-Identifier: BSD-2-Clause
# memory_doubles.py: memory of a process that its kernel reads twice in one system call. In between
# another thread may have changed it (a double fetch: F. Wilhelm's Xenpwn, M. Jurczyk and G.
# Coldwind's Bochspwn). It takes a trace of reads (memtrace --all or --reads), which has what the
# kernel reads of the process.
import collections

KERNEL = 1 << 63
USER_END = 1 << 47

# `first`, `second`: the accesses; `gla`, `bytes`: what both read.
Double = collections.namedtuple("Double", "first second gla bytes")


def is_fetch(access):
    return (
        access.kind == "instruction"
        and access.read
        and access.rip >= KERNEL
        and access.gla < USER_END
    )


def overlap(one, other):
    """The bytes that both read: (first address, how many)."""
    start = max(one.gla, other.gla)
    return start, min(one.gla + max(one.bytes, 1), other.gla + max(other.bytes, 1)) - start


def find(accesses):
    """Takes accesses in order; yields the Doubles. What the process itself accesses ends a system
    call; where two follow each other without that, they count as one."""
    since = collections.defaultdict(list)  # processor -> the fetches of the call
    for access in accesses:
        if access.rip < KERNEL:
            since[access.processor].clear()
        elif is_fetch(access):
            for one in since[access.processor]:
                start, count = overlap(one, access)
                # An instruction that is repeated goes on behind itself, and reads nothing twice.
                if count > 0:
                    yield Double(one, access, start, count)
            since[access.processor].append(access)


def counted(doubles):
    """Takes Doubles; gives [((RIP, RIP), how often, an example)], the most frequent first."""
    times, example = collections.Counter(), {}
    for double in doubles:
        key = double.first.rip, double.second.rip
        times[key] += 1
        example.setdefault(key, double)
    return [(key, count, example[key]) for key, count in times.most_common()]
