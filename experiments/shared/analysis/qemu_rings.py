#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# qemu_rings.py: gets the memory of a machine in QEMU, with the rings of a flow trace in it, by
# QEMU's monitor. The machine has to run, or to have ended under -no-shutdown, with
# `-qmp unix:SOCKET,server=on,wait=off`. records.py reads the file. QEMU's "QMP Reference Manual":
# query-memory-size-summary, pmemsave.
import argparse
import json
import os
import socket
import sys

SECONDS = 120  # for one answer
# From there on QEMU's q35 may have part of the memory above 4 GiB.
BYTES_MAX = 2 << 30


class MonitorError(Exception):
    """The text says what the monitor did not do."""


class Monitor:
    """A connection to QMP. Raises OSError where there is none, or no answer in time."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        """Takes a command; gives what it returns. Events in between are left out."""
        request = {"execute": command, "arguments": arguments}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        for line in self.lines:
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise MonitorError(f"{command}: {answer['error']['desc']}")
        raise MonitorError(f"{command}: QEMU has closed its monitor before it answered")

    def close(self):
        self.lines.close()
        self.socket.close()


def save(path, out):
    """Takes the monitor's socket, and the file to write: all of the machine's memory, from address
    0. The machine stands still meanwhile. Gives the bytes. Raises MonitorError, OSError."""
    monitor = Monitor(path)
    try:
        size = monitor.ask("query-memory-size-summary")["base-memory"]
        if size > BYTES_MAX:
            raise MonitorError(
                f"found a machine of {size >> 20} MiB, wanted at most "
                f"{BYTES_MAX >> 20}; give it less (run-qemu.sh --memory)"
            )
        runs = monitor.ask("query-status")["running"]
        if runs:
            monitor.ask("stop")
        monitor.ask("pmemsave", val=0, size=size, filename=os.path.abspath(out))
        if runs:
            monitor.ask("cont")
        return size
    finally:
        monitor.close()


def main():
    parser = argparse.ArgumentParser(description="Saves the memory of a machine in QEMU.")
    parser.add_argument("socket", help="QMP's, of QEMU's -qmp unix:SOCKET,server=on,wait=off")
    parser.add_argument("out", help="the file to write")
    options = parser.parse_args()
    try:
        print(f"{options.out}: {save(options.socket, options.out)} bytes")
    except (MonitorError, OSError) as error:
        sys.exit(f"qemu_rings.py: {options.socket}: {error}")


if __name__ == "__main__":
    main()
