# SPDX-License-Identifier: BSD-2-Clause
# sched_text.py: the guest's own trace of its scheduler, as tracefs' file `trace` gives it: the
# truth about who ran when. Linux, Documentation/trace/ftrace.rst, "trace_clock" (x86-tsc) and
# include/trace/events/sched.h, sched_switch: prev_state R is runnable, R+ preempted in the kernel.
import collections
import re

Switch = collections.namedtuple(
    "Switch", "tsc processor prev_tid prev_comm prev_state next_tid next_comm"
)

LINE = re.compile(
    r"\[(\d+)\] \S+ +(\d+): sched_switch: prev_comm=(.*) prev_pid=(\d+) "
    r"prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) "
)
FORK = re.compile(r"sched_process_fork: comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)$", re.M)
LOST = re.compile(r"^CPU:(\d+) \[LOST (\d+) EVENTS\]", re.M)
WRITTEN = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)", re.M)


def switches(text):
    """Takes the text; gives [Switch] by time. Raises ValueError where events are lost, or where a
    line of a switch is not understood: such a text is no truth."""
    written = WRITTEN.search(text)
    lost = LOST.search(text)
    if lost or written and written[1] != written[2]:
        raise ValueError(
            f"the scheduler's trace has lost events: "
            f"{lost[0] if lost else written[0]}; wanted a larger buffer_size_kb"
        )
    found = []
    for line in text.splitlines():
        if ": sched_switch: " not in line:
            continue
        match = LINE.search(line + " ")
        if not match:
            raise ValueError(f"not understood, with trace_clock x86-tsc: '{line.strip()[:160]}'")
        found.append(
            Switch(
                int(match[2]),
                int(match[1]),
                int(match[4]),
                match[3],
                match[5],
                int(match[7]),
                match[6],
            )
        )
    found.sort()
    return found


def pairs(text):
    """Takes lines `tid tgid`, as the file saved_tgids has them; gives {tid: tgid}."""
    return {int(tid): int(tgid) for tid, tgid in (line.split() for line in text.splitlines())}


def kernel_threads(text, trace=""):
    """Takes lines `pid 0|1 name`, as flowtruth writes them; gives the pids with 1. With the trace's
    text those of threads that began after the first of these lists and were gone before the second,
    too: children of a kernel thread, sched_process_fork."""
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
    found = {int(row[0]) for row in rows if row[1] == "1"}
    for parent, child in FORK.findall(trace):
        if int(parent) in found:
            found.add(int(child))
    return found
