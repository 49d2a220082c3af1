# SPDX-License-Identifier: BSD-2-Clause
# flowtruth.py: one run under two traces, PMUvisor's of the exits and the guest kernel's own of its
# scheduler, as programs/flowtruth/ hands them over.
import os
import struct

import initramfs
from machine import STATUS_POWEROFF, path, tool
from trace_source import load

SECTION = struct.Struct("<16sQ")  # programs/flowtruth/main.c: struct section
NO_REGION = "3999-3999"           # nothing opens it: the emulator's own branch trace stays empty
TSC_HZ = 50_000_000               # what the emulator's clock runs at


def image(lab):
    """The small initramfs, and behind it an archive with the job flowtruth."""
    return initramfs.with_jobs(
        lab.initrd(), tool([path("programs", "flowtruth", "build.sh")]).splitlines(),
        os.path.join(lab.keep, "flowtruth.img"))


def boot(lab, cpus):
    """The run on so many processors. Gives the paths of its rings ("ring"), of the scheduler's
    trace ("sched"), of its table of thread groups ("tgid") and of the processes ("processes")."""
    name = f"flowtruth-{cpus}"
    handed = os.path.join(lab.keep, f"{name}.branches")
    done = lab.emulator(
        name, jobs="flowtruth", cpus=cpus, initrd=image(lab), append="nmi_watchdog=0",
        config="console=none trace=flow trace_ring=4 user_hypercalls=1",
        knobs=f"tsc_hz {TSC_HZ}\nbranch_trace {NO_REGION} {handed}\n")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("flowtruth") == 0, done.last_line()
    return sections(lab, name, f"{handed}.guest")


def sections(lab, name, handed):
    """Writes what was handed over to a file for each kind, rings one behind the other. Gives the
    paths by kind."""
    found = {}
    with open(handed, "rb") as source:
        data = source.read()
    at = 0
    while at < len(data):
        kind, length = SECTION.unpack_from(data, at)
        at += SECTION.size
        found.setdefault(kind.rstrip(b"\0").decode(), bytearray()).extend(data[at:at + length])
        at += length
    files = {kind: os.path.join(lab.keep, f"{name}.{kind}") for kind in found}
    for kind, file in files.items():
        with open(file, "wb") as out:
            out.write(found[kind])
    return files


def rings(file):
    """The records of the rings of a file, which nobody writes any more. Nothing may be lost: the
    rings are larger than the run."""
    source = load(file)
    assert source.lost() == 0 and not source.complaints, f"{source.lost()} {source.complaints}"
    return source
