# SPDX-License-Identifier: BSD-2-Clause
# walk.py: what one processor did between its records: the paper's NSD (algorithm 2) and GTA
# (algorithm 3), with what trace=flow adds. Times are ticks. The rules are numbered as in
# timeline.md, "States".
import bisect
import collections
import dataclasses
import itertools
import math
import statistics

from experiments.flow.analysis.exit_reasons import (
    CR_ACCESS,
    EXTERNAL_INTERRUPT,
    HLT,
    INTERRUPT_WINDOW,
    VMCALL,
)
from experiments.flow.analysis.identity import KERNEL_HALF, is_user, stack_thread
from experiments.flow.analysis.trace_source import TRACE_FLOW

TRACE_ENDS = 0x80  # trace_ring.h
VECTOR = 0xFF
# An interrupt in user space that makes the processor go to another process takes at most so many
# times the short way from such an interrupt to a load of CR3 (the lowest tenth). Who blocks instead
# has to get back to user space and into the kernel first, which takes longer. Where a kernel thread
# ran between, there is one switch more.
PREEMPTION_WAYS = 2
# From the wake-up to HLT there is time for another thread only if it takes more than so many times
# the way from a wake-up to the load of CR3: the way back to the idle thread comes on top.
WAKE_WAYS = 1.5
# A thread of a process leaves and is interrupted with that one's table. Who is seen with others'
# more often than in a tenth of all records, or with three tables, has none of its own: a kernel
# thread, or the idle one. Two of which the first does not come back are seen where a process has
# ended and its stack is used again, or where a thread's parent was seen with its stack: then the
# last is own.
OWN_SHARE = 0.9
OWN_TABLES = 2
OWN_LAST, OWN_LEAST = 0.5, 10  # of the last of two, the share and the number
FEW = 8  # samples below which a tenth of them is nothing

# Linux, arch/x86/include/asm/irq_vectors.h: CALL_FUNCTION_SINGLE_VECTOR, CALL_FUNCTION_VECTOR and
# RESCHEDULE_VECTOR. Another processor sends these.
SENT = (0xFB, 0xFC, 0xFD)
# What an interrupt has another, idle processor do takes at most so many times what the interrupt
# itself takes to a load of CR3.
ERRAND_WAYS = 2

INTERRUPTS = (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW)
WITH_STACK = (EXTERNAL_INTERRUPT, INTERRUPT_WINDOW, HLT, CR_ACCESS)


@dataclasses.dataclass
class Span:
    """What the guest did from one entry to the next exit."""

    start: int
    end: int
    state: str  # running, idle, unknown
    process: int | None = None  # its key
    thread: object = None  # identity.Thread, where the exit at the end has one
    detail: str = ""
    awake: int = 0  # ticks at its start in which the idle thread still ran


@dataclasses.dataclass
class Leave:
    """A process left the processor: at `tick`, for `to` (None: for nobody)."""

    tick: int
    process: int
    to: int | None
    preempted: bool


@dataclasses.dataclass
class Walk:
    """One processor. spans[i] is what comes after records[i]; the last one has no end and is not
    there."""

    records: list
    flow: bool
    gaps: dict
    by_next: bool = False  # without flow: who ran is read off the next exit, not off this one
    spans: list = dataclasses.field(default_factory=list)
    roots: list = dataclasses.field(default_factory=list)  # whose each exit was; None: nobody's
    leaves: list = dataclasses.field(default_factory=list)
    tables: list = dataclasses.field(default_factory=list)  # whose table is loaded after each
    between: set = dataclasses.field(default_factory=set)  # places between two executions of a load
    leaving: set = dataclasses.field(default_factory=set)  # after it, on the stack of who leaves
    idle_stack: object = None
    complaints: list = dataclasses.field(default_factory=list)


def sees_processes(source, identity):
    """Says whether each change of process has its record: the level says so or, where the trace
    does not name one, or is turned off by now, most changes come with a CR access. (There are
    others: loads of CR4.)"""
    if source.level:
        return source.level >= TRACE_FLOW
    at = [
        two.reason == CR_ACCESS
        for found in source.processors.values()
        for one, two in zip(found, found[1:])
        if identity.key(one.cr3) != identity.key(two.cr3)
    ]
    return 2 * sum(at) > len(at)


def vector(record):
    """Gives the vector that the guest gets with this record's entry; 0: none."""
    return record.detail & VECTOR if record.reason in INTERRUPTS else 0


