# SPDX-License-Identifier: BSD-2-Clause
# memory_ctf.py: memory accesses as CTF 1.8, by ctf_writer.py: one event, mem_access.
from experiments.shared.analysis.ctf_writer import PACKET_EVENTS, Event, Packet, write_packets

# Fields: (name, bits), None for text. LTTng has no such event.
EVENTS = {
    "mem_access": (
        ("rip", 64),
        ("cr3", 64),
        ("gla", 64),
        ("gpa", 64),
        ("bytes", 32),
        ("direction", None),
        ("kind", None),
        ("value", 64),
        ("retired", 64),
        ("detail", 32),
        ("instruction", None),
    )
}
MASK64 = (1 << 64) - 1


def event(access, tick):
    return Event(
        tick,
        "mem_access",
        {
            "rip": access.rip,
            "cr3": access.cr3,
            "gla": access.gla,
            "gpa": access.gpa,
            "bytes": access.bytes,
            "direction": access.direction,
            "kind": access.kind,
            "value": access.number & MASK64,
            "retired": access.retired,
            "detail": access.detail,
            "instruction": access.text,
        },
    )


def packets(accesses, gaps):
    """Takes a processor's accesses, and {index: lost before it}; gives [Packet]. Times never go
    back."""
    found, now = [Packet(0, [])], 0
    for index, access in enumerate(accesses):
        if gaps.get(index) or len(found[-1].events) >= PACKET_EVENTS:
            found.append(Packet(gaps.get(index, 0), []))
        now = max(now, access.tsc)
        found[-1].events.append(event(access, now))
    if gaps.get(len(accesses)):
        found.append(Packet(gaps[len(accesses)], []))
    return found


def write(processors, gaps, folder, khz):
    """Takes number -> [Access], number -> gaps, the folder to make, and the TSC's kHz. Raises
    ctf_writer.CannotWrite."""
    made = {
        number: packets(accesses, gaps.get(number, {}))
        for number, accesses in sorted(processors.items())
        if accesses
    }
    write_packets(made, folder, khz, EVENTS)
