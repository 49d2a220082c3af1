# SPDX-License-Identifier: BSD-2-Clause
# test_memory.py: memory.py on records that are whole, cut off, damaged, of each kind; sizes by the
# instruction's own words.
import capstone
import pytest

from experiments.memory.analysis import memory
from experiments.memory.analysis.memory import CHUNK, EVENT, READ, WALK, WRITE
from experiments.shared.analysis import records

CAPSTONE = capstone.cs_version()[0]
PAGE = 4096
GLA, GPA, CR3, RIP = 0x7F0000001238, 0x5678238, 0x12345000, 0x401000
STORE = bytes.fromhex("488907")  # mov [rdi], rax


def frames(number=0, code=STORE, flags=WRITE, gla=GLA, gpa=GPA, value=0x1122334455667788, **more):
    """The three frames of a record, by trace_ring.h."""
    code_bytes = more.get("code_bytes", memory.operand.CODE_BYTES)
    third = code.ljust(15, b"\x90") if more.get("pad", True) else code
    return [
        memory.FIRST.pack(
            1000 + number,
            more.get("rip", RIP),
            CR3 | memory.MEMORY << 48 | flags << 56,
            more.get("detail", 0),
            more.get("bytes", 0),
        ),
        memory.SECOND.pack(
            gla, gpa, number * 7 | memory.MORE << 48 | 1 << 56, value.to_bytes(8, "little")
        ),
        memory.THIRD.pack(
            third, code_bytes, more.get("xstate", 0) | memory.MORE << 48 | 2 << 56, bytes(range(8))
        ),
    ]


def accesses(*found, gaps=None, **more):
    trace = records.Trace(
        processors={0: [frame for one in found for frame in one]}, gaps={0: gaps or {}}
    )
    return memory.from_frames(trace, **more)


def test_modifies():
    """What reads and writes is both, whatever of it the processor said; a trace of reads keeps
    it."""
    for code, direction in (
        ("48ff07", "RW"),
        ("f0480fc10f", "RW"),
        ("870f", "RW"),
        ("488907", "W"),
        ("50", "W"),
        ("0f1107", "W"),
    ):
        access, _ = one(code=bytes.fromhex(code))
        assert access.direction == direction, access.text
        trace = records.Trace(processors={0: frames(code=bytes.fromhex(code))}, memory=2)
        assert len(memory.from_frames(trace).processors[0]) == (direction == "RW")
    assert one(code=bytes.fromhex("480307"), flags=READ)[0].direction == "R"


def one(*words, **more):
    found = accesses(frames(*words, **more), xcr0=0xE7)
    assert len(found.processors[0]) == 1
    return found.processors[0][0], found.unknown


def test_every_field():
    access, unknown = one(3)
    assert access[:8] == (0, 1003, 21, CR3, RIP, GLA, GPA, "instruction")
    assert (access.read, access.write, access.bytes, access.number) == (
        False,
        True,
        8,
        0x1122334455667788,
    )
    assert access.value == (0x1122334455667788).to_bytes(8, "little")
    assert access.text == "mov qword ptr [rdi], rax" and not unknown


@pytest.mark.parametrize(
    "code, flags, size",
    [
        ("c60700", WRITE, 1),
        ("66c7070100", WRITE, 2),
        ("8907", WRITE, 4),
        ("488907", WRITE, 8),
        ("0f1107", WRITE, 16),
        ("c5fe7f07", WRITE, 32),
        ("62f17c481107", WRITE, 64),
        ("50", WRITE, 8),
        ("6650", WRITE, 2),
        ("6a05", WRITE, 8),
        ("0fa0", WRITE, 8),
        ("ff30", READ, 8),
        ("ff30", WRITE, 8),
        ("66ff30", WRITE, 2),
        ("8f00", WRITE, 8),
        ("e800000000", WRITE, 8),
        ("ff10", WRITE, 8),
        ("ff10", READ, 8),
        ("c3", READ, 8),
        ("c9", READ, 8),
        ("9c", WRITE, 8),
        ("669c", WRITE, 2),
        ("9d", READ, 8),
        ("c8100000", WRITE, 8),
        ("480f03c0", READ, 8),
        ("0f0307", READ, 2),
        ("a4", WRITE, 1),
        ("a5", READ, 4),
        ("48a5", WRITE, 8),
        ("48a7", READ, 8),
        ("d7", READ, 1),
        ("0f2f06", READ, 4),
        ("660f2f06", READ, 8),
        ("db3f", WRITE, 10),
        ("d937", WRITE, 28),
        ("dd37", WRITE, 108),
        ("dd27", READ, 108),
        ("f0480fc70f", READ | WRITE, 16),
        ("0fc70f", WRITE, 8),
        ("f00fb10f", READ | WRITE, 4),
        ("48ff07", WRITE, 8),
        ("0fab07", READ | WRITE, 4),
        ("8c07", WRITE, 2),
        ("ff2f", READ, 6),
        ("ff1f", READ, 6),
        ("48ff2f", READ, 10),
        ("0f0107", WRITE, 10),
        ("6d", WRITE, 4),
        ("0f6207", READ, 4),
        ("62f37d203f0700", READ, 32),
        ("62f37d501f0700", READ, 4),
        ("0fae1f", WRITE, 4),
        ("660f3a150701", WRITE, 2),
        ("f30f7f07", WRITE, 16),
    ],
)
def test_sizes(code, flags, size):
    access, unknown = one(code=bytes.fromhex(code), flags=flags)
    assert (access.bytes, len(access.value)) == (size, min(size, 16)), access.text
    assert not unknown


