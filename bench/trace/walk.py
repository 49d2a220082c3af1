# SPDX-License-Identifier: BSD-2-Clause
# walk.py: what one processor did between its records: the paper's NSD (algorithm 2) and GTA
# (algorithm 3), with what trace=flow adds. Times are ticks. The rules are numbered as in
# docs/trace.md, "States".
import dataclasses
import statistics

from exit_reasons import CR_ACCESS, EXTERNAL_INTERRUPT, HLT, INTERRUPT_WINDOW, VMCALL
from identity import KERNEL_HALF, is_user, stack_thread
from trace_source import TRACE_FLOW

TRACE_ENDS = 0x80000000  # include/trace_ring.h
VECTOR = 0xff
# An interrupt that makes the processor go to another process does so within this many times of what
# it takes from an interrupt in HLT to the load of CR3: the way through the scheduler is the same.
SWITCH_PATHS = 2

INTERRUPTS = (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW)
WITH_STACK = (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW, HLT, CR_ACCESS)


@dataclasses.dataclass
class Span:
    """What the guest did from one entry to the next exit."""
    start: int
    end: int
    state: str                  # running, idle, unknown
    process: int | None = None  # its key
    thread: object = None       # identity.Thread, where the exit at the end has one
    detail: str = ""


@dataclasses.dataclass
class Leave:
    """A process left the processor: at `tick`, for `to` (None: for nobody)."""
    tick: int
    process: int
    to: int | None
    preempted: bool


@dataclasses.dataclass
class Walk:
    """One processor. spans[i] is what comes behind records[i]; the last one has no end and is not
    there."""
    records: list
    flow: bool
    gaps: dict
    spans: list = dataclasses.field(default_factory=list)
    roots: list = dataclasses.field(default_factory=list)  # whose each exit was; None: nobody's
    leaves: list = dataclasses.field(default_factory=list)
    idle_stack: object = None
    complaints: list = dataclasses.field(default_factory=list)


def sees_processes(source):
    """Says whether each change of process has its record: the level says so or, where the trace
    does not name one, loads of CR3 are among the exits."""
    if source.level is not None:
        return source.level >= TRACE_FLOW
    return any(record.reason == CR_ACCESS and record.detail >> 8
               for found in source.processors.values() for record in found)


def vector(record):
    """Gives the vector that the guest gets with this record's entry; 0: none."""
    return record.detail & VECTOR if record.reason in INTERRUPTS else 0


def ticks_to_switch(walks, identity):
    """Gives the median time from an interrupt in HLT to the load of CR3 that follows it, of all
    processors; None where that never happened."""
    took = []
    for walk in walks.values():
        for before, woke, load in zip(walk.records, walk.records[1:], walk.records[2:]):
            if before.reason == HLT and vector(woke) and load.reason == CR_ACCESS and \
                    identity.key(load.cr3) != identity.key(woke.cr3):
                took.append(load.tsc - woke.tsc - woke.root_time)
    return statistics.median(took) if took else None


def walk_processor(walk, identity, path):
    """Fills spans, roots and leaves. Takes what ticks_to_switch() gave as `path`."""
    find_idle_stack(walk)
    label_spans(walk, identity)
    if walk.flow:
        after_idle(walk, identity, path)
    own_exits(walk, identity)
    find_leaves(walk, identity, path)


def find_idle_stack(walk):
    """The idle thread of a processor is the only one that executes HLT there. (Rule 3.)"""
    for record in walk.records:
        if record.reason == HLT and record.detail >> 8 and record.rip & KERNEL_HALF:
            walk.idle_stack = stack_thread(record)
            return


