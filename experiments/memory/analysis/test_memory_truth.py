# SPDX-License-Identifier: BSD-2-Clause
# test_memory_truth.py: the memory log's reader, and that each difference between a trace and the
# list is seen and named: each of them is planted in a pair that agrees.
import struct

import pytest

from experiments.memory.analysis import memory, memory_log, memory_truth
from experiments.memory.analysis.memory_log import (
    EVENT,
    INSTRUCTION,
    ROOT,
    SYSTEM,
    VMCALL,
    WALK,
    Entry,
)

CR3 = 0x3FE88004
STORE_CODE = bytes.fromhex("488907") + b"\x90" * 12  # mov %rax,(%rdi)
READ, WRITE = 1, 2


def entry(
    lin,
    size=8,
    value=0x1122334455667788,
    rw=WRITE,
    kind=INSTRUCTION,
    mode=0,
    rip=0x1000,
    retired=500,
    cpu=0,
    phy=None,
):
    return Entry(
        7,
        rip,
        lin,
        lin & 0xFFFFFF if phy is None else phy,
        value,
        CR3,
        size,
        cpu,
        rw,
        kind,
        mode,
        retired,
    )


def call(mode, cpu=0):
    return Entry(1, 0x900, memory_log.HYPERCALL_MEMTRACE, mode, 0, CR3, 0, cpu, 0, VMCALL, 0, 490)


def record(
    lin,
    size=8,
    value=0x1122334455667788,
    kind="instruction",
    flags=WRITE,
    rip=0x1000,
    retired=0,
    gpa=None,
    pieces=(),
    cpu=0,
):
    gpa = lin & 0xFFFFFF if gpa is None else gpa
    known = min(size, 16, 4096 - gpa % 4096)
    data = value if isinstance(value, bytes) else value.to_bytes(8, "little")
    return memory.Access(
        cpu,
        7,
        retired,
        CR3,
        rip,
        lin,
        gpa,
        kind,
        flags,
        size,
        data[:known],
        STORE_CODE,
        "",
        0,
        pieces,
    )


def pair():
    """A list and a trace that agree: a store, one over two pages, a read-modify-write, an event, a
    page walk in two steps, a chunk in two goes, an XSAVE of two pieces."""
    page = 0x7F0000003000
    entries = [
        call(2 - 1),
        entry(0x7F0000001000),
        entry(page - 3, 3, 0x030201, retired=501, rip=0x1003),
        entry(page, 5, 0x0807060504, retired=501, rip=0x1003, phy=0x9000),
        entry(0x7F0000001010, 4, 5, rw=READ | WRITE, retired=502, rip=0x1006),
        entry(0x500, 16, rw=READ, kind=SYSTEM, retired=503, rip=0x1009),
        *(
            entry(0x7F0000005000 - 8 * (i + 1), 8, i, kind=EVENT, retired=503, rip=0x1009)
            for i in range(5)
        ),
        entry(
            0xFFFF80000000A018,
            value=0x8000000000200027,
            rw=READ | WRITE,
            mode=ROOT,
            phy=0xA018,
            retired=504,
        ),
        entry(
            0xFFFF80000000A018,
            value=0x8000000000200067,
            rw=READ | WRITE,
            mode=ROOT,
            phy=0xA018,
            retired=504,
        ),
        entry(0xFFFF80000000B000, 100, 0, mode=ROOT, phy=0xB000, retired=504),
        entry(0xFFFF80000000B064, 3996, 0, mode=ROOT, phy=0xB064, retired=504),
        entry(0x7F0000006000, 8, 0x10, retired=505, rip=0x1012),
        entry(0x7F0000006200, 8, 0x20, retired=505, rip=0x1012),
        call(0),
        entry(0x7F0000001000, retired=600),  # not traced any more
    ]
    frame = (4).to_bytes(8, "little") + (3).to_bytes(8, "little")
    records = [
        record(0x7F0000001000),
        record(page - 3, 8, 0x0807060504030201, rip=0x1003, retired=1),
        record(0x7F0000001010, 4, 5, rip=0x1006, retired=2),
        record(0x7F0000005000 - 40, 40, frame, "event", rip=0xFFFF1000, retired=3),
        record(0x7F0000009123, 8, 0x8000000000200067, "walk", rip=0x100C, gpa=0xA018, retired=4),
        record(0x7F000000B000, 4096, bytes(16), "chunk", rip=0x100C, gpa=0xB000, retired=4),
        record(
            0x7F0000006000, 16, 0x10, "xstate", rip=0x1012, retired=5, pieces=((0, 8), (0x200, 8))
        ),
    ]
    return entries, records


