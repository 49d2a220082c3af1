# SPDX-License-Identifier: BSD-2-Clause
# launch.py: makes the boots of a plan: in the emulator by testbed/machine.py, nested by
# run-qemu.sh. Touches build/ (images, made before the first boot) and the folder of consoles and
# ledgers.
import os
import subprocess
import tempfile

import columns
import machine
from machine import path

MODEL = "corei7_skylake_x"
# Instructions that the emulator may execute for each second that a real machine may take.
MILLIONS_A_SECOND = 200
# What Linux's side of every column runs with (machine.py says why).
MITIGATIONS = "indirect_target_selection=off spectre_bhi=off fred=off"


# With several processors Linux wants a clock whose rate is as CPUID says (testbed/README.md).
KNOBS = "tsc_hz 500000000\n"


def knobs_of(boot):
    own = "".join(f"{text}\n" for text in boot.knobs)
    return own + (KNOBS if boot.cpus > 1 else "") or None


def kernel_append(boot):
    return "tests=" + ",".join(boot.words)


class Launcher:
    """Starts boots of one kind of machine; what they leave is kept in a folder."""

    def __init__(self, kind, keep):
        self.kind = kind
        self.lab = machine.Lab(keep)
        self.initrds = {}

    def prepare(self, boots):
        """Everything that boots share, made once: they may run at the same time."""
        if self.kind == "emulator":
            machine.tool([path("testbed", "build.sh")])
        for program, image, host in {(boot.program, boot.image, boot.host) for boot in boots}:
            self.kernel(program, host)
            if program != "kernel":
                self.initrd(image, host)

    def kernel(self, program, host=""):
        if program == "kernel":
            return path("build", "kernel.bzImage")
        return self.lab.kernel("cloud", host)

    def initrd(self, image, host=""):
        if (image, host) not in self.initrds:
            variant = [f"--{image}"] if image else []
            suite = ["--host", host] if host else []
            said = machine.tool([path("programs", "payload", "build.sh"), *variant, *suite, "cloud"])
            self.initrds[image, host] = said.strip()
        return self.initrds[image, host]

    def efi(self, boot):
        return path("build", boot.efi) if boot.efi else self.lab.efi(boot.config)

    def start(self, boot):
        """Runs it and gives a machine.Boot; AssertionError where it could not be started."""
        if boot.program != "kernel":
            return self.run(boot, self.initrd(boot.image, boot.host))
        # A loader wants some initial RAM disk; the test kernel does not look at it.
        with tempfile.NamedTemporaryFile(prefix="pmuvisor-initrd.") as initrd:
            initrd.write(b"none\n")
            initrd.flush()
            return self.run(boot, initrd.name)

    def run(self, boot, initrd):
        append = {"kernel": kernel_append(boot), "linux": boot.append,
                  "kvm": f"{boot.append} pmv.tests={','.join(boot.words)}"}[boot.program]
        if self.kind == "emulator":
            return self.lab.emulator(
                boot.name, entry=boot.column if columns.is_pmuvisor(boot.column) else "native",
                config=boot.config, kernel=self.kernel(boot.program, boot.host), initrd=initrd,
                efi=self.efi(boot), append=append, jobs=",".join(boot.jobs), model=MODEL,
                memory=boot.memory, cpus=boot.cpus, knobs=knobs_of(boot),
                limit=boot.limit * MILLIONS_A_SECOND)
        return self.qemu(boot, initrd, append)

    def qemu(self, boot, initrd, append):
        """Under QEMU/KVM: the kernel alone is the column kvm, PMUvisor below it the others."""
        words = f"{MITIGATIONS} pmv.run={','.join(boot.jobs)} pmv.end=poweroff {append}"
        run = [path("run-qemu.sh"), "--backend", "kvm", "--kernel", self.kernel(boot.program),
               "--initrd", initrd, "--append", words, "--memory", str(boot.memory),
               "--timeout", str(boot.limit)]
        if columns.is_kvm(boot.column):
            run += ["--guest", "direct"]
        else:
            run += ["--efi", self.efi(boot), "--config",
                    f"tick=0 mitigations=off {columns.COLUMNS[boot.column].options} "
                    f"{boot.config}".strip()]
        return self.lab.watch(boot.name, run, seconds=boot.limit)

    def stop(self):
        self.lab.stop()


def version():
    """Of this project, as git says; empty where there is no git."""
    try:
        done = subprocess.run(["git", "-C", machine.TOP, "describe", "--always", "--dirty",
                               "--tags"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False)
        return done.stdout.strip()
    except OSError:
        return ""


def kernel_release(image):
    """From the file's name, as Debian names it."""
    return os.path.basename(image).removeprefix("vmlinuz-")
