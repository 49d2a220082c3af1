# SPDX-License-Identifier: BSD-2-Clause
# emulated_pc.py: QEMU's PC without VMX, with Debian's OVMF: what tests of firmware's part run on.
import os
import re
import select
import shutil
import signal
import subprocess

from testbed.machine import BACKSTOP_SECONDS, Skip

FIRMWARE = os.environ.get("FIRMWARE", "/usr/share/ovmf/OVMF.fd")
SECURE = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
# Of firmware and GRUB that found nothing: they wait for somebody.
GIVEN_UP = ("Interactive Shell", "No bootable option", "grub>", "Press any key to continue")


def command(*options, firmware=None):
    """QEMU's command line for a PC with OVMF, no network, and nobody before its screen. Skips where
    they are not installed."""
    if shutil.which("qemu-system-x86_64") is None or not os.path.exists(FIRMWARE):
        raise Skip("QEMU or its firmware is missing; run: testbed/deps.sh run check")
    return [
        "qemu-system-x86_64",
        "-accel",
        "tcg",
        *(firmware or ["-bios", FIRMWARE]),
        "-nic",
        "none",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
        *options,
    ]


def timed(shift, *options):
    """command() for a small Q35 whose time is instructions, each of 2^shift ns."""
    q35 = ["-M", "q35", "-cpu", "max", "-m", "256", "-vga", "none"]
    return command(*q35, "-icount", f"shift={shift},sleep=off", *options)


def secure_firmware(variables):
    """Of a Q35 with firmware that has Secure Boot: command()'s. The variables are in that file,
    which firmware alone can write, in SMM: OvmfPkg/README, "SMM support"."""
    if not os.path.exists(SECURE):
        raise Skip(f"{SECURE} is missing; run: testbed/deps.sh run")
    return [
        "-M",
        "q35,smm=on",
        "-global",
        "driver=cfi.pflash01,property=secure,value=on",
        *flash(SECURE, variables),
    ]


def flash(code, variables):
    """Firmware whose variables stay in that file: command()'s."""
    return [
        "-drive",
        f"if=pflash,unit=0,format=raw,readonly=on,file={code}",
        "-drive",
        f"if=pflash,unit=1,format=raw,file={variables}",
    ]


def squeezed(said):
    """The text without blanks and without where it was on the screen: firmware breaks long lines at
    its end."""
    return "".join(re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]", "", said.decode(errors="replace")).split())


def talk(machine, until, keep, answers=()):
    """Runs a machine's command up to one of these texts, until firmware or GRUB waits for somebody,
    or to its end: all that was on its serial line, squeezed; the file `keep` has it as it was.
    answers: (text, keys): what is typed when the text comes; keys may be a function of all that
    came since the last ones."""
    said, mark, left = b"", 0, list(answers)
    until, given_up = (["".join(text.split()) for text in texts] for texts in (until, GIVEN_UP))
    with subprocess.Popen(
        machine,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            while not any(
                text in squeezed(said[mark:]) for text in given_up + (until if not left else [])
            ):
                if left and "".join(left[0][0].split()) in squeezed(said[mark:]):
                    keys = left.pop(0)[1]
                    process.stdin.write(keys(squeezed(said[mark:])) if callable(keys) else keys)
                    process.stdin.flush()
                    mark = len(said)
                ready, _, _ = select.select([process.stdout], [], [], BACKSTOP_SECONDS)
                more = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
                if not more:
                    break
                said += more
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    with open(keep, "wb") as out:
        out.write(said)
    return squeezed(said)