def compared(entries, records):
    return memory_truth.compare(memory.Accesses(processors={0: records}), entries)


def test_pair_agrees():
    result = compared(*pair())
    assert result.true, result.faults
    assert (result.same, result.units, result.records) == (7, 7, 7)
    assert result.kinds == {"instruction": 3, "event": 1, "walk": 1, "chunk": 1, "xstate": 1}
    assert result.stood == 0


@pytest.mark.parametrize(
    "index,kind,count",
    [
        (0, "instruction", 1),
        (1, "instruction", 1),
        (2, "instruction", 1),
        (3, "event", 1),
        (4, "walk", 1),
        (5, "chunk", 2),  # done in two goes
        (6, "instruction", 1),
    ],
)
def test_missed(index, kind, count):
    entries, records = pair()
    del records[index]
    result = compared(entries, records)
    assert not result.true
    assert result.missed == {kind: count}, result.faults
    assert not result.invented and not result.order and not result.wrong


@pytest.mark.parametrize("index", range(7))
def test_invented(index):
    entries, records = pair()
    records.insert(index, record(0x7F0000002000, rip=0x1800, retired=records[index].retired))
    result = compared(entries, records)
    assert result.invented == {"instruction": 1}, result.faults
    assert not result.missed and not result.order and not result.wrong


def test_order():
    entries, records = pair()
    records[0], records[2] = records[2], records[0]
    result = compared(entries, records)
    assert result.order, result.faults


@pytest.mark.parametrize(
    "index,change,fields",
    [
        (0, {"bytes": 4}, {"size"}),
        (0, {"value": bytes(8)}, {"value"}),
        (0, {"rip": 0x1001}, {"rip"}),
        (0, {"cr3": CR3 + 0x1000}, {"cr3"}),
        (0, {"gla": 0x7F0000002000}, {"gla"}),
        (2, {"retired": 3}, {"retired"}),  # more than before it, then less
        (0, {"flags": READ | WRITE}, {"direction"}),
        (1, {"bytes": 3}, {"size"}),  # half of what is over two pages
        (1, {"value": b"\1\2\4"}, {"value"}),
        (3, {"bytes": 32}, {"size"}),  # a word of the frame
        (3, {"value": bytes(16)}, {"value"}),
        (4, {"value": (0x8000000000200027).to_bytes(8, "little")}, {"value"}),
        (5, {"bytes": 4097}, {"size"}),
        (6, {"pieces": ((0, 8), (0x208, 8))}, {"gla"}),
        (6, {"pieces": ((0, 8), (0x200, 16))}, {"size"}),
    ],
)
def test_wrong(index, change, fields):
    entries, records = pair()
    records[index] = records[index]._replace(**change)
    result = compared(entries, records)
    assert set(result.wrong) == fields, result.faults
    assert not result.missed and not result.invented and not result.order


def test_kind():
    """An event's frame that is told as an instruction's write is missed, and invented."""
    entries, records = pair()
    records[3] = records[3]._replace(kind="instruction")
    result = compared(entries, records)
    assert result.missed == {"event": 1} and result.invented == {"instruction": 1}, result.faults


def test_other_processor():
    entries, records = pair()
    result = memory_truth.compare(memory.Accesses(processors={1: records}), entries)
    assert sum(result.missed.values()) == 8 and sum(result.invented.values()) == 7


def test_walk_of_the_processor_has_to_be_there():
    """A bit that the processor has set itself is an access like any other."""
    entries, records = pair()
    entries.insert(2, entry(0x7F0000009000, kind=WALK, retired=500, phy=0xA020))
    assert compared(entries, records).missed == {"walk": 1}


def test_counter_that_stood():
    """A count that stays behind from somewhere on is told, and no fault."""
    entries, records = pair()
    records[4:] = [record._replace(retired=record.retired - 1) for record in records[4:]]
    result = compared(entries, records)
    assert result.true and result.stood == 3


def test_value_of_another_processor():
    """What the record has may be the next store, by another processor; no other value may be."""
    entries, records = pair()
    records[0] = records[0]._replace(value=bytes(4) + records[0].value[4:])
    assert compared(entries, records).wrong == {"value": 1}
    entries.insert(2, entry(0x1000, 4, 0, cpu=1))
    result = compared(entries, records)
    assert result.true and (result.raced, result.same) == (1, 7), result.faults
    entries[2] = entries[2]._replace(value=1)
    assert compared(entries, records).wrong == {"value": 1}
    entries[2] = entries[2]._replace(value=0, cpu=0, kind=VMCALL, rw=0)
    assert not compared(entries, records).true