@dataclasses.dataclass
class Ways:
    """How long the guest takes from an interrupt to what follows from it, in ticks; None: it never
    happened. `preemption` has the way by vector, and under None that for all others."""

    wake: float | None = None
    preemption: dict = dataclasses.field(default_factory=dict)
    kernel_stacks: set = dataclasses.field(default_factory=set)  # of kernel threads
    handlers: list = dataclasses.field(default_factory=list)  # of a processor: [(start, end, way)]

    def preempts(self, interrupt, load, ticks):
        """Says whether a load of CR3, so long after the entry of an interrupt, is its work."""
        way = self.preemption.get(vector(interrupt), self.preemption.get(None))
        switches = 2 if stack_thread(load) in self.kernel_stacks else 1
        return way is not None and ticks <= PREEMPTION_WAYS * way * switches

    def too_short(self, ticks):
        """Says whether a stretch from wake-up to HLT has no room for a switch there and back."""
        return self.wake is not None and ticks <= WAKE_WAYS * self.wake

    def errand(self, wake, ticks):
        """Says whether a wake-up, so long before HLT, is another processor's errand: that one sent
        it while it handled an interrupt of user space. A process there that wakes another one
        first has to return from the interrupt, and enter the kernel anew. (The processor's own
        interrupts are over by its HLT.)"""
        for found in self.handlers if vector(wake) in SENT else ():
            place = bisect.bisect_left(found, (wake.tsc,)) - 1
            if place >= 0:
                _, end, way = found[place]
                if wake.tsc <= end and ticks <= ERRAND_WAYS * way:
                    return True
        return False


def find_ways(walks, kernel_stacks):
    """Takes number -> Walk, with tables, and the stacks of kernel threads that names told. Gives
    the Ways that the trace itself shows."""
    wakes, preemptions = [], collections.defaultdict(list)
    tables = collections.defaultdict(list)  # stack -> [(tick, table)]
    for walk in walks.values():
        for index in range(1, len(walk.records)):
            before, load = walk.records[index - 1 : index + 1]
            if shows_thread(walk, index):
                tables[stack_thread(load)].append((load.tsc, walk.tables[index - 1]))
            if (
                load.reason != CR_ACCESS
                or not vector(before)
                or walk.tables[index] == walk.tables[index - 1]
            ):
                continue
            took = load.tsc - before.tsc - before.root_time
            if is_user(before):
                preemptions[vector(before)].append(took)
            elif index > 1 and walk.records[index - 2].reason == HLT:
                wakes.append(took)
    ways = Ways(
        kernel_stacks=kernel_stacks
        | {
            stack
            for stack, found in tables.items()
            if stack.side == "kernel" and is_borrower(found)
        }
    )
    if len(wakes) > 1:
        ways.wake = statistics.quantiles(wakes, n=4)[0]
    every = [ticks for took in preemptions.values() for ticks in took]
    if every:
        ways.preemption[None] = min(every)
    for number, took in [*preemptions.items(), (None, every)]:
        if len(took) >= FEW:
            ways.preemption[number] = statistics.quantiles(took, n=10)[0]
    ways.handlers = [handlers(walk.records, ways) for walk in walks.values()]
    return ways


def is_borrower(found):
    """Says whether a stack is that of a kernel thread, which has no table of its own. Takes [(tick,
    table)] of those that it was seen with. A thread has one; before it, its parent or who had the
    stack may have been seen with theirs, which does not come back."""
    tables = [table for _, table in sorted(found)]
    counts = collections.Counter(tables)
    if len(counts) > OWN_TABLES:
        return True
    if max(counts.values()) >= OWN_SHARE * len(tables):
        return False
    comes_back = len(list(itertools.groupby(tables))) > len(counts)
    return comes_back or counts[tables[-1]] < max(OWN_LAST * len(tables), OWN_LEAST)


def handlers(records, ways):
    """Gives (start, end, way) of each interrupt of user space: from its entry on for the way to a
    load of CR3, or to the next record."""
    found = []
    for record, after in zip(records, records[1:]):
        way = ways.preemption.get(vector(record), ways.preemption.get(None))
        if way is not None and vector(record) and is_user(record):
            start = record.tsc + record.root_time
            found.append((start, min(start + way, after.tsc), way))
    return sorted(found)


