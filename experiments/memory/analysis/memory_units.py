# SPDX-License-Identifier: BSD-2-Clause
# memory_units.py: derives the records that a memory trace should have from the emulator's own list.
# The list has pieces. This file joins them: an instruction's writes, the frame of an event up to a
# page's end, the bulk of a REP, both bits of one update of a page table. For a trace of reads, it
# leaves out accesses that only write.
import collections

from experiments.memory.analysis import memory
from experiments.memory.analysis.memory_log import (
    EVENT,
    INSTRUCTION,
    READ,
    ROOT,
    SYSTEM,
    WALK,
    WRITE,
)

VALUE_BYTES = 8  # that the list has of a piece
PAGE = 4096
ENTRY_BYTES = 8
DIRTY = 1 << 6

# What one record is to be. pieces: [(lin, phy, bytes, value)] in the list's order, at least one.
# root: root mode did it, so the guest's RIP, CR3 and linear address are not in the list. tsc: the
# last piece's. elements: bytes of a vector, which the emulator reads from the last to the first, a
# processor at once.
Unit = collections.namedtuple("Unit", "kind rip cr3 retired direction pieces root tsc elements")


def units_of(entries, mode):
    """Takes a processor's entries while it was traced, and MEMTRACE_*; gives [Unit] in order."""
    wanted = (0, WRITE, READ, READ | WRITE, READ | WRITE)[mode]
    units = []
    at = 0
    while at < len(entries):
        entry = entries[at]
        end = at + 1
        while end < len(entries) and is_one(entries[end - 1], entries[end], entry):
            end += 1
        found = list(unit_of(entries[at:end], wanted))
        # The step lets the device's second operand pass: nothing may access the first one twice.
        units += found[:1] if mode == memory.MEMTRACE_DEVICES else found
        at = end
    return units


def is_one(before, entry, first):
    """Whether an entry goes on with what the one before it belongs to."""
    if (entry.mode, entry.retired) != (first.mode, first.retired):
        return False
    if first.mode == ROOT:
        # Both bits of one entry of a table: one update of the processor's.
        return (
            is_update(first)
            and is_update(entry)
            and entry.phy == before.phy
            and entry.value == before.value | DIRTY
            and not before.value & DIRTY
        )
    if first.kind in (EVENT, SYSTEM):
        return entry.kind in (EVENT, SYSTEM) and entry.rip == first.rip
    return first.kind == entry.kind == INSTRUCTION and entry.rip == first.rip


def is_update(entry):
    """Root mode changes an entry of the guest's tables by a locked instruction, all else by
    stores."""
    return entry.mode == ROOT and entry.rw == READ | WRITE and entry.len == ENTRY_BYTES


def unit_of(entries, wanted):
    """Yields the Units of entries that belong together."""
    first = entries[0]
    if first.kind == INSTRUCTION and first.mode != ROOT:
        yield from units_of_instruction(entries, wanted)
    elif not wanted & WRITE:
        return
    elif is_update(first):
        yield unit("walk", entries[-1], pieces_of(entries[-1:]))
    elif first.mode == ROOT:
        yield unit("chunk", first, pieces_of(entries))
    elif first.kind == WALK:
        yield unit("walk", first, pieces_of(entries))
    else:
        pushes = [entry for entry in entries if entry.kind == EVENT]
        for pieces in by_page(pieces_of(pushes)):
            yield unit("event", first, pieces)


def unit(kind, first, pieces, direction=WRITE, elements=False):
    root = first.mode == ROOT
    rip, cr3 = (0, 0) if root else (first.rip, first.cr3)
    return Unit(kind, rip, cr3, first.retired, direction, pieces, root, first.tsc, elements)


def units_of_instruction(entries, wanted):
    """An instruction's first read is a record, and so is all that it writes; one that reads and
    writes the same place has one record of both."""
    first = entries[0]
    found = [entry for entry in entries if entry.rw & wanted]
    if not found:
        return

    if wanted & READ and found[0].rw == READ:
        reads = [entry for entry in found if entry.rw == READ]
        downwards = len(reads) > 1 and all(
            one.len == 1 and one.lin == reads[0].lin - at for at, one in enumerate(reads)
        )
        pieces = pieces_of(reversed(reads) if downwards else reads)
        if downwards:
            pieces = [(*pieces[0][:2], len(pieces), pieces[0][3])]
        yield unit("instruction", first, joined(pieces)[:1], READ, downwards)
    elif wanted == READ:
        both = pieces_of([entry for entry in found if entry.rw == READ | WRITE])
        yield unit("instruction", first, joined(both), READ | WRITE)
    writes = [entry for entry in found if entry.rw & WRITE]
    if writes and wanted & WRITE:
        direction = WRITE | (READ if writes[0].rw & READ else 0)
        yield unit("instruction", first, joined(pieces_of(writes)), direction)


def pieces_of(entries):
    return [(entry.lin, entry.phy, entry.len, entry.value) for entry in entries]


def joined(pieces):
    """Two pieces that meet at the end of a page are one over both: its place is the first's."""
    out = pieces[:1]
    for lin, phy, size, value in pieces[1:]:
        before = out[-1]
        if before[0] + before[2] == lin and (before[2] >= VALUE_BYTES or lin % PAGE == 0):
            out[-1] = (*before[:2], before[2] + size, before[3])
        else:
            out.append((lin, phy, size, value))
    return out


def by_page(pieces):
    """A frame is pushed downwards: what lies above a page's end came first, and is a record."""
    pages = {}
    for piece in pieces:
        pages.setdefault(piece[0] // PAGE, []).append(piece)
    return [list(reversed(found)) for found in pages.values()]
