# SPDX-License-Identifier: BSD-2-Clause
# memory_truth.py: a trace of memory accesses against the emulator's own list of the same run, one
# by one and in order: what was missed, what was invented, and what of an access is wrong. What one
# record is to be, what the list has in pieces is put together to: an instruction's writes, the
# frame of an event up to a page's end, the bulk of a REP, both bits of one update of a page table.
# Of a trace of reads the writes alone are left out. Reads of a page from the record on that a page
# walk has opened it are a class of their own: they are not seen. MONITOR, which the processor
# checks as a read of its address (SDM Vol. 2, "MONITOR"), reads nothing, and is not in the list.
import collections
import dataclasses
import sys

from experiments.memory.analysis import memory, memory_log
from experiments.memory.analysis.memory_log import (
    EVENT,
    INSTRUCTION,
    READ,
    ROOT,
    SYSTEM,
    WALK,
    WRITE,
)

LOOK_AHEAD = 400  # records to where both are the same again
FAULTS_MAX = 50  # that are told; all are counted
RACE_TICKS = 20_000  # from an access to its trap, and the other processors' turns between them
VALUE_BYTES = 8  # that the list has of a piece
PAGE = 4096
ENTRY_BYTES = 8
DIRTY = 1 << 6
MASK48 = (1 << 48) - 1
WRONG = ("size", "value", "rip", "cr3", "gla", "gpa", "direction", "retired")

# What one record is to be. pieces: [(lin, phy, bytes, value)] in the list's order, at least one.
# root: root mode did it, so the guest's RIP, CR3 and linear address are not in the list. tsc: the
# last piece's. elements: bytes of a vector, which the emulator reads from the last to the first, a
# processor at once.
Unit = collections.namedtuple(
    "Unit", "kind rip cr3 retired direction pieces root tsc elements", defaults=(False,)
)


@dataclasses.dataclass
class Truth:
    """What was compared, of all processors. `faults` tells the first ones, each in one line."""

    same: int = 0  # records that are the same in all that is compared
    units: int = 0  # that should be records
    records: int = 0
    missed: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by kind
    invented: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    order: int = 0  # records that are there, elsewhere
    wrong: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by field
    unseen: int = 0  # reads of pages that page walks have opened
    opened: int = 0  # such pages
    monitored: int = 0  # records of MONITOR
    raced: int = 0  # records of the value that another processor stored next
    stood: int = 0  # records after a time at which the lent counter stood still
    unknown: int = 0  # records whose size the reader says it does not know
    # same, by kind
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    faults: list = dataclasses.field(default_factory=list)

    @property
    def true(self):
        """Whether nothing differs."""
        return not (self.missed or self.invented or self.order or self.wrong)

    def say(self, text):
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)

    def summary(self):
        """Gives one line."""

        def by(counter):
            parts = ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))
            return f"{sum(counter.values())} ({parts})" if counter else "0"

        return (
            f"{self.units} accesses, {self.records} records, {self.same} the same "
            f"[{by(self.kinds)}], missed {by(self.missed)}, invented {by(self.invented)}, out of "
            f"order {self.order}, wrong {by(self.wrong)}, reads of {self.opened} pages of page "
            f"tables that were "
            f"not seen {self.unseen}, of MONITOR {self.monitored}, size not known {self.unknown}, "
            f"counter "
            f"behind in {self.stood}, values of another processor's next store {self.raced}"
        )


def compare(accesses, entries, wanted=lambda entry: True):
    """Takes memory.Accesses and the entries of the memory log of the same run (memory_log.Log, or a
    list: they are gone through twice), and what of the list the trace's range has. A processor has
    the same number in both. Gives a Truth. Raises ValueError where records were lost: nothing can
    be said then."""
    if accesses.lost:
        raise ValueError(
            f"{accesses.lost} records were lost; wanted a larger ring or a shorter run"
        )
    result = Truth()
    windows = memory_log.traced(entries)
    disputed = []  # (processor, unit, record), where the value differs
    opened = opened_pages(accesses)
    result.opened = len(opened)
    for processor in sorted(set(windows) | set(accesses.processors)):
        units, modes = [], set()
        for mode, found in windows.get(processor, ()):
            units += units_of([entry for entry in found if wanted(entry)], mode)
            modes.add(mode)
        all_records = accesses.processors.get(processor, [])
        result.monitored += sum(map(is_monitor, all_records))
        records = [
            record
            for record in all_records
            if not is_opening(record)
            and not is_monitor(record)
            and (record.flags & READ or modes != {memory.MEMTRACE_READS})
        ]
        compare_processor(result, processor, units, records, disputed, opened)
    settle(result, disputed, entries)
    return result