def shows_thread(walk, index):
    """Says whether records[index] has the stack of who ran before it. That of an interrupt between
    the two executions of a load of CR3 is already another table's; so is that of an interrupt after
    them, until the guest goes to the next one's stack."""
    record = walk.records[index]
    return (
        record.reason in WITH_STACK
        and record.detail >> 8 != 0
        and index not in walk.between
        and index not in walk.leaving
    )


def find_tables(walk, identity):
    """Fills walk.tables, walk.between and walk.leaving. The guest executes its load of CR3 again
    after the exit. An interrupt that comes before that has the old value, and the same RIP. After
    the load Linux goes to the next thread's stack (kernel/sched/core.c, context_switch()). Until
    then interrupts are off: an exit for an interrupt gives the guest no vector."""
    pending = None  # RIP of a load that may not have been executed yet
    stack = None  # that of the last load, if only interrupts that wait have come since
    for record in walk.records:
        if record.reason == CR_ACCESS:
            pending, stack = record.rip, stack_thread(record)
        elif record.rip == pending:
            walk.between.add(len(walk.tables))
            walk.tables.append(walk.tables[-1])
            continue
        else:
            pending = None
            if (
                record.reason == EXTERNAL_INTERRUPT
                and not vector(record)
                and stack_thread(record) == stack
            ):
                walk.leaving.add(len(walk.tables))
            else:
                stack = None
        walk.tables.append(identity.key(record.cr3))


def walk_processor(walk, ways):
    """Fills spans, roots and leaves of a Walk that has tables. Takes what find_ways() gave."""
    find_idle_stack(walk)
    label_spans(walk)
    if walk.flow:
        after_idle(walk, ways)
        until_load(walk)
    own_exits(walk)
    find_leaves(walk, ways)


def find_idle_stack(walk):
    """The idle thread of a processor is the only one that executes HLT there. (Rule 3.)"""
    for record in walk.records:
        if record.reason == HLT and record.detail >> 8 and record.rip & KERNEL_HALF:
            walk.idle_stack = stack_thread(record)
            return


def label_spans(walk):
    """Rules 1, 2 and 6: the process of CR3 runs, HLT is idle, what no record tells is unknown."""
    off = backwards = unseen = 0
    for index, (record, end) in enumerate(zip(walk.records, walk.records[1:])):
        start = record.tsc + record.root_time
        if end.tsc < record.tsc:
            backwards += 1
        if end.tsc < start:  # damaged: no time is made of it
            start = min(record.tsc, end.tsc)
        key = walk.tables[index + 1 if walk.by_next and not walk.flow else index]
        span = Span(start, end.tsc, "running", key)
        if index + 1 in walk.gaps:
            span = Span(start, end.tsc, "unknown", detail=f"{walk.gaps[index + 1]} records lost")
        elif record.reason == VMCALL and record.flags & TRACE_ENDS:
            span = Span(start, end.tsc, "unknown", detail="not traced")
            off += 1
        elif record.reason == HLT:
            span = Span(start, end.tsc, "idle")
        elif walk.flow and end.reason != CR_ACCESS and walk.tables[index + 1] != key:
            span = Span(start, end.tsc, "unknown", detail="CR3 changed without a record")
            unseen += 1
        if shows_thread(walk, index + 1):
            span.thread = stack_thread(end)
        walk.spans.append(span)
    if backwards:
        walk.complaints.append(f"{backwards} records are older than the one before them")
    if unseen:
        walk.complaints.append(f"{unseen} changes of CR3 have no record")


def after_idle(walk, ways):
    """Rules 4 and 5, for each stretch from a wake-up to the next HLT or load of another CR3."""
    first = 0
    while first < len(walk.spans):
        if walk.records[first].reason != HLT:
            first += 1
            continue
        first += 1
        last = first
        while (
            last < len(walk.spans)
            and walk.records[last].reason != HLT
            and (last == first or not is_switch(walk, last))
        ):
            last += 1
        stretch = walk.spans[first:last]
        for span, idle in zip(stretch, idle_spans(walk, first, last, ways)):
            if span.state == "running" and idle:
                span.state, span.process, span.detail = "idle", None, "awake"
            elif span.thread == walk.idle_stack:
                span.thread = None  # of the exit at its end, not of who ran before
            if span.state == "running" and span is next(
                (other for other in stretch if other.state == "running"), None
            ):
                span.awake = min(int(ways.wake or 0), span.end - span.start)