@pytest.mark.parametrize(
    "code, flags, why",
    [
        ("660ff7c1", WRITE, "maskmovdqu: masked"),
        ("c4e2798e07", WRITE, "vpmaskmovd: masked"),
        ("62f17c491107", WRITE, "vmovups: masked"),
        ("c8100002", WRITE, "enter: several words"),
        ("0fae3f", READ, "clflush: no data"),
        ("4889e5", WRITE, "mov: no operand in memory"),
        ("8ed8", WRITE, "mov: no operand in memory"),
        ("48cf", READ, "iretq: its frame, whose words a processor reads in an order of its own"),
        ("0fae2f", READ, "xrstor: which part of the area it reads first"),
        # Decoded by capstone from version 5 on, which names it by what it compares for.
        ("62f375223f0e00", READ, "vpcmpb: masked" if CAPSTONE < 5 else "vpcmpeqb: masked"),
        ("0f0b", WRITE, "ud2: no operand in memory"),
        ("06", WRITE, "not decoded"),
    ],
)
def test_not_known(code, flags, why):
    """What has no size that the record tells is counted by name, and has none."""
    access, unknown = one(code=bytes.fromhex(code), flags=flags)
    assert access.bytes == 0 and access.value == b"" and dict(unknown) == {why: 1}


def test_code_that_is_not_known():
    for count in (0, 2):
        access, unknown = one(code_bytes=count)
        assert access.bytes == 0 and dict(unknown) == {"its code is not known": 1}


def test_end_of_page():
    """Of a value over a page's end only what is in the page is known; the size is whole."""
    access, _ = one(gla=0x1FFD, gpa=0x7FFD)
    assert access.bytes == 8 and access.value == bytes.fromhex("887766")


def test_kinds():
    access, _ = one(flags=WRITE | WALK, bytes=8)
    assert (access.kind, access.bytes, access.text) == ("walk", 8, "")
    access, _ = one(flags=WRITE | EVENT, bytes=40, detail=0xEC)
    assert (access.kind, access.bytes, access.detail, len(access.value)) == ("event", 40, 0xEC, 16)
    access, _ = one(flags=WRITE | CHUNK, bytes=4000, detail=1, code=bytes.fromhex("f3aa"))
    assert (access.kind, access.bytes) == ("chunk", 4000) and access.text.startswith("rep stosb")
    _, unknown = one(flags=WRITE | EVENT | memory.INEXACT)
    assert dict(unknown) == {"event: outside of 64-bit mode": 1}


AREA, AREA_GPA = 0x7F0000001040, 0x5678040
XSAVEC = bytes.fromhex("0fc727")


def test_xsavec():
    """The header names what was saved, and where: AVX and ZMM_Hi256 without opmask between them."""
    state = 0x46 | (0x66 | 1 << 23) << 24 | 1 << 47
    access, unknown = one(
        code=XSAVEC,
        flags=WRITE | memory.XSTATE,
        gla=AREA + 24,
        gpa=AREA_GPA + 24,
        detail=0xEE,
        xstate=state & ~(1 << 46),
    )
    assert not unknown and access.kind == "xstate"
    assert (access.gla, access.gpa) == (AREA + 24, AREA_GPA + 24)
    # MXCSR; XMM; header; AVX at 576; opmask's place at 832 is left; ZMM_Hi256 after it
    assert access.pieces == ((0, 8), (136, 256), (488, 16), (552, 256), (872, 512))
    assert access.bytes == 8 + 256 + 16 + 256 + 512


def test_xsave_standard():
    access, _ = one(
        code=bytes.fromhex("480fae27"),
        flags=WRITE | memory.XSTATE,
        gla=AREA,
        gpa=AREA_GPA,
        detail=7,
        xstate=3,
    )
    assert access.pieces == ((0, 416), (512, 8), (576, 256)) and access.bytes == 680
    found = accesses(frames(code=bytes.fromhex("480fae27"), gla=AREA, gpa=AREA_GPA, detail=7))
    assert dict(found.unknown) == {"xsave: XCR0": 1}


def test_fxsave_and_areas_that_are_not_known():
    access, _ = one(code=bytes.fromhex("0fae07"), flags=WRITE | memory.XSTATE, gla=AREA + 16)
    assert (access.bytes, access.pieces) == (416, ())
    for code, gla, why in (
        (XSAVEC, AREA + 160, "xsavec: began inside of its area"),
        (XSAVEC, AREA, "xsavec: XCOMP_BV is not there"),
    ):
        access, unknown = one(code=code, flags=WRITE | memory.XSTATE, gla=gla)
        assert access.bytes == 0 and dict(unknown) == {why: 1}


