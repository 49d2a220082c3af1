# SPDX-License-Identifier: BSD-2-Clause
# truth.py: reads the file of the emulator's knob profile_truth (emulator/README.md): what a profile of a region
# should be, and where each overflow and its NMI were.
import collections
from dataclasses import dataclass, field

Overflow = collections.namedtuple("Overflow", "rip user interrupts retired outside_root")
Nmi = collections.namedtuple("Nmi", "rip user retired outside_root")
Place = collections.namedtuple("Place", "rip user interrupts")


@dataclass
class Region:
    counts: dict = field(default_factory=dict)  # Place: how often that instruction has retired
    events: list = field(default_factory=list)  # Overflow and Nmi, in their order

    def nmis(self):
        return [event for event in self.events if isinstance(event, Nmi)]

    def instructions(self, user=True):
        """{address: how often}."""
        found = collections.Counter()
        for place, count in self.counts.items():
            if place.user == user:
                found[place.rip] += count
        return found

    def interrupts_off(self, user=False):
        """The share of the kernel's instructions (or the user's) with RFLAGS.IF = 0."""
        counts = [(place.interrupts, count) for place, count in self.counts.items() if place.user == user]
        total = sum(count for _, count in counts)
        return sum(count for on, count in counts if not on) / total if total else 0.0


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
            rip, user, interrupts, retired, outside = words
            now.events.append(Overflow(int(rip, 16), user == "1", interrupts == "1", int(retired), int(outside)))
        elif what == "nmi":
            rip, user, retired, outside = words
            now.events.append(Nmi(int(rip, 16), user == "1", int(retired), int(outside)))
        elif what == "count":
            rip, user, interrupts, count = words
            now.counts[Place(int(rip, 16), user == "1", interrupts == "1")] = int(count)
        else:
            raise AssertionError(f"unknown line: {line}")
    return found


@dataclass
class Ways:
    """From overflows to NMIs."""
    skids: list = field(default_factory=list)      # instructions outside root mode in between
    distances: list = field(default_factory=list)  # of all modes
    merged: int = 0                                # overflows whose NMI was another's too
    lost: int = 0                                  # that no NMI followed
    unasked: int = 0                               # NMIs without an overflow


def pairs(region):
    """[(overflow, nmi)]: the first overflow since the last NMI, and the next NMI."""
    found, first = [], None
    for event in region.events:
        if isinstance(event, Overflow):
            first = first or event
        elif first:
            found.append((first, event))
            first = None
    return found


def ways(region):
    """How the overflows became NMIs."""
    matched = pairs(region)
    overflows = sum(isinstance(event, Overflow) for event in region.events)
    found = Ways(skids=[nmi.outside_root - overflow.outside_root for overflow, nmi in matched],
                 distances=[nmi.retired - overflow.retired for overflow, nmi in matched],
                 unasked=len(region.nmis()) - len(matched))
    for event in reversed(region.events):
        if isinstance(event, Nmi):
            break
        found.lost += 1
    found.merged = overflows - len(matched) - found.lost
    return found
