# SPDX-License-Identifier: BSD-2-Clause
# ctf_writer.py: writes events as CTF 1.8, by babeltrace2's Python bindings (Debian's python3-bt2).
# There is one stream for each processor.
import collections
import os

from experiments.shared.analysis.records import TICKS_PER_MS

NEEDS = "python3-bt2 is missing for this Python; install it, and use /usr/bin/python3"

Event = collections.namedtuple("Event", "tick name fields")
# Events without a loss between them. `lost`: records that are missing before the first event.
Packet = collections.namedtuple("Packet", "lost events")

PACKET_EVENTS = 8192  # a packet is what a reader skips at once
# Fields of an event: (name, bits), negative for signed ones, None for text.
HEXADECIMAL = ("guest_rip", "rip", "cr3", "gla", "gpa", "value")
# What LTTng's own traces say of themselves; by `domain` tools take events for a kernel's.
ENVIRONMENT = {
    "hostname": "guest",
    "domain": "kernel",
    "sysname": "Linux",
    "tracer_name": "PMUvisor",
    "tracer_major": 1,
    "tracer_minor": 0,
}


class CannotWrite(Exception):
    """The text says why there is no CTF."""


def library():
    """Gives babeltrace2's bindings. Raises CannotWrite."""
    try:
        import bt2
    except ImportError:
        raise CannotWrite(NEEDS) from None
    return bt2


def field_class(bt2, trace_class, name, bits):
    if bits is None:
        return trace_class.create_string_field_class()
    make = (
        trace_class.create_signed_integer_field_class
        if bits < 0
        else trace_class.create_unsigned_integer_field_class
    )
    return make(
        field_value_range=abs(bits),
        preferred_display_base=(
            bt2.IntegerDisplayBase.HEXADECIMAL
            if name in HEXADECIMAL
            else bt2.IntegerDisplayBase.DECIMAL
        ),
    )


def structure(bt2, trace_class, fields):
    made = trace_class.create_structure_field_class()
    for name, bits in fields:
        made.append_member(name, field_class(bt2, trace_class, name, bits))
    return made


def messages(make, stream, classes, number, packets):
    """Yields babeltrace2's messages of one stream. `make`: the iterator, which creates them."""
    yield make._create_stream_beginning_message(stream)
    end = None
    for packet in packets:
        if packet.lost and end is None:
            # CTF 1.8 counts losses between two packets: an empty one is the first.
            end = packet.events[0].tick if packet.events else 0
            yield from packet_messages(make, stream, classes, number, [], end)
        start = packet.events[0].tick if packet.events else end
        if start is None:
            continue
        if packet.lost:
            last = packet.events[-1].tick if packet.events else end
            yield make._create_discarded_events_message(stream, packet.lost, end, last)
        yield from packet_messages(make, stream, classes, number, packet.events, start)
        end = packet.events[-1].tick if packet.events else start
    yield make._create_stream_end_message(stream)


def packet_messages(make, stream, classes, number, events, start):
    packet = stream.create_packet()
    packet.context_field["cpu_id"] = number
    yield make._create_packet_beginning_message(packet, start)
    for event in events:
        message = make._create_event_message(
            classes[event.name], packet, default_clock_snapshot=event.tick
        )
        payload = message.event.payload_field
        for name, value in event.fields.items():
            payload[name] = value
        yield message
    yield make._create_packet_end_message(packet, events[-1].tick if events else start)


def source_class(bt2, khz, packets, kinds):
    """Gives the component that babeltrace2's sink takes messages from. `packets`: number ->
    [Packet] of a processor; `kinds`: of each event its fields."""

    class Iterator(bt2._UserMessageIterator):
        def __init__(self, config, port):
            trace, stream_class, classes, number = port.user_data
            stream = trace.create_stream(stream_class, id=number, name=f"channel0_{number}")
            self.found = messages(self, stream, classes, number, packets[number])

        def __next__(self):
            return next(self.found)

    class Exits(bt2._UserSourceComponent, message_iterator_class=Iterator):
        def __init__(self, config, params, obj):
            trace_class = self._create_trace_class()
            clock = self._create_clock_class(
                name="tsc",
                description="time stamp counter",
                origin_is_unix_epoch=False,
                frequency=(khz or TICKS_PER_MS) * 1000,
            )
            stream_class = trace_class.create_stream_class(
                default_clock_class=clock,
                assigns_automatic_stream_id=False,
                supports_packets=True,
                packet_context_field_class=structure(bt2, trace_class, [("cpu_id", 32)]),
                packets_have_beginning_default_clock_snapshot=True,
                packets_have_end_default_clock_snapshot=True,
                supports_discarded_events=True,
                discarded_events_have_default_clock_snapshots=True,
            )
            classes = {
                name: stream_class.create_event_class(
                    name=name, payload_field_class=structure(bt2, trace_class, fields)
                )
                for name, fields in kinds.items()
            }
            trace = trace_class(environment=ENVIRONMENT)
            for number in packets:
                self._add_output_port(f"out{number}", (trace, stream_class, classes, number))

    return Exits


def write_packets(packets, folder, khz, kinds):
    """Writes CTF of events. Takes number -> [Packet] of a processor, the folder to make, the
    clock's kHz (0: not known), and of each event its fields. Raises CannotWrite."""
    bt2 = library()
    if not packets:
        raise CannotWrite("no processor has a record")
    if os.path.lexists(folder):
        raise CannotWrite(f"{folder} is there already; name another, or remove it")
    try:
        graph = bt2.Graph()
        made = graph.add_component(source_class(bt2, khz, packets, kinds), "exits")
        # From 2.1 on babeltrace2 would write CTF 2 (babeltrace2-sink.ctf.fs(7)).
        params = {"path": str(folder), "assume-single-trace": True, "quiet": True}
        if tuple(map(int, bt2.__version__.split(".")[:2])) >= (2, 1):
            params["ctf-version"] = "1"
        sink = graph.add_component(
            bt2.find_plugin("ctf").sink_component_classes["fs"], "sink", params=params
        )
        muxer = graph.add_component(
            bt2.find_plugin("utils").filter_component_classes["muxer"], "muxer"
        )
        for place, number in enumerate(packets):
            graph.connect_ports(made.output_ports[f"out{number}"], muxer.input_ports[f"in{place}"])
        graph.connect_ports(muxer.output_ports["out"], sink.input_ports["in"])
        graph.run()
    except (bt2._Error, ValueError, OverflowError) as error:
        words = " ".join(str(error).split())
        raise CannotWrite(f"{folder}: babeltrace2 cannot write it: {words}") from error
