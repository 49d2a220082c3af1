# SPDX-License-Identifier: BSD-2-Clause
# test_flow_log.py: the reader of the emulator's flow log, on files made by hand.
import pytest

from experiments.flow.analysis import flow_log


def written(folder, data):
    file = folder / "flow"
    file.write_bytes(data)
    return file


def test_events(tmp_path):
    """Each event has its fields, in the file's order."""
    count = 5000  # more than what is read at once
    data = flow_log.MAGIC + b"".join(
        flow_log.RECORD.pack(n, n + 1, n + 4, n + 2, n + 5, n + 3, n % 9 + 1, n % 4)
        for n in range(count)
    )
    found = list(flow_log.events(written(tmp_path, data)))
    assert len(found) == count
    assert found[4] == flow_log.Event(4, 0, "interrupt", 7, 5, 6, 8, 9)
    assert [event.kind for event in found[:9]] == [
        "cr3",
        "hlt",
        "mwait",
        "wake",
        "interrupt",
        "nmi",
        "exit",
        "entry",
        "offset",
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


@pytest.mark.parametrize(
    "data, wanted",
    ids=["empty", "other_file", "cut_off", "unknown_kind"],
    argvalues=[
        (b"", "at its start"),
        (b"PMUtrcfl", "at its start"),
        (flow_log.MAGIC + bytes(55), "within a record"),
        (flow_log.MAGIC + flow_log.RECORD.pack(0, 0, 0, 0, 0, 0, 10, 0), "kind 10"),
    ],
)
def test_refused(tmp_path, data, wanted):
    """What is no flow log, or not a whole one, is said."""
    with pytest.raises(flow_log.BadFlowLog, match=wanted):
        list(flow_log.events(written(tmp_path, data)))
