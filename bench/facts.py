# SPDX-License-Identifier: BSD-2-Clause
# facts.py: what must hold in the emulator, each with what was found.
import published
from cells import NONE, number, percent, points, ratio
from formulas import extra, profile_overhead
from measurements import ALL

# What the contract of the measurements wants in the emulator.
MAX_EXTRA_RATIO = 1.02
MAX_EXIT_SHARE_OF_KVM = 0.1
MAX_PROFILE_POINTS = 0.3
MAX_SHARE_POINTS = 0.5
HOLDS_FOR = ("msr", "msr+nmi")
HOLDS, BROKEN, NOT_MEASURED = "holds", "does not hold", "not measured"


def share_distance(machine, column):
    """How far a function's share of the samples is from native's at most, in points; None where
    either column lacks one."""
    pairs = [
        [machine.value(name, "profile", f"share_{share}", "share") for name in (column, "native")]
        for share in published.TABLE_4_4
    ]
    if any(None in pair for pair in pairs):
        return None
    return max(abs(ours - native) for ours, native in pairs)


def passthrough_fact(machine):
    """(whether every cell of it was measured, whether it holds, what was found)"""
    wrong, seen, asked_for = [], 0, 0
    for _, item, _, label in ALL.items_in("estimate", "msr"):
        native = machine.value("native", "msr", item, "instructions")
        for name in HOLDS_FOR:
            value = machine.value(name, "msr", item, "instructions")
            exits = machine.value(name, "msr", item, "exits")
            asked_for += 1
            if None in (native, value, exits):
                continue
            seen += 1
            if value != native or exits != 0:
                wrong.append(
                    f"{label} under {name}: {number(value)} for {number(native)}, "
                    f"{number(exits)} exits"
                )
    found = "; ".join(wrong) if wrong else f"equal, no exit, in {seen} of {asked_for} cells"
    return bool(wrong) or seen == asked_for, not wrong, found


class Facts(list):
    """What must_hold() gives, as a part of the report."""


def must_hold(machine):
    """(what, wanted, found, HOLDS or BROKEN or NOT_MEASURED), in the emulator only."""

    def fact(what, wanted, known, judge):
        """`judge` makes of the values, if all are known, (whether it holds, what was found)."""
        if None in known:
            return what, wanted, NONE, NOT_MEASURED
        good, found = judge(*known)
        return what, wanted, found, HOLDS if good else BROKEN

    def times(ours, native):
        return ours / native <= MAX_EXTRA_RATIO, f"{ours / native:.4f} x native's"

    known, good, found = passthrough_fact(machine)
    facts = [
        fact(
            "Table 4.1: a passed-through access executes as native",
            "native's count, 0 exits",
            () if known else (None,),
            lambda: (good, found),
        )
    ]
    for experiment, who in (("a1", "Linux"), ("a1k", "test kernel")):
        native = extra(machine, "native", experiment, "m100") or None
        facts.append(
            fact(
                f"Table 4.2 ({who}): extra of 1000 PMIs under msr+nmi",
                f"at most {MAX_EXTRA_RATIO} x native's",
                (extra(machine, "msr+nmi", experiment, "m100"), native),
                times,
            )
        )
    ours, kvm = (
        machine.value(name, "exit", "cpuid", "root_instructions") for name in ("msr+nmi", "kvm")
    )
    return facts + [
        fact(
            "Table 4.3: root instructions of a CPUID exit",
            f"at most {MAX_EXIT_SHARE_OF_KVM:g} x KVM's",
            (ours, kvm or None),
            lambda ours, kvm: (
                ours <= MAX_EXIT_SHARE_OF_KVM * kvm,
                f"{number(ours)} to {number(kvm)}, {ratio(ours, kvm)}",
            ),
        ),
        fact(
            "Table 4.5: overhead of perf record under msr+nmi",
            f"within {MAX_PROFILE_POINTS} points of native",
            [profile_overhead(machine, name) for name in ("msr+nmi", "native")],
            lambda ours, native: (
                abs(ours - native) <= MAX_PROFILE_POINTS,
                f"{percent(ours, 2)} to {percent(native, 2)}, {points(ours - native)} points",
            ),
        ),
        fact(
            "Table 4.4: share of each function under msr+nmi",
            f"within {MAX_SHARE_POINTS} points of native",
            [share_distance(machine, "msr+nmi")],
            lambda worst: (worst <= MAX_SHARE_POINTS, f"{worst:.2f} points at most"),
        ),
    ]
