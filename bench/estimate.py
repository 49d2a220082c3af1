# SPDX-License-Identifier: BSD-2-Clause
# estimate.py: cycles estimated from the emulator's counts for every column, with the unit costs of
# predict.py and their error bars; and what such counts can and cannot say. Estimates, no
# measurements: nothing here was run on hardware.
import published
from cells import NONE, Cell, Row, Table, number, ratio
from predict import COST, cycles_of, less, picks, root_counts, trapped
from results import COLUMNS
from measurements import ALL
from tables import BASE

LAST = "m100"

VALIDITY = (
    "What the counts say. Each instruction, exit, and access to the VMCS or to an MSR is counted "
    "by the "
    "emulator, in root mode as in the guest, and comes out the same in each run (nginx's do not). "
    "So "
    "they say which work a design does and which it does not, and compare hypervisors that run the "
    "same "
    "guest on the same modelled processor.",
    "What they do not say. An instruction is no cycle. A VM exit counts as one instruction and "
    "takes "
    "hundreds of cycles; so does a WRMSR that serialises. The model has no pipeline, no TLB, no "
    "buffers "
    "that a transition empties, and no cost of memory; a column with fewer instructions may still "
    "be "
    "slower. Idle time and interrupts from devices are those of the emulator. Whether a figure "
    "holds on "
    "a machine has to be measured on that machine (docs/metal.md).",
    "The estimate. Exits, accesses to the VMCS and to MSRs, deliveries of NMIs and all other "
    "instructions "
    "are each taken at a unit cost that others published for Intel processors; the range is that "
    "of the "
    "lowest and the highest of them. Root mode's WRMSRs stand at the cost of a PMU register's. "
    "Unit costs "
    "of different processors are mixed, and what a sequence costs is not their sum: so the ratio "
    "of two "
    "columns is worth more than either. Its range is that of the ratios at the lowest and at the "
    "highest "
    "unit costs.",
    "Spread. What is exact has none. nginx's figures are not exact: their spread over runs stands "
    "in "
    "their table.",
)


def three(counts):
    """Mean, lowest and highest, or None."""
    return None if counts is None else tuple(cycles_of(counts, pick) for pick in picks())


def operation(machine, column, experiment, item):
    """One operation: its root part, or the instruction itself where it does not exit. None: it was
    not measured, or the model has no unit cost of the instruction itself."""
    counts = root_counts(machine, column, experiment, item)
    if counts is None:
        return None
    if counts["exits"] == 0:
        kind = item.split("_")[0]
        if kind not in ("rdmsr", "wrmsr"):
            return None
        counts = {**dict.fromkeys(counts, 0), "instructions": 1, kind: 1}
    return three(counts)


def deliveries(machine, column, last=LAST):
    """What the PMIs of Linux's program A.1 add: root mode's part and the guest's."""
    root = less(root_counts(machine, column, "a1", last), root_counts(machine, column, "a1", BASE))
    values = [machine.value(column, "a1", item, "nonroot_instructions") for item in (last, BASE)]
    if root is None or None in values or machine.entry("intercept", "a1", last, "exits") is None:
        return None
    counts = dict(root, deliveries=published.TABLE_4_2_PMIS[last])
    counts["instructions"] += values[0] - values[1]
    # Those that the guest executes itself: what exits under intercept, less what exits here.
    for kind, count in less(
        *(trapped(machine, name, last) for name in ("intercept", column))
    ).items():
        counts[kind] += max(count, 0)
    return three(counts)


def ratios(machine, last):
    """Estimated cycles of what these PMIs add, over native's, at the mean unit costs."""
    found = {name: deliveries(machine, name, last) for name in COLUMNS}
    base = found["native"]
    return [
        (
            Cell(NONE, "ratio")
            if base is None or found[name] is None
            else Cell(f"{ratio(found[name][0], base[0])}", "ratio")
        )
        for name in COLUMNS
    ]


