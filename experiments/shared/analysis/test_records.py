# SPDX-License-Identifier: BSD-2-Clause
# test_records.py: records.py on files and memory that are whole, cut off, damaged, wrapped around.
import os
import random
import struct

import pytest

from experiments.shared.analysis import records

CAPACITY = 8


def made(number, processor=0):
    """A record whose fields all say which it is."""
    return records.Record(
        tsc=1000 + 10 * number,
        rip=0xFFFFFFFF81000000 + number,
        cr3=0x123000 + processor,
        reason=number % 60,
        flags=number % 16,
        detail=number * 3,
        root_time=number + 1,
    )


def packed(one):
    return records.RECORD.pack(
        one.tsc, one.rip, one.cr3 | one.reason << 48 | one.flags << 56, one.detail, one.root_time
    )


def header(level=2, khz=50_000):
    return records.FILE.pack(records.FILE_MAGIC, 1, 32, khz, level, 1)


def chunk(first, count, lost=0, processor=0):
    return records.CHUNK.pack(records.CHUNK_MAGIC, processor, count, first, lost) + b"".join(
        packed(made(n, processor)) for n in range(first, first + count)
    )


def ring(written, processor=0, capacity=CAPACITY, version=1):
    """A ring's memory after so many records, with one half written in the next one's place."""
    body = bytearray(capacity * 32)
    for number in range(written):
        at = number % capacity * 32
        body[at : at + 32] = packed(made(number, processor))
    at = written % capacity * 32
    body[at : at + 16] = os.urandom(16)
    page = records.RING.pack(records.RING_MAGIC, version, 32, capacity, written, processor, 1, 7)
    return page.ljust(records.PAGE, b"\0") + bytes(body)


def read(tmp_path, data):
    path = tmp_path / "trace"
    path.write_bytes(data)
    return records.read(path)


def test_file(tmp_path):
    """Two processors, and a loss: every field of every record, and where the loss was."""
    trace = read(tmp_path, header() + chunk(0, 3) + chunk(5, 2, processor=4) + chunk(9, 2, lost=6))
    assert (trace.tsc_khz, trace.level, trace.complaints) == (50_000, 2, [])
    assert trace.processors[0] == [made(n) for n in (0, 1, 2, 9, 10)]
    assert trace.processors[4] == [made(5, 4), made(6, 4)]
    assert trace.gaps == {0: {3: 6}} and trace.lost == 6


def test_file_cut_off(tmp_path):
    """Wherever the file ends: whole records stay, the others are counted, nothing is made up."""
    whole = header() + chunk(0, 4)
    for end in range(records.FILE.size, len(whole)):
        trace = read(tmp_path, whole[:end])
        there = max(0, end - records.FILE.size - records.CHUNK.size) // 32
        assert trace.processors.get(0, []) == [made(n) for n in range(there)], end
        if end >= records.FILE.size + records.CHUNK.size:
            assert trace.lost == 4 - there and "cut off" in trace.complaints[0], end
        elif end > records.FILE.size:
            assert "no chunk" in trace.complaints[0], end


def test_file_damaged(tmp_path):
    """A chunk whose head is spoilt is passed over, with a word; those around it are read."""
    data = bytearray(header() + chunk(0, 2) + chunk(2, 2) + chunk(4, 2))
    data[records.FILE.size + records.CHUNK.size + 64] ^= 1
    trace = read(tmp_path, bytes(data))
    assert trace.processors[0] == [made(n) for n in (0, 1, 4, 5)]
    assert len(trace.complaints) == 1 and "96 bytes are lost" in trace.complaints[0]
    assert trace.gaps == {0: {2: 2}}, "the numbers of the records tell how many are missing"


def test_file_with_wrong_count(tmp_path):
    """A chunk's count that is damaged: no head is taken for a record, and what is missing is
    counted."""
    for count in (0, 1, 3, 4, 1 << 31):
        data = bytearray(header() + chunk(0, 2) + chunk(2, 2) + chunk(0, 2, processor=1))
        struct.pack_into("<I", data, records.FILE.size + 12, count)
        trace = read(tmp_path, bytes(data))
        kept = min(count, 2)
        assert trace.processors[0] == [made(n) for n in (*range(kept), 2, 3)], count
        assert trace.processors[1] == [made(0, 1), made(1, 1)]
        assert trace.lost == 2 - kept and trace.complaints, count


def test_file_with_wrong_number(tmp_path):
    """A chunk that says it comes before what was read, or after more than there is, is left out."""
    for first, lost in ((1, 0), (2, 3), (4, 3)):
        trace = read(tmp_path, header() + chunk(0, 2) + chunk(first, 2, lost) + chunk(4, 1))
        assert trace.processors[0] == [made(n) for n in (0, 1, 4)], (first, lost)
        assert trace.lost == 2 and "left out" in trace.complaints[0], trace.complaints


def test_refused(tmp_path):
    """One line each: an empty file, a head that is cut off, another version, something else."""
    for data, words in (
        (b"", "neither a trace file nor a ring"),
        (header()[:20], "wanted a header"),
        (header().replace(b"\1\0\0\0", b"\2\0\0\0", 1), "found version 2"),
        (b"x" * 9000, "neither a trace file nor a ring"),
    ):
        with pytest.raises(records.BadRecords, match=words):
            read(tmp_path, data)


def test_ring(tmp_path):
    """Whatever was written: the last capacity - 1, in order; never the half one; the rest is
    lost."""
    for written in range(3 * CAPACITY + 1):
        trace = read(tmp_path, ring(written))
        first = max(0, written - (CAPACITY - 1))
        assert trace.processors[0] == [made(n) for n in range(first, written)], written
        assert trace.lost == first and not trace.complaints and trace.tsc_khz == 7
        if first:
            assert trace.gaps == {0: {0: first}}


def test_rings_in_memory(tmp_path):
    """Two rings somewhere in memory, at pages; a text with the same letters elsewhere is none."""
    noise = random.Random(1).randbytes(3 * records.PAGE)
    data = noise + ring(5) + b"\0" * (records.PAGE - CAPACITY * 32) + ring(20, processor=2)
    data += b"see " + records.RING_MAGIC + b"\0" * 200
    trace = read(tmp_path, data)
    assert sorted(trace.processors) == [0, 2]
    assert trace.processors[0] == [made(n) for n in range(5)]
    assert trace.processors[2] == [made(n, 2) for n in range(13, 20)] and trace.lost == 13


def test_ring_cut_off(tmp_path):
    """What lies after the end is lost, and said to be."""
    whole = ring(6)
    for there in range(CAPACITY + 1):
        trace = read(tmp_path, whole[: records.PAGE + there * 32])
        assert trace.processors[0] == [made(n) for n in range(min(there, 6))]
        assert trace.lost == max(0, 6 - there)
        assert bool(trace.complaints) == (there < 6)


def test_ring_of_another_version(tmp_path):
    """It is left out, with a word, and the other one is read."""
    trace = read(tmp_path, ring(3, version=9) + b"\0" * (records.PAGE - CAPACITY * 32) + ring(2, 1))
    assert list(trace.processors) == [1] and "version 9" in trace.complaints[0]


def test_backwards(tmp_path):
    """A TSC that goes back is told."""
    swapped = records.CHUNK.pack(records.CHUNK_MAGIC, 0, 3, 0, 0) + b"".join(
        packed(made(n)) for n in (0, 5, 2)
    )
    assert "older than the one before" in read(tmp_path, header() + swapped).complaints[0]
