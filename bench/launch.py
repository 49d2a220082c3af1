# SPDX-License-Identifier: BSD-2-Clause
# launch.py: makes the boots of a plan: in the emulator by testbed/lab.py, nested by
# run-qemu.sh. Touches build/ and the folder of consoles and ledgers.
import os
import subprocess

from bench import columns
from testbed import boots, machine
from testbed.lab import Lab
from testbed.machine import path

MODEL = "corei7_skylake_x"
# Instructions that the emulator may execute for each second that a real machine may take.
MILLIONS_A_SECOND = 200
# What Linux's side of every column runs with (machine.py says why).
MITIGATIONS = "indirect_target_selection=off spectre_bhi=off fred=off"


# With several processors Linux wants a clock whose rate is as CPUID says (testbed/README.md).
KNOBS = "tsc_hz 500000000\n"


def knobs_of(boot):
    own = "".join(f"{text}\n" for text in boot.knobs)
    return (KNOBS if boot.cpus > 1 else "") + own or None  # the last one of a name holds


def kernel_append(boot):
    return "tests=" + ",".join(boot.words)


class Launcher:
    """Starts boots of one kind of machine; what they leave is kept in a folder."""

    def __init__(self, kind, keep, jobs):
        self.kind = kind
        self.lab = Lab(keep, jobs)

    def kernel(self, program, host=""):
        if program == "kernel":
            return path("build", "kernel.bzImage")
        return boots.kernel("cloud", host)

    @staticmethod
    def initrd(boot):
        """A loader wants some initial RAM disk; the test kernel does not look at it."""
        if boot.program == "kernel":
            return b"none\n"
        host = f"{boot.host}-" if boot.host else ""
        return path("build", "payload", f"{boot.image or 'initrd'}-{host}cloud.img")

    @staticmethod
    def efi(boot):
        """That of the boot's own options and of its column's."""
        return (
            path("build", boot.efi)
            if boot.efi
            else boots.image(f"{columns.COLUMNS[boot.column].options} {boot.config}")
        )

    def start(self, boot):
        """What becomes of it, as Lab gives it; AssertionError where it could not be started."""
        append = {
            "kernel": kernel_append(boot),
            "linux": boot.append,
            "kvm": f"{boot.append} pmv.tests={','.join(boot.words)}",
        }[boot.program]
        if self.kind == "emulator":
            return self.lab.emulator(
                boot.name,
                entry=boot.column if columns.is_pmuvisor(boot.column) else "native",
                config=boot.config,
                kernel=self.kernel(boot.program, boot.host),
                initrd=self.initrd(boot),
                efi=self.efi(boot),
                append=append,
                jobs=",".join(boot.jobs),
                model=MODEL,
                memory=boot.memory,
                cpus=boot.cpus,
                knobs=knobs_of(boot),
                limit=boot.limit * MILLIONS_A_SECOND,
            )
        return self.lab.once(boot.name, lambda: self.qemu(boot, append))

    def qemu(self, boot, append):
        """Under QEMU/KVM: the kernel alone is the column kvm, PMUvisor below it the others."""
        words = f"{MITIGATIONS} pmv.run={','.join(boot.jobs)} pmv.end=poweroff {append}"
        image = os.path.join(self.lab.keep, f"{boot.name}.initrd")
        with open(image, "wb") as out:
            out.write(boots.bytes_of(self.initrd(boot)))
        run = [
            path("run-qemu.sh"),
            "--backend",
            "kvm",
            "--kernel",
            self.kernel(boot.program),
            "--initrd",
            image,
            "--append",
            words,
            "--memory",
            str(boot.memory),
            "--timeout",
            str(boot.limit),
        ]
        if columns.is_kvm(boot.column):
            run += ["--guest", "direct"]
        else:
            run += [
                "--efi",
                self.efi(boot),
                "--config",
                f"tick=0 mitigations=off {columns.COLUMNS[boot.column].options} "
                f"{boot.config}".strip(),
            ]
        return self.lab.watched(boot.name, run, boot.limit)


def version():
    """Of this project, as git says; empty where there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", machine.TOP, "describe", "--always", "--dirty", "--tags"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.stdout.strip()
    except OSError:
        return ""


def kernel_release(image):
    """From the file's name, as Debian names it."""
    return os.path.basename(image).removeprefix("vmlinuz-")
