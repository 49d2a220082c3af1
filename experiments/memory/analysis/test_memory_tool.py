# SPDX-License-Identifier: BSD-2-Clause
# test_memory_tool.py: what memory_tool.py makes of hand-made accesses: filters, sums, working sets,
# CTF, feeds and the page.
import re
import shutil
import subprocess
import sys

import pytest

from experiments.memory.analysis import (
    memory_ctf,
    memory_feed,
    memory_filter,
    memory_page,
    memory_samples,
    memory_sums,
    memory_tool,
    symbols,
)
from experiments.memory.analysis.memory import READ, WRITE, Access, Accesses
from experiments.memory.analysis.test_memory import frames
from experiments.shared.analysis import records

CR3 = 0x12345801  # as Linux's kernel half has it: PCID, and the user's table beside it
KHZ = 1000


def access(number, gla, size=8, flags=WRITE, kind="instruction", **more):
    return Access(
        more.get("processor", 0),
        1000 + number,
        number,
        more.get("cr3", CR3),
        more.get("rip", 0x401000),
        gla,
        more.get("gpa", gla & 0xFFF | 0x77000),
        kind,
        flags,
        size,
        more.get("value", b"\1\2"),
        b"",
        more.get("text", "mov"),
        0,
        more.get("pieces", ()),
    )


def found(*accesses):
    return Accesses(tsc_khz=KHZ, processors={0: list(accesses)})


def wanted(words, *accesses):
    options = memory_tool.parser().parse_args(["print", "trace", *words.split()])
    return [one.retired for one in memory_filter.wanted(options, accesses, 1000, KHZ)]


def test_filters():
    """Each word of the command line, and two together."""
    some = (
        access(0, 0x1000),
        access(1, 0x1FFC, processor=1, flags=READ),
        access(2, 0x2000, kind="event", size=40),
        access(3, 0x3000, kind="walk", gpa=0x9000),
        access(4, 0x4000, cr3=0x999000, rip=0x402000, flags=READ | WRITE),
    )
    for words, numbers in (
        ("", [0, 1, 2, 3, 4]),
        ("--process 0x12344000", [0, 1, 2, 3]),
        ("--process 0x999000", [4]),
        ("--address 0x2000-0x5000", [1, 2, 4]),
        ("--address 0x1007", [0]),
        ("--address 0x1008", []),
        ("--physical 0x9000+8", [3]),
        ("--rip 0x402000", [4]),
        ("--kind walk --kind event", [2, 3]),
        ("--direction R", [1, 4]),
        ("--time 0.002-0.004", [2, 3]),
        ("--processor 1", [1]),
        ("--direction W --address 0x1000-0x3000", [0, 2]),
    ):
        assert wanted(words, *some) == numbers, words


def test_wrong_words(capsys):
    for words in ("--address 5-x", "--time a-b", "--kind other"):
        with pytest.raises(SystemExit):
            wanted(words)
    assert "wanted A-B" in capsys.readouterr().err


def naive(accesses, bits, window):
    """The working set's mean by its definition."""
    sizes = []
    for end in range(1, len(accesses) + 1):
        last = accesses[max(0, end - window) : end]
        sizes.append(len({unit for one in last for unit in memory_sums.units(one, bits)}))
    return sum(sizes) / len(sizes)


def test_working_set():
    """The quick sum is that of the definition."""
    places = [0, 64, 0, 4096, 60, 64, 0, 0, 8192, 4090, 128, 0]
    accesses = [access(number, 0x10000 + place) for number, place in enumerate(places)]
    for bits in memory_sums.UNITS.values():
        windows = range(1, len(places) + 1)
        assert memory_sums.working_set(accesses, bits, windows) == pytest.approx(
            [naive(accesses, bits, window) for window in windows]
        )


def test_windows_and_units():
    """Over a line's and a page's end both count; another process's memory is other memory, but the
    kernel's; a walk has no linear address; pieces count, and not what lies between."""
    accesses = [
        access(0, 0x1FFC),
        access(1, 0x1FFC, cr3=0x999000),
        access(2, -0x1000 & (1 << 64) - 1),
        access(3, -0x1000 & (1 << 64) - 1, cr3=0x999000),
        access(4, 0x5000, kind="walk"),
    ]
    assert memory_sums.per_window(accesses, 12, 2) == [4, 1, 0]
    assert memory_sums.per_window(accesses[:1], 6, 5) == [2]
    assert memory_sums.per_window(accesses[4:], 12, 5, physical=True) == [1]
    assert memory_sums.per_window([access(0, 0, size=520, pieces=((0, 8), (512, 8)))], 6, 1) == [2]


