# SPDX-License-Identifier: BSD-2-Clause
# test_emulator_log.py: the reader of the emulator's lists, on files made by hand.
import struct

import pytest

from experiments.shared.analysis import emulator_log

MAGIC, RECORD = b"PMUother", struct.Struct("<QQ")


def test_rows(tmp_path):
    """All of more than what is read at once, in order."""
    rows = [(n, 2 * n) for n in range(emulator_log.AT_ONCE + 5)]
    (tmp_path / "log").write_bytes(MAGIC + b"".join(RECORD.pack(*row) for row in rows))
    assert list(emulator_log.rows(tmp_path / "log", MAGIC, RECORD)) == rows


@pytest.mark.parametrize(
    "data, wanted",
    [(b"", "at its start"), (b"PMUtrcfl", "at its start"), (MAGIC + bytes(15), "within a record")],
    ids=["empty", "other_file", "cut_off"],
)
def test_refused(tmp_path, data, wanted):
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(emulator_log.BadLog, match=wanted):
        list(emulator_log.rows(tmp_path / "log", MAGIC, RECORD))
