# SPDX-License-Identifier: BSD-2-Clause
# nested.py: boots for tests and measurements under QEMU/KVM, inside the emulator: firmware,
# Debian's kernel with its KVM, QEMU with firmware and GRUB, then PMUvisor and its guest, or the
# guest alone. All before GRUB's menu is one server of boots for each number of processors (outer/
# makes its disk).
import dataclasses
import functools
import os
import re
import tempfile

from testbed import boots, emulated
from testbed.machine import SCRATCH, STATUS_POWEROFF, path, tool
from testbed.store import digest

# An emulated second has 50 million cycles of the TSC (README.md): with this the outer system's time
# goes four times as slow, and it does less beside its guest.
TSC_HZ = 200_000_000
KNOBS = f"tsc_hz {TSC_HZ}\n"
MEMORY = 1024  # MiB
# Of the volume's first FAT, for the mark of a volume that was not closed: UEFI's driver, twice.
FIRMWARE_READS = 1
LIMIT = 10_000  # millions of instructions


@functools.lru_cache(None)
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


@dataclasses.dataclass
class Nested:
    """A boot under QEMU/KVM, as boots.Emulated is one without. `outer`: words for the outer
    kernel's command line."""

    name: str
    cpus: int
    volume: boots.Volume
    machine: boots.Machine
    outer: str = ""

    def targets(self):
        return self.volume.targets()

    def base(self):
        return tool([path("testbed", "outer", "build.sh"), str(self.cpus), self.outer]).strip()

    def inputs(self):
        return {
            "bed": boots.bed(),
            "volume": self.volume.inputs(),
            "machine": self.machine.inputs(),
            "base": digest(self.base()),
            "layout": layout(),
            "nested": digest(__file__),
        }

    def kind(self):
        return "nested boots"

    def make(self, folder):
        where, base = layout(), self.base()
        own = (
            f"{where['job_first'] + where['job_reserved']}+"
            f"{where['job_sectors'] - where['job_reserved'] - where['job_tail']}+"
            f"{FIRMWARE_READS}"
        )
        with tempfile.TemporaryDirectory(prefix="pmuvisor-e2e.", dir=SCRATCH) as work:
            disk, volume = os.path.join(work, "disk.img"), os.path.join(work, "volume.img")
            tool(
                [
                    path("testbed", "disk.sh"),
                    "--out",
                    volume,
                    "--size",
                    str(where["job_sectors"] * boots.SECTOR >> 20),
                    "--volume",
                    str(where["job_reserved"]),
                    *self.volume.options(work),
                ]
            )
            tool(["cp", "--sparse=always", base, disk])
            boots.put(volume, disk, where["job_first"])
            os.remove(volume)
            return boots.run_disk(folder, disk, self.machine, (own, digest(base), KNOBS))


def boot(lab, name, cpus=1, knobs="", limit=LIMIT, until=None, fork=True, outer="", **volume):
    """One boot, as Lab.emulator() makes it. `cpus`: of QEMU's machine; the outer one has one.
    `outer`: more words for the outer kernel's command line."""
    own = emulated.volume(**volume)
    # The guest's init has no emulator to ask: its machine is QEMU's.
    own = dataclasses.replace(own, append=f"{own.append} {own.words}".rstrip(), words="")
    return lab.boot(
        Nested(
            name,
            cpus,
            own,
            boots.Machine(memory=MEMORY, knobs=KNOBS + knobs, limit=limit, until=until, fork=fork),
            outer,
        ),
        inner,
    )
