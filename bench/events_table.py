# SPDX-License-Identifier: BSD-2-Clause
# events_table.py: exits at which the bookkeeping of NMIs has something to do, with its steps left
# out one by one: what a step costs then, and which NMIs are lost without it.
from cells import NONE, Cell, Table, number, signed
from columns import PARTS
from measurements import ALL

HEADS = ["root instr.", "by the NMI", "VMREAD", "VMWRITE", "NMIs arrived"]
EXITS = ("vmcall", "cpuid")  # of the ablation: the same two exits with nothing to do


def cells_of(table, machine, item, variant):
    found = machine.metrics("msr+nmi", "events", f"{item}@{variant}")
    if "root_instructions" not in found:
        why = machine.why("msr+nmi", "events", f"{item}@{variant}")
        return [table.missing(why)]
    root = found["root_instructions"]["value"]
    bare = [
        machine.value("msr+nmi", "ablation", f"{exit}@{variant}", "root_instructions")
        for exit in EXITS
    ]
    out = [Cell(number(root)), Cell(NONE if None in bare else signed(root - sum(bare)), "ratio")]
    out += [
        Cell(number(found[name]["value"]) if name in found else NONE)
        for name in ("vmread", "vmwrite")
    ]
    return out + [Cell(number(found["delivered"]["value"]) if "delivered" in found else NONE)]


def events_table(machine):
    table = Table(
        "events",
        "Ablation: an exit at which the bookkeeping has something to do",
        "",
        list(HEADS),
        [("msr+nmi: exact counts, per two exits", len(HEADS))],
    )
    for _, item, _, heading in ALL.items_in("events"):
        table.group(heading)
        for part in PARTS.values():
            table.add(part.title, cells_of(table, machine, item, part.variant))
    table.reading.append(
        "Two exits, a VMCALL and a CPUID: at the first one the NMI comes, or is found; the second "
        "one does what is left to do about it. By the NMI: over the same two with nothing to do "
        "and the same bookkeeping, which are in the table above. NMIs arrived: of 100, at the side "
        "that they were for. A step costs something where it has something to do, and without it "
        "the NMIs of its kind are lost (one of the host's leaves its note, which each later exit "
        "looks at, for nothing); unblock is the CPUID in the NMI handler above. Each NMI of the "
        "host's has a line in the log, which is most of what it costs: so compare one that is "
        "found late with one that came in root mode."
    )
    return table
