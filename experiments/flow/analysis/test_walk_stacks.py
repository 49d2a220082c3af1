# SPDX-License-Identifier: BSD-2-Clause
# test_walk_stacks.py: whose a kernel stack is, by the tables that it was seen with.
import flow_path  # noqa: F401, first of all
import pytest
from walk import is_borrower

A, B, C = 0x1000, 0x2000, 0x3000


@pytest.mark.parametrize("tables, borrower", [
    ([A] * 30, False), ([A] * 2 + [B] * 39, False), ([A] * 4 + [B] * 25, False),
    ([B] * 25 + [A] * 4, True), ([A] * 4 + [B] * 9, True), ([A] * 4 + [B] * 20 + [A], True),
    ([A, B] * 20, True), ([A] * 9 + [B] * 9 + [C] * 90, True), ([A, B], True)],
    ids=["own", "few_first", "parent_first", "last_is_less", "few", "comes_back", "in_turn", "three",
         "one_each"])
def test_whose(tables, borrower):
    """The order of the records does not count, that of their ticks does."""
    assert is_borrower(list(enumerate(tables))) == borrower
    assert is_borrower(list(enumerate(tables))[::-1]) == borrower
