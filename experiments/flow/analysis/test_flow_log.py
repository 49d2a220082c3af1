# SPDX-License-Identifier: BSD-2-Clause
# test_flow_log.py: the reader of the emulator's flow log, on files made by hand.
from experiments.flow.analysis import flow_log


def test_events(tmp_path):
    """Each event has its fields."""
    (tmp_path / "flow").write_bytes(
        flow_log.MAGIC
        + b"".join(flow_log.RECORD.pack(n, 1, 2, 3, 4, 5, n, 6) for n in range(1, 10))
    )
    assert list(flow_log.events(tmp_path / "flow")) == [
        flow_log.Event(n, 6, kind, 5, 1, 3, 2, 4)
        for n, kind in enumerate(
            ["cr3", "hlt", "mwait", "wake", "interrupt", "nmi", "exit", "entry", "offset"], 1
        )
    ]


def test_table_changes():
    """Loads of the same table, and other events, are none; each processor has its own."""
    found = [
        flow_log.Event(tsc, processor, kind, value, 0, 0, 0, 0)
        for tsc, processor, kind, value in (
            (1, 0, "cr3", 0xA002),
            (2, 1, "cr3", 0xA002),
            (3, 0, "exit", 28),
            (4, 0, "cr3", 0xB802),
            (5, 0, "exit", 28),
            (6, 0, "entry", 0),
            (7, 0, "exit", 1),
            (8, 1, "exit", 1),
            (9, 0, "cr3", 0xC000),
            (9, 2, "cr3", 0xC000),
            (10, 1, "interrupt", 0xEC),
        )
    ]
    assert flow_log.table_changes(found, (0, 1), lambda cr3: cr3 & ~0x1FFF) == {
        0: [(0, 1), (7, 9)],
        1: [(0, 2)],
    }
