# SPDX-License-Identifier: BSD-2-Clause
# test_rings_on_console.py: rings out of a console's text: the records, what is lost, what is not
# whole.
import pytest

from experiments.flow.analysis import kvm_trace, rings_on_console
from experiments.shared.analysis import records

HEAD = "trace_dump: ring apic_id=2 level=1 tsc_khz=50 first=7 records=2\r\n"
LINES = [
    "trace_dump: 64 ffff8000 a00000000001000 500000003\r\n",
    "trace_dump: 70 10 20c000000002000 0\r\n",
]
END = "trace_dump: end\r\n"
TEXT = "pmuvisor: hello\r\n" + HEAD + LINES[0] + LINES[1] + END + "pmuvisor: exits\r\n"


def test_rings(tmp_path):
    source = rings_on_console.rings(TEXT)
    assert source.processors == {
        2: [
            records.Record(0x64, 0xFFFF8000, 0x1000, 0x00, 0x0A, 3, 5),
            records.Record(0x70, 0x10, 0x2000, 0x0C, 0x02, 0, 0),
        ]
    }
    assert (source.level, source.tsc_khz, source.lost()) == (1, 50, 7)
    file = tmp_path / "trace"
    file.write_bytes(kvm_trace.trace_file(source))
    assert records.read(file).processors == source.processors and records.read(file).lost == 7


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("hello\n", "found no line"),
        (HEAD + LINES[0], "the end of its ring"),
        (HEAD + LINES[0] + END, "found 1 records, wanted 2"),
    ],
)
def test_not_whole(text, wanted):
    with pytest.raises(rings_on_console.BadDump, match=wanted):
        rings_on_console.rings(text)