def test_sums():
    accesses = [access(0, 0x1000), access(1, 0x2000, size=4), access(2, 0x2000, kind="walk")]
    assert memory_sums.counted(accesses) == {("instruction", "W"): (2, 12), ("walk", "W"): (1, 8)}
    text = "\n".join(memory_tool.sums(found(*accesses), accesses))
    assert "3 accesses of 3, 0 lost" in text and "process     12344000          3" in text


def test_feeds():
    """Letters and labels, words of a wide access, pieces, and no walk by linear address."""
    load, store = access(0, 0x1004, size=16, flags=READ), access(1, 0xABC, flags=WRITE)
    both = access(2, 0x2000, flags=READ | WRITE, size=4)
    area = access(3, 0x40, size=520, pieces=((0, 8), (512, 8)))
    walk = access(4, 0x5000, kind="walk", gpa=0x9008)
    assert [
        line for one in (load, store, both, area, walk) for line in memory_feed.lackey(one)
    ] == [" L 00001004,16", " S 00000abc,8", " M 00002000,4", " S 00000040,8", " S 00000240,8"]
    assert [line for one in (load, both, walk) for line in memory_feed.din(one)] == [
        "0 1004",
        "0 1008",
        "0 1010",
        "0 2000",
        "1 2000",
    ]
    assert list(memory_feed.din(walk, physical=True)) == ["1 9008"]


def test_axis():
    """Far regions lie beside each other, and pages of one keep their distance."""
    axis = memory_page.Axis({0x10, 0x12, 0x7FFFF0})
    assert [axis.place(page << 12) for page in (0x10, 0x12, 0x7FFFF0)] == [0, 2, 4]
    assert axis.place((0x12 << 12) + 2048) == 2.5 and axis.end == 5
    assert [text for _, text in axis.ticks()][0] == "0x10000"


def test_page():
    """One page that needs nothing else, with the figures, the sums and what is not known."""
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    accesses = [access(number, 0x10000 + 64 * number) for number in range(200)]
    accesses.append(access(200, 0x20000, kind="event", size=40))
    trace = found(*accesses)
    trace.gaps[0] = {5: 7}
    trace.unknown["vmovups: masked"] = 3
    made = memory_page.html(trace, accesses, "A <title>", where=" (emulator)")
    assert (
        "A &lt;title&gt;" in made
        and "201 of 201 accesses" in made
        and "7 accesses are lost" in made
    )
    assert "3 vmovups: masked" in made and re.search(r"\d ms \(emulator\)", made)
    assert made.count("<svg") == 3 and "data:image/png;base64," in made
    assert not re.search(r'(src|href)="(?!#|data:|https://)', made)
    identifiers = re.findall(r'\bid="([^"]+)"', made)
    assert len(identifiers) == len(set(identifiers))


@pytest.fixture
def trace(tmp_path):
    """A file with three accesses, the second one's place lost."""
    path = tmp_path / "trace"
    path.write_bytes(
        records.FILE.pack(records.FILE_MAGIC, 1, 32, 50_000, 3, 1)
        + records.CHUNK.pack(records.CHUNK_MAGIC, 0, 3, 0, 0)
        + b"".join(frames(0))
        + records.CHUNK.pack(records.CHUNK_MAGIC, 0, 6, 6, 3)
        + b"".join(frames(2) + frames(3))
    )
    return path


