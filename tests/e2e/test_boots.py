# SPDX-License-Identifier: BSD-2-Clause
# test_boots.py: how runs begin and end in the emulator: limits that count instructions, and servers
# of boots, whose forks are what a run from power-on is.
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import pytest

from testbed.boots import Boot, Machine, run_disk, server_of, write_tables
from testbed.emulated import volume
from testbed.machine import (
    BACKSTOP_SECONDS,
    SCRATCH,
    STATUS_LIMIT,
    STATUS_POWEROFF,
    STATUS_TEXT,
    environment,
    made,
    path,
    tool,
)
from testbed.store import digest
from tests.e2e import compare, kernel
from tests.e2e.kernel import Plan
from tests.e2e.scripts import expect_line, run

pytestmark = pytest.mark.more

MILLION = 1_000_000
LIMIT_ALL = 20_000
AFTER = 10  # millions of instructions that run.sh lets a run go on after the text of --until
TEXT = "Booting `Linux"  # GRUB, which a server has behind it
SECTOR = 512
INIT_KNOBS = "pmi_skid 3\ntsc_hz 50000000\n"
INIT_WORDS = "pmv.run=a1,report pmv.end=poweroff"
WORDS_MAX = 2047  # run.sh's words_max
LOOK_EVERY = 5  # run.sh's look_every


def short(lab, name, **more):
    return kernel.run(lab, f"boots-{name}", Plan("pmi_skid 3").add("cpuid", "pmi"), **more)


def both(lab, name, **more):
    """(from power-on, from a server) of one boot; all that they leave is to be the same."""
    cold, forked = (
        short(lab, f"{name}-{kind}", fork=kind == "forked", **more) for kind in ("cold", "forked")
    )
    assert cold.ledger["forked_at"] == 0 and cold.status == forked.status, cold.status
    if Machine().is_forked():
        assert forked.ledger["forked_at"] > 0, "it was not forked"
    found = compare.ledgers_differ(cold.ledger, forked.ledger)
    assert not found, found
    assert cold.console == forked.console, "the consoles differ"
    return cold, forked


def test_limit(lab):
    """A limit ends a run at that very instruction, and it says so: half way between a server's fork
    and the end of the same boot without a limit, wherever firmware has them."""
    cold, forked = both(lab, "whole")
    limit = (forked.ledger["forked_at"] + cold.ledger["ticks"]) // 2 // MILLION
    for boot in both(lab, "limit", limit=limit):
        boot.expect_status(STATUS_LIMIT)
        assert boot.ledger["end"] == "limit" and boot.ledger["ticks"] == limit * MILLION, (
            boot.ledger["end"],
            boot.ledger["ticks"],
        )


def test_until(lab):
    """A text on the console ends a run, so many instructions after it."""
    for boot in both(lab, "until", until=TEXT):
        boot.expect_status(STATUS_TEXT)
        assert boot.ledger["end"] == "text" and TEXT in boot.console, boot.ledger["end"]
        assert "starting the guest" not in boot.console, "it went on for long"


def test_forked_is_the_same(lab):
    """A server's fork has the ledger and the console of a run from power-on, to the last count."""
    cold, forked = both(lab, "whole")
    cold.expect_status(STATUS_POWEROFF)
    assert cold.ledger["regions"], "no region was compared"
    return f"{cold.ledger['ticks']:,} instructions, forked at {forked.ledger['forked_at']:,}"


def test_two_processors(lab):
    """The same with two processors."""
    boot, forked = both(lab, "two", cpus=2)
    boot.expect_status(STATUS_POWEROFF)
    return f"{boot.ledger['ticks']:,} instructions, forked at {forked.ledger['forked_at']:,}"


def cut(source, target, first, count, inside):
    """A copy of the disk with nothing in these sectors, or with nothing elsewhere."""
    with open(source, "rb") as disk, open(target, "wb") as out:
        data = bytearray(disk.read())
        begin, end = first * SECTOR, (first + count) * SECTOR
        if inside:
            data[:begin], data[end:] = bytes(begin), bytes(len(data) - end)
        else:
            data[begin:end] = bytes(end - begin)
        out.write(data)