def pages(accesses, entries):
    """Of a trace of pages: the sets of pages that it has, that the list has as written meanwhile,
    and of these those that hold page tables."""
    if accesses.lost:
        raise ValueError(
            f"{accesses.lost} records were lost; wanted a larger ring or a shorter run"
        )
    logged = {
        record.gpa // PAGE
        for found in accesses.processors.values()
        for record in found
        if record.kind == "page"
    }
    listed = [
        entry
        for found in memory_log.traced(entries).values()
        for _, window in found
        for entry in window
        if entry.rw & WRITE
    ]
    written = {(entry.phy + at) // PAGE for entry in listed for at in (0, entry.len - 1)}
    return logged, written, {entry.phy // PAGE for entry in listed if entry.kind == WALK}


def is_opening(record):
    """Of a page walk that reads: from now on the page may be read."""
    return record.kind == "walk" and not record.flags & WRITE


def is_monitor(record):
    return record.text.split()[:1] == ["monitor"]


def opened_pages(accesses):
    """{page: when it was opened}."""
    found = {}
    for record in accesses.ordered():
        if is_opening(record):
            found.setdefault(record.gpa // PAGE, record.tsc)
    return found


def settle(result, disputed, entries):
    """A record has what memory held when its instruction was trapped: where another processor has
    stored to the same bytes in between, that value. Else the value is wrong."""
    places = collections.defaultdict(list)
    for one in disputed:
        places[one[1].pieces[0][1] // PAGE].append(one)
    raced = set()
    for entry in entries if disputed else ():
        for number, (processor, unit, record) in enumerate(places.get(entry.phy // PAGE, ())):
            if (
                entry.cpu != processor
                and entry.rw & WRITE
                and 0 <= entry.tsc - unit.tsc < RACE_TICKS
                and overlaps(unit, entry)
                and right_value(with_store(unit, entry), record, None)
            ):
                raced.add((entry.phy // PAGE, number))
    for page, found in places.items():
        for number, (processor, unit, record) in enumerate(found):
            if (page, number) in raced:
                result.raced += 1
                result.same += 1
                result.kinds[record.kind] += 1
                continue
            result.wrong["value"] += 1
            result.say(
                f"processor {processor}: wrong value: {told(unit)}; recorded "
                f"{described(record)}"
            )


def overlaps(unit, entry):
    return any(
        phy < entry.phy + entry.len and entry.phy < phy + size for _, phy, size, _ in unit.pieces
    )


def with_store(unit, entry):
    """The unit as it would be with the entry's store after it."""
    stored = dict(enumerate(entry.value.to_bytes(VALUE_BYTES, "little")[: entry.len], entry.phy))
    pieces = []
    for lin, phy, size, value in unit.pieces:
        data = value.to_bytes(VALUE_BYTES, "little")
        data = bytes(stored.get(phy + i, byte) for i, byte in enumerate(data))
        pieces.append((lin, phy, size, int.from_bytes(data, "little")))
    return unit._replace(pieces=pieces)


# ---- what the records should be ----


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
    if first.mode == ROOT:
        if not wanted & WRITE:
            return
        if is_update(first):
            yield Unit(
                "walk", 0, 0, first.retired, WRITE, pieces_of(entries[-1:]), True, entries[-1].tsc
            )
        else:
            yield Unit("chunk", 0, 0, first.retired, WRITE, pieces_of(entries), True, first.tsc)
    elif first.kind == WALK:
        if wanted & WRITE:
            yield Unit(
                "walk",
                first.rip,
                first.cr3,
                first.retired,
                WRITE,
                pieces_of(entries),
                False,
                first.tsc,
            )
    elif first.kind in (EVENT, SYSTEM):
        pushes = [entry for entry in entries if entry.kind == EVENT]
        if wanted & WRITE:
            for pieces in by_page(pieces_of(pushes)):
                yield Unit(
                    "event", first.rip, first.cr3, first.retired, WRITE, pieces, False, first.tsc
                )
    else:
        yield from units_of_instruction(entries, wanted)


def units_of_instruction(entries, wanted):
    """An instruction's first read is a record, and so is all that it writes; one that reads and
    writes the same place has one record of both."""
    first = entries[0]
    found = [entry for entry in entries if entry.rw & wanted]
    if not found:
        return

    def unit(direction, pieces):
        return Unit(
            "instruction", first.rip, first.cr3, first.retired, direction, pieces, False, first.tsc
        )

    if wanted & READ and found[0].rw == READ:
        reads = [entry for entry in found if entry.rw == READ]
        downwards = len(reads) > 1 and all(
            one.len == 1 and one.lin == reads[0].lin - at for at, one in enumerate(reads)
        )
        pieces = pieces_of(reversed(reads) if downwards else reads)
        if downwards:
            pieces = [(*pieces[0][:2], len(pieces), pieces[0][3])]
        yield unit(READ, joined(pieces)[:1])._replace(elements=downwards)
    elif wanted == READ:
        yield unit(
            READ | WRITE, joined(pieces_of([entry for entry in found if entry.rw == READ | WRITE]))
        )
    writes = [entry for entry in found if entry.rw & WRITE]
    if writes and wanted & WRITE:
        direction = WRITE | (READ if writes[0].rw & READ else 0)
        yield unit(direction, joined(pieces_of(writes)))


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


# ---- unit by unit ----


def compare_processor(result, processor, units, records, disputed, opened):
    """`opened`: {page: TSC}, from when on its reads are not seen."""
    result.units += len(units)
    result.records += len(records)
    behind = Behind(units[0].retired - records[0].retired if units and records else 0)
    ours = true = 0
    missing, extra = [], []
    while true < len(units) and ours < len(records):
        if is_same_place(units[true], records[ours]):
            count = pieces_of_chunk(units, true, records[ours])
            compare_one(
                result,
                processor,
                whole(units[true : true + count]),
                records[ours],
                behind,
                disputed,
            )
            result.units -= count - 1
            true += count
            ours += 1
            continue
        missed, invented = gap(units, true, records, ours)
        missing += range(true, true + missed)
        extra += range(ours, ours + invented)
        true += missed
        ours += invented
    missing += range(true, len(units))
    extra += range(ours, len(records))
    missed = [at for at in missing if not is_unseen(units[at], opened)]
    result.unseen += len(missing) - len(missed)
    differ(
        result, processor, [(at, units[at]) for at in missed], [(at, records[at]) for at in extra]
    )
    result.stood += behind.records


def is_unseen(unit, opened):
    return unit.direction == READ and any(
        unit.tsc >= opened.get(phy // PAGE, unit.tsc + 1) for _, phy, _, _ in unit.pieces
    )


class Behind:
    """How far the trace's count of instructions is behind the list's. The lent counter stands still
    while the guest has the whole PMU off, and never makes up for it."""

    def __init__(self, first):
        self.first = self.now = first
        self.records = 0

    def holds(self, unit, record):
        before, self.now = self.now, unit.retired - record.retired
        self.records += self.now != self.first
        return self.now >= before


def pieces_of_chunk(units, at, record):
    """The emulator does a long REP in several goes: how many of them are this record's."""
    count = 1
    if record.kind == "chunk":
        _, phy, size, _ = units[at].pieces[0]
        while (
            size < record.bytes
            and at + count < len(units)
            and units[at + count].kind == "chunk"
            and units[at + count].pieces[0][1] == phy + size
        ):
            size += units[at + count].pieces[0][2]
            count += 1
    return count


def whole(units):
    return units[0]._replace(pieces=[piece for unit in units for piece in unit.pieces])


def place(unit):
    """(kind, byte) that says which one it is: the lowest of what it wrote."""
    return unit.kind, min(piece[1] for piece in unit.pieces)


def kind_of(record):
    return "instruction" if record.kind == "xstate" else record.kind


def is_same_place(unit, record):
    if unit.kind != kind_of(record) or not unit.direction & record.flags:
        return False
    if record.kind == "xstate" and not record.bytes:
        return any(phy // PAGE == record.gpa // PAGE for _, phy, _, _ in unit.pieces)
    # What is split over pages has the violation's page first: any of its pieces will do.
    return (
        any(phy <= record.gpa < phy + size or record.gpa == phy for _, phy, size, _ in unit.pieces)
        or min(lin for lin, *_ in unit.pieces) == record.gla
    )


def gap(units, true, records, ours):
    """Gives how many of each come before both are the same again: the least of both together."""
    for both in range(1, 2 * LOOK_AHEAD):
        for missed in range(max(0, both - LOOK_AHEAD), min(both, LOOK_AHEAD) + 1):
            one, other = true + missed, ours + both - missed
            if (
                one < len(units)
                and other < len(records)
                and is_same_place(units[one], records[other])
                and CHECKS["rip"](units[one], records[other], None)
            ):
                return missed, both - missed
    return len(units) - true, len(records) - ours


def differ(result, processor, units, records):
    """Takes what is in one of the two alone, with its number. What is in both, and not far away,
    was recorded out of its order."""
    left = collections.defaultdict(list)
    for at, record in records:
        left[kind_of(record), record.gpa].append((at, record))
    for at, unit in units:
        near = [found for found in left[place(unit)] if abs(found[0] - at) < LOOK_AHEAD]
        if near:
            left[place(unit)].remove(near[0])
            result.order += 1
            result.say(f"processor {processor}: out of order: {told(unit)}")
        else:
            result.missed[unit.kind] += 1
            result.say(f"processor {processor}: missed: {told(unit)}")
    for found in left.values():
        for _, record in found:
            result.invented[record.kind] += 1
            result.say(f"processor {processor}: invented: {described(record)}")


def compare_one(result, processor, unit, record, behind, disputed):
    wrong = [name for name in WRONG if not CHECKS[name](unit, record, behind)]
    if not record.bytes:
        result.unknown += 1
    if wrong == ["value"]:
        disputed.append((processor, unit, record))
        return
    for name in wrong:
        result.wrong[name] += 1
    if wrong:
        result.say(
            f"processor {processor}: wrong {', '.join(wrong)}: {told(unit)}; recorded "
            f"{described(record)}"
        )
        return
    result.same += 1
    result.kinds[record.kind] += 1


def ranges(unit):
    """Gives the set of (lin, bytes) that is there without gaps, in order of address."""
    out = []
    for lin, _, size, _ in sorted(unit.pieces):
        if out and out[-1][0] + out[-1][1] >= lin:
            out[-1] = (out[-1][0], max(out[-1][1], lin + size - out[-1][0]))
        else:
            out.append((lin, size))
    return out


def recorded_ranges(record):
    out = []
    for offset, size in record.pieces or ((0, record.bytes),):
        if out and sum(out[-1]) == record.gla + offset:
            out[-1] = (out[-1][0], out[-1][1] + size)
        else:
            out.append((record.gla + offset, size))
    return out


def right_size(unit, record, _):
    if not record.bytes:
        return True  # counted as not known
    if unit.elements:
        return record.bytes == unit.pieces[0][2]
    if unit.root:
        return record.bytes == sum(size for _, _, size, _ in unit.pieces)
    if record.kind == "walk":
        return record.bytes == ENTRY_BYTES
    return [size for _, size in ranges(unit)] == [size for _, size in recorded_ranges(record)]


def right_value(unit, record, _):
    for lin, phy, size, value in unit.pieces:
        at = phy - record.gpa
        count = min(size, VALUE_BYTES, len(record.value) - at, PAGE - phy % PAGE)
        if at < 0 or count <= 0:
            continue
        if record.value[at : at + count] != value.to_bytes(VALUE_BYTES, "little")[:count]:
            return False
    return True


def right_gla(unit, record, _):
    if unit.root:
        return True
    if record.kind == "walk":
        return unit.pieces[0][0] // PAGE == record.gla // PAGE
    if not record.bytes or unit.elements:
        return any(lin <= record.gla < lin + size for lin, _, size, _ in unit.pieces)
    return [lin for lin, _ in ranges(unit)] == [lin for lin, _ in recorded_ranges(record)]


def right_gpa(unit, record, _):
    if not unit.root and record.kind != "walk" and (unit.elements or not record.bytes):
        return True
    return any(phy == record.gpa for _, phy, _, _ in unit.pieces)


CHECKS = {
    "size": right_size,
    "value": right_value,
    # Of an event it is the handler's; where that interrupted is in the frame, which is compared.
    "rip": lambda unit, record, _: unit.root or unit.kind == "event" or unit.rip == record.rip,
    "cr3": lambda unit, record, _: unit.root or unit.cr3 & MASK48 == record.cr3,
    "gla": right_gla,
    "gpa": right_gpa,
    # Of one that reads and writes the processor may say that it writes.
    "direction": lambda unit, record, _: unit.direction & (record.flags | READ) == unit.direction
    and not record.flags & (READ | WRITE) & ~unit.direction,
    "retired": lambda unit, record, behind: behind.holds(unit, record),
}


def told(unit):
    where = ", ".join(
        f"{lin:#x} ({phy:#x}) {size} bytes = {value:#x}"
        for lin, phy, size, value in unit.pieces[:8]
    )
    by = "root mode" if unit.root else f"rip {unit.rip:#x} cr3 {unit.cr3:#x}"
    return (
        f"{unit.kind} {'-RW'[unit.direction] if unit.direction < 3 else 'RW'} at {where}; {by}; "
        f"retired {unit.retired}"
    )


def described(record):
    return (
        f"{record.kind} {record.direction} at {record.gla:#x} ({record.gpa:#x}) {record.bytes} "
        f"bytes = {record.value.hex()}; rip {record.rip:#x} cr3 {record.cr3:#x} "
        f"[{record.text or record.code.hex()}]; retired {record.retired}; detail "
        f"{record.detail:#x}"
    )


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: python3 -m experiments.memory.analysis.memory_truth TRACE MEMORY_LOG")
    result = compare(memory.read(sys.argv[1]), memory_log.Log(sys.argv[2]))
    print("\n".join(result.faults))
    print(result.summary())
    sys.exit(not result.true)


if __name__ == "__main__":
    main()
