#!/usr/bin/python3 -IS
# SPDX-License-Identifier: BSD-2-Clause
"""Asks a server of boots (run.sh --serve) for one run and waits for its end.

fork_client.py SOCKET NAME=VALUE...: the run's environment. It writes COM1 to descriptor 3 of this
program; its exit status is this program's. SIGTERM ends the run as it ends the emulator itself.
"""

import os
import signal
import socket
import sys

SERIAL_FD = 3
STATUS_GONE = 4


def main():
    """Sends the job, and gives the exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        signal.signal(signal.SIGTERM, lambda *_: server.shutdown(socket.SHUT_WR))
        try:
            server.connect(sys.argv[1])
            os.utime(sys.argv[1])  # for run.sh --serve --idle
            socket.send_fds(server, ["\n".join(sys.argv[2:]).encode()], [SERIAL_FD])
            answer = server.recv(64)
        except OSError as trouble:
            sys.exit(f"testbed: {sys.argv[1]}: {trouble}")
    return int(answer) if answer else STATUS_GONE


if __name__ == "__main__":
    sys.exit(main())
