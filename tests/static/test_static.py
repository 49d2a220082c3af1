# SPDX-License-Identifier: BSD-2-Clause
# test_static.py: tests of the checks in this folder, each on input that it has to refuse as well as
# on input that it has to take.
import subprocess
from unittest import mock

import pytest

from testbed.machine import path
from tests.static import code_lines, stack


def test_lines_c():
    text = (
        '/* first\n * second */ int a;\n\n// gone\nchar *s = "/* not // a comment";\n'
        "char c = '\"'; /* it's one */\n  \t\nint b; // end\n"
    )
    assert code_lines.code_lines(text, False) == 4, code_lines.without_comments(text, False)


def test_lines_nasm():
    text = "; head\nbits 64\n\n  mov al, ';' ; a semicolon\n%define X \"it's;\"\n;mov\n ret;\n"
    assert code_lines.code_lines(text, True) == 4, code_lines.without_comments(text, True)


def test_lines_by_folder(run, tmp_path):
    """Each folder of the hypervisor is counted, and an empty one is refused."""
    folders = [*code_lines.rooms(), "include"]
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "a.c").write_text("/* a */\nint a;\nint b;\n")
    status, text = run(code_lines, str(tmp_path))
    assert status == 0 and text.rstrip().endswith(f" {2 * len(folders)} lines"), text
    (tmp_path / "mm" / "a.c").unlink()
    status, text = run(code_lines, str(tmp_path))
    assert status == 1 and "no code in mm" in text, text


@pytest.fixture
def analyse(run, tmp_path):
    """Runs stack.py on depth.asm with one way in, and maybe one of exceptions."""
    made = [str(tmp_path / f"depth.{kind}") for kind in ("asm.o", "map", "elf")]
    source = path("tests", "static", "depth.asm")
    subprocess.run(["nasm", "-f", "elf64", "-o", made[0], source], check=True)
    link = ["ld", "-pie", "--no-dynamic-linker", "-e", "calls", "-Map", made[1], "-o", made[2]]
    subprocess.run([*link, made[0]], check=True)
    (tmp_path / "a.c").write_text("#define STACK_PAGES 1\n#define REPORTS_MAX 2\n")
    place = f"{tmp_path.name}/depth.asm.o"

    def stack_of(way_in, recursion=None, file=None, switches=(), exception=None):
        ways_in = {"root": [(way_in, 0)]}
        if exception:
            ways_in["fault"] = [(exception, 8)]
        with mock.patch.multiple(
            stack,
            WAYS_IN=ways_in,
            RECURSION=recursion or {},
            INDIRECT={place: [file or place]},
            SWITCHES={place} if switches else set(),
            PUT_BY_NMI_RETURN=0,
        ):
            return run(stack, "--map", made[1], "--source", str(tmp_path), made[2])

    return stack_of


def test_stack_depths(analyse):
    for way_in, depth in (("calls", 32), ("indirect", 824), ("recursive", 120)):
        status, text = analyse(way_in, {"again": 5})
        assert status == 0 and f"root stack: {depth} of 4096 bytes" in text, (way_in, text)


def test_stack_switch(analyse):
    """What follows a load of the stack pointer does not count for the old stack."""
    status, text = analyse("calls|elsewhere", switches=True)
    assert status == 0 and "root stack: 32 of 4096 bytes" in text, text


def test_stack_exceptions(analyse):
    """Two that are reported, one after them and one in a safe access come on top."""
    status, text = analyse("indirect", exception="calls")
    assert status == 0 and f"root stack: {824 + 4 * 40} of 4096 bytes" in text, text
    status, text = analyse("indirect", exception="indirect")
    assert status == 1 and f"found {824 + 4 * 832} bytes on the root stack" in text, text


@pytest.mark.parametrize(
    "place, first, fits",
    [
        ("console/log.o", ("and", "rsp,0xfffffffffffffff0"), True),
        ("console/log.o", ("and", "rsp,0xfffffffffffffff8"), False),
        ("boot/main.o", ("push", "rax"), True),
    ],
)
def test_stack_alignment(place, first, fits):
    """A function of boot/ that code outside boot/ calls by pointer aligns the stack itself."""
    image = mock.Mock(spec=stack.Image, code={32: [(32, *first), (36, "ret", "")]})
    image.object_of = {16: place, 32: "boot/screen.o"}.get
    image.names, image.function = {8: "caller", 32: "sink"}, {16: 8, 32: 32}
    image.aligns = lambda start: stack.Image.aligns(image, start)
    image.indirect_targets.return_value = {32}
    with mock.patch.object(stack, "INDIRECT", {place: ["boot/screen.o"]}):
        if fits:
            assert stack.Analysis(image).indirect(16) == {32}
            return
        with pytest.raises(stack.Unclear, match="found a call of sink with a stack aligned"):
            stack.Analysis(image).indirect(16)


@pytest.mark.parametrize(
    "way_in, text",
    [
        ("large", "found 4112 bytes on the root stack, wanted at most 4096"),
        ("recursive", "recursion without a bound: again > again"),
        ("grows", "found 0 bytes on the stack and 8"),
        ("unbalanced", "found 8 bytes on the stack at a return"),
        ("elsewhere", "found 'mov rsp,rax', which cannot be followed"),
        ("absent", "found no function absent"),
    ],
)
def test_stack_refuses(analyse, way_in, text):
    status, found = analyse(way_in)
    assert status == 1 and text in found, found


def test_stack_unknown_target(analyse):
    """A function whose address is taken, and nothing said to call it."""
    status, found = analyse("calls", file="firmware")
    assert status == 1 and "found that its address is taken and no way to it" in found, found


def test_stack_unknown_frame(tmp_path):
    """The compiler does not know the size of a frame."""
    source = "int f(char *); int g(int n) { char a[n]; return f(a); }"
    command = ["gcc", "-fstack-usage", "-xc", "-c", "-o", tmp_path / "a.o", "-"]
    subprocess.run(command, input=source, text=True, cwd=tmp_path, check=True)
    with pytest.raises(stack.Unclear, match="found a frame of unknown size at .*:g, wanted"):
        stack.Image.read_frames(mock.Mock(), str(tmp_path / "a.o"))


def hypervisor(name):
    folders = [word for folder in ("vmx", "include") for word in ("--source", path(folder))]
    return [*folders, "--map", path("build", f"{name}.map"), path("build", f"{name}.elf")]


def test_stack_switch_in_c(run):
    """C that loads the stack pointer, in a file that nobody has named for it."""
    with mock.patch.object(stack, "SWITCHES", stack.SWITCHES - {"vmx/start/machine.o"}):
        status, text = run(stack, *hypervisor("pmuvisor"))
    assert status == 1 and "found 'mov rsp,rdx', which cannot be followed" in text, text


@pytest.mark.parametrize(
    "name, status, reason",
    [
        ("pmuvisor", 0, " stack: "),
        ("static/big_frame", 1, "bytes on the root stack, wanted at most"),
        ("static/recursion", 1, "recursion without a bound: deep > deep"),
        ("static/unnamed", 1, "found an indirect call"),
    ],
)
def test_stack_hypervisor(run, name, status, reason):
    """The hypervisor itself, as it is and with one thing wrong (tests.mk builds these)."""
    found, text = run(stack, *hypervisor(name))
    assert found == status and reason in text, text
    assert status or text.count(reason) == len(stack.WAYS_IN)
