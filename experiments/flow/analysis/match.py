# SPDX-License-Identifier: BSD-2-Clause
# match.py: which process a table is, from what each process executes and writes (paper 002, section
# IV.C: the process's memory map). An exit in user space has an address that was executed, and often
# a stack. The process in whose map all of a table's exits lie is the one, where there is no other.
from experiments.flow.analysis.identity import STACK_MASK, STACK_SHIFT, is_user

STACK_REASONS = {1, 7, 12, 28}  # external interrupt, its window, HLT, CR access: these have a stack
CR_ACCESS = 28


def places(records_by_processor, key):
    """Takes number -> [Record] and the function from CR3 to a key. Gives key -> (addresses that
    were executed, pages of stacks as a record has them)."""
    found = {}
    for records in records_by_processor.values():
        for record in records:
            # A load of CR3 has the new value, and is the kernel's in any case.
            if not is_user(record) or record.reason == CR_ACCESS:
                continue
            executed, stacks = found.setdefault(key(record.cr3), (set(), set()))
            executed.add(record.rip)
            if record.reason in STACK_REASONS:
                stacks.add(record.detail >> 8 & STACK_MASK)
    return found


def parsed(task):
    """Gives (start, end, is executed) of each range of a task of the names file."""
    return [
        (int(start, 16), int(end, 16), kind == "x") for start, end, kind in task.get("maps", [])
    ]


def has_page(start, end, page):
    """Whether one of the range's pages has this number modulo 2^24."""
    first = start >> STACK_SHIFT
    return (page - first & STACK_MASK) < (end >> STACK_SHIFT) - first


def fits(ranges, executed, stacks):
    return all(
        any(start <= rip < end for start, end, is_executed in ranges if is_executed)
        for rip in executed
    ) and all(
        any(has_page(start, end, page) for start, end, is_executed in ranges if not is_executed)
        for page in stacks
    )


def candidates(records_by_processor, tasks, key):
    """Gives key -> pids of the processes that the table can be, of each table with exits in user
    space."""
    maps = [(task["pid"], parsed(task)) for task in tasks if task.get("maps")]
    return {
        table: [pid for pid, ranges in maps if fits(ranges, executed, stacks)]
        for table, (executed, stacks) in places(records_by_processor, key).items()
    }


def matched(pids_of):
    """Takes what candidates() gave; gives pid -> key of the tables that exactly one process can
    be."""
    found = {}
    for table, pids in pids_of.items():
        if len(pids) == 1:
            found.setdefault(pids[0], []).append(table)
    return {pid: tables[0] for pid, tables in found.items() if len(tables) == 1}
