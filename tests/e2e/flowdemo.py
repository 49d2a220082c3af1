# SPDX-License-Identifier: BSD-2-Clause
# flowdemo.py: boots in which programs/trace/ records a load, and what it handed over.
import os
import struct

import initramfs
from machine import STATUS_POWEROFF, path, tool

SECTION = struct.Struct("<16sQ")  # programs/trace/demo/hand_over.c: struct section
NO_REGION = "3999-3999"           # nothing opens it: the emulator's own branch trace stays empty
TSC_HZ = 50_000_000               # what the emulator's clock runs at


def image(lab):
    """The small initramfs, and behind it an archive with the job flowdemo and its tool."""
    return initramfs.with_jobs(
        lab.initrd(), tool([path("programs", "trace", "build.sh")]).splitlines(),
        os.path.join(lab.keep, "flowdemo.img"))


def sections(handed):
    """{name: bytes} of what a guest handed over, pieces of one name one behind the other."""
    found, at = {}, 0
    with open(handed, "rb") as source:
        data = source.read()
    while at < len(data):
        kind, length = SECTION.unpack_from(data, at)
        at += SECTION.size
        found.setdefault(kind.rstrip(b"\0").decode(), bytearray()).extend(data[at:at + length])
        at += length
    return found


def boot(lab, name, level="flow", option=None, cpus=1, words="", status=0):
    """The run; gives it and the paths of the trace file and of the names."""
    handed = os.path.join(lab.keep, f"{name}.branches")
    done = lab.emulator(
        name, jobs="flowdemo", cpus=cpus, initrd=image(lab),
        append=f"nmi_watchdog=0 pmv.level={level} {words}",
        config=f"console=none trace={option or level} user_hypercalls=1",
        knobs=f"tsc_hz {TSC_HZ}\nbranch_trace {NO_REGION} {handed}\n")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("flowdemo") == status, done.last_line()
    files = {}
    if os.path.exists(f"{handed}.guest"):
        for kind, data in sections(f"{handed}.guest").items():
            files[kind] = os.path.join(lab.keep, f"{name}.{kind}")
            with open(files[kind], "wb") as out:
                out.write(data)
    return done, files
