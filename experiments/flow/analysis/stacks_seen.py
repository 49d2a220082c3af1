# SPDX-License-Identifier: BSD-2-Clause
# stacks_seen.py: the threads of processes as the paper's GTA (algorithm 3) tells them: from an
# entry to the next one it is the thread of the entry's CR3 and SP. Which thread a stack is, the
# paper takes from the guest; here it is whose stack it was most of the time, by the scheduler. For
# one processor.
import bisect
import collections
import dataclasses

from experiments.flow.analysis import truth
from experiments.flow.analysis.identity import USER_STACK_PAGES_SHIFT

KERNEL_STACK_SHIFT = (
    14  # Linux, arch/x86/include/asm/page_64_types.h, THREAD_SIZE: and so they are aligned
)
PAGE_SHIFT = 12


@dataclasses.dataclass
class Score:
    """Counts, and ticks of the time of processes by the scheduler."""

    stacks: int = 0  # that were seen
    time: int = 0
    right: int = 0  # given to the right thread
    right_process: int = 0  # or to another one of its process
    switches: int = 0  # from a thread of a process to another of the same one
    found: int = 0  # of these, not further than truth.NEAR_TICKS


def stack_of(rsp):
    """Takes RSP; gives what is the same for one stack."""
    return rsp >> KERNEL_STACK_SHIFT if rsp >> 63 else rsp >> (PAGE_SHIFT + USER_STACK_PAGES_SHIFT)


def seen(stays, key):
    """Takes Stays of seen_by_host.py and the function from CR3 to a process's key; gives
    [(start, end, (key, stack))] by time."""
    return [
        (stay.start, after.start, (key(stay.entry_cr3), stack_of(stay.entry_rsp)))
        for stay, after in zip(stays, stays[1:])
    ]


def overlaps(found, runs):
    """Takes what seen() gives and the scheduler's runs; gives (ticks, stack, run) of each pair that
    has some."""
    starts = [start for start, _, _ in found]
    for run in runs:
        for start, end, stack in found[
            max(bisect.bisect_right(starts, run[0]) - 1, 0) : bisect.bisect_left(starts, run[1])
        ]:
            ticks = min(end, run[1]) - max(start, run[0])
            if ticks > 0:
                yield ticks, stack, run


def score(found, true):
    """Takes what seen() gives, and the Truth; gives the Score."""
    runs = true.processors[0]
    whose = collections.defaultdict(collections.Counter)
    for ticks, stack, (_, _, tgid, tid) in overlaps(found, runs):
        whose[stack][tgid, tid] += ticks
    owner = {stack: times.most_common(1)[0][0] for stack, times in whose.items()}
    out = Score(stacks=len(owner))
    for ticks, stack, (_, _, tgid, tid) in overlaps(found, runs):
        if tgid > 0:
            out.time += ticks
            out.right += ticks * (owner[stack] == (tgid, tid))
            out.right_process += ticks * (owner[stack][0] == tgid)
    changes = [
        (start, owner.get(stack))
        for (_, _, before), (start, _, stack) in zip(found, found[1:])
        if owner.get(before) != owner.get(stack)
    ]
    at = [start for start, _ in changes]
    for (_, _, *gone), (start, _, *come) in zip(runs, runs[1:]):
        if come[0] <= 0 or gone[0] != come[0] or gone[1] == come[1]:
            continue
        out.switches += 1
        near = changes[
            bisect.bisect_left(at, start - truth.NEAR_TICKS) : bisect.bisect_right(
                at, start + truth.NEAR_TICKS
            )
        ]
        out.found += any(who == tuple(come) for _, who in near)
    return out
