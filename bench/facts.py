# SPDX-License-Identifier: BSD-2-Clause
# facts.py: what must hold in the emulator (tables.toml, [fact]), each with what was found.
from bench import columns, formulas, tables
from bench.cells import NONE, number, percent, points, ratio
from bench.formulas import extra, profile_overhead
from bench.measurements import ALL

HOLDS_FOR = ("msr", "msr+nmi")
HOLDS, BROKEN, NOT_MEASURED = "holds", "does not hold", "not measured"

# Each gives (whether it holds, what was found); None: not all of it was measured.


def passthrough(machine, _limit):
    wrong, seen, asked_for = [], 0, 0
    for item in ALL.items_in("estimate", "msr"):
        native = machine.value("native", "msr", item.name, "instructions")
        for name in HOLDS_FOR:
            value, exits = (
                machine.value(name, "msr", item.name, metric)
                for metric in ("instructions", "exits")
            )
            asked_for += 1
            if None in (native, value, exits):
                continue
            seen += 1
            if value != native or exits != 0:
                found = f"{number(value)} for {number(native)}, {number(exits)} exits"
                wrong.append(f"{item.label} under {columns.head(name, machine)}: {found}")
    if wrong:
        return False, "; ".join(wrong)
    return (True, f"equal, no exit, in {seen} of {asked_for} cells") if seen == asked_for else None


def extra_of_pmis(machine, limit, experiment):
    ours, native = (extra(machine, name, experiment, "m100") for name in ("msr+nmi", "native"))
    if ours is None or not native:
        return None
    return ours / native <= limit, f"{ours / native:.4f} x native's"


def exit_to_kvm(machine, limit):
    ours, kvm = (
        machine.value(name, "exit", "cpuid", "root_instructions") for name in ("msr+nmi", "kvm")
    )
    if ours is None or not kvm:
        return None
    return ours <= limit * kvm, f"{number(ours)} to {number(kvm)}, {ratio(ours, kvm)}"


def overhead_to_native(machine, limit):
    ours, native = (profile_overhead(machine, name) for name in ("msr+nmi", "native"))
    if None in (ours, native):
        return None
    found = f"{percent(ours, 2)} to {percent(native, 2)}, {points(ours - native)} points"
    return abs(ours - native) <= limit, found


def share_distance(machine, limit):
    """Of a function's share of the samples, from native's."""
    worst = formulas.share_distance(machine, "msr+nmi")
    return None if worst is None else (worst <= limit, f"{worst:.2f} points at most")


def must_hold(machine):
    """(what, wanted, found, HOLDS or BROKEN or NOT_MEASURED), in the emulator only."""
    out = []
    for what, wanted, limit, holds in tables.ENTRIES["fact"].values():
        name, *words = holds.removeprefix("=").split()
        good, found = globals()[name](machine, limit, *words) or (None, NONE)
        verdict = {None: NOT_MEASURED, True: HOLDS, False: BROKEN}[good]
        out.append((what, wanted.format(limit), found, verdict))
    return out
