# SPDX-License-Identifier: BSD-2-Clause
# test_ctf.py: CTF of hand-made records, read by babeltrace2's own command, word by word.
import os
import shutil
import subprocess
import tempfile
import unittest

try:
    import bt2
except ImportError:
    bt2 = None

from experiments.flow.analysis import ctf, lttng_events, trace_source
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    A,
    B,
    cpuid,
    halt,
    load,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_FLOW

KHZ = 1_000_000
NAMES = {
    "pti": False,
    "tasks": [{"pid": 71, "tid": 71, "comm": "server", "pgd": hex(A), "stack": None}],
}
# A is preempted by B, B waits, A comes back and waits, the processor is idle, and B comes back.
RECORDS = [
    [
        load(1000, A, B_STACK),
        tick(1500, A),
        load(1600, B, A_STACK),
        load(1950, A, B_STACK),
        halt(2000, A),
        wake(3000, A),
        load(3100, B, 0x10),
        cpuid(3500, B),
    ],
    [cpuid(1200, B), cpuid(1900, B)],
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
    found = []
    for number, records in enumerate(RECORDS):
        for record in records:
            found.append(
                (
                    record.tsc,
                    EXIT
                    % (number, record.reason, record.rip, record.cr3, record.detail, record.flags),
                )
            )
            found.append((record.tsc + 10, ENTRY % (number, number, record.cr3, 10)))
    found += [(tsc, IRQ) for tsc in (1510, 3010)]
    found += [
        (1610, SWITCH % (*SERVER, 0, *OTHER)),
        (1960, SWITCH % (*OTHER, 1, *SERVER)),
        (2010, SWITCH % (*SERVER, 1, *IDLE)),
        (3110, SWITCH % (*IDLE, 0, *OTHER)),
    ]
    return sorted(found)


@unittest.skipUnless(
    bt2 and shutil.which("babeltrace2"), "babeltrace2 or python3-bt2 is not installed"
)
class Ctf(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "ctf")

    def write(self, *processors, **more):
        more = {"tsc_khz": KHZ, **more}
        ctf.write(source(TRACE_FLOW, *processors, **more), self.path, NAMES)

    def babeltrace(self, *words):
        """Gives what babeltrace2 says, and what it complains of."""
        done = subprocess.run(
            ["babeltrace2", *words, self.path],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout, done.stderr.strip()

    def lines(self):
        said, complaint = self.babeltrace("--clock-cycles", "--no-delta")
        found = []
        for text in said.splitlines():
            time, _, rest = text.partition("] guest ")
            found.append((int(time.lstrip("[")), rest))
        return found, complaint

    def test_every_line(self):
        self.write(*RECORDS)
        found, complaint = self.lines()
        self.assertEqual(complaint, "")
        self.assertEqual(sorted(found), texts())
        self.assertEqual([time for time, _ in found], sorted(time for time, _ in found))

    def test_a_process_s_switch_is_behind_the_entry(self):
        self.write(*RECORDS)
        found = [text.partition(":")[0] for time, text in self.lines()[0] if time == 1610]
        self.assertEqual(found, ["kvm_x86_entry", "sched_switch"])

    def test_clock_and_environment(self):
        self.write(*RECORDS, tsc_khz=50_000)
        with open(os.path.join(self.path, "metadata"), encoding="utf-8", errors="replace") as file:
            metadata = file.read()
        self.assertTrue(metadata.startswith("/* CTF 1.8 */"))
        self.assertIn("freq = 50000000;", metadata)
        for text in (
            'domain = "kernel";',
            'tracer_name = "PMUvisor";',
            'hostname = "guest";',
            'sysname = "Linux";',
        ):
            self.assertIn(text, metadata)
        # 20 ns a tick
        said, _ = self.babeltrace("--clock-seconds", "--no-delta")
        self.assertTrue(said.startswith("[0.000020000]"), said[:80])

    def test_unknown_clock_is_1_ns(self):
        self.write(*RECORDS, tsc_khz=0)
        self.assertTrue(self.babeltrace("--clock-seconds")[0].startswith("[0.000001000]"))

    def test_losses_before_between_and_behind(self):
        gaps = {0: {0: 5, 3: 9, 7: 2}, 1: {2: 4}}
        self.write(*RECORDS, gaps=gaps)
        said = self.babeltrace()[1]
        for count in (5, 9, 2, 4):
            self.assertIn(f"Tracer discarded {count} events", said)
        self.assertEqual(said.count("discarded"), 4)
        again = trace_source.load(self.path)
        self.assertEqual(again.gaps, gaps)
        self.assertEqual(again.processors, dict(enumerate(RECORDS)))

    def test_same_time_line_again(self):
        self.write(*RECORDS)
        made = timeline(source(TRACE_FLOW, *RECORDS, tsc_khz=KHZ), NAMES)
        again = timeline(self.path, NAMES)
        self.assertEqual(made.processors, again.processors)
        self.assertEqual(made.processes, again.processes)

    def test_widest_values(self):
        """No field cuts what a record can have."""
        widest = cpuid(1 << 40, (1 << 48) - 1, (1 << 64) - 1)._replace(
            detail=(1 << 32) - 1, flags=255, root_time=(1 << 32) - 1
        )
        self.write([widest])
        self.assertEqual(trace_source.load(self.path).processors[0], [widest])

    def test_time_that_goes_back(self):
        """The guest may write the TSC: the trace can be read, and has all records."""
        self.write([cpuid(2000, A), cpuid(1000, A), cpuid(3000, A)])
        found, complaint = self.lines()
        self.assertEqual(complaint, "")
        self.assertEqual([time for time, text in found if "exit" in text], [2000, 2010, 3000])

    def test_many_packets(self):
        count = lttng_events.PACKET_EVENTS
        self.write([cpuid(1000 * place, A) for place in range(count)])
        self.assertEqual(len(trace_source.load(self.path).processors[0]), count)

    def test_folder_that_is_there(self):
        os.mkdir(self.path)
        with self.assertRaisesRegex(ctf.CannotWrite, "is there already"):
            self.write(*RECORDS)


if __name__ == "__main__":
    unittest.main()