def test_lost_records():
    entries, records = pair()
    with pytest.raises(ValueError, match="3 records were lost"):
        memory_truth.compare(memory.Accesses(processors={0: records}, gaps={0: {2: 3}}), entries)


def test_size_that_is_not_known():
    entries, records = pair()
    records[0] = records[0]._replace(bytes=0, value=b"")
    result = compared(entries, records)
    assert result.true and result.unknown == 1


# ---- the file ----


def packed(entries):
    return memory_log.MAGIC + b"".join(memory_log.RECORD.pack(*found) for found in entries)


def test_file(tmp_path):
    file = tmp_path / "log"
    entries = pair()[0]
    file.write_bytes(packed(entries))
    assert memory_log.RECORD.size == 64
    assert list(memory_log.entries(file)) == entries
    windows = memory_log.traced(entries)
    assert [(mode, len(found)) for mode, found in windows[0]] == [(1, len(entries) - 3)]


@pytest.mark.parametrize(
    "data,text",
    [
        (b"", "was the run made with"),
        (b"PMUflow1", "was the run made with"),
        (packed(pair()[0])[:-1], "ends within an entry"),
        (memory_log.MAGIC + struct.pack("<QQQQQQIBBBBQ", *[0] * 6, 0, 0, 0, 5, 0, 0), "kind 5"),
    ],
    ids=["empty", "of_flow", "cut_off", "no_kind"],
)
def test_bad_file(tmp_path, data, text):
    file = tmp_path / "log"
    file.write_bytes(data)
    with pytest.raises(memory_log.BadMemoryLog, match=text):
        list(memory_log.entries(file))


def reads_pair():
    """The same of a trace of reads: a load, what reads and writes, a store, MONITOR, a walk that
    opens a page, a load from there before and after it, a vector that the emulator reads by its
    bytes."""
    entries = [
        call(memory.MEMTRACE_READS),
        entry(0x1000, rw=READ),
        entry(0x2000, 4, 5, rw=READ | WRITE, retired=501, rip=0x1003),
        entry(0x3000, retired=502, rip=0x1006),
        entry(0x9000, rw=READ, retired=503, rip=0x1009)._replace(tsc=8),
        entry(0x9000, rw=READ, retired=504, rip=0x100C)._replace(tsc=20),
        *(
            entry(0x401F - at, 1, at, rw=READ, retired=505, rip=0x100F)._replace(tsc=21)
            for at in range(32)
        ),
        call(0),
    ]
    vector = bytes([0]) + bytes(15)
    records = [
        record(0x1000, flags=READ),
        record(0x2000, 4, 5, flags=READ | WRITE, rip=0x1003, retired=1),
        record(0x3000, rip=0x1006, retired=2),
        record(0x5000, 0, flags=READ, rip=0x1008, retired=2)._replace(text="monitor"),
        record(0x9000, flags=READ, rip=0x1009, retired=3),
        record(0x9000, 8, 0, "walk", flags=READ, rip=0x100B, retired=4)._replace(tsc=10),
        record(0x401F, 32, vector, flags=READ, rip=0x100F, retired=5)._replace(tsc=22),
    ]
    return entries, records


def test_reads_agree():
    result = compared(*reads_pair())
    assert result.true, result.faults
    assert (result.same, result.unseen, result.opened, result.monitored) == (4, 1, 1, 1)


def test_reads_not_seen():
    """Without the record of the walk the same load is missed; and so is one before it."""
    entries, records = reads_pair()
    result = compared(entries, [one for one in records if one.kind != "walk"])
    assert result.missed == {"instruction": 1} and not result.unseen, result.faults
    result = compared(entries, [one for one in records if one.rip != 0x1009])
    assert result.missed == {"instruction": 1} and result.unseen == 1, result.faults


@pytest.mark.parametrize(
    "rip, change, fields",
    [
        (0x1003, {"flags": WRITE}, "missed"),
        (0x100F, {"bytes": 16}, "size"),
        (0x100F, {"gla": 0x5000}, "gla"),
    ],
)
def test_reads_wrong(rip, change, fields):
    entries, records = reads_pair()
    result = compared(
        entries, [one._replace(**change) if one.rip == rip else one for one in records]
    )
    assert not result.true and (
        fields == "missed" and result.missed or result.wrong[fields]
    ), result.faults
