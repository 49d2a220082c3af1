# SPDX-License-Identifier: BSD-2-Clause
# handed_over.py: boots in which a job hands files over to the emulator (testbed/README.md, "Branch
# trace"), in the sections of experiments/shared/guest/hand_over.c.
import os
import struct

import initramfs
from machine import STATUS_POWEROFF, path, tool

SECTION = struct.Struct("<16sQ")  # hand_over.c: struct section
NO_REGION = "3999-3999"           # nothing opens it: the emulator's own branch trace stays empty
TSC_HZ = 50_000_000               # what the emulator's clock runs at


def sections(file):
    """{kind: bytes} of what a guest handed over, pieces of one kind one after the other."""
    found, at = {}, 0
    with open(file, "rb") as source:
        data = source.read()
    while at < len(data):
        kind, length = SECTION.unpack_from(data, at)
        at += SECTION.size
        found.setdefault(kind.rstrip(b"\0").decode(), bytearray()).extend(data[at:at + length])
        at += length
    return found


def boot(lab, name, job, folder, append, config, cpus=1, status=0, knobs=""):
    """One boot with the job, which the build.sh of that folder of experiments/ makes, and which has to
    end with that status. `knobs`: lines of more knobs. Gives it and {kind: path} of what it handed
    over, a file for each kind."""
    programs = tool([path("experiments", folder, "build.sh")]).splitlines()
    handed = os.path.join(lab.keep, f"{name}.branches")
    done = lab.emulator(
        name, jobs=job, cpus=cpus, append=append, config=config,
        initrd=initramfs.with_jobs(lab.initrd(), programs, os.path.join(lab.keep, f"{job}.img")),
        knobs=f"tsc_hz {TSC_HZ}\nbranch_trace {NO_REGION} {handed}\n{knobs}")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status(job) == status, done.last_line()
    files = {}
    if os.path.exists(f"{handed}.guest"):
        for kind, data in sections(f"{handed}.guest").items():
            files[kind] = os.path.join(lab.keep, f"{name}.{kind}")
            with open(files[kind], "wb") as out:
                out.write(data)
    return done, files