def label_spans(walk, identity):
    """Rules 1, 2 and 6: the process of CR3 runs, HLT is idle, what no record tells is unknown."""
    off = backwards = unseen = 0
    for index, (record, end) in enumerate(zip(walk.records, walk.records[1:])):
        start = record.tsc + record.root_time
        if end.tsc < record.tsc:
            backwards += 1
        if end.tsc < start:  # damaged: no time is made of it
            start = min(record.tsc, end.tsc)
        key = identity.key(record.cr3)
        span = Span(start, end.tsc, "running", key)
        if index + 1 in walk.gaps:
            span = Span(start, end.tsc, "unknown", detail=f"{walk.gaps[index + 1]} records lost")
        elif record.reason == VMCALL and record.detail & TRACE_ENDS:
            span = Span(start, end.tsc, "unknown", detail="not traced")
            off += 1
        elif record.reason == HLT:
            span = Span(start, end.tsc, "idle")
        elif walk.flow and end.reason != CR_ACCESS and identity.key(end.cr3) != key:
            span = Span(start, end.tsc, "unknown", detail="CR3 changed without a record")
            unseen += 1
        if end.reason in WITH_STACK and end.detail >> 8:
            span.thread = stack_thread(end)
        walk.spans.append(span)
    if backwards:
        walk.complaints.append(f"{backwards} records are older than the one before them")
    if unseen:
        walk.complaints.append(f"{unseen} changes of CR3 have no record")


def after_idle(walk, identity, path):
    """Rules 4 and 5, for each stretch from a wake-up to the next HLT or load of another CR3."""
    first = 0
    while first < len(walk.spans):
        if walk.records[first].reason != HLT:
            first += 1
            continue
        first += 1
        last = first
        while last < len(walk.spans) and walk.records[last].reason != HLT and \
                (last == first or not is_switch(walk, last, identity)):
            last += 1
        stretch = walk.spans[first:last]
        for span, idle in zip(stretch, idle_spans(walk, first, last, path)):
            if span.state == "running" and idle:
                span.state, span.process, span.detail = "idle", None, "awake"
            elif span.thread == walk.idle_stack:
                span.thread = None  # of the exit at its end, not of who ran before


def idle_spans(walk, first, last, path):
    """Says for each of spans[first:last], which follow a wake-up, whether the idle thread runs. The
    record at its end tells whose stack it was. Behind the last such record the thread goes on that
    it showed. Where there was none, or it showed the idle thread, this one goes on if there is no
    time for a switch there and back; else it is the process whose CR3 is loaded."""
    if first == last:
        return []
    shown = [shows(walk, record) for record in walk.records[first + 1:last + 1]]
    took = walk.records[last].tsc - walk.spans[first].start
    known = [idle for idle in shown if idle is not None]
    if known and not known[-1]:
        after = False
    else:
        after = path is not None and took <= SWITCH_PATHS * path
    for place in range(len(shown) - 1, -1, -1):
        if shown[place] is None:
            shown[place] = after
        after = shown[place]
    return shown


def is_switch(walk, index, identity):
    """Says whether records[index] loads the CR3 of another process."""
    record = walk.records[index]
    return record.reason == CR_ACCESS and index > 0 and \
        identity.key(record.cr3) != identity.key(walk.records[index - 1].cr3)


def shows(walk, record):
    """Says whether the exit comes from the processor's idle thread; None: the record does not tell.
    HLT does not: it is always the idle thread's, whoever ran right before."""
    if is_user(record):
        return False
    if record.reason in WITH_STACK and record.reason != HLT and record.detail >> 8:
        return stack_thread(record) == walk.idle_stack
    return None


def own_exits(walk, identity):
    """An exit belongs to what ran before it; the first one to the process of its CR3."""
    for index, record in enumerate(walk.records):
        if index == 0:
            known = record.reason not in (CR_ACCESS, HLT)
            walk.roots.append(identity.key(record.cr3) if known else None)
        elif record.reason == HLT and walk.flow or walk.spans[index - 1].state != "running":
            walk.roots.append(None)
        else:
            walk.roots.append(walk.spans[index - 1].process)


def find_leaves(walk, identity, path):
    """Rule 7: a process that leaves for another right behind an interrupt was preempted. Without
    records of CR3 loads, the paper's NSD: it was, unless the last exit was HLT."""
    for index in range(1, len(walk.spans)):
        before, after = walk.spans[index - 1], walk.spans[index]
        if before.state != "running" or after.process == before.process:
            continue
        record, last = walk.records[index], walk.records[index - 1]
        preempted = False
        if after.state == "running" and walk.flow:
            preempted = record.reason == CR_ACCESS and vector(last) != 0 and \
                walk.roots[index - 1] == before.process and \
                (path is None or record.tsc - before.start <= SWITCH_PATHS * path)
        elif after.state == "running":
            preempted = record.reason != HLT
        walk.leaves.append(Leave(record.tsc + record.root_time, before.process,
                                 after.process, preempted))
