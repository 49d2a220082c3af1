# SPDX-License-Identifier: BSD-2-Clause
# test_walk_stacks.py: whose a kernel stack is, by the tables that it was seen with.
import pytest

from experiments.flow.analysis import analyses
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    C_STACK,
    A,
    B,
    C,
    flow,
    kernel_tick,
    load,
    window,
)
from experiments.flow.analysis.walk import is_borrower


@pytest.mark.parametrize(
    "tables, borrower",
    [
        ([A] * 30, False),
        ([A] * 2 + [B] * 39, False),
        ([A] * 4 + [B] * 25, False),
        ([B] * 25 + [A] * 4, True),
        ([A] * 4 + [B] * 9, True),
        ([A] * 4 + [B] * 20 + [A], True),
        ([A, B] * 20, True),
        ([A] * 9 + [B] * 9 + [C] * 90, True),
        ([A, B], True),
    ],
    ids=[
        "own",
        "few_first",
        "parent_first",
        "last_is_less",
        "few",
        "comes_back",
        "in_turn",
        "three",
        "one_each",
    ],
)
def test_whose(tables, borrower):
    """The order of the records does not count, that of their ticks does."""
    assert is_borrower(list(enumerate(tables))) == borrower
    assert is_borrower(list(enumerate(tables))[::-1]) == borrower


@pytest.mark.parametrize(
    "vector, stack, threads",
    [
        (0, A_STACK, {A: 1, B: 1, C: 1}),
        (0xEC, A_STACK, {A: 0, B: 1, C: 1}),
        (0, None, {A: 1, B: 1, C: 1}),
    ],
    ids=["before_the_stack", "interrupts_on", "after_the_stack"],
)
def test_interrupt_after_a_load(vector, stack, threads):
    """A leaves for B and for C. An interrupt that comes before the guest goes to the next thread's
    stack, with interrupts still off, does not make A a kernel thread, nor A's stack a thread of B
    or C."""
    records, at, last = [], 0, C_STACK
    for other, own in ((B, B_STACK), (C, C_STACK)) * 3:
        records += [
            load(at, A, last),
            load(at + 100, other, A_STACK),
            kernel_tick(at + 120, other, stack or own, vector),
            window(at + 150, other, own),
        ]
        at, last = at + 1000, own
    line = flow(*records, load(at, A, last))
    assert {row.key: row.threads for row in analyses.processes(line)} == threads
