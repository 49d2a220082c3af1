# SPDX-License-Identifier: BSD-2-Clause
# trace_source.py: a trace for the analyses, from wherever it comes: a CTF folder (by babeltrace2's
# Python bindings), or a file or image that records.py reads. The analyses see one form only,
# that of records.py.
import collections
import os

from experiments.shared.analysis import records
from experiments.shared.analysis.records import Record, Trace

TRACE_OFF, TRACE_EXITS, TRACE_FLOW = range(3)  # trace_ring.h


class BadTrace(Exception):
    """The text says what is wrong with the trace."""


def load(source):
    """Takes the path of a CTF folder or of a file for records.py, or a Trace. Gives a Trace. Raises
    BadTrace where there is nothing to read."""
    if isinstance(source, Trace):
        return source
    if os.path.isdir(source):
        return from_ctf(source)
    try:
        return records.read(source)
    except records.BadRecords as error:
        raise BadTrace(str(error)) from error


def from_ctf(path):
    """Takes the folder of a CTF trace with LTTng's kvm_x86_exit and kvm_x86_entry; gives a Trace.
    An exit without its entry has no time in root mode. Raises BadTrace."""
    import bt2  # of Debian's python3-bt2: not everyone who reads records has it

    source = Trace()
    exits = {}  # processor -> the exit whose entry is still to come
    lost = collections.Counter()
    try:
        for message in bt2.TraceCollectionMessageIterator(str(path)):
            if isinstance(message, bt2._DiscardedEventsMessageConst):
                lost[processor_of(message.stream, None)] += message.count or 1
            elif isinstance(message, bt2._EventMessageConst):
                ctf_event(source, exits, lost, message)
    except (bt2._Error, RuntimeError) as error:
        text = error[0].message if isinstance(error, bt2._Error) else str(error)
        cause = " ".join(text.split())
        raise BadTrace(f"{path}: babeltrace2 cannot read it: {cause}") from error
    for number, record in exits.items():
        source.processors[number].append(record)
    if not source.processors:
        raise BadTrace(f"{path}: no event kvm_x86_exit in it; is it a trace of exits?")
    for number, count in lost.items():
        if count:  # after the last record
            source.gaps.setdefault(number, {})[len(source.processors.get(number, []))] = count
    return source


def processor_of(stream, event):
    """Gives the processor of a stream: its packets' cpu_id, as LTTng has it, or the stream's own
    number."""
    packet = event.packet if event is not None and stream.cls.supports_packets else None
    context = packet.context_field if packet is not None else None
    if context is not None and "cpu_id" in context:
        return int(context["cpu_id"])
    return stream.id


def ctf_event(source, exits, lost, message):
    """Adds one event to the source. An exit waits for its entry: only then its time is known."""
    event = message.event
    if event.name not in ("kvm_x86_exit", "kvm_x86_entry"):
        return
    clock = message.default_clock_snapshot
    if source.tsc_khz == 0:
        source.tsc_khz = clock.clock_class.frequency // 1000
    number = processor_of(event.stream, event)
    found = source.processors.setdefault(number, [])
    fields = event.payload_field
    waiting = exits.pop(number, None)
    if event.name == "kvm_x86_entry":
        if waiting is not None:
            found.append(waiting._replace(root_time=clock.value - waiting.tsc))
        return
    if waiting is not None:
        found.append(waiting)
    if lost[number]:
        source.gaps.setdefault(number, {})[len(found)] = lost.pop(number)
    exits[number] = Record(
        tsc=clock.value,
        rip=int(fields["guest_rip"]),
        reason=int(fields["exit_reason"]),
        cr3=int(fields["cr3"]) if "cr3" in fields else 0,
        flags=int(fields["flags"]) if "flags" in fields else 0,
        detail=int(fields["detail"]) if "detail" in fields else 0,
        root_time=0,
    )
