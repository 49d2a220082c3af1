# SPDX-License-Identifier: BSD-2-Clause
# test_match.py: match.py on made-up processes: by what they execute, by their stacks, and not where
# two could be the one.
from experiments.flow.analysis.match import candidates, matched
from experiments.flow.analysis.trace_source import Record

INTERRUPT, CPUID = 1, 10


def exit_at(cr3, rip, stack=None):
    detail = 0 if stack is None else (stack >> 12 & 0xFFFFFF) << 8 | 0xEC
    return Record(0, rip, cr3, CPUID if stack is None else INTERRUPT, 0, detail, 0)


def task(pid, *ranges):
    return {
        "pid": pid,
        "tid": pid,
        "comm": f"p{pid}",
        "maps": [[hex(start), hex(end), kind] for start, end, kind in ranges],
    }


def found(records, *tasks):
    return matched(candidates({0: records}, tasks, lambda cr3: cr3 & ~0xFFF))


ONE = task(1, (0x401000, 0x480000, "x"), (0x7FFE00000000, 0x7FFE00020000, "w"))
OTHER = task(2, (0x401000, 0x480000, "x"), (0x7FFD00000000, 0x7FFD00020000, "w"))
ELSEWHERE = task(3, (0x555500000000, 0x555500010000, "x"))


def test_by_address():
    assert found([exit_at(0x1000, 0x555500000010)], ONE, OTHER, ELSEWHERE) == {3: 0x1000}


def test_by_stack():
    """Two run the same program: their stacks tell."""
    records = [exit_at(0x1000, 0x401010, 0x7FFE0001F000), exit_at(0x2000, 0x401010, 0x7FFD00000123)]
    assert found(records, ONE, OTHER) == {1: 0x1000, 2: 0x2000}


def test_not_clear():
    """Neither where nothing tells, nor where no process has all, nor for two tables of one."""
    assert found([exit_at(0x1000, 0x401010)], ONE, OTHER) == {}
    assert found([exit_at(0x1000, 0x401010), exit_at(0x1000, 0x999999)], ONE) == {}
    assert found([exit_at(0x1000, 0x401010), exit_at(0x2000, 0x401010)], ONE) == {}


def test_kernel_tells_nothing():
    """An exit in the kernel is everybody's; so is what has no map."""
    assert found([exit_at(0x1000, 0xFFFFFFFF81000000)], ONE) == {}
    assert found([exit_at(0x1000, 0x401010)], {"pid": 5, "tid": 5, "comm": "k", "maps": []}) == {}


def test_both_tables():
    """Page-table isolation: the user's table has the kernel's key."""
    records = [exit_at(0x3800, 0x401010), exit_at(0x2001, 0x401020)]
    assert matched(candidates({0: records}, [ONE], lambda cr3: cr3 & ~0x1FFF)) == {1: 0x2000}
