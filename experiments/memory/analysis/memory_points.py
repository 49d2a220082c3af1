# SPDX-License-Identifier: BSD-2-Clause
# memory_points.py: where the points of single instructions are in the picture of addresses over
# time, for memory_page.js, which shows those of the one that is clicked. Points are cells of a grid
# as fine as the picture, and coarser for an instruction that has too many, so that their size has a
# limit.
GRID = (1500, 900)  # columns and rows
POINTS_MAX = 20_000  # of one instruction


def cells(places, width, height):
    """Takes (access number, place on the axis of addresses) of an instruction's points, and how far
    the two axes go. Gives columns, rows, and the points as column, less the one before, and row."""
    columns, rows = GRID
    while True:
        found = sorted(
            {
                (number * columns // width, int((place + 0.5) * rows / (height + 1)))
                for number, place in places
            }
        )
        if len(found) <= POINTS_MAX:
            break
        columns, rows = columns // 2, rows // 2
    flat, last = [], 0
    for column, row in found:
        flat += [column - last, row]
        last = column
    return {"columns": columns, "rows": rows, "cells": flat}


def of_instructions(shown, rips, axis, width):
    """Takes (number, address, access) of each that the picture has, the instructions wanted, and
    the picture's axes. Gives a row for each of them: what the page says of it, and its points."""
    places = {rip: [] for rip in rips}
    for number, address, access in shown:
        if access.rip in places and access.kind not in ("walk", "event"):
            places[access.rip].append((number, address))
    rows = []
    for found in places.values():
        addresses = [address for _, address in found]
        words = (
            "no point in the picture"
            if not found
            else f"{len(found)} point{'s' * (len(found) > 1)}, access {found[0][0]} to "
            f"{found[-1][0]}, "
            f"addresses {min(addresses):#x} to {max(addresses):#x}"
        )
        rows.append(
            {
                "words": words,
                **cells(
                    [(number, axis.place(address)) for number, address in found], width, axis.end
                ),
            }
        )
    return rows
