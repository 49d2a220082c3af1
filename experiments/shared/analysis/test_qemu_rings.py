# SPDX-License-Identifier: BSD-2-Clause
# test_qemu_rings.py: a ring in the memory of a machine in QEMU, which the loader device puts there,
# comes out by the monitor and is read. No guest runs.
import subprocess
import time

import pytest

from experiments.shared.analysis import qemu_rings, records

TRIES, PAUSE = 600, 0.1
ADDRESS = 0x1000000
FOUND = [(100 + n, 200 + n, 300 + n, 10, 400 + n, 500 + n) for n in range(5)]


def ring():
    """One of 128 records, 5 of them written, as processor 3's."""
    header = records.RING.pack(
        records.RING_MAGIC, records.VERSION, records.RECORD.size, 128, len(FOUND), 3, 2, 50000
    )
    body = b"".join(
        records.RECORD.pack(tsc, rip, cr3 | reason << 48, detail, root)
        for tsc, rip, cr3, reason, detail, root in FOUND
    )
    return header.ljust(records.PAGE, b"\0") + body.ljust(128 * records.RECORD.size, b"\0")


def machine(folder, mebibytes):
    (folder / "ring").write_bytes(ring())
    return subprocess.Popen(
        [
            "qemu-system-x86_64",
            "-machine",
            "q35,accel=tcg",
            "-m",
            str(mebibytes),
            "-S",
            "-nodefaults",
            "-display",
            "none",
            "-qmp",
            f"unix:{folder}/qmp,server=on,wait=off",
            "-device",
            f"loader,file={folder}/ring,addr={ADDRESS:#x},force-raw=on",
        ]
    )


def saved(folder, mebibytes):
    """The memory of such a machine, once its monitor is there."""
    with machine(folder, mebibytes) as qemu:
        try:
            for _ in range(TRIES):
                try:
                    return qemu_rings.save(f"{folder}/qmp", f"{folder}/memory")
                except (FileNotFoundError, ConnectionRefusedError):
                    time.sleep(PAUSE)
            raise AssertionError("QEMU's monitor did not come up")
        finally:
            qemu.kill()


def test_ring(tmp_path):
    """Each record is the one that was put there."""
    assert saved(tmp_path, 32) == 32 << 20
    trace = records.read(tmp_path / "memory")
    assert not trace.complaints and trace.lost == 0 and list(trace.processors) == [3]
    assert [
        (one.tsc, one.rip, one.cr3, one.reason, one.detail, one.root_time)
        for one in trace.processors[3]
    ] == FOUND


def test_too_large(tmp_path):
    """Memory that may not lie in one piece is refused."""
    with pytest.raises(qemu_rings.MonitorError, match="wanted at most 2048"):
        saved(tmp_path, 3072)


def test_no_monitor(tmp_path):
    with pytest.raises(OSError):
        qemu_rings.save(f"{tmp_path}/none", f"{tmp_path}/memory")
