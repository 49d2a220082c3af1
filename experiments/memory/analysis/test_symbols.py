# SPDX-License-Identifier: BSD-2-Clause
# test_symbols.py: names of functions by symbols.py, against binutils' addr2line, on programs that
# gcc makes: at a fixed address, position-independent, stripped.
import re
import subprocess

import pytest

from experiments.memory.analysis import symbols

SOURCE = """int shown(int x) { return x * 3 + 1; }
static __attribute__((noinline)) int hidden(int x) { return shown(x) + 7; }
int alias(int x) __attribute__((alias("shown")));
__asm__(".globl _bare\\n_bare: nop; nop; nop; ret\\n");
int main(int argc, char **argv) { (void)argv; return hidden(argc); }
"""
BASE = 0x7F1200000000


@pytest.fixture(scope="module", name="made")
def make_programs(tmp_path_factory):
    """Gives a function from a name and gcc's words to a program."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "main.c").write_text(SOURCE)

    def program(name, *words):
        path = folder / name
        subprocess.run(["gcc", "-O1", *words, "-o", path, folder / "main.c"], check=True)
        return path

    return program


def places(path):
    """{name: (address, bytes)} of what has bytes, by readelf."""
    said = subprocess.run(
        ["readelf", "--wide", "--symbols", path], check=True, text=True, stdout=subprocess.PIPE
    ).stdout
    return {
        match[3]: (int(match[1], 16), int(match[2]))
        for match in re.finditer(r": ([0-9a-f]+) +([1-9]\d*) FUNC .* (\w+)$", said, re.MULTILINE)
    }


def addr2line(path, addresses):
    return subprocess.run(
        ["addr2line", "--functions", "-e", path, *map(hex, addresses)],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout.splitlines()[::2]


def test_each_byte(made):
    """Each byte of a program's own functions, against addr2line; aliases are one name of theirs."""
    path = made("fixed", "-no-pie")
    found = symbols.read([str(path)])
    seen = set()
    for name in ("main", "hidden", "shown"):
        start, size = places(path)[name]
        addresses = range(start, start + size)
        for address, theirs in zip(addresses, addr2line(path, addresses)):
            ours, offset = found.function(address)
            assert offset == address - start and {ours, theirs} <= {name, "alias"}, (name, address)
        assert found.text(start + 1).endswith("+0x1")
        seen.add(ours)
    start, _ = next(row[:2] for row in found.rows if row[2] == "_bare")
    assert [found.text(start + at) for at in (0, 3)] == ["_bare+0x0", "_bare+0x3"]
    assert {"main", "hidden"} <= seen and found.text(0) == found.text(1 << 47) == ""


def test_without_a_size():
    """A name without bytes goes on to the next one, but not for ever; one with bytes ends there."""
    found = symbols.Symbols([(0x100, 0, "bare"), (0x200, 0x10, "sized"), (0x300, 0, "last")])
    assert [found.text(at) for at in (0xFF, 0x100, 0x1FF, 0x20F, 0x210, 0x300, 0x10000)] == [
        "",
        "bare+0x0",
        "bare+0xff",
        "sized+0xf",
        "",
        "last+0x0",
        "",
    ]


def test_names_of_one_address():
    assert symbols.best([("W", "dcgettext"), ("T", "__dcgettext")]) == "dcgettext"
    assert symbols.best([("W", "gsignal"), ("T", "raise")]) == "raise"


def test_position_independent(made):
    """It says where it was loaded, or is refused."""
    path = made("moved", "-pie", "-fPIE")
    start, size = places(path)["main"]
    found = symbols.read([f"{path}@{BASE:#x}"])
    assert found.function(BASE + start + size - 1) == ("main", size - 1)
    assert found.function(start) is None
    with pytest.raises(symbols.NoSymbols, match="position-independent, so wanted .*@ADDRESS"):
        symbols.read([str(path)])


def test_two_files(made):
    first, second = made("one", "-no-pie"), made("two", "-pie", "-fPIE")
    found = symbols.read([str(first), f"{second}@{BASE:#x}"])
    assert found.function(places(first)["main"][0]) == ("main", 0)
    assert found.function(BASE + places(second)["main"][0]) == ("main", 0)


def test_stripped(made):
    """What is left of a library are its dynamic symbols; a program has none."""
    library = made("library.so", "-shared", "-fPIC", "-s")
    found = symbols.read([f"{library}@0"])
    assert {"alias", "shown"} & {name for _, _, name in found.rows}
    assert "hidden" not in {name for _, _, name in found.rows}
    with pytest.raises(symbols.NoSymbols, match="has no names of functions"):
        symbols.read([str(made("stripped", "-no-pie", "-static-pie", "-s")) + "@0"])


def test_refused(tmp_path, monkeypatch):
    """One line each: no ELF file, none at all, no nm."""
    (tmp_path / "text").write_text("#!/bin/sh\n")
    with pytest.raises(symbols.NoSymbols, match="is no ELF file"):
        symbols.read([str(tmp_path / "text")])
    with pytest.raises(OSError):
        symbols.read([str(tmp_path / "none@5")])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(symbols.NoSymbols, match="install binutils"):
        symbols.listed("/bin/sh")
