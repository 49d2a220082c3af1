# SPDX-License-Identifier: BSD-2-Clause
# test_boots.py: how runs begin and end in the emulator: limits that count instructions, and servers
# of boots, whose forks are what a run from power-on is.
import os
import subprocess
import tempfile

import compare
import kernel
from kernel import Plan
from machine import (BACKSTOP_SECONDS, PAYLOAD_APPEND, SCRATCH, STATUS_LIMIT, STATUS_POWEROFF,
                     STATUS_TEXT, Servers, Skip, path, tool)

MILLION = 1_000_000
LIMIT_ALL = 20_000
AFTER = 10   # millions of instructions that run.sh lets a run go on after the text of --until
TEXT = "BdsDxe: starting"  # the firmware, about the boot disk
SECTOR = 512


def short(lab, name, **more):
    return kernel.run(lab, f"boots-{name}", Plan("pmi_skid 3").add("cpuid", "pmi"), **more)


def both(lab, name, **more):
    """(from power-on, from a server) of one boot; all that they leave is to be the same."""
    cold, forked = (short(lab, f"{name}-{kind}", fork=kind == "forked", **more)
                    for kind in ("cold", "forked"))
    assert cold.ledger["forked_at"] == 0 and cold.status == forked.status, cold.status
    if lab.servers:
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
        assert boot.ledger["end"] == "limit" and boot.ledger["ticks"] == limit * MILLION, \
            (boot.ledger["end"], boot.ledger["ticks"])


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


def test_own_sectors(lab):
    """A server that goes on until the kernel is read: its runs have all else from the server's
    disk, and the kernel's sectors, which the server's has not, from their own."""
    cold = short(lab, "whole-cold", fork=False)
    kernel_file = path("build", "kernel.bzImage")
    with open(kernel_file, "rb") as source:
        image = source.read()

    def make():
        with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.", dir=SCRATCH) as work:
            disk, servers, own = (os.path.join(work, name) for name in ("disk", "servers", "own"))
            tool([path("testbed", "acpi", "build.sh"), os.path.join(work, "acpi"), "1"])
            with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
                initrd.write(b"none\n")
                initrd.flush()
                words = f"{PAYLOAD_APPEND} pmv.run=report pmv.end=poweroff tests=cpuid,pmi"
                tool([path("testbed", "disk.sh"), "--out", disk, "--acpi",
                      os.path.join(work, "acpi"),
                      *lab.volume(work, "msr+nmi", words, "", kernel_file, initrd.name)])
            with open(disk, "rb") as source:
                first = source.read().find(image[:SECTOR]) // SECTOR
            count = len(image) // SECTOR
            cut(disk, servers, first, count, False)
            cut(disk, own, first, count, True)
            machine, part = ["--memory", "512", "--cpus", "1"], (f"{first}+{count}", "boots-own")
            lab.servers.socket(servers, machine, None, part)
            return lab.run_disk("boots-own", work, own, machine, "pmi_skid 3\n", LIMIT_ALL, None,
                                own=part)
    if not lab.servers:
        raise Skip("FORK=0: there are no servers")
    forked = lab.boot("boots-own", make)
    forked.expect_status(STATUS_POWEROFF)
    assert forked.ledger["forked_at"] > short(lab, "whole-forked").ledger["forked_at"]
    found = compare.ledgers_differ(cold.ledger, forked.ledger)
    assert not found, found
    assert cold.console == forked.console, "the consoles differ"
    return f"{cold.ledger['ticks']:,} instructions, forked at {forked.ledger['forked_at']:,}"


def test_server_refuses():
    """A disk of another size, or knobs of another machine: refused in one line."""
    servers = Servers()
    with tempfile.TemporaryDirectory(prefix="pmuvisor-boots.") as work:
        disks = {size: os.path.join(work, f"{size}.img") for size in (64, 128)}
        for size, name in disks.items():
            with open(name, "wb") as disk:
                disk.truncate(size * 63 * 16 * 512)
        knobs = os.path.join(work, "knobs")
        with open(knobs, "w", encoding="ascii") as out:
            out.write("pmi_skid 1\ntsc_hz 50000000\n")
        socket = servers.socket(disks[64], ["--memory", "512", "--cpus", "1"], None)
        for arguments, word in ((["--disk", disks[128]], "another size"),
                                (["--disk", disks[64], "--knobs", knobs], "another machine"),
                                (["--disk", disks[64], "--cpus", "2"], "--cpus is the server's")):
            done = subprocess.run([path("testbed", "run.sh"), "--from", socket, *arguments],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=BACKSTOP_SECONDS, check=False)
            lines = done.stderr.splitlines()
            assert done.returncode == 2 and len(lines) == 1 and word in lines[0], \
                f"{arguments}: exit status {done.returncode}, {lines}"
