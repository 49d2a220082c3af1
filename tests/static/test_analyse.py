# SPDX-License-Identifier: BSD-2-Clause
# test_analyse.py: static analysis: cppcheck of all C sources, clang-tidy of the hypervisor's with
# the flags of its build, and the hypervisor's layout. Both analysers have to see the bugs of bad.c,
# and nothing else. What they look for is in cppcheck.txt and in .clang-tidy, with a reason for all
# that is left out.
import concurrent.futures
import glob
import os
import re
import shlex

import pytest

from testbed.machine import TOP, path
from tests.commands import run
from tests.static.rooms import rooms

HYPERVISOR = rooms()
OTHERS = [
    "tests/kernel",
    "programs/measure",
    "programs/payload",
    "programs/kvm",
    "tests/hooks",
    "tests/mutants",
    "tests/fuzz",
    "tests/fuzz/planted",
    "tests/host",
    "tests/unit",
    "tests/vtd",
    # May be taken away.
    *sorted(glob.glob("metal/*", root_dir=TOP)),
]
# What an experiment has beside its part of the hypervisor.
OTHERS += sorted(
    {
        os.path.dirname(name)
        for part in ("guest", "analysis", "tests")
        for name in glob.glob(f"experiments/*/{part}/**/*.c", root_dir=TOP, recursive=True)
    }
)
BAD = "tests/static/bad.c"
NOT_C = {"vmx/offsets.c"}  # read from the compiler's output, never compiled to code


def sources(folders):
    return [
        name
        for folder in folders
        for name in sorted(glob.glob(f"{folder}/*.c", root_dir=TOP))
        if name not in NOT_C
    ]


def cppcheck(files, kinds="warning,performance,portability"):
    return run(
        "cppcheck",
        "--quiet",
        "--std=c11",
        "--platform=unix64",
        "-Iinclude",
        "-I.",
        *(f"-I{folder}" for folder in glob.glob("experiments/*/hypervisor", root_dir=TOP)),
        f"--enable={kinds}",
        "--error-exitcode=1",
        "--suppressions-list=tests/static/cppcheck.txt",
        "--template=gcc",
        *files,
    )


def build_flags():
    """The flags that the build gives to the compiler, without those that only gcc knows."""
    with open(path("build", "flags"), encoding="utf-8") as file:
        words = shlex.split(file.read())
    words = words[next(i for i, word in enumerate(words) if word.startswith("-")) :]
    return [word for word in words if not word.startswith("-mpreferred-stack-boundary=")]


def clang_tidy(files):
    flags = build_flags()
    # One process for each file: with several, its check of va_list goes wrong from the second on.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as several:
        results = list(
            several.map(lambda file: run("clang-tidy", "--quiet", file, "--", *flags), files)
        )
    return max(status for status, _ in results), "".join(text for _, text in results)


def found(text):
    """The findings without what surrounds them; a header's once."""
    lines = [line.removeprefix(TOP + "/") for line in text.splitlines()]
    return sorted({line for line in lines if "warning: " in line or "error: " in line})


def analysed(lab, name, analyse, *folders):
    """What it says of these folders: kept while every header, they, and what analyses are the
    same."""
    inputs = [
        path("tests", "static", "cppcheck.txt"),
        path(".clang-tidy"),
        path("build", "flags"),
        *map(path, sources(folders)),
        *headers(),
        "cppcheck",
        "clang-tidy",
    ]
    return lab.kept(name, analyse, *inputs, kind="analysis")


def headers():
    """All of the tree's own. A kept boot in build/ may have links that lead around in a circle."""
    found = []
    for folder, folders, names in os.walk(TOP):
        if folder == TOP:
            folders.remove("build")
        found += [os.path.join(folder, name) for name in names if name.endswith((".h", ".inc"))]
    return sorted(found)


def expect_clean(result, folders):
    status, text = result
    assert status == 0, "\n".join(found(text)) or text
    return f"{len(sources(folders))} files"


def of_hypervisor():
    return expect_clean(
        cppcheck(sources(HYPERVISOR), "warning,style,performance,portability"), HYPERVISOR
    )


def of_others():
    return expect_clean(cppcheck(sources(OTHERS)), OTHERS)


def tidy():
    return expect_clean(clang_tidy(sources(HYPERVISOR)), HYPERVISOR)


def test_cppcheck(lab):
    return analysed(lab, "cppcheck", of_hypervisor, *HYPERVISOR)