def until_load(walk):
    """Rule 2: who was there before a load of CR3 is there until the guest executes it again."""
    for index in sorted(walk.between):
        before, span = walk.spans[max(index - 2, 0)], walk.spans[index - 1]
        if span.state == "running" and before.state in ("running", "idle"):
            span.state, span.process, span.thread, span.detail = (
                before.state,
                before.process,
                before.thread,
                before.detail,
            )


def idle_spans(walk, first, last, ways):
    """Says for each of spans[first:last], which follow a wake-up, whether the idle thread runs. The
    record at its end tells whose stack it was. After the last such record the thread goes on that
    it showed. Where there was none, or it showed the idle thread, this one goes on if there is no
    time for a switch there and back, or if the wake-up was an errand; else it is the process whose
    CR3 is loaded."""
    if first == last:
        return []
    shown = [shows(walk, record) for record in walk.records[first + 1 : last + 1]]
    took = walk.records[last].tsc - walk.spans[first].start
    known = [idle for idle in shown if idle is not None]
    if known and not known[-1]:
        after = False
    else:
        after = ways.too_short(took) or ways.errand(walk.records[first], took)
    for place in range(len(shown) - 1, -1, -1):
        if shown[place] is None:
            shown[place] = after
        after = shown[place]
    return shown


def is_switch(walk, index):
    """Says whether records[index] loads the CR3 of another process."""
    return (
        walk.records[index].reason == CR_ACCESS
        and index > 0
        and walk.tables[index] != walk.tables[index - 1]
    )


def shows(walk, record):
    """Says whether the exit comes from the processor's idle thread; None: the record does not tell.
    HLT does not: it is always the idle thread's, whoever ran right before."""
    if is_user(record):
        return False
    if record.reason in WITH_STACK and record.reason != HLT and record.detail >> 8:
        return stack_thread(record) == walk.idle_stack
    return None


def own_exits(walk):
    """An exit belongs to what ran before it; the first one to the process of its CR3."""
    for index, record in enumerate(walk.records):
        if index == 0:
            known = record.reason not in (CR_ACCESS, HLT)
            walk.roots.append(walk.tables[0] if known else None)
        elif record.reason == HLT or walk.spans[index - 1].state != "running":
            walk.roots.append(None)
        else:
            walk.roots.append(walk.spans[index - 1].process)


def find_leaves(walk, ways):
    """Rule 7: who leaves for another process right after an interrupt that came in user space was
    preempted; else it waits. Without records of CR3 loads, the paper's NSD: it was preempted,
    unless the last exit was HLT."""
    for index in range(1, len(walk.spans)):
        before, after = walk.spans[index - 1], walk.spans[index]
        if before.state != "running" or after.process == before.process:
            continue
        first = index  # the load itself, whatever came before it was executed again
        while first in walk.between:
            first -= 1
        record, load, last = walk.records[index], walk.records[first], walk.records[first - 1]
        preempted = False
        if after.state == "running" and walk.flow:
            preempted = (
                load.reason == CR_ACCESS
                and is_user(last)
                and vector(last) != 0
                and walk.roots[first - 1] == before.process
                and ways.preempts(last, load, load.tsc - walk.spans[first - 1].start)
            )
        elif after.state == "running":
            preempted = True
        own = walk.roots[index] == before.process  # else it is gone when the exit comes
        walk.leaves.append(
            Leave(
                record.tsc + (record.root_time if own else 0),
                before.process,
                after.process,
                preempted,
            )
        )


def find_waits(walks):
    """Rule 7: a processor halts only when nobody there can run. So a process that left it, and that
    has not run on any processor by its next HLT, was not preempted: it waits. Takes number -> Walk,
    with leaves, and corrects these."""
    starts = collections.defaultdict(list)
    for walk in walks.values():
        for span in walk.spans:
            if span.state == "running":
                starts[span.process].append(span.start)
    for found in starts.values():
        found.sort()
    for walk in walks.values():
        halts = [record.tsc for record in walk.records if record.reason == HLT]
        for leave in walk.leaves if walk.flow else ():
            if next_after(halts, leave.tick) < next_after(starts[leave.process], leave.tick):
                leave.preempted = False


def next_after(ticks, tick):
    """Takes ticks in order; gives the first one after `tick`, infinity if there is none."""
    place = bisect.bisect_right(ticks, tick)
    return ticks[place] if place < len(ticks) else math.inf
