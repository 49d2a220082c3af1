# SPDX-License-Identifier: BSD-2-Clause
# times.py: reads the emulator's log of blocking (../README.md): who ran, and were NMIs blocked and
# the PMI masked, from the first NMI of a region on.
import collections

# `nmi`: an NMI came at its beginning. `instructions`: how long it lasted.
Span = collections.namedtuple("Span", "root blocked masked nmi instructions")


def lines(path):
    """(instruction, processor, words) of each line."""
    with open(path, encoding="ascii") as log:
        for line in log:
            at, processor, *words = line.split()
            yield int(at), int(processor), words


def state_of(words):
    return tuple(word.partition("=")[2] == "1" for word in words)


def spans(path, region, processor=0):
    """The spans of the region from the one before its first NMI on. ValueError where it has no
    NMI."""
    state, inside, found, began, came, coming = None, False, [], 0, False, False
    for at, who, (kind, *words) in lines(path):
        if who != processor:
            continue
        if kind == "nmi":
            coming = inside
        elif kind == "state" or int(words[0]) == region:
            if inside:
                found.append(Span(*state, came, at - began))
            began, came, coming = at, coming, False
            if kind == "state":
                state = state_of(words)
            else:
                inside = kind == "begin"
    first = next((n for n, span in enumerate(found) if span.nmi), None)
    if first is None:
        raise ValueError(f"{path}: region {region} has no NMI")
    return found[max(first - 1, 0) :]


def shape(found):
    """What of them does not depend on how many instructions anything has: a letter for who runs (g
    guest, r root mode), then B where NMIs are blocked, M where the PMI is masked, and ! before it
    where an NMI came.
    """
    return " ".join(
        ("!" if span.nmi else "")
        + ("r" if span.root else "g")
        + ("B" if span.blocked else "")
        + ("M" if span.masked else "")
        for span in found
    )
