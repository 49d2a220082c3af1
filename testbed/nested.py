# SPDX-License-Identifier: BSD-2-Clause
# nested.py: boots for tests and measurements under QEMU/KVM, inside the emulator: firmware,
# Debian's kernel with its KVM, QEMU with firmware and GRUB, then PMUvisor and its guest, or the
# guest alone. All before GRUB's menu is one server of boots for each number of processors (outer/
# makes its disk).
import os
import re
import tempfile

from machine import PAYLOAD_APPEND, SCRATCH, STATUS_POWEROFF, path, tool

SECTOR = 512
# An emulated second has 50 million cycles of the TSC (README.md): with this the outer system's time
# goes four times as slow, and it does less beside its guest.
KNOBS = "tsc_hz 200000000\n"
MEMORY = 1024  # MiB
# Of the volume's first FAT, for the mark of a volume that was not closed: UEFI's driver, twice.
FIRMWARE_READS = 1
LIMIT = 10_000  # millions of instructions


def layout():
    """The numbers of outer/layout.sh, by name."""
    script = path("testbed", "outer", "layout.sh")
    text = tool(["bash", "-c", f". '{script}'; set | grep ^outer_"])
    return {name: int(value) for name, value in re.findall(r"^outer_(\w+)=(\d+)$", text, re.M)}


def inner(boot):
    """The boot with the status of QEMU's machine, where the outer system came to its end; `log` is
    what the outer kernel complained of."""
    ends = [line["status"] for line in boot.lines("outer") if "status" in line]
    if boot.status == STATUS_POWEROFF and len(ends) == 1 and "outer: end" in boot.console:
        boot.status = int(ends[0])
    elif boot.status == STATUS_POWEROFF:
        raise AssertionError(f"boot {boot.name}: the outer system broke off: {boot.last_line()}")
    boot.log = re.findall(r"^outer: log (.*)$", boot.console, re.M)
    return boot


def make_disk(disk, base, volume, where):
    tool(["cp", "--sparse=always", base, disk])
    tool(["dd", f"if={volume}", f"of={disk}", "bs=1M", "conv=notrunc,sparse", "status=none",
          f"seek={where['job_first'] * SECTOR}", "oflag=seek_bytes"])


def boot(lab, name, cpus=1, entry="msr+nmi", append="", config="", jobs="report", end="poweroff",
         tools=False, kernel=None, initrd=None, efi=None, knobs="", limit=LIMIT, until=None,
         fork=True, outer=""):
    """One boot, as Lab.emulator() makes it. `cpus`: of QEMU's machine; the outer one has one.
    `outer`: more words for the outer kernel's command line."""
    def make():
        where = layout()
        base = tool([path("testbed", "outer", "build.sh"), str(cpus), outer]).strip()
        own = f"{where['job_first'] + where['job_reserved']}+" \
              f"{where['job_sectors'] - where['job_reserved'] - where['job_tail']}+" \
              f"{FIRMWARE_READS}"
        words = f"{PAYLOAD_APPEND} pmv.run={jobs} pmv.end={end} {append}".strip()
        with tempfile.TemporaryDirectory(prefix="pmuvisor-e2e.", dir=SCRATCH) as work:
            disk, volume = os.path.join(work, "disk.img"), os.path.join(work, "volume.img")
            tool([path("testbed", "disk.sh"), "--out", volume,
                  "--size", str(where["job_sectors"] * SECTOR >> 20),
                  "--reserved", str(where["job_reserved"]),
                  *lab.volume(work, entry, words, config, kernel or lab.kernel(),
                              initrd or lab.initrd("cloud", tools), efi)])
            make_disk(disk, base, volume, where)
            os.remove(volume)
            return inner(lab.run_disk(name, work, disk,
                                      ["--memory", str(MEMORY), "--cpus", "1"],
                                      KNOBS + knobs, limit, until, fork, (own, base)))
    return lab.boot(name, make)
