# SPDX-License-Identifier: BSD-2-Clause
# memory_sums.py: sums of memory accesses: by kind, process, instruction and page, and the working
# set: how many pages and lines are touched within a window of so many accesses. P. J. Denning, "The
# Working Set Model for Program Behavior", CACM 11(5), 1968.
import bisect
import collections
import itertools

from experiments.memory.analysis.memory_filter import KERNEL_HALF, process_of

PAGE_BITS, LINE_BITS = 12, 6
UNITS = {"pages": PAGE_BITS, "lines": LINE_BITS}


def units(access, bits, physical=False):
    """Gives what the access touches, in units of 2^bits bytes: keys that are the same for the same
    memory. A walk has a physical address alone. In physical addresses what lies over a page's end
    is not known."""
    first = access.gpa if physical else access.gla
    last = first + max(access.bytes, 1) - 1
    if physical:
        last = min(last, first | (1 << PAGE_BITS) - 1)
        return [(0, unit) for unit in range(first >> bits, (last >> bits) + 1)]
    if access.kind == "walk":
        return []
    owner = 0 if first >= KERNEL_HALF else process_of(access)
    if access.pieces:
        return sorted(
            {
                (owner, unit)
                for at, count in access.pieces
                for unit in range(first + at >> bits, (first + at + count - 1 >> bits) + 1)
            }
        )
    return [(owner, unit) for unit in range(first >> bits, (last >> bits) + 1)]


def counted(accesses):
    """Gives {(kind, direction): (accesses, bytes)}."""
    found = {}
    for access in accesses:
        key = (access.kind, access.direction)
        count, size = found.get(key, (0, 0))
        found[key] = (count + 1, size + access.bytes)
    return found


def top(accesses, key, count):
    """The keys that most accesses have, with how many; None is no key."""
    found = collections.Counter(map(key, accesses))
    found.pop(None, None)
    return found.most_common(count)


def per_window(accesses, bits, window, physical=False):
    """Gives how many different units each window of so many accesses touches, in order. The last
    window may be shorter."""
    found = []
    for start in range(0, len(accesses), window):
        touched = set()
        for access in itertools.islice(accesses, start, start + window):
            touched.update(units(access, bits, physical))
        found.append(len(touched))
    return found


def working_set(accesses, bits, windows, physical=False):
    """Gives the mean size of the working set, in units, for each window: how many different units
    the last so many accesses touched, the mean over all accesses. A unit is in it for as long as
    the window, or until it is touched again: so each touch adds the smaller of the two. The end of
    the trace ends all."""
    last, gaps = {}, []
    for now, access in enumerate(accesses):
        for unit in units(access, bits, physical):
            if unit in last:
                gaps.append(now - last[unit])
            last[unit] = now
    gaps += [len(accesses) - then for then in last.values()]
    gaps.sort()
    sums = [0, *itertools.accumulate(gaps)]
    found = []
    for window in windows:
        place = bisect.bisect_right(gaps, window)
        total = sums[place] + (len(gaps) - place) * window
        found.append(total / len(accesses) if accesses else 0)
    return found
