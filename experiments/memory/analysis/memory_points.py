# SPDX-License-Identifier: BSD-2-Clause
# memory_points.py: the points of the picture of addresses over time, for memory_page.js. Points are
# cells of a grid, which is made coarser until there are not too many: so the page's size has a
# limit.
import bisect

PAGE = 4096
POINTS_MAX = 60_000
ROWS_OF_PAGE = 64  # of the finest grid: one for each line of 64 bytes
REGION_PAGES = 16  # pages between two touched ones from which on there is a gap
TICKS = 14  # addresses on the axis
GROUPS = ("R", "W", "RW", "other")


class Axis:
    """Addresses without the gaps between regions: those that are near each other keep their
    distance."""

    def __init__(self, pages):
        self.starts, self.places = [], []  # of each region: first page, and where it is drawn
        at, last = 0, None
        for number in sorted(pages):
            if last is None or number - last > REGION_PAGES:
                at += 1 if last is not None else 0  # a page's room between two
                self.starts.append(number)
                self.places.append(at)
            else:
                at += number - last - 1
            last = number
            at += 1
        self.end = at

    def place(self, address):
        """In pages."""
        region = bisect.bisect_right(self.starts, address // PAGE) - 1
        return self.places[region] + address / PAGE - self.starts[region]

    def ticks(self):
        """(place, text): regions' first addresses, and where there is room pages between."""
        step = max(1, -(-self.end // TICKS))
        found, last = [], None
        for start, place, after in zip(self.starts, self.places, [*self.places[1:], self.end]):
            at = place
            while at < after:
                if last is None or at - last >= step:
                    found.append((at, f"{(start + at - place) * PAGE:#x}"))
                    last = at
                at += step
        return found


def group(access):
    return "other" if access.kind in ("walk", "event") else access.direction


def of_instruction(access):
    """None: what a page walk or an event writes is no instruction's."""
    return None if access.kind in ("walk", "event") else access.rip


def cells(shown, axis, rips):
    """`shown`: (number, address, access) of each that the picture has. `rips`: the instructions
    that the page lists. Gives how many accesses a column and how many pages a row has, and the
    cells: column less the one before, row, the group's number, the instruction's or -1."""
    listed = {rip: place for place, rip in enumerate(rips)}
    column, rows = 1, ROWS_OF_PAGE
    while True:
        found = {
            (
                number // column,
                int(axis.place(address) * rows),
                GROUPS.index(group(access)),
                listed.get(of_instruction(access), -1),
            )
            for number, address, access in shown
        }
        if len(found) <= POINTS_MAX:
            break
        column, rows = column * 2, rows / 2
    flat, last = [], 0
    for at, *others in sorted(found):
        flat += [at - last, *others]
        last = at
    return {"column": column, "row": 1 / rows, "cells": flat}


def words(shown, rip):
    """What the page says of an instruction's points."""
    found = [
        (number, address) for number, address, access in shown if of_instruction(access) == rip
    ]
    if not found:
        return "no point in the picture"
    addresses = [address for _, address in found]
    return (
        f"{len(found)} point{'s' * (len(found) > 1)}, access {found[0][0]} to {found[-1][0]}, "
        f"addresses {min(addresses):#x} to {max(addresses):#x}"
    )
