# SPDX-License-Identifier: BSD-2-Clause
# memdemo.py: boots in which programs/memtrace/ traces a small program, and what it handed over.
import os
import shutil
import subprocess
import tempfile

import flowdemo
from machine import BACKSTOP_SECONDS, STATUS_POWEROFF, path, tool


def initramfs(small, out):
    """Writes the small initramfs, and behind it an archive with the job memdemo and its programs."""
    with tempfile.TemporaryDirectory(prefix="pmuvisor-e2e.") as root:
        os.mkdir(os.path.join(root, "jobs"))
        names = ["jobs"]
        for program in tool([path("programs", "memtrace", "build.sh")]).split():
            shutil.copy(program, os.path.join(root, "jobs"))
            names.append(f"jobs/{os.path.basename(program)}")
        archive = subprocess.run(["cpio", "--quiet", "--create", "--format=newc", "--owner=+0:+0"],
                                 input="\n".join(names).encode(), cwd=root, check=True,
                                 stdout=subprocess.PIPE, timeout=BACKSTOP_SECONDS).stdout
    with open(small, "rb") as first:
        image = first.read() + archive
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(out), delete=False) as file:
        file.write(image)
    os.replace(file.name, out)
    return out


def boot(lab, name, asked="--writes", option="memtrace=writes trace_ring=16", cpus=1, status=0):
    """The run; gives it and the path of the trace, None where there is none. `asked`: memtrace's
    words with commas between them."""
    handed = os.path.join(lab.keep, f"{name}.branches")
    done = lab.emulator(
        name, jobs="memdemo", cpus=cpus,
        initrd=initramfs(lab.initrd(), os.path.join(lab.keep, "memdemo.img")),
        append=f"nmi_watchdog=0 pmv.memtrace={asked}",
        config=f"console=none {option} user_hypercalls=1",
        knobs=f"tsc_hz {flowdemo.TSC_HZ}\nbranch_trace {flowdemo.NO_REGION} {handed}\n")
    done.expect_status(STATUS_POWEROFF)
    assert done.job_status("memdemo") == status, done.last_line()
    if not os.path.exists(f"{handed}.guest"):
        return done, None
    trace = os.path.join(lab.keep, f"{name}.ptrace")
    with open(trace, "wb") as out:
        out.write(flowdemo.sections(f"{handed}.guest").get("ptrace", b""))
    return done, trace
