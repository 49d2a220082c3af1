# SPDX-License-Identifier: BSD-2-Clause
# lttng_events.py: the events that LTTng's kernel tracer would have had, out of a flow trace.
# Names and fields are LTTng's: kvm_x86_exit, kvm_x86_entry, irq_handler_entry, sched_switch. The
# first two are the records, with more fields; the last two follow from them.
import bisect
import collections

from experiments.flow.analysis.walk import vector
from experiments.shared.analysis.ctf_writer import PACKET_EVENTS, Event, Packet

# No record has a priority. This is LTTng's number for a process of nice 0, and for swapper.
PRIORITY = 20
# Linux's include/linux/sched.h: TASK_RUNNING, TASK_INTERRUPTIBLE.
STATE_RUNNABLE, STATE_SLEEPS = 0, 1
# Processes whose pid is not known have numbers from here on: Linux's own end below (PID_MAX_LIMIT).
UNKNOWN_PID_BASE = 1 << 22
COMM_BYTES = 15  # TASK_COMM_LEN without its last 0


def numbers(line):
    """Takes a Timeline; gives key -> (comm, tid) for each process. CR3 does not tell a process's
    threads apart: the tid is the pid."""
    unknown = sorted(key for key, process in line.processes.items() if process.pid is None)
    places = {key: UNKNOWN_PID_BASE + place for place, key in enumerate(unknown)}
    return {
        key: (
            process.name.encode()[:COMM_BYTES].decode(errors="ignore"),
            places.get(key, process.pid),
        )
        for key, process in line.processes.items()
    }


def state_at(process, starts, time):
    """Gives LTTng's prev_state of who leaves: what the process is in from then on."""
    place = bisect.bisect_right(starts, time) - 1
    waits = place >= 0 and process.intervals[place].state == "waiting"
    return STATE_SLEEPS if waits else STATE_RUNNABLE


def switches(line, number):
    """Takes a Timeline and a processor; yields its Events sched_switch. The processor's first task
    is nobody's successor, and has none. What ran while it is not known has none either."""
    comms = numbers(line)
    starts = {
        key: [interval.start for interval in process.intervals]
        for key, process in line.processes.items()
    }
    swapper = (f"swapper/{number}", 0)
    last = last_key = None
    for interval in line.processors[number]:
        if interval.state not in ("running", "idle"):
            continue
        key = interval.process if interval.state == "running" else None
        now = swapper if key is None else comms[key]
        if last is not None and now != last:
            state = (
                STATE_RUNNABLE
                if last_key is None
                else state_at(line.processes[last_key], starts[last_key], interval.start)
            )
            yield Event(
                line.tick(interval.start),
                "sched_switch",
                {
                    "prev_comm": last[0],
                    "prev_tid": last[1],
                    "prev_prio": PRIORITY,
                    "prev_state": state,
                    "next_comm": now[0],
                    "next_tid": now[1],
                    "next_prio": PRIORITY,
                },
            )
        last, last_key = now, key


def of_record(record, number):
    """Yields the Events of one record, in order."""
    entry = record.tsc + record.root_time
    yield Event(
        record.tsc,
        "kvm_x86_exit",
        {
            "exit_reason": record.reason,
            "guest_rip": record.rip,
            "cr3": record.cr3,
            "detail": record.detail,
            "flags": record.flags,
        },
    )
    yield Event(
        entry,
        "kvm_x86_entry",
        {"vcpu_id": number, "cr3": record.cr3, "root_time": record.root_time},
    )
    if vector(record):
        yield Event(
            entry,
            "irq_handler_entry",
            {"irq": vector(record), "name": f"vector {vector(record):#x}"},
        )


def packets(source, line, number):
    """Takes a trace_source.Source, its Timeline and a processor; gives its [Packet]. Times never go
    back: where a record's does, the last one's is taken (its complaint is the source's)."""
    gaps = source.gaps.get(number, {})
    found = [Packet(0, [])]
    now = 0

    def add(event):
        nonlocal now
        now = max(now, event.tick)
        found[-1].events.append(event._replace(tick=now))

    pending = collections.deque(switches(line, number))
    for index, record in enumerate(source.processors[number]):
        while pending and pending[0].tick <= record.tsc:
            add(pending.popleft())
        if gaps.get(index) or len(found[-1].events) >= PACKET_EVENTS:
            found.append(Packet(gaps.get(index, 0), []))
        for event in of_record(record, number):
            add(event)
    while pending:
        add(pending.popleft())
    behind = gaps.get(len(source.processors[number]), 0)
    if behind:
        found.append(Packet(behind, []))
    return found
