# SPDX-License-Identifier: BSD-2-Clause
# screen.py: a machine of QEMU's without VMX, with variables in flash, a keyboard and a screen that
# can be read: what a user without a serial line has.
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from testbed.machine import SCRATCH, Skip, path, read_file, tool
from tests.e2e.emulated_pc import FIRMWARE

CELL = (8, 19)  # pixels of a character of the firmware's font
FIRMWARE_ROWS = (25, 31)  # of its text modes
POLL_SECONDS = 0.2
PATIENCE_SECONDS = 3600  # only ends what never comes; a boot takes some ten seconds


class Screen:
    """The machine, from power-on to the end of the `with`."""

    def __init__(self, lab, name, efi, config):
        for needed in (shutil.which("qemu-system-x86_64"), os.path.exists(FIRMWARE)):
            if not needed:
                raise Skip("QEMU or its firmware is missing; run: testbed/deps.sh run check")
        self.folder = tempfile.TemporaryDirectory(prefix="pmuvisor-screen.", dir=SCRATCH)
        work = self.folder.name
        self.disk, self.dump = os.path.join(work, "disk.img"), os.path.join(work, "screen.ppm")
        self.serial = os.path.join(lab.keep, f"{name}.console")
        tool(
            [
                path("testbed", "disk.sh"),
                "--out",
                self.disk,
                "--efi",
                efi,
                "--config",
                config,
                "--kernel",
                path("build", "kernel.bzImage"),
                "--initrd",
                efi,
            ]
        )
        shutil.copy(FIRMWARE, os.path.join(work, "flash"))
        control = os.path.join(work, "qmp")
        server = socket.socket(socket.AF_UNIX)
        server.bind(control)
        server.listen(1)
        self.process = subprocess.Popen(
            [
                "qemu-system-x86_64",
                "-M",
                "q35",
                "-accel",
                "tcg",
                "-cpu",
                "Skylake-Server",
                "-m",
                "512",
                "-nodefaults",
                "-vga",
                "std",
                "-display",
                "none",
                "-serial",
                f"file:{self.serial}",
                "-drive",
                f"if=pflash,format=raw,file={work}/flash",
                "-drive",
                f"file={self.disk},format=raw,if=ide",
                "-qmp",
                f"unix:{control}",
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.qmp = server.accept()[0].makefile("rw")
        server.close()
        self.command("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.qmp.close()
        self.folder.cleanup()

    def command(self, name, **arguments):
        self.qmp.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.qmp.flush()
        for line in self.qmp:
            answer = json.loads(line)
            assert "error" not in answer, f"QEMU: {name}: {answer['error']}"
            if "return" in answer:
                return answer["return"]
        raise AssertionError(f"QEMU ended at {name}")

    def press(self, key):
        self.command("send-key", keys=[{"type": "qcode", "data": key}])

    def console(self):
        """What firmware, GRUB and the image printed under firmware."""
        with open(self.serial, encoding="utf-8", errors="replace") as source:
            return source.read()

    def file(self, name):
        return read_file(self.disk, f"::/EFI/pmuvisor/{name}")

    def await_(self, found, what):
        """Until found() is true."""
        for _ in range(int(PATIENCE_SECONDS / POLL_SECONDS)):
            if found():
                return
            assert self.process.poll() is None, f"QEMU ended before {what}"
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"{what}: never")

    def rows(self):
        """The screen's characters, as pictures: a list for each row of text, wherever firmware,
        which centres its text, or the hypervisor, which does not, begins its rows."""
        self.command("screendump", filename=self.dump)
        with open(self.dump, "rb") as source:
            assert source.readline() == b"P6\n"
            width, height = map(int, source.readline().split())
            source.readline()
            pixels = source.read()
        cells, tall = CELL
        line = 3 * width
        tops = {
            top
            for rows in (height // tall, *FIRMWARE_ROWS)
            for begin in (0, (height - rows * tall) // 2)
            for top in range(begin, height - tall + 1, tall)
        }
        for top in sorted(tops):
            if len(set(pixels[top * line : (top + tall) * line])) == 1:
                continue
            yield [
                b"".join(
                    pixels[(top + y) * line + x * 3 : (top + y) * line + (x + cells) * 3]
                    for y in range(tall)
                )
                for x in range(0, width - cells + 1, cells)
            ]

    def shows(self, text):
        """Whether a row has this text: equal pictures where its characters are equal, others where
        they are not, and nothing where there is a blank. (The font is firmware's; the text has to
        be long enough to be told so.)"""
        blank, wanted = text.index(" "), [text.index(c) for c in text]
        for row in self.rows():
            for at in range(len(row) - len(text) + 1):
                seen = row[at : at + len(text)]
                if (
                    len(set(seen[blank])) == 1
                    and all(seen[i] == seen[first] for i, first in enumerate(wanted))
                    and len(set(seen)) == len(set(wanted))
                ):
                    return True
        return False
