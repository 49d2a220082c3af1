# SPDX-License-Identifier: BSD-2-Clause
# test_ctf.py: CTF of hand-made records, read by babeltrace2's own command, word by word, and read
# again as a trace.
import os
import shutil
import subprocess

import pytest

from experiments.flow.analysis import ctf, lttng_events, trace_source
from experiments.flow.analysis.hand_made import A, cpuid, source, trace
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_FLOW, BadTrace

pytest.importorskip("bt2", reason="python3-bt2 is not installed")
if not shutil.which("babeltrace2"):
    pytest.skip("babeltrace2 is not installed", allow_module_level=True)

KHZ = 1_000_000
NAMES = {
    "pti": False,
    "tasks": [{"pid": 71, "tid": 71, "comm": "server", "pgd": hex(A), "stack": None}],
}
# A is preempted by B, B waits, A comes back and waits, the processor is idle, and B comes back.
RECORDS = [
    trace(
        "1000 load A B; 1500 tick A; 1600 load B A; 1950 load A B; 2000 halt A; 3000 wake A; "
        "3100 load B idle; 3500 cpuid B"
    ),
    trace("1200 cpuid B; 1900 cpuid B"),
]
EXIT = (
    "kvm_x86_exit: { cpu_id = %d }, { exit_reason = %d, guest_rip = 0x%X, cr3 = 0x%X, "
    "detail = %d, flags = %d }"
)
ENTRY = "kvm_x86_entry: { cpu_id = %d }, { vcpu_id = %d, cr3 = 0x%X, root_time = %d }"
IRQ = 'irq_handler_entry: { cpu_id = 0 }, { irq = 236, name = "vector 0xec" }'
SWITCH = (
    'sched_switch: { cpu_id = 0 }, { prev_comm = "%s", prev_tid = %d, prev_prio = 20, '
    'prev_state = %d, next_comm = "%s", next_tid = %d, next_prio = 20 }'
)
SERVER, OTHER, IDLE = ("server", 71), ("cr3 0xb0000", 1 << 22), ("swapper/0", 0)


def texts():
    """The lines that babeltrace2 must say, as (tick, text)."""
    found = [
        (1510, IRQ),
        (3010, IRQ),
        (1610, SWITCH % (*SERVER, 0, *OTHER)),
        (1960, SWITCH % (*OTHER, 1, *SERVER)),
        (2010, SWITCH % (*SERVER, 1, *IDLE)),
        (3110, SWITCH % (*IDLE, 0, *OTHER)),
    ]
    for number, records in enumerate(RECORDS):
        for one in records:
            fields = one.reason, one.rip, one.cr3, one.detail, one.flags
            found.append((one.tsc, EXIT % (number, *fields)))
            found.append((one.tsc + 10, ENTRY % (number, number, one.cr3, 10)))
    return sorted(found)


@pytest.fixture(name="write")
def make_write(tmp_path):
    """Gives a function that writes records as CTF and gives the folder."""

    def write(*processors, **more):
        folder = tmp_path / "ctf"
        ctf.write(source(TRACE_FLOW, *processors, **{"tsc_khz": KHZ, **more}), folder, NAMES)
        return folder

    return write


def babeltrace(folder, *words):
    """Gives what babeltrace2 says, and what it complains of."""
    command = ["babeltrace2", *words, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr.strip()


def lines_of(folder):
    """Without a complaint."""
    said, complaint = babeltrace(folder, "--clock-cycles", "--no-delta")
    assert complaint == ""
    parts = [line.partition("] guest ") for line in said.splitlines()]
    return [(int(time.lstrip("[")), text) for time, _, text in parts]


def test_every_line(write):
    found = lines_of(write(*RECORDS))
    assert sorted(found) == texts()
    assert [time for time, _ in found] == sorted(time for time, _ in found)
    # A process's switch comes after the entry.
    at_once = [text.partition(":")[0] for time, text in found if time == 1610]
    assert at_once == ["kvm_x86_entry", "sched_switch"]


def test_clock_and_environment(write):
    folder = write(*RECORDS, tsc_khz=50_000)
    metadata = (folder / "metadata").read_text(encoding="utf-8", errors="replace")
    assert metadata.startswith("/* CTF 1.8 */")
    for text in (
        "freq = 50000000;",
        'domain = "kernel";',
        'tracer_name = "PMUvisor";',
        'hostname = "guest";',
        'sysname = "Linux";',
    ):
        assert text in metadata
    # 20 ns a tick
    assert babeltrace(folder, "--clock-seconds", "--no-delta")[0].startswith("[0.000020000]")
    assert trace_source.load(folder).tsc_khz == 50_000


def test_unknown_clock_is_1_ns(write):
    assert babeltrace(write(*RECORDS, tsc_khz=0), "--clock-seconds")[0].startswith("[0.000001000]")


def test_losses_before_between_and_after(write):
    gaps = {0: {0: 5, 3: 9, 7: 2}, 1: {2: 4}}
    folder = write(*RECORDS, gaps=gaps)
    complaint = babeltrace(folder)[1]
    for count in (5, 9, 2, 4):
        assert f"Tracer discarded {count} events" in complaint
    assert complaint.count("discarded") == 4
    again = trace_source.load(folder)
    assert again.gaps == gaps and again.processors == dict(enumerate(RECORDS))


def test_same_time_line_again(write):
    made = timeline(source(TRACE_FLOW, *RECORDS, tsc_khz=KHZ), NAMES)
    again = timeline(write(*RECORDS), NAMES)
    assert made.processors == again.processors and made.processes == again.processes


def test_widest_values(write):
    """No field cuts what a record can have."""
    widest = cpuid(1 << 40, (1 << 48) - 1, (1 << 64) - 1)._replace(
        detail=(1 << 32) - 1, flags=255, root_time=(1 << 32) - 1
    )
    assert trace_source.load(write([widest])).processors[0] == [widest]


def test_time_that_goes_back(write):
    """The guest may write the TSC: the trace can be read, and has all records."""
    found = lines_of(write("2000 cpuid A; 1000 cpuid A; 3000 cpuid A"))
    assert [time for time, text in found if "exit" in text] == [2000, 2010, 3000]


def test_many_packets(write):
    count = lttng_events.PACKET_EVENTS
    folder = write([cpuid(1000 * place, A) for place in range(count)])
    assert len(trace_source.load(folder).processors[0]) == count


def test_folder_that_is_there(write):
    write(*RECORDS)
    with pytest.raises(ctf.CannotWrite, match="is there already"):
        write(*RECORDS)


def test_cut(write):
    """A stream ends in the middle of an event: babeltrace2's own words, in one line."""
    folder = write(*RECORDS)
    streams = [file for file in folder.iterdir() if file.name != "metadata"]
    os.truncate(max(streams, key=os.path.getsize), 100)
    with pytest.raises(BadTrace, match="babeltrace2 cannot read it: .+"):
        trace_source.load(folder)
