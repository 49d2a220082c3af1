# SPDX-License-Identifier: BSD-2-Clause
# tables.py: the thesis's Tables 4.1 to 4.3 from the results of one machine: five columns, ratios to
# native and to KVM, the published figures beside them. Also the list of what must hold.
import published
import results
from cells import NONE, Cell, Table, columns_of, number, percent, points, ratio
from measurements import ALL
from results import COLUMNS

PERIODS = ALL.names("a1")
BASE, *PROFILED = PERIODS

# What the contract of the measurements wants in the emulator.
MAX_EXTRA_RATIO = 1.02
MAX_EXIT_SHARE_OF_KVM = 0.1
MAX_PROFILE_POINTS = 0.3
MAX_SHARE_POINTS = 0.5
HOLDS_FOR = ("msr", "msr+nmi")
HOLDS, BROKEN, NOT_MEASURED = "holds", "does not hold", "not measured"

# What the published ratios are of is cycles: beside them a ratio to one instruction means nothing.
ONE_INSTRUCTION = 1
NO_RATIO = (
    "No ratio to native where that executes the one instruction: an exit's instructions over it "
    "say "
    "nothing about time, and a published ratio of cycles is none to compare them with."
)
LEVELS = (
    "On this machine the column kvm has one level of virtualisation below it, PMUvisor's "
    "have two: the host's KVM is below both, so that one exit of PMUvisor's guest costs "
    "several of the host's. Compare PMUvisor's columns with each other, not with kvm."
)
DR7 = (
    "Natively, too, CPUID says that there is a hypervisor (a knob of the emulator), so that Linux "
    "executes the same on both sides: its NMI entry reads DR7 on a bare machine, but under a "
    "hypervisor only where a breakpoint is set, which is 11 instructions less for each PMI "
    "(testbed/README.md)."
)


def new_table(key, title, unit, published_columns=None, published_name="", extra_heads=()):
    """A table with a column for each of ours, and one for each that was published."""
    theirs = published_columns or {}
    names = columns_of(theirs)
    heads = [*COLUMNS, *(theirs[name] for name in names), *extra_heads]
    groups = [(f"measured: {unit}", len(COLUMNS))]
    if len(heads) > len(COLUMNS):
        groups.append((published_name, len(heads) - len(COLUMNS)))
    return Table(key, title, unit, heads, groups, theirs=names)


def levels(machine):
    """What a table with the column kvm says first, where its columns are not on one level."""
    return [LEVELS] if results.ONE_LEVEL in machine.results["columns"]["kvm"]["detail"] else []


class Values(dict):
    """One quantity in all columns, None where it is missing; `why` says of a column why it is."""

    def __init__(self, values, why):
        super().__init__(values)
        self.why = why

    @property
    def known(self):
        return any(value is not None for value in self.values())

    def to(self, change):
        """What `change` makes of each column's name, missing for the same reasons."""
        return Values({name: change(name) for name in COLUMNS}, self.why)


def asked(machine, experiment, item, *metrics):
    """The values of one item: of the first of the metrics that any column has."""
    values = dict.fromkeys(COLUMNS)
    for metric in metrics:
        values = {name: machine.value(name, experiment, item, metric) for name in COLUMNS}
        if any(value is not None for value in values.values()):
            break
    return Values(values, lambda name: machine.why(name, experiment, item))


def value_cells(table, values, text=number):
    return [
        table.missing(values.why(name)) if values[name] is None else Cell(text(values[name]))
        for name in COLUMNS
    ]


def ratio_cells(values, base):
    return [Cell(ratio(values[name], values[base]), "ratio") for name in COLUMNS]


def published_cells(table, figures, text=str):
    return [
        Cell(text(figures[name]) if name in figures else "", "published") for name in table.theirs
    ]


def published_ratios(table, figures, base):
    """Ratios of published figures; they are this project's division of the thesis's numbers."""
    if base not in figures:
        return []
    numbers = {name: float(str(text).split()[0]) for name, text in figures.items()}
    return [Cell(ratio(numbers[name], numbers[base]), "published") for name in table.theirs]


def block(table, label, values, figures=None, text=number, bases=("native", "kvm")):
    """One operation: its row, and the rows of ratios under it."""
    figures = figures or {}
    table.add(label, value_cells(table, values, text) + published_cells(table, figures))
    for base in bases:
        if base == "native" and values[base] == ONE_INSTRUCTION:
            continue
        if values[base] is not None or base in figures:
            table.add(
                f"x {base}",
                ratio_cells(values, base) + published_ratios(table, figures, base),
                "sub",
            )


def range_rows(table, machine, experiment, item, metric="time"):
    """Minimum and 95th percentile, where there were several runs."""
    for key, label in (("min", "minimum"), ("p95", "95th percentile")):
        found = [
            machine.metrics(name, experiment, item).get(metric, {}).get(key) for name in COLUMNS
        ]
        if any(value is not None for value in found):
            table.add(
                label,
                [Cell(NONE if value is None else number(value), "range") for value in found],
                "sub",
            )


def count_row(table, machine, label, experiment, item, *metrics):
    """A row of exact counts under an operation: the sum of these metrics."""
    cells = []
    for column in COLUMNS:
        found = [machine.value(column, experiment, item, metric) for metric in metrics]
        cells.append(Cell(NONE if None in found else number(sum(found))))
    if any(cell.text != NONE for cell in cells):
        table.add(label, cells, "sub")


