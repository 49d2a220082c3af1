# SPDX-License-Identifier: BSD-2-Clause
# hand_made.py: records for tests, written by hand. A tick is 1 ns; root mode takes 10.
from experiments.flow.analysis import trace_source
from experiments.flow.analysis.exit_reasons import (
    CR_ACCESS,
    EXTERNAL_INTERRUPT,
    HLT,
    INTERRUPT_WINDOW,
    NUMBERS,
)
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import Record, Source

A, B, C = 0xA0000, 0xB0000, 0xC0000  # tables of three processes
USER, KERNEL = 0x401000, 0xFFFFFFFF81000000
SWITCH_MM, HALTED, BUSY = KERNEL + 0x10, KERNEL + 0x20, KERNEL + 0x30
# Pages of stacks. A thread's kernel stack has four.
IDLE_STACK, A_STACK, B_STACK, C_STACK, WORKER_STACK = 0x10, 0x20, 0x30, 0x40, 0x50
USER_STACK = 0x7F000
TIMER, WAKE = 0xEC, 0xFB
ROOT = 10


def record(tsc, reason, cr3, rip=KERNEL, stack=0, vector=0, root_time=ROOT):
    return Record(tsc, rip, cr3, reason, 0, stack << 8 | vector, root_time)


def load(tsc, cr3, stack):
    """The thread with that stack leaves; CR3 gets the new value."""
    return record(tsc, CR_ACCESS, cr3, SWITCH_MM, stack)


def tick(tsc, cr3, vector=TIMER):
    """An interrupt of user space."""
    return record(tsc, EXTERNAL_INTERRUPT, cr3, USER, USER_STACK, vector)


def kernel_tick(tsc, cr3, stack, vector=TIMER):
    return record(tsc, EXTERNAL_INTERRUPT, cr3, BUSY, stack, vector)


def window(tsc, cr3, stack, vector=TIMER):
    return record(tsc, INTERRUPT_WINDOW, cr3, BUSY, stack, vector)


def halt(tsc, cr3):
    return record(tsc, HLT, cr3, HALTED, IDLE_STACK)


def wake(tsc, cr3, vector=TIMER):
    """An interrupt that ends HLT."""
    return record(tsc, EXTERNAL_INTERRUPT, cr3, HALTED + 1, IDLE_STACK, vector)


def cpuid(tsc, cr3, rip=USER):
    return record(tsc, NUMBERS["CPUID"], cr3, rip)


def source(level, *processors, **more):
    return Source(level=level, processors=dict(enumerate(map(list, processors))), **more)


def flow(*records, names=None, **more):
    return timeline(source(trace_source.TRACE_FLOW, records, **more), names)


def exits(*records, **more):
    return timeline(source(trace_source.TRACE_EXITS, records, **more))


def rows(intervals):
    """(start, end, state, process) of each."""
    return [tuple(interval[:4]) for interval in intervals]
