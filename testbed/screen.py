#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# screen.py: copies a guest's console from stdin to stdout without the sequences by which firmware
# and GRUB clear the screen: the user's terminal keeps what it shows. run-qemu.sh uses it.
import os
import re
import signal
import sys

CLEARS = re.compile(rb"\x1b\[(?:2J|01;01H|=3h)")
PREFIX = re.compile(rb"\x1b(?:\[[0-9;=]{0,5})?\Z")


def main():
    # Ctrl-C ends the emulator; its last words still have to come through.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    held = b""
    while chunk := os.read(0, 1 << 16):
        text = CLEARS.sub(b"", held + chunk)
        begun = PREFIX.search(text)
        held = begun[0] if begun else b""
        sys.stdout.buffer.write(text[: len(text) - len(held)])
        sys.stdout.buffer.flush()
    sys.stdout.buffer.write(held)


if __name__ == "__main__":
    main()
