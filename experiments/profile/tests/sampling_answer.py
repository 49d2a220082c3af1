# SPDX-License-Identifier: BSD-2-Clause
# sampling_answer.py: the whole answer, as results/answers/profile.json has it: each way by each
# load, and each entry's interrupts.
import os

from experiments.profile.analysis import shares
from experiments.profile.tests import sampling
from testbed import boots

SWEEP = f"sweep/{sampling.SKIDS}"
CORRECTED = {
    "pebs": "native, PEBS",
    "lbr-target": "native, LBR, last target",
    "lbr-blocks": "native, LBR, all blocks",
    "pt": "native, Intel PT",
}


def whole(lab, entry):
    """The boot with all loads; natively with all ways."""
    return sampling.boot(
        lab, entry, "whole", sampling.ALL if entry == "native" else sampling.BY_NMI
    )


def with_skid(lab, entry):
    return sampling.boot(lab, entry, "skid", sampling.WITH_SKID, skid=SWEEP)


def row(label, load, found):
    return {
        "label": label,
        "load": load,
        "samples": found.samples,
        "outside": found.outside,
        **{
            key: round(getattr(found, key), 6)
            for key in ("by_function", "by_instruction", "chance", "chance_by_instruction")
        },
        "curve": [[count, round(apart, 6)] for count, apart in found.curve],
    }


ALL = (*sampling.ENTRIES, *sampling.KVMS)
QUICK = ("native", "msr+nmi", "kvm-mediated")


def rows_of(lab, entries):
    out = []
    for entry in entries:
        out += [
            row(f"{entry}, NMI", load, sampling.answer(whole(lab, entry), load, "nmi"))
            for load in sampling.LOADS
        ]
    for entry in entries:
        if entry in sampling.ENTRIES:
            done = with_skid(lab, entry)
            out += [
                row(f"{entry}, NMI, skid", load, sampling.answer(done, load, "nmi"))
                for load in sampling.WITH_SKID
            ]
    native = whole(lab, "native")
    for way, label in CORRECTED.items():
        out += [
            row(label, load, sampling.answer(native, load, way))
            for load, ways in sampling.ALL.items()
            if way.split("-")[0] in ways
        ]
    out.append(
        row("native, a vector", sampling.KERNEL, sampling.answer(native, sampling.KERNEL, "vector"))
    )
    return out


def interrupts_of(done, label, loads, way):
    """A row of all these loads together; masked is of the kernel's."""
    found = {load: sampling.answer(done, load, way) for load in loads}
    skids = [skid for one in found.values() for skid in one.ways.skids]
    distances = [distance for one in found.values() for distance in one.ways.distances]
    kernel = found[sampling.KERNEL]
    overflows = sum(len(one.ways.skids) + one.ways.merged + one.ways.lost for one in found.values())
    return {
        "label": label,
        "overflows": overflows,
        "skid_median": sampling.middle(skids),
        "skid_largest": max(skids),
        "handler_median": sampling.middle(distances),
        "handler_largest": max(distances),
        "elsewhere": round(found["shorts" if way == "nmi" else sampling.KERNEL].elsewhere, 4),
        "merged": sum(one.ways.merged for one in found.values()),
        "lost": sum(one.ways.lost for one in found.values()),
        "masked": round(kernel.masked, 4),
        "truly_masked": round(kernel.truly_masked, 4),
    }


def interrupts(lab, entries):
    out = []
    for entry in entries:
        out.append(interrupts_of(whole(lab, entry), f"{entry}, NMI", sampling.LOADS, "nmi"))
        out.append(
            interrupts_of(whole(lab, entry), f"{entry}, a vector", (sampling.KERNEL,), "vector")
        )
    for entry in entries:
        if entry in sampling.KVMS:
            continue
        out.append(
            interrupts_of(with_skid(lab, entry), f"{entry}, NMI, skid", sampling.WITH_SKID, "nmi")
        )
    return out


def answer(lab, entries=ALL):
    rows = rows_of(lab, entries)
    sqlite = next(one for one in rows if one["load"] == "sqlite3")
    native = sampling.truly(whole(lab, "native"), "sqlite3", "nmi")
    return {
        "rows": rows,
        "interrupts": interrupts(lab, entries),
        "chance": [
            [count, round(shares.by_chance(native, round(count)), 6)]
            for count, _ in sqlite["curve"]
        ],
    }


def machine():
    kernel = os.path.basename(os.path.realpath(boots.kernel()))
    return f"the Skylake-X model, one processor; Debian's {kernel} in each guest"