def operations(table, machine, items, figures, accesses):
    """Fills the table with what these items cost."""
    for item in items:
        cell = (item.experiment, item.name)
        # Between an overflow and its handler lies no region; the TSC counts instructions there.
        block(
            table, item.label, asked(machine, *cell, machine.metric, "time"), figures.get(item.name)
        )
        if not machine.exact:
            range_rows(table, machine, *cell)
        count_row(table, machine, "exits", *cell, "exits")
        if accesses:
            count_row(table, machine, "root instructions", *cell, "root_instructions")
            count_row(table, machine, "VMREAD, VMWRITE", *cell, "vmread", "vmwrite")
    return table


def of_items(machine, key, columns=None, figures=None):
    """The table whose rows are the items that measurements.ini has in [table KEY]; `columns` and
    `figures`: what was published of them, in cycles."""
    what = ALL.of_kind("table")[key]
    table = new_table(key, what["title"], machine.unit(), columns, "published: cycles")
    table.reading += levels(machine)
    operations(table, machine, ALL.items_in(key), figures or {}, what.get("counts") == "yes")
    table.reading += [what["reading"]] if "reading" in what else []
    return table


def table_4_1(machine):
    table = of_items(machine, "t41", published.TABLE_4_1_COLUMNS, published.TABLE_4_1)
    table.reading += [NO_RATIO] if machine.exact else []
    return table


def table_4_3(machine):
    table = of_items(machine, "t43", published.TABLE_4_3_COLUMNS, published.TABLE_4_3)
    table.reading.append(
        "The thesis's two columns are KVM without and with its bookkeeping for NMIs, which costs "
        "it "
        + ", ".join(
            f"{item.label} {published.TABLE_4_3_OVERHEAD[item.name]}"
            for item in ALL.items_in("t43")
            if item.name in published.TABLE_4_3_OVERHEAD
        )
        + " cycles. What bookkeeping costs here is in the table of the ablation."
    )
    table.reading.append(
        "INL and OUTL go to a port that traps: under KVM that is ELCR, which KVM keeps in memory; "
        "under PMUvisor and natively PM1a control, which is in the chipset and slow on hardware."
    )
    return table


def extra(machine, experiment, item, column):
    """What M's PMIs add to the run without any; None where either is not there."""
    value, base = (machine.value(column, experiment, name, machine.metric) for name in (item, BASE))
    return None if value is None or base is None else value - base


def published_extra(item):
    return {
        name: float(text) - float(published.TABLE_4_2[BASE][name])
        for name, text in published.TABLE_4_2[item].items()
    }


def table_4_2(machine, experiment, who):
    # Linux times A.1 in ns, the test kernel in cycles; in the emulator both are counted.
    unit = "cycles: median" if experiment == "a1k" else "ns: median"
    if machine.exact:
        unit = "instructions (exact count)"
    table = new_table(
        f"t42-{experiment}",
        f"Table 4.2, {who}: program A.1, N = 100000",
        unit,
        published.TABLE_4_2_COLUMNS,
        "published: ms",
    )
    table.reading += levels(machine)
    for item, label in ((found.name, found.label) for found in ALL.items("a1")):
        values = asked(machine, experiment, item, machine.metric)
        table.group(f"{label}: {published.TABLE_4_2_PMIS[item]} PMIs expected")
        table.add(
            "whole program",
            value_cells(table, values) + published_cells(table, published.TABLE_4_2[item]),
        )
        if not machine.exact:
            range_rows(table, machine, experiment, item)
        count_row(table, machine, "PMIs", experiment, item, "pmis")
        if item != BASE:
            theirs = {name: f"{value:.3f}" for name, value in published_extra(item).items()}
            block(
                table,
                "extra over base",
                values.to(lambda name, item=item: extra(machine, experiment, item, name)),
                theirs,
            )
    table.reading.append(
        "Extra over base: less the run with M = 200000, which has no PMI. The "
        "ratios are those of the extra."
    )
    if machine.exact and experiment == "a1":
        table.reading.append(bare_sentence(machine))
    if experiment == "a1k":
        table.reading.append(
            "The test kernel's handler makes the accesses that Linux's makes for a PMI, and does "
            "nothing else. So native's extra is small here, and a ratio to it larger than with "
            "Linux: compare the extra itself, and the ratios to KVM."
        )
    return table


def bare_sentence(machine):
    """What the base of Linux's ratios is, and the same without that."""
    ours, native = (extra(machine, "a1_bare", "m100", name) for name in ("msr+nmi", "native"))
    text = DR7
    if native is not None:
        text += f" Without that bit native's extra of 1000 PMIs is {number(native)}"
        if ours is not None:
            text += (
                f"; with hypervisor_bit=off msr+nmi's is {number(ours)}, {ours / native:.4f} x that"
            )
        text += "."
    return text


def overhead(plain, profiled):
    """In percent; None where either is not known."""
    return None if None in (plain, profiled) or plain == 0 else (profiled / plain - 1) * 100


def profile_overhead(machine, column):
    return overhead(
        *(machine.value(column, "profile", item, machine.metric) for item in ("plain", "profiled"))
    )


def difference(value, native):
    return NONE if None in (value, native) else points(value - native)


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
        native = extra(machine, experiment, "m100", "native") or None
        facts.append(
            fact(
                f"Table 4.2 ({who}): extra of 1000 PMIs under msr+nmi",
                f"at most {MAX_EXTRA_RATIO} x native's",
                (extra(machine, experiment, "m100", "msr+nmi"), native),
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
