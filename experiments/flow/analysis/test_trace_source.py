# SPDX-License-Identifier: BSD-2-Clause
# test_trace_source.py: a CTF trace with LTTng's event names, written by babeltrace2 itself, gives
# the time line of the records that it was made of.
import os
import tempfile
import unittest

try:
    import bt2
except ImportError:
    bt2 = None

from experiments.flow.analysis import trace_source
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    A,
    B,
    cpuid,
    halt,
    load,
    rows,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.states import timeline
from experiments.flow.analysis.trace_source import TRACE_FLOW, BadTrace

EXIT = (("exit_reason", 32), ("guest_rip", 64), ("cr3", 64), ("detail", 32), ("flags", 8))
ENTRY = (("vcpu_id", 32), ("cr3", 64), ("root_time", 32))
RECORDS = [
    [
        load(1000, A, B_STACK),
        tick(1500, A),
        load(1600, B, A_STACK),
        halt(2000, B),
        wake(3000, B),
        load(3100, A, 0x10),
        cpuid(3500, A),
    ],
    [cpuid(1200, B), cpuid(1900, B)],
]


def events(make, packet, number, records):
    """The messages of an exit and an entry for each record."""
    exit_class, entry_class = (packet.stream.cls[kind] for kind in (0, 1))
    for record in records:
        for event_class, tsc, fields in (
            (
                exit_class,
                record.tsc,
                {
                    "exit_reason": record.reason,
                    "guest_rip": record.rip,
                    "cr3": record.cr3,
                    "detail": record.detail,
                    "flags": record.flags,
                },
            ),
            (
                entry_class,
                record.tsc + record.root_time,
                {"vcpu_id": number, "cr3": record.cr3, "root_time": record.root_time},
            ),
        ):
            message = make._create_event_message(event_class, packet, default_clock_snapshot=tsc)
            for name, value in fields.items():
                message.event.payload_field[name] = value
            yield message


def messages(make, stream, number, records, lost):
    """The stream of a processor. `lost`: (index, count) of records that are missing; CTF 1.8 has
    them between two packets, up to the second one's end."""
    yield make._create_stream_beginning_message(stream)
    parts = [records[: lost[0]], records[lost[0] :]] if lost else [records]
    before = None
    for part in parts:
        end = part[-1].tsc + part[-1].root_time
        if before is not None:
            yield make._create_discarded_events_message(stream, lost[1], before, end)
        packet = stream.create_packet()
        yield make._create_packet_beginning_message(packet, part[0].tsc)
        yield from events(make, packet, number, part)
        yield make._create_packet_end_message(packet, end)
        before = end
    yield make._create_stream_end_message(stream)


def ctf_1():
    """babeltrace2 before 2.1 (Debian 12) writes CTF 1.8 alone; from then on (Debian 13) it writes
    CTF 2 unless told, and a graph of the older kind cannot hold that."""
    version = tuple(int(number) for number in bt2.__version__.split(".")[:2])
    return {"ctf-version": "1"} if version >= (2, 1) else {}


def write(folder, processors, khz, lost, level=None):
    """Writes CTF 1.8 of records, by babeltrace2's sink.ctf.fs."""

    class Iterator(bt2._UserMessageIterator):
        def __init__(self, config, port):
            trace, stream_class, number = port.user_data
            stream = trace.create_stream(stream_class, id=number)
            self.found = messages(self, stream, number, processors[number], lost.get(number))

        def __next__(self):
            return next(self.found)

    class Written(bt2._UserSourceComponent, message_iterator_class=Iterator):
        def __init__(self, config, params, obj):
            trace_class = self._create_trace_class()
            clock = self._create_clock_class(
                frequency=khz * 1000, name="tsc", origin_is_unix_epoch=False
            )
            stream_class = trace_class.create_stream_class(
                default_clock_class=clock,
                assigns_automatic_stream_id=False,
                supports_packets=True,
                packets_have_beginning_default_clock_snapshot=True,
                packets_have_end_default_clock_snapshot=True,
                supports_discarded_events=True,
                discarded_events_have_default_clock_snapshots=True,
            )
            for name, fields in (("kvm_x86_exit", EXIT), ("kvm_x86_entry", ENTRY)):
                payload = trace_class.create_structure_field_class()
                for field, bits in fields:
                    payload.append_member(
                        field,
                        trace_class.create_unsigned_integer_field_class(field_value_range=bits),
                    )
                stream_class.create_event_class(name=name, payload_field_class=payload)
            trace = trace_class(environment={} if level is None else {"trace_level": level})
            for number in range(len(processors)):
                self._add_output_port(f"out{number}", (trace, stream_class, number))

    graph = bt2.Graph()
    made = graph.add_component(Written, "written")
    sink = graph.add_component(
        bt2.find_plugin("ctf").sink_component_classes["fs"],
        "sink",
        params={"path": folder, "assume-single-trace": True, "quiet": True, **ctf_1()},
    )
    muxer = graph.add_component(bt2.find_plugin("utils").filter_component_classes["muxer"], "muxer")
    for number in range(len(processors)):
        graph.connect_ports(made.output_ports[f"out{number}"], muxer.input_ports[f"in{number}"])
    graph.connect_ports(muxer.output_ports["out"], sink.input_ports["in"])
    graph.run()


@unittest.skipUnless(bt2, "python3-bt2 is not installed")
class Ctf(unittest.TestCase):
    def read(self, processors, khz=1_000_000, lost=None, level=None):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ctf")
            write(path, processors, khz, lost or {}, level)
            return trace_source.load(path)

    def test_level(self):
        self.assertIsNone(self.read(RECORDS).level)
        self.assertEqual(self.read(RECORDS, level=1).level, 1)

    def test_same_time_line(self):
        direct, by_ctf = timeline(source(TRACE_FLOW, *RECORDS)), timeline(self.read(RECORDS))
        self.assertTrue(by_ctf.flow)
        self.assertEqual(direct.processors, by_ctf.processors)
        self.assertEqual(
            {key: rows(process.intervals) for key, process in direct.processes.items()},
            {key: rows(process.intervals) for key, process in by_ctf.processes.items()},
        )

    def test_clock(self):
        found = self.read(RECORDS, khz=50_000)
        self.assertEqual(found.tsc_khz, 50_000)
        self.assertEqual(
            [record.tsc for record in found.processors[0]], [record.tsc for record in RECORDS[0]]
        )

    def test_lost_records_keep_their_place(self):
        found = self.read(RECORDS, lost={0: (3, 9)})
        self.assertEqual(found.gaps, {0: {3: 9}})
        self.assertEqual(found.lost(), 9)

    def test_cut(self):
        """The stream ends in the middle of an event: babeltrace2's own words, in one line."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ctf")
            write(path, RECORDS, 1_000_000, {})
            streams = [os.path.join(path, name) for name in os.listdir(path) if name != "metadata"]
            os.truncate(max(streams, key=os.path.getsize), 100)
            with self.assertRaisesRegex(BadTrace, "babeltrace2 cannot read it: .+"):
                trace_source.load(path)


if __name__ == "__main__":
    unittest.main()