def run_it(lab, name, disk, *part, fork=True):
    folder = os.path.join(lab.keep, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    machine = Machine(knobs="pmi_skid 3\n", limit=LIMIT_ALL, fork=fork)
    return Boot(name, folder, run_disk(folder, disk, machine, *part))


@pytest.mark.skipif(not Machine().is_forked(), reason="FORK=0: there are no servers")
def test_own_sectors(lab):
    """A server that goes on until the kernel is read: its runs have all else from the server's
    disk, and the kernel's sectors, which the server's has not, from their own."""
    kernel_file = path("build", "kernel.bzImage")
    with open(kernel_file, "rb") as source:
        image = source.read()
    with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.", dir=SCRATCH) as work:
        disk, servers, own, acpi = (
            os.path.join(work, name) for name in ("disk", "servers", "own", "acpi")
        )
        what = volume(append="tests=cpuid,pmi", kernel=kernel_file, initrd=b"none\n")
        write_tables(acpi, 1, None)
        words = ["--acpi", acpi, *what.options(work)]
        tool([path("testbed", "disk.sh"), "--out", disk, *words])
        with open(disk, "rb") as source:
            first = source.read().find(image[:SECTOR]) // SECTOR
        count = len(image) // SECTOR
        cut(disk, servers, first, count, False)
        cut(disk, own, first, count, True)
        part = (f"{first}+{count}", digest(servers))
        server_of(servers, Machine(), part)
        cold = run_it(lab, "boots-own-cold", shutil.copy(disk, disk + "-cold"), fork=False)
        early = run_it(lab, "boots-own-none", disk)
        forked = run_it(lab, "boots-own", own, part)
    assert 0 == cold.ledger["forked_at"] < early.ledger["forked_at"] < forked.ledger["forked_at"]
    for boot in (early, forked):
        boot.expect_status(STATUS_POWEROFF)
        found = compare.ledgers_differ(cold.ledger, boot.ledger)
        assert not found, found
        assert cold.console == boot.console, "the consoles differ"
    return f"{cold.ledger['ticks']:,} instructions, forked at {forked.ledger['forked_at']:,}"


def test_server_refuses():
    """A disk of another size, or knobs of another machine: refused in one line."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.") as work:
        disks = {size: os.path.join(work, f"{size}.img") for size in (64, 128)}
        for size, name in disks.items():
            with open(name, "wb") as disk:
                disk.truncate(size * 63 * 16 * 512)
        knobs = os.path.join(work, "knobs")
        with open(knobs, "w", encoding="ascii") as out:
            out.write("pmi_skid 1\nmwait_wake 1000\n")
        socket = server_of(disks[64], Machine())
        for arguments, word in (
            (["--disk", disks[128]], "another size"),
            (["--disk", disks[64], "--knobs", knobs], "another machine"),
            (["--disk", disks[64], "--cpus", "2"], "--cpus is the server's"),
        ):
            done = run(path("testbed", "run.sh"), "--limit", "1000", "--from", socket, *arguments)
            assert done.returncode == 2, f"{arguments}: exit status {done.returncode}"
            expect_line(done, word)


def test_idle(tmp_path):
    """A server that nobody asks ends, and one whose socket is removed."""
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, 64 * 63 * 16 * SECTOR)
    servers = {
        idle: subprocess.Popen(
            [path("testbed", "run.sh"), "--serve", tmp_path / idle, "--idle", idle, "--disk", disk],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for idle in ("1", "100000")
    }
    for server in servers.values():
        assert server.stdout.readline() == "ready\n"
    time.sleep(LOOK_EVERY + 1)  # until run.sh has seen the socket
    os.remove(tmp_path / "100000")
    for server in servers.values():
        with server:
            assert server.wait(BACKSTOP_SECONDS) == 0
    expect_line(run(path("testbed", "run.sh"), "--idle", "1", "--disk", disk), "--idle", "--serve")


def init_disk(lab, work, entry, cpus):
    """A disk whose init asks the emulator for its words."""
    disk, acpi = os.path.join(work, "disk.img"), os.path.join(work, "acpi")
    write_tables(acpi, cpus, None)
    what = volume(entry, jobs="none", append="pmv.words=emulator")
    made(*what.targets())
    tool([path("testbed", "disk.sh"), "--out", disk, "--acpi", acpi, *what.options(work)])
    return disk


@contextlib.contextmanager
def at_init(work, disk, *options):
    """The socket of a server that waits at init."""
    socket = os.path.join(work, "socket")
    with subprocess.Popen(
        [
            path("testbed", "run.sh"),
            "--serve",
            socket,
            "--at",
            "init",
            "--disk",
            disk,
            "--limit",
            str(LIMIT_ALL),
            *options,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    ) as server:
        try:
            said = server.stdout.readline()
            assert said == "ready\n", f"{said}{server.stderr.read()}"
            yield socket
        finally:
            server.stdin.close()
            server.wait()


def init_run(lab, name, *options):
    """One run, with all that it leaves."""
    folder = os.path.join(lab.keep, f"{name}.run")
    os.makedirs(folder, exist_ok=True)
    return lab.watch(
        name,
        [
            path("testbed", "run.sh"),
            "--ledger",
            os.path.join(folder, "ledger"),
            "--limit",
            str(LIMIT_ALL),
            *options,
        ],
    )


def same_at_init(lab, cpus):
    """Runs that differ in their words, from power-on and from one server at init: each pair leaves
    the same console, byte for byte, and the same ledger but for the fork. One of the forked runs
    has a disk of its own, which is the same afterwards, too."""
    made = []
    with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.", dir=SCRATCH) as work:
        disk, knobs = init_disk(lab, work, "msr+nmi", cpus), os.path.join(work, "knobs")
        with open(knobs, "w", encoding="ascii") as out:
            out.write(INIT_KNOBS)
        machine, both_have = ["--cpus", str(cpus)], ["--knobs", knobs]
        disks = [os.path.join(work, name) for name in ("cold.img", "forked.img")]
        with at_init(work, disk, *machine, *both_have) as socket:
            for name, words, own in (
                ("jobs", INIT_WORDS, ["--disk", disks[1]]),
                ("one", "pmv.run=report pmv.end=reboot", []),
            ):
                # Debian 13's OVMF keeps its variables on a disk and reads them at the next start.
                for unused in disks:
                    shutil.copy(disk, unused)
                made.append(
                    (
                        init_run(
                            lab,
                            f"boots-init-{name}-{cpus}-cold",
                            "--disk",
                            disks[0],
                            "--words",
                            words,
                            *machine,
                            *both_have,
                        ),
                        init_run(
                            lab,
                            f"boots-init-{name}-{cpus}-forked",
                            "--from",
                            socket,
                            "--words",
                            words,
                            *both_have,
                            *own,
                        ),
                    )
                )
                if own:
                    assert compare.read(disks[0]) == compare.read(disks[1]), "the disks differ"
    for cold, forked in made:
        assert cold.status == forked.status, (cold.status, forked.status, forked.errors)
        assert cold.ledger["forked_at"] == 0 and forked.ledger["forked_at"] > 0
        found = compare.ledgers_differ(cold.ledger, forked.ledger)
        assert not found, found
        assert cold.raw == forked.raw, "the consoles differ"
    (jobs, _), (one, forked) = made
    jobs.expect_status(STATUS_POWEROFF)
    assert jobs.job_status("a1") == 0 and "name=a1" not in one.console, "the words were not taken"
    assert "end=reboot" in one.console, one.last_line()
    return f"{jobs.ledger['ticks']:,} instructions, forked at {forked.ledger['forked_at']:,}"


def test_init(lab):
    """A server at init: its runs are those from power-on with the same words."""
    return same_at_init(lab, 1)


def test_init_of_two_processors(lab):
    """The same with two processors."""
    return same_at_init(lab, 2)


def test_init_refuses(lab):
    """What would not be a run from power-on is refused in one line; and what has no init to wait
    for."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.", dir=SCRATCH) as work:
        disk, other, knobs = init_disk(lab, work, "native", 1), *(
            os.path.join(work, name) for name in ("other.img", "knobs")
        )
        with open(knobs, "w", encoding="ascii") as out:
            out.write("pmi_skid 1\n")
        with open(other, "wb") as out:
            out.write(compare.read(disk)[:-1] + b"x")
        run_sh = path("testbed", "run.sh")
        with at_init(work, disk) as socket:
            for options, said in (
                (["--disk", other], "not the disk that the server"),
                (["--knobs", knobs], "all have to be the server's"),
                (["--cpus", "2"], "--cpus is the server's"),
                (["--limit", "1"], "before it is forked"),
                (["--until", TEXT], "before it is forked"),
                (["--words", "w" * (WORDS_MAX + 1)], "have room"),
                (["--words", "a\nb"], "one line"),
            ):
                expect_line(run(run_sh, "--from", socket, *options), said)
            words = f"pmv.run=report x={'w' * WORDS_MAX}"[:WORDS_MAX]
            init_run(lab, "boots-init-long", "--from", socket, "--words", words).expect_status(
                STATUS_POWEROFF
            )
        for options, said in (
            (["--limit", "1"], "its machine came to its end (limit)"),
            (["--words", "x"], "they are the run's"),
        ):
            expect_line(
                run(
                    run_sh,
                    "--serve",
                    os.path.join(work, "none"),
                    "--at",
                    "init",
                    "--disk",
                    disk,
                    *options,
                ),
                said,
            )
