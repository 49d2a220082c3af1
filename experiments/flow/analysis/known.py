# SPDX-License-Identifier: BSD-2-Clause
# known.py: what a trace tells of a process that has no name: when it came, after whom, whether it
# was ever in user space, on which stacks, and whose memory its exits fit. Its parent the records do
# not have; who ran before it may be.
from experiments.flow.analysis import analyses, chrome
from experiments.flow.analysis.identity import KERNEL_HALF

LISTED = 6  # processes that it may be
NOTHING = "nothing seen"

HEADS = (
    "first seen, ms",
    "after",
    "last ran, ms",
    "processors",
    "user exits",
    "user RIPs",
    "own stacks",
    "kernel threads",
    "may be",
)
MEANING = (
    "After: who ran before it, which may be its parent. User exits: its exits in user space; "
    "without any it is a table of the kernel's, or it was not seen outside of the kernel. Own "
    "stacks: kernel stacks that came with it alone. Kernel threads: how many ran with its "
    "table. May be: processes of the names file whose memory its exits fit."
)


def listed(names):
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def came_after(line, key):
    """Gives who ran on the processor before the process first did: a process, "idle", or
    NOTHING."""
    found = []
    for intervals in line.processors.values():
        before = NOTHING
        for interval in intervals:
            if interval.process == key:
                found.append((interval.start, before))
                break
            if interval.process is not None:
                before = chrome.process_text(line, interval.process)
            elif interval.state in ("idle", "unknown"):
                before = "idle" if interval.state == "idle" else NOTHING
    return min(found)[1]


def last_ran(intervals):
    return max((one.end for one in intervals if one.state in ("running", "root")), default=0)


def user_rips(line, table_of):
    """Gives key -> RIPs of exits in user space. A load of CR3 is the kernel's, and has another's
    value."""
    found = {}
    for records in line.records.values():
        for record in records:
            if not record.rip & KERNEL_HALF and record.reason != "CR_ACCESS":
                found.setdefault(table_of(record.cr3), []).append(record.rip)
    return found


def rips_text(found):
    if not found:
        return "none"
    low, high = min(found), max(found)
    return f"{low:#x}" + (f" to {high:#x}" if high > low else "")


def kernel_threads(line):
    """Gives key -> stacks of kernel threads that were seen with its table. Those that were seen
    idle are the processors' idle threads, which come after everybody."""
    every = [interval for intervals in line.processors.values() for interval in intervals]
    idle = {interval.thread for interval in every if interval.state == "idle"}
    threads, found = line.borrowers - idle, {}
    for interval in every:
        if (
            interval.process is not None
            and interval.thread is not None
            and interval.thread in threads
        ):
            found.setdefault(interval.process, set()).add(interval.thread)
    return found


def of_nameless(line, table_of):
    """Takes a Timeline, and what gives the key of a value of CR3. Gives key -> texts, one for each
    of HEADS, of each process whose pid is not known."""
    rips, lent, found = user_rips(line, table_of), kernel_threads(line), {}
    for row in analyses.processes(line):
        if row.pid is not None:
            continue
        intervals = line.processes[row.key].intervals
        seen = rips.get(row.key, [])
        found[row.key] = (
            f"{intervals[0].start / 1e6:.3f}",
            came_after(line, row.key),
            f"{last_ran(intervals) / 1e6:.3f}",
            ", ".join(map(str, row.on)),
            str(len(seen)),
            rips_text(seen),
            str(row.threads),
            str(len(lent.get(row.key, ()))),
            listed([f"{name} [{pid}]" for name, pid in line.candidates.get(row.key, [])])
            or "not known",
        )
    return found
