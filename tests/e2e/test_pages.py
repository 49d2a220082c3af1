# SPDX-License-Identifier: BSD-2-Clause
# test_pages.py: pages that show what a run prints show what it prints: the list of an exit in
# docs/tour.md, and the commands of docs/program.md, run as they are there.
import json
import os
import re
from types import SimpleNamespace

import pytest

from testbed import boots, exit_lines
from testbed.machine import TOP, Skip, path
from testbed.store import digest, digest_any
from tests.commands import run
from tests.e2e.guest import EXIT_REASON_CPUID
from tests.e2e.kernel import CPUID_COST
from tests.e2e.scripts import run_qemu

TOUR, PROGRAM = "docs/tour.md", "docs/program.md"
REGION, CPUIDS = "10", 100  # of the page's program


def read(name):
    with open(path(name), encoding="utf-8") as page:
        return page.read()


def gcc_of_page(text):
    return re.search(r"\(emulator, gcc (\d+),", text)[1]


def expect_gcc(text):
    _, found = run("gcc", "-dumpversion")
    if found.split(".")[0].strip() != gcc_of_page(text):
        raise Skip(f"{TOUR} is about gcc {gcc_of_page(text)}, here is {found.strip()}")


def made_table(lab):
    """The table of the CPUID exit that most of a boot's exits are like, and the exit itself."""
    boot = lab.emulator("exit-lines", jobs="cpuid", knobs="exit_paths on\n")
    commonest = exit_lines.ways(boot.ledger, EXIT_REASON_CPUID)[0][0]
    return (
        exit_lines.table(exit_lines.rows_of(commonest["steps"], path("build", "pmuvisor.elf"))),
        commonest,
    )


def test_list_of_an_exit(lab):
    """docs/tour.md has the instructions of a CPUID exit, by function and line, as they were
    executed."""
    page = read(TOUR)
    expect_gcc(page)
    made, commonest = made_table(lab)
    assert exit_lines.page_with(page, made) == page, f"{TOUR} has another list: make docs\n{made}"
    steps = commonest["steps"]
    assert (len(steps), sum(accesses for _, accesses in steps)) == CPUID_COST
    return f"{commonest['count']} exits of {CPUID_COST[0]} instructions"


def test_other_list_is_seen(lab):
    """One figure or line of the page is another."""
    page = read(TOUR)
    expect_gcc(page)
    made, _ = made_table(lab)
    for old, new in (
        (rf"(in all.*) {CPUID_COST[0]} ", rf"\1 {CPUID_COST[0] - 10} "),
        (r"\.asm:", ".asm:1"),
    ):
        wrong = re.sub(old, new, page, count=1)
        assert wrong != page and exit_lines.page_with(wrong, made) != wrong, (old, new)


def test_paths_are_the_exits(lab):
    """Of each reason all exits that came back, and as many instructions as the ledger counts."""
    ledger = lab.emulator("exit-lines", jobs="cpuid", knobs="exit_paths on\n").ledger
    for reason, paths in ledger["exit_paths"].items():
        account = ledger["exits"][reason]
        assert sum(way["count"] for way in paths) == account["root_instructions"]["samples"], reason
        for key, what in (
            ("root_instructions", lambda way: len(way["steps"])),
            ("vmcs_accesses", lambda way: sum(count for _, count in way["steps"])),
        ):
            assert sum(way["count"] * what(way) for way in paths) == account[key]["sum"], (
                reason,
                key,
            )
    assert len(ledger["exit_paths"]) > 3, sorted(ledger["exit_paths"])
    return f"reasons {sorted(ledger['exit_paths'], key=int)}"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", read(PROGRAM), re.MULTILINE | re.DOTALL)


def run_page(folder):
    """Runs the page's first commands in a copy of the tree's top, which build/ is a part of; what
    they print is given, and the ledger kept."""
    top = os.path.join(folder, "top")
    os.mkdir(top)
    for name in os.listdir(TOP):
        os.symlink(path(name), os.path.join(top, name))
    with open(os.path.join(top, "mine.c"), "w", encoding="ascii") as source:
        source.write(blocks("c")[0])
    variables = {
        key: value
        for key, value in os.environ.items()
        if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    }
    status, said = run("sh", "-e", "-c", blocks("sh")[0], cwd=top, env=variables)
    assert status == 0, said[-2000:]
    with open(path("build", "run", "ledger.json"), encoding="utf-8") as ledger:
        return {"said": said.replace("\r", ""), "ledger": json.load(ledger)}


def of_page(lab):
    """The same, kept as long as all that goes in is the same."""
    if run_qemu("--probe").stdout.strip() == "kvm":
        raise Skip("make run takes KVM here, which has neither ledger nor files")
    image, efi = boots.initrd(name="perf"), path("build", "pmuvisor.efi")
    parts = [
        path(name)
        for name in (
            "run-qemu.sh",
            "Makefile",
            "tests/tests.mk",
            "testbed/ledger.py",
            "testbed/sentence.py",
            "programs/measure/region.h",
        )
    ]
    return lab.value(
        "program-page",
        lambda: [
            boots.bed(),
            digest(__file__),
            blocks("c")[0],
            blocks("sh")[0],
            *map(digest_any, [*parts, image, efi, boots.kernel()]),
        ],
        run_page,
        lambda folder, about: SimpleNamespace(**about),
        targets=[image, efi],
    )


@pytest.mark.more
def test_own_program(lab):
    """docs/program.md: its commands give the program's output, its region's ledger, its profile and
    its file."""
    page = of_page(lab)
    said, region = page.said, page.ledger["regions"][REGION]
    assert len(blocks("sh")[0].splitlines()) <= 5
    assert "mine: the sum is 4499998500000\n" in said, said[-2000:]
    assert (
        region["exits"][EXIT_REASON_CPUID]["count"] == CPUIDS and len(region["exits"]) == 1
    ), region
    assert re.search(
        rf"^region {REGION}, marked 1 times\n.*\n +10 +CPUID +{CPUIDS} ", said, re.MULTILINE
    ), said[-3000:]
    share = re.search(r"^ +([\d.]+)%.*\[\.\] spin *$", said, re.MULTILINE)
    assert share and float(share[1]) > 90, said
    ends = re.findall(r"^The guest ran to its end: .*$", said, re.MULTILINE)
    assert (
        len(ends) == 1
        and f"its region {REGION} has {CPUIDS} exits" in ends[0]
        and "perf.data" in ends[0]
    ), ends
    assert said.index(ends[0]) > said.rindex(
        "  PMIs: "
    ), "the sentence is not the last that the run says"
    assert "It ran in the emulator: " in ends[0], ends[0]
    assert re.fullmatch(r"highest leaf \d+", said.splitlines()[-1]), said[-200:]
    return f"spin has {share[1]} % of the samples; {ends[0]}"
