# SPDX-License-Identifier: BSD-2-Clause
# xstate.py: which bytes of an area the instructions of the XSAVE family write, from what a record
# of memory has: the instruction, EAX, and XSTATE_BV and XCOMP_BV after it. What a restore reads
# first no record tells. SDM Vol. 1, "Managing State Using the XSAVE Feature Set": "XSAVE Area" and
# "Operation of XSAVE" to "... XSAVES".
import collections

AREA_ALIGNMENT = 64
MXCSR = 24
XMM = 160
HEADER = 512
EXTENDED = 576
X87, SSE, AVX = 1, 2, 4  # bits of state components
COMPACTED = 1 << 63
FXSAVE_BYTES = 416  # the processor leaves 464..511 alone, 416..463 are reserved

Component = collections.namedtuple("Component", "offset bytes aligned")
# CPUID leaf 0xd of Intel's processors so far: the offset in the standard format, bytes, and whether
# the compacted format aligns it. Offset None: a supervisor component, compacted only.
COMPONENTS = {
    2: Component(576, 256, False),
    3: Component(960, 64, False),
    4: Component(1024, 64, False),
    5: Component(1088, 64, False),
    6: Component(1152, 512, False),
    7: Component(1664, 1024, False),
    8: Component(None, 128, False),
    9: Component(2688, 8, False),
    10: Component(None, 8, False),
    11: Component(None, 16, False),
    12: Component(None, 24, False),
    17: Component(2752, 64, True),
    18: Component(2816, 8192, True),
}

SAVES = ("xsave", "xsaveopt", "xsavec", "xsaves")
RESTORES = ("xrstor", "xrstors")


class NotKnown(Exception):
    """The text says what the record does not tell."""


def family(mnemonic):
    """Gives the name without the 64 of REX.W, or None where it is none of the family."""
    name = mnemonic.removesuffix("64")
    return name if name in (*SAVES, *RESTORES, "fxsave", "fxrstor") else None


def base_of(name, gla):
    """Gives the area's address from that of the byte that was accessed first. Raises NotKnown."""
    if name == "fxsave" or gla % AREA_ALIGNMENT == 0:
        return gla
    if gla % AREA_ALIGNMENT == MXCSR:
        return gla - MXCSR
    raise NotKnown(f"{name}: began inside of its area")


def extended(bits, compacted):
    """Yields (bit, offset, bytes) of the components of a bitmap, in order."""
    at = EXTENDED
    for bit in range(2, 63):
        if not bits >> bit & 1:
            continue
        found = COMPONENTS.get(bit)
        if found is None or (found.offset is None and not compacted):
            raise NotKnown(f"state component {bit}")
        if compacted and found.aligned:
            at = -(-at // AREA_ALIGNMENT) * AREA_ALIGNMENT
        yield bit, at if compacted else found.offset, found.bytes
        at += found.bytes


def legacy(bits, mxcsr):
    """The pieces of x87 and SSE state; `mxcsr`: whether MXCSR and its mask are among them."""
    found = [(0, MXCSR)] if bits & X87 else []
    found += [(MXCSR, 8)] if mxcsr else []
    found += [(32, XMM - 32)] if bits & X87 else []
    return found + ([(XMM, FXSAVE_BYTES - XMM)] if bits & SSE else [])


def pieces(name, mask, state, xcr0=None):
    """Takes what family() gave of a save, EAX, the record's `xstate` word and XCR0 (None: not
    known). Gives [(offset in the area, bytes)] in rising order, adjoining ones as one. XSAVEOPT and
    XSAVES need not write what has not changed: for them it is what may be written. Raises
    NotKnown."""
    if name == "fxsave":
        return [(0, FXSAVE_BYTES)]
    bv, comp = state & 0xFFFFFF, state >> 24 & 0x7FFFFF
    compacted = bool(state >> 47 & 1)
    short = name in ("xsavec", "xsaves")  # in the compacted format
    if short and not compacted:
        raise NotKnown(f"{name}: XCOMP_BV is not there")
    if name == "xsave" and xcr0 is None:
        raise NotKnown("xsave: XCR0")
    asked = mask if xcr0 is None else mask & xcr0
    saved = bv if short else asked if name == "xsave" else asked & bv
    mxcsr = bool(saved & SSE) if short else bool(asked & (SSE | AVX))
    found = legacy(saved, mxcsr) + [(HEADER, 16 if short else 8)]
    found += [
        (at, count)
        for bit, at, count in extended(comp if compacted else saved, compacted)
        if saved >> bit & 1
    ]
    return joined(found)


def joined(found):
    """Takes pieces in rising order; gives them with adjoining ones as one."""
    made = []
    for at, count in found:
        if made and sum(made[-1]) == at:
            made[-1] = (made[-1][0], made[-1][1] + count)
        else:
            made.append((at, count))
    return made