def test_cppcheck_others(lab):
    return analysed(lab, "cppcheck-others", of_others, *OTHERS)


def test_clang_tidy(lab):
    return analysed(lab, "clang-tidy", tidy, *HYPERVISOR)


def test_format():
    """The formatter changes nothing, and no line is too long."""
    status, text = run("tests/static/format.sh", "--check")
    assert status == 0, text


SUBJECT = re.compile(r"[\w.][\w./+-]*(, [\w./+-]+)*: \S.*[^.\s]")
SUBJECT_MAX = 72


def commit_faults(message):
    """What is wrong with the form of a commit's message (CONTRIBUTING.md, "Commits")."""
    subject, _, body = message.strip().partition("\n")
    if len(subject) > SUBJECT_MAX:
        yield f"{subject}: found {len(subject)} characters, wanted at most {SUBJECT_MAX}"
    if not SUBJECT.fullmatch(subject):
        yield f"{subject}: wanted 'folder: what the commit does', without a full stop"
    if not re.match(r"\n\S", body):
        yield f"{subject}: wanted an empty line and then the reason"


def new_commits():
    """The messages of the commits that main does not have; none where there is no such branch."""
    for branch in ("origin/main", "main"):
        status, log = run("git", "log", "--no-merges", "--format=%B%x00", f"{branch}..HEAD")
        if status == 0:
            return [message for message in log.split("\0") if message.strip()]
    return []


@pytest.mark.always  # no file says what the commits are
def test_commits():
    faults = [fault for message in new_commits() for fault in commit_faults(message)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "message, faults",
    [
        ("nmi: forward what arrives during host work\n\nIt was lost.\n", 0),
        ("lib, boot, guest: declare functions in their own header\n\nWhy.", 0),
        ("nmi: forward what arrives during host work\n", 1),
        ("Forward NMIs\n\nWhy.\n", 1),
        ("nmi: forward NMIs.\n\nWhy.\n", 1),
        (f"nmi: {'x' * 70}\nWhy.\n", 2),
    ],
)
def test_commit_faults(message, faults):
    assert len(list(commit_faults(message))) == faults


def blank(match):
    return "\n" * match[0].count("\n")


def crowded_fields(text):
    """The numbers of the lines on which a struct or a union has more than one field."""
    text = re.sub(
        r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", blank, text, flags=re.DOTALL
    )
    lines = set()
    depth = 1
    while depth:  # parameters and attributes have commas of their own
        text, depth = re.subn(r"\([^()]*\)", lambda match: "~" + blank(match), text)

    def look(match):
        if match["fields"]:
            for crowd in re.finditer(r",[^;]*;|;[^\n;]*;", match["body"]):
                lines.add(1 + text.count("\n", 0, match.start("body") + crowd.start()))
        return blank(match)

    depth = 1
    while depth:  # the innermost braces first
        text, depth = re.subn(
            r"(?P<fields>\b(?:struct|union)\b[^;{}=~]*)?\{(?P<body>[^{}]*)\}", look, text
        )
    return sorted(lines)


def test_one_field_a_line():
    names = [
        name
        for folder in (*HYPERVISOR, "include")
        for name in sorted(glob.glob(f"{folder}/*.[ch]", root_dir=TOP))
    ]
    crowded = []
    for name in names:
        with open(path(name), encoding="utf-8") as source:
            crowded += [f"{name}:{line}" for line in crowded_fields(source.read())]
    assert not crowded, f"found {crowded}, wanted one field on each line"
    return f"{len(names)} files"


def test_sees_crowded_fields():
    assert (
        crowded_fields(
            """struct msr_entry {
    uint32_t index, reserved;
    union {
        uint64_t base[2]; uint64_t size; /* two */
    };
    enum { A, B } kind;
    bool (*is_it)(uint64_t address, uint64_t size);
} __attribute__((packed, aligned(8)));
static const struct msr_entry entries[] = {{1, 2}, {3, 4}};
struct msr_entry entry_get(uint64_t index)
{
    uint64_t low, high;
}"""
        )
        == [2, 4]
    )


def test_cppcheck_sees_bugs():
    status, text = cppcheck([BAD])
    assert status != 0 and "[nullPointer" in text and "[arrayIndexOutOfBounds]" in text, text


def test_clang_tidy_sees_bugs():
    status, text = clang_tidy([BAD])
    assert status != 0 and "[clang-analyzer-core.NullDereference" in text, text
