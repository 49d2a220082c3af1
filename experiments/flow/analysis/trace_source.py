# SPDX-License-Identifier: BSD-2-Clause
# trace_source.py: a trace for the analyses, from wherever it comes: a CTF folder (by babeltrace2's
# Python bindings), a file or image that records.py reads, or what records.py gave. The analyses see
# one form only: the records of trace_ring.h, in order, by processor.
import collections
import dataclasses
import os

from experiments.shared.analysis import records
from experiments.shared.analysis.records import Record

TRACE_OFF, TRACE_EXITS, TRACE_FLOW = range(3)  # trace_ring.h


@dataclasses.dataclass
class Source:
    """Records of a run. Times are ticks of the TSC."""

    tsc_khz: int = 0  # 0: not known
    level: int | None = None  # TRACE_* of trace_ring.h; None: the trace does not say
    processors: dict = dataclasses.field(default_factory=dict)  # number -> [Record], by time
    gaps: dict = dataclasses.field(default_factory=dict)  # number -> {index: lost before it}
    complaints: list = dataclasses.field(default_factory=list)

    def lost(self):
        """Gives how many records are missing, of all processors."""
        return sum(sum(gaps.values()) for gaps in self.gaps.values())


class BadTrace(Exception):
    """The text says what is wrong with the trace."""


def load(source):
    """Takes the path of a CTF folder or of a file for records.py, a Source, or what records.py
    gave. Gives a Source. Raises BadTrace where there is nothing to read."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        if os.path.isdir(source):
            return from_ctf(source)
        try:
            return from_records(records.read(source))
        except records.BadRecords as error:
            raise BadTrace(str(error)) from error
    return from_records(source)


def from_records(trace):
    """Takes the Trace of records.py; gives a Source. Where it has no places of losses (`gaps`), the
    sum (`lost`) is put before the first record."""
    source = Source(
        tsc_khz=trace.tsc_khz, level=trace.level, complaints=list(getattr(trace, "complaints", []))
    )
    for number, found in trace.processors.items():
        source.processors[number] = list(found)
    places = getattr(trace, "gaps", None)
    if places is not None:
        source.gaps = {number: dict(gaps) for number, gaps in places.items()}
    else:
        lost = trace.lost
        if not isinstance(lost, dict):
            lost = {min(trace.processors, default=0): lost} if lost else {}
        source.gaps = {number: {0: count} for number, count in lost.items() if count}
    return source


def from_ctf(path):
    """Takes the folder of a CTF trace with LTTng's kvm_x86_exit and kvm_x86_entry; gives a Source.
    An exit without its entry has no time in root mode. Raises BadTrace."""
    import bt2  # of Debian's python3-bt2: not everyone who reads records has it

    source = Source()
    exits = {}  # processor -> the exit whose entry is still to come
    lost = collections.Counter()
    try:
        for message in bt2.TraceCollectionMessageIterator(str(path)):
            if isinstance(message, bt2._DiscardedEventsMessageConst):
                lost[processor_of(message.stream, None)] += message.count or 1
            elif isinstance(message, bt2._EventMessageConst):
                ctf_event(source, exits, lost, message)
    except (bt2._Error, RuntimeError) as error:
        raise BadTrace(f"{path}: babeltrace2 cannot read it: {last_cause(error)}") from error
    for number, record in exits.items():
        source.processors[number].append(record)
    if not source.processors:
        raise BadTrace(f"{path}: no event kvm_x86_exit in it; is it a trace of exits?")
    for number, count in lost.items():
        if count:  # after the last record
            source.gaps.setdefault(number, {})[len(source.processors.get(number, []))] = count
    return source


def last_cause(error):
    """Gives babeltrace2's own words for an error, in one line."""
    try:
        return " ".join(error[0].message.split())
    except (IndexError, TypeError, AttributeError):
        return " ".join(str(error).split())


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
        environment = event.stream.trace.environment
        if "trace_level" in environment:  # not LTTng's own: without it the records have to tell
            source.level = int(environment["trace_level"])
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
