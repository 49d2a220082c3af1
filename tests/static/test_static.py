# SPDX-License-Identifier: BSD-2-Clause
# test_static.py: tests of the checks in this folder, each on input that it has to refuse as well as
# on input that it has to take.
import os
import subprocess
import sys
import tempfile
from unittest import mock

import pytest

from testbed.machine import TOP, path
from tests.static import code_lines, stack

HERE = path("tests", "static")


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a check's main(); gives its exit status and all that it printed."""

    def main_of(module, *arguments):
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        status = module.main()
        said = capsys.readouterr()
        return status, said.out + said.err

    return main_of


def test_lines_c():
    text = (
        '/* first\n * second */ int a;\n\n// gone\nchar *s = "/* not // a comment";\n'
        "char c = '\"'; /* it's one */\n  \t\nint b; // end\n"
    )
    assert code_lines.code_lines(text, False) == 4, code_lines.without_comments(text, False)


def test_lines_nasm():
    text = "; head\nbits 64\n\n  mov al, ';' ; a semicolon\n%define X \"it's;\"\n;mov\n ret;\n"
    assert code_lines.code_lines(text, True) == 4, code_lines.without_comments(text, True)


def test_lines_by_folder(run):
    """Each folder of the hypervisor is counted, and an empty one is refused."""
    with tempfile.TemporaryDirectory() as root:
        for folder in [*code_lines.rooms(), "include"]:
            os.makedirs(os.path.join(root, folder), exist_ok=True)
            with open(os.path.join(root, folder, "a.c"), "w", encoding="utf-8") as source:
                source.write("/* a */\nint a;\nint b;\n")
        status, text = run(code_lines, root)
        count = 2 * len([*code_lines.rooms(), "include"])
        assert status == 0 and text.rstrip().endswith(f" {count} lines"), text
        os.unlink(os.path.join(root, "mm", "a.c"))
        status, text = run(code_lines, root)
        assert status == 1 and "no code in mm" in text, text


def assemble(folder):
    """The image of depth.asm and its map."""
    made = [os.path.join(folder, name) for name in ("depth.o", "depth.elf", "depth.map")]
    source = os.path.join(HERE, "depth.asm")
    subprocess.run(["nasm", "-f", "elf64", "-o", made[0], source], check=True)
    subprocess.run(
        [
            "ld",
            "-pie",
            "--no-dynamic-linker",
            "-e",
            "calls",
            "-Map",
            made[2],
            "-o",
            made[1],
            made[0],
        ],
        check=True,
    )
    return made[1:]


@pytest.fixture
def analyse(run):
    """Runs stack.py on depth.asm with one way in, and maybe one of exceptions."""

    def stack_of(way_in, recursion=None, file=None, switches=None, exception=None):
        with tempfile.TemporaryDirectory() as folder:
            elf, link_map = assemble(folder)
            place = "/".join(os.path.join(folder, "depth.o").split("/")[-2:])
            with open(os.path.join(folder, "a.c"), "w", encoding="utf-8") as source:
                source.write("#define STACK_PAGES 1\n#define REPORTS_MAX 2\n")
            ways_in = {"root": [(way_in, 0)]}
            if exception:
                ways_in["fault"] = [(exception, 8)]
            with mock.patch.multiple(
                stack,
                WAYS_IN=ways_in,
                RECURSION=recursion or {},
                INDIRECT={place: [file or place]},
                SWITCHES={place: switches} if switches else {},
            ):
                return run(stack, "--map", link_map, "--source", folder, elf)

    return stack_of


def test_stack_depths(analyse):
    for way_in, depth in (("calls", 32), ("indirect", 824), ("recursive", 120)):
        status, text = analyse(way_in, {"again": 5})
        assert status == 0 and f"root stack: {depth} of 4096 bytes" in text, (way_in, text)


def test_stack_switch(analyse):
    """What follows where the stack pointer is loaded counts for the stack that it then is."""
    for switches, depth in (("root", 824), ("interrupted", 32 + 824)):
        status, text = analyse("calls|switches", switches=switches)
        assert status == 0 and f"root stack: {depth} of 4096 bytes" in text, (switches, text)


def test_stack_exceptions(analyse):
    """Two that are reported, one after them and one in a safe access come on top."""
    status, text = analyse("indirect", exception="calls")
    assert status == 0 and f"root stack: {824 + 4 * 40} of 4096 bytes" in text, text
    status, text = analyse("indirect", exception="indirect")
    assert status == 1 and f"found {824 + 4 * 832} bytes on the root stack" in text, text


def test_stack_alignment():
    """A function of boot/ that code outside boot/ calls by pointer aligns the stack itself."""
    for place, first, fits in (
        ("console/log.o", ["and", "rsp,0xfffffffffffffff0"], True),
        ("console/log.o", ["and", "rsp,0xfffffffffffffff8"], False),
        ("boot/main.o", ["push", "rax"], True),
    ):
        image = mock.Mock(code={32: first + [36, None], 36: ["ret", "", None, None]})
        image.object_of = {16: place, 32: "boot/screen.o"}.get
        image.name = {16: "caller", 32: "sink", 36: "sink"}.get
        image.indirect_targets.return_value = {32}
        with mock.patch.object(stack, "INDIRECT", {place: ["boot/screen.o"]}):
            if fits:
                assert stack.Analysis(image).indirect(16) == {32}, (place, first)
                continue
            with pytest.raises(stack.Unclear, match="found a call of sink with a stack aligned"):
                stack.Analysis(image).indirect(16)


def test_stack_refuses(analyse):
    for way_in, text in (
        ("jumps", "found 4112 bytes on the root stack, wanted at most 4096"),
        ("recursive", "recursion without a bound: again > again"),
        ("grows", "ever more on the stack"),
        ("unbalanced", "found 8 bytes on the stack at a return"),
        ("elsewhere", "found 'mov rsp,rax', which cannot be followed"),
        ("absent", "found no function absent"),
    ):
        status, found = analyse(way_in)
        assert status == 1 and text in found, (way_in, found)


def test_stack_unknown_target(analyse):
    """A function whose address is taken, and nothing said to call it."""
    status, found = analyse("calls", file="firmware")
    assert status == 1 and "found that its address is taken and no way to it" in found, found


def test_stack_mutants(run):
    """The hypervisor itself, as it is and with one thing wrong (tests.mk builds these)."""

    def check(name):
        return run(
            stack,
            "--source",
            os.path.join(TOP, "vmx"),
            "--source",
            os.path.join(TOP, "include"),
            "--map",
            f"{name}.map",
            f"{name}.elf",
        )

    build = os.path.join(TOP, "build")
    status, text = check(os.path.join(build, "pmuvisor"))
    assert status == 0 and text.count(" stack: ") == len(stack.WAYS_IN), text
    for name, reason in (
        ("big_frame", "bytes on the root stack, wanted at most"),
        ("recursion", "recursion without a bound: deep > deep"),
        ("unnamed", "found an indirect call"),
    ):
        status, text = check(os.path.join(build, "static", name))
        assert status == 1 and reason in text, (name, text)
