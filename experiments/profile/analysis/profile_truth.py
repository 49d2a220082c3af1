# SPDX-License-Identifier: BSD-2-Clause
# profile_truth.py: reads the file of the emulator's knob profile_truth (emulator/README.md): what a
# profile of a region should be, and where each overflow and its interrupt were.
import collections
from dataclasses import dataclass, field

NMI = 2
KERNEL = 0  # its address space

Overflow = collections.namedtuple("Overflow", "space rip user interrupts retired outside_root")
Interrupt = collections.namedtuple("Interrupt", "vector space rip user retired outside_root")
Place = collections.namedtuple("Place", "space rip user interrupts")


@dataclass
class Region:
    counts: dict = field(default_factory=dict)  # Place: how often that instruction has retired
    events: list = field(default_factory=list)  # Overflow and Interrupt, in their order

    def by_vector(self, vector):
        return [
            event
            for event in self.events
            if isinstance(event, Interrupt) and event.vector == vector
        ]

    def space_of(self, addresses):
        """The address space that has executed most of these addresses: the program that was
        sampled. Not by the overflows: with PEBS there are none."""
        found = collections.Counter()
        for place in self.counts:
            found[place.space] += addresses.get(place.rip, 0)
        return found.most_common(1)[0][0]

    def instructions(self, space):
        """{address: how often}."""
        found = collections.Counter()
        for place, count in self.counts.items():
            if place.space == space:
                found[place.rip] += count
        return found

    def masked(self, space):
        """{address: the part of its times with RFLAGS.IF = 0}."""
        total, off = collections.Counter(), collections.Counter()
        for place, count in self.counts.items():
            if place.space == space:
                total[place.rip] += count
                off[place.rip] += 0 if place.interrupts else count
        return {address: off[address] / count for address, count in total.items()}


def numbers(words, addresses):
    """`addresses`: the places of those words that are hexadecimal."""
    return [int(word, 16 if place in addresses else 10) for place, word in enumerate(words)]


def read(lines):
    """{region: Region}; a region that has not ended is none."""
    found, now, number = {}, None, None
    for line in lines:
        what, *words = line.split()
        if what == "begin":
            now, number = Region(), int(words[0])
        elif what == "end":
            assert int(words[0]) == number, f"region {words[0]} ends, {number} had begun"
            found[number] = now
        elif what == "overflow":
            now.events.append(Overflow(*numbers(words, (0, 1))))
        elif what == "interrupt":
            now.events.append(Interrupt(*numbers(words, (1, 2))))
        elif what == "count":
            *place, count = numbers(words, (0, 1))
            now.counts[Place(*place)] = count
        else:
            raise AssertionError(f"unknown line: {line}")
    return found


@dataclass
class Ways:
    """From overflows to interrupts."""

    skids: list = field(default_factory=list)  # instructions outside root mode in between
    distances: list = field(default_factory=list)  # of all modes
    merged: int = 0  # overflows whose interrupt was another's too
    lost: int = 0  # that no interrupt followed
    unasked: int = 0  # interrupts without an overflow


def pairs(region, vector=NMI):
    """[(overflow, interrupt)]: the first overflow since the last interrupt, and the next one."""
    found, first = [], None
    for event in region.events:
        if isinstance(event, Overflow):
            first = first or event
        elif first and event.vector == vector:
            found.append((first, event))
            first = None
    return found


def ways(region, vector=NMI):
    """How the overflows became interrupts with this vector."""
    matched = pairs(region, vector)
    events = [
        event for event in region.events if isinstance(event, Overflow) or event.vector == vector
    ]
    overflows = sum(isinstance(event, Overflow) for event in events)
    found = Ways(
        skids=[after.outside_root - overflow.outside_root for overflow, after in matched],
        distances=[after.retired - overflow.retired for overflow, after in matched],
        unasked=len(events) - overflows - len(matched),
    )
    for event in reversed(events):
        if isinstance(event, Interrupt):
            break
        found.lost += 1
    found.merged = overflows - len(matched) - found.lost
    return found