def with_ratios(table, machine):
    """Table 4.2 of Linux with the model's ratio of cycles beside its counts: the published ratios
    are of time."""
    rows, item = [], None
    for at, there in enumerate(table.rows):
        rows.append(there)
        if there.kind == "group":
            item = next(
                each.name for each in ALL.items("a1") if there.label.startswith(f"{each.label}:")
            )
        following = table.rows[at + 1] if at + 1 < len(table.rows) else None
        if there.label.startswith("x ") and (following is None or following.kind == "group"):
            pads = [Cell("", "published")] * (len(table.heads) - len(COLUMNS))
            rows.append(Row("cycles, estimated, x native", ratios(machine, item) + pads, "sub"))
    table.rows = rows
    table.reading.append(
        "Cycles, estimated: by the unit costs of the model, with their range further "
        "down (What these figures can say). An estimate, no measurement."
    )
    return table


def row(table, label, found, whys):
    base = found.get("native")
    cells = [
        (
            table.missing(whys[name])
            if found[name] is None
            else Cell(f"{number(round(found[name][0]))}")
        )
        for name in COLUMNS
    ]
    table.rows.append(Row(label, cells))
    table.rows.append(
        Row(
            "range",
            [
                Cell(
                    (
                        NONE
                        if found[name] is None
                        else f"{found[name][1]:,.0f} to {found[name][2]:,.0f}"
                    ),
                    "range",
                )
                for name in COLUMNS
            ],
            "sub",
        )
    )
    if base is None:
        return
    quotients = {
        name: (
            None
            if found[name] is None
            else sorted(mine / its for mine, its in zip(found[name], base))
        )
        for name in COLUMNS
    }
    table.rows.append(
        Row(
            "x native",
            [
                Cell(NONE if found[name] is None else ratio(found[name][0], base[0]), "ratio")
                for name in COLUMNS
            ],
            "sub",
        )
    )
    table.rows.append(
        Row(
            "range",
            [
                Cell(
                    (
                        NONE
                        if quotients[name] is None or quotients[name][0] == quotients[name][-1]
                        else f"{ratio(quotients[name][0], 1)} to {ratio(quotients[name][-1], 1)}"
                    ),
                    "range",
                )
                for name in COLUMNS
            ],
            "sub",
        )
    )


def why(machine, column, experiment, item):
    """Why there is no estimate."""
    if machine.value(column, experiment, item, "exits") == 0:
        return "it does not exit, and the model has no unit cost of the instruction itself"
    if experiment == "a1" and machine.entry("intercept", "a1", item, "exits") is None:
        return "needs the column intercept, which has the guest's accesses to MSRs"
    return machine.why(column, experiment, item)


def estimate_table(machine):
    table = Table(
        "estimate",
        "Estimated cycles of the main tables",
        "estimated, not measured: cycles",
        list(COLUMNS),
        [("estimated, not measured: cycles", len(COLUMNS))],
    )
    for title, experiment in (("Table 4.1: an access", "msr"), ("Table 4.3: an exit", "exit")):
        table.group(title)
        for _, item, _, label in ALL.items_in("estimate", experiment):
            row(
                table,
                label,
                {name: operation(machine, name, experiment, item) for name in COLUMNS},
                {name: why(machine, name, experiment, item) for name in COLUMNS},
            )
    table.group("Table 4.2: what 1000 PMIs add to Linux's program A.1")
    row(
        table,
        "1000 PMIs",
        {name: deliveries(machine, name) for name in COLUMNS},
        {name: why(machine, name, "a1", LAST) for name in COLUMNS},
    )
    table.reading.append(
        f"Unit costs: a VM exit and entry {number(round(COST['transition'].mean))}, an access to "
        f"the "
        f"VMCS {number(round(COST['vmcs'].mean))}, RDMSR {number(round(COST['rdmsr'].mean))}, "
        f"WRMSR "
        f"{number(round(COST['wrmsr'].mean))}, an NMI {number(round(COST['delivery'].mean))}, any "
        f"other "
        f"instruction {COST['cpi'].mean:.2f} cycles; their sources are with the model."
    )
    return table