def walk(value, number=0, gpa=0x9000, rip=RIP):
    return frames(number, flags=WRITE | WALK, bytes=8, value=value, gpa=gpa, rip=rip)


def test_one_update_of_the_processor():
    """A, then D, of one entry and instruction are one; all else stays two."""
    found = accesses(walk(0x1027), walk(0x1067, 1))
    assert found.joined == 1 and len(found.processors[0]) == 1
    assert (found.processors[0][0].number, found.processors[0][0].tsc) == (0x1067, 1000)
    for other in (
        walk(0x1067, 1, gpa=0x9008),
        walk(0x1067, 1, rip=RIP + 3),
        walk(0x3067, 1),
        walk(0x1027, 1),
    ):
        assert accesses(walk(0x1027), other).joined == 0
    assert accesses(walk(0x1027), frames(1), walk(0x1067, 2)).joined == 0
    assert accesses(walk(0x1027), walk(0x1067, 1), gaps={3: 3}).joined == 0


def test_losses():
    """Gaps where they are, and records of which frames are missing."""
    found = accesses(frames(0), frames(1), frames(2), gaps={3: 6, 9: 3})
    assert len(found.processors[0]) == 3 and found.gaps == {0: {1: 2, 3: 1}} and found.lost == 3
    whole = [frame for number in range(3) for frame in frames(number)]
    for start in range(10):
        for end in range(start, 10):
            gaps = {0: start} if start < end else {0: start + 9 - end}
            gaps.setdefault(end - start, 9 - end)
            trace = records.Trace(processors={0: whole[start:end]}, gaps={0: gaps})
            found = memory.from_frames(trace)
            there = found.processors[0]
            first = -(-start // 3)
            assert [one.tsc for one in there] == [1000 + n for n in range(first, end // 3)]
            assert 3 - len(there) <= found.lost <= 3 - len(there) + 1, (start, end)


def test_damage():
    """A frame that says something else: its record is lost, the others stay."""
    for at in range(9):
        bad = [bytearray(frame) for number in range(3) for frame in frames(number)]
        bad[at][22] ^= 0x80
        found = memory.from_frames(records.Trace(processors={0: [bytes(frame) for frame in bad]}))
        assert [one.tsc - 1000 for one in found.processors[0]] == [
            number for number in range(3) if number != at // 3
        ]
        assert found.lost == 1 and found.complaints


def test_file(tmp_path):
    """Through records.py: a file as memtrace writes it, with what stands in its head: of a
    trace of reads the store is left out."""
    body = b"".join(frames(0, flags=READ) + frames(1))
    head = bytearray(records.FILE.pack(records.FILE_MAGIC, 1, 32, 50_000, 3, 1))
    records.FILE_MEMORY.pack_into(head, records.FILE_MEMORY_AT, 2, 1, 5, 0xE7)
    path = tmp_path / "trace"
    path.write_bytes(bytes(head) + records.CHUNK.pack(records.CHUNK_MAGIC, 2, 6, 0, 0) + body)
    found = memory.read(path)
    assert [one.tsc for one in found.processors[2]] == [1000] and not found.complaints
    assert (found.tsc_khz, found.counter, found.unread) == (50_000, 1, 5)


def test_file_with_a_file_s_letters(tmp_path):
    """The traced memory is that of such a file: letters of a chunk in values and code are none."""
    letters = int.from_bytes(records.CHUNK_MAGIC, "little")
    body = b"".join(frames(0, value=letters) + frames(1, code=records.CHUNK_MAGIC) + frames(2))
    path = tmp_path / "trace"
    path.write_bytes(
        records.FILE.pack(records.FILE_MAGIC, 1, 32, 50_000, 3, 1)
        + records.CHUNK.pack(records.CHUNK_MAGIC, 0, 9, 0, 0)
        + body
    )
    found = memory.read(path)
    assert list(found.processors) == [0] and not found.complaints
    assert [one.tsc for one in found.processors[0]] == [1000, 1001, 1002]
    assert found.processors[0][0].number == letters


def test_ring(tmp_path):
    """A ring that has wrapped: the last records but the oldest two, whose places may be written."""
    count, capacity = 7, 12
    body = bytearray(capacity * 32)
    for number in range(count):
        at = number * 3 % capacity * 32
        body[at : at + 96] = b"".join(frames(number))
    page = bytearray(records.PAGE)
    records.RING.pack_into(page, 0, records.RING_MAGIC, 1, 32, capacity, count * 3, 0, 3, 7)
    records.RING_MEMORY.pack_into(page, records.RING.size, 0, 2, 0)
    path = tmp_path / "rings"
    path.write_bytes(bytes(page + body))
    found = memory.read(path)
    assert [one.tsc - 1000 for one in found.processors[0]] == [5, 6]
    assert found.lost == 5 and found.counter == 2


def test_trace_of_exits_is_refused():
    exit_record = records.RECORD.pack(1, 2, 3 | 10 << 48, 0, 0)
    with pytest.raises(records.BadRecords, match="records of exits alone"):
        memory.from_frames(records.Trace(processors={0: [exit_record]}))