def tool(*words):
    done = subprocess.run(
        [sys.executable, "-B", "-m", memory_tool.__name__, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_print(trace):
    status, said, complaint = tool("print", trace)
    assert (status, complaint) == (0, "")
    first, *others = said.splitlines()
    assert first.split() == [
        "0.000000",
        "0",
        "0",
        "12345000",
        "401000",
        "instruction",
        "W",
        "8",
        "7f0000001238",
        "5678238",
        "1122334455667788",
        "mov",
        "qword",
        "ptr",
        "[rdi],",
        "rax",
    ]
    assert len(others) == 2 and others[0].split()[0] == "0.000040"


def test_ctf(trace, tmp_path):
    """babeltrace2 reads it, with every field, and complains of the loss alone."""
    pytest.importorskip("bt2", reason="python3-bt2 is not installed")
    if not shutil.which("babeltrace2"):
        pytest.skip("babeltrace2 is not installed")
    status, _, complaint = tool("ctf", trace, tmp_path / "ctf")
    assert (status, complaint) == (0, "")
    done = subprocess.run(
        ["babeltrace2", "--clock-cycles", "--no-delta", tmp_path / "ctf"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and lines[0].endswith(
        "mem_access: { cpu_id = 0 }, { rip = 0x401000, cr3 = 0x12345000, gla = 0x7F0000001238, "
        'gpa = 0x5678238, bytes = 8, direction = "W", kind = "instruction", '
        "value = 0x1122334455667788, retired = 0, detail = 0, "
        'instruction = "mov qword ptr [rdi], rax" }'
    )
    assert lines[0].startswith("[00000000000000001000]")
    assert done.stderr.count("discarded") == 1 and "discarded 1 event" in done.stderr


def test_packets():
    """Losses between two packets, and times that do not go back."""
    accesses = [access(5, 0x1000), access(3, 0x1000), access(9, 0x1000)]
    made = memory_ctf.packets(accesses, {2: 4, 3: 1})
    assert [(packet.lost, [event.tick for event in packet.events]) for packet in made] == [
        (0, [1005, 1005]),
        (4, [1009]),
        (1, []),
    ]


def test_commands(trace, tmp_path):
    assert tool("sums", trace)[1].startswith("3 accesses of 3, 1 lost")
    assert tool("feed", trace, tmp_path / "feed", "--by", "physical")[0] == 0
    assert (tmp_path / "feed").read_text() == " S 05678238,8\n" * 3


def test_functions(trace, tmp_path):
    """--elf: the functions of print, sums and page; a file that is none is one line."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    program = tmp_path / "program"
    subprocess.run(["gcc", "-pie", "-fPIE", "-o", program, tmp_path / "main.c"], check=True)
    start = next(row[0] for row in symbols.read([f"{program}@0"]).rows if row[2] == "main")
    word = f"{program}@{0x401000 - start - 3:#x}"
    said = tool("print", trace, "--elf", word)[1].splitlines()
    assert (
        all(line.endswith("mov qword ptr [rdi], rax  main+0x3") for line in said) and len(said) == 3
    )
    assert tool("sums", trace, "--elf", word)[1].splitlines()[-1].split()[-1] == "main+0x3"
    assert not tool("sums", trace)[1].splitlines()[-1].endswith(" ")
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    assert tool("page", trace, tmp_path / "page.html", "--elf", word)[0] == 0
    assert '<td class="text">main+0x3</td>' in (tmp_path / "page.html").read_text()
    status, _, complaint = tool("sums", trace, "--elf", tmp_path / "main.c")
    assert status == 1 and "is no ELF file" in complaint and complaint.count("\n") == 1


def test_samples(tmp_path):
    """perf's text: each sample once, in order, and what is none counted."""
    path = tmp_path / "samples"
    path.write_text(
        "\n[000]    12.000000005: cpu/mem-stores/upp:   4a8008  401544\n"
        "[001]    12.000001005: cpu/mem-loads,ldlat=3/upp: 7ffc00 ffffffff81000000\n"
        "something else\n"
    )
    read = memory_samples.read(path)
    assert [
        (one.processor, one.tsc, one.gla, one.rip, one.direction, one.kind)
        for one in read.ordered()
    ] == [
        (0, 12_000_000_005, 0x4A8008, 0x401544, "W", "sample"),
        (1, 12_000_001_005, 0x7FFC00, 0xFFFFFFFF81000000, "R", "sample"),
    ]
    assert "1 lines are no samples" in read.complaints[0]
    assert tool("sums", path)[1].startswith("2 accesses of 2, 0 lost")


def test_refused(tmp_path):
    """One line each."""
    (tmp_path / "other").write_bytes(b"x" * 100)
    for words, text in (
        (("sums", tmp_path / "other"), "neither a trace file nor a ring"),
        (("sums", tmp_path / "none"), "No such file"),
    ):
        status, _, complaint = tool(*words)
        assert status == 1 and text in complaint and complaint.count("\n") == 1, complaint
