# SPDX-License-Identifier: BSD-2-Clause
# tables.py: the thesis's Tables 4.1 to 4.3 from the results of one machine: five columns, ratios to
# native and to KVM, the published figures beside them. Also the list of what must hold.
import published
import results
from cells import NONE, Cell, Row, Table, columns_of, number, percent, points, ratio
from results import COLUMNS

MSR_ITEMS = (("rdmsr_evtsel", "RDMSR EVTSEL"), ("wrmsr_evtsel", "WRMSR EVTSEL"),
             ("rdmsr_pmc", "RDMSR A_PMC"), ("wrmsr_pmc", "WRMSR A_PMC"),
             ("rdmsr_ctrl", "RDMSR CTRL"), ("wrmsr_ctrl", "WRMSR CTRL"),
             ("rdmsr_status", "RDMSR STATUS"), ("rdpmc", "RDPMC"))
# Not the thesis's: it writes 0 over 0, which KVM finds to be no change.
MSR_CHANGES = (("wrmsr_evtsel_change", "WRMSR EVTSEL, EN changes"),
               ("wrmsr_ctrl_change", "WRMSR CTRL, a bit changes"))
# A branch record, which the thesis has not.
MSR_RECORDS = (("rdmsr_lbr_from", "RDMSR LBR_FROM"), ("wrmsr_lbr_from", "WRMSR LBR_FROM"),
               ("read_lbrs", "32 LBRs: 96 RDMSR"))
EXIT_ITEMS = (("cpuid", "CPUID"), ("vmcall", "VMCALL"), ("inl", "INL"), ("outl", "OUTL"),
              ("inl_passed", "INL, passed port"), ("cpuid_blocked", "CPUID in NMI"))
PERIODS = ("m200000", "m10000", "m1000", "m100")
BASE = "m200000"

# What the contract of the measurements wants in the emulator.
MAX_EXTRA_RATIO = 1.02
MAX_EXIT_SHARE_OF_KVM = 0.1
MAX_PROFILE_POINTS = 0.3
MAX_SHARE_POINTS = 0.5
HOLDS_FOR = ("msr", "msr+nmi")
HOLDS, BROKEN, NOT_MEASURED = "holds", "does not hold", "not measured"

# What the published ratios are of is cycles: beside them a ratio to one instruction means nothing.
ONE_INSTRUCTION = 1
NO_RATIO = ("No ratio to native where that executes the one instruction: an exit's instructions over it say "
            "nothing about time, and a published ratio of cycles is none to compare them with.")
LEVELS = ("On this machine the column kvm has one level of virtualisation below it, PMUvisor's "
          "have two: the host's KVM is below both, so that one exit of PMUvisor's guest costs "
          "several of the host's. Compare PMUvisor's columns with each other, not with kvm.")
DR7 = ("Natively, too, CPUID says that there is a hypervisor (a knob of the emulator), so that Linux "
       "executes the same on both sides: its NMI entry reads DR7 on a bare machine, but under a "
       "hypervisor only where a breakpoint is set, which is 11 instructions less for each PMI "
       "(testbed/README.md).")


def new_table(key, title, unit, published_columns, published_name, extra_heads=()):
    heads = list(COLUMNS) + [published_columns[name] for name in columns_of(published_columns)]
    heads += extra_heads
    groups = [(f"measured: {unit}", len(COLUMNS))]
    if len(heads) > len(COLUMNS):
        groups.append((published_name, len(heads) - len(COLUMNS)))
    return Table(key, title, unit, heads, groups)


def levels(machine):
    """What a table with the column kvm says first, where its columns are not on one level."""
    return [LEVELS] if results.ONE_LEVEL in machine.results["columns"]["kvm"]["detail"] else []


def value_cells(table, values, whys, text=number):
    return [table.missing(whys[name]) if values[name] is None else Cell(text(values[name]))
            for name in COLUMNS]


def ratio_cells(values, base):
    return [Cell(ratio(values[name], values[base]), "ratio") for name in COLUMNS]


def published_cells(figures, names, text=str):
    return [Cell(text(figures[name]) if name in figures else "", "published") for name in names]


def published_ratios(figures, names, base):
    """Ratios of published figures; they are this project's division of the thesis's numbers."""
    if base not in figures:
        return [Cell("", "published") for _ in names]
    return [Cell(ratio(float(figures[name]), float(figures[base])), "published")
            for name in names]


def block(table, label, values, whys, figures=None, names=(), numbers=None, text=number):
    """One operation: its row, and the rows of ratios under it."""
    figures = figures or {}
    numbers = figures if numbers is None else numbers
    table.rows.append(Row(label, value_cells(table, values, whys, text)
                          + published_cells(figures, names)))
    for base in ("native", "kvm"):
        if base == "native" and values[base] == ONE_INSTRUCTION:
            continue
        if values[base] is not None or base in numbers:
            table.rows.append(Row(f"x {base}", ratio_cells(values, base)
                                  + published_ratios(numbers, names, base), "sub"))


def asked(machine, experiment, item, *metrics):
    """The values of one item in all columns, and why the missing ones are missing. The first of the
    metrics that any column has is taken."""
    for metric in metrics:
        values = {name: machine.value(name, experiment, item, metric) for name in COLUMNS}
        if any(value is not None for value in values.values()):
            break
    whys = {name: machine.why(name, experiment, item) for name in COLUMNS}
    return values, whys


def range_rows(table, machine, experiment, item, names, metric="time"):
    """Minimum and 95th percentile, where there were several runs."""
    for key, label in (("min", "minimum"), ("p95", "95th percentile")):
        found = [machine.metrics(name, experiment, item).get(metric, {}).get(key)
                 for name in COLUMNS]
        if any(value is not None for value in found):
            cells = [Cell(NONE if value is None else number(value), "range") for value in found]
            table.rows.append(Row(label, cells + [Cell("", "published") for _ in names], "sub"))


def count_row(table, machine, label, experiment, item, metrics, names=()):
    """A row of exact counts under an operation: the sum of these metrics."""
    cells = []
    for column in COLUMNS:
        found = [machine.value(column, experiment, item, metric) for metric in metrics]
        cells.append(Cell(NONE if None in found else number(sum(found))))
    if any(cell.text != NONE for cell in cells):
        table.rows.append(Row(label, cells + [Cell("", "published") for _ in names], "sub"))


def operations(table, machine, experiment, items, figures, names, accesses):
    for item, label in items:
        # Between an overflow and its handler lies no region; the TSC counts instructions there.
        values, whys = asked(machine, experiment, item, machine.main_metric(experiment), "time")
        block(table, label, values, whys, figures.get(item), names)
        if not machine.exact:
            range_rows(table, machine, experiment, item, names)
        count_row(table, machine, "exits", experiment, item, ("exits",), names)
        if accesses:
            count_row(table, machine, "root instructions", experiment, item,
                      ("root_instructions",), names)
            count_row(table, machine, "VMREAD, VMWRITE", experiment, item,
                      ("vmread", "vmwrite"), names)
    return table


def table_4_1(machine):
    names = columns_of(published.TABLE_4_1_COLUMNS)
    table = new_table("t41", "Table 4.1: one access to an MSR of the PMU", machine.unit(),
                      published.TABLE_4_1_COLUMNS, "published: cycles")
    table.reading += levels(machine) + ([NO_RATIO] if machine.exact else [])
    return operations(table, machine, "msr", MSR_ITEMS + MSR_CHANGES + MSR_RECORDS,
                      published.TABLE_4_1, names, False)


def table_4_3(machine):
    names = columns_of(published.TABLE_4_3_COLUMNS)
    table = new_table("t43", "Table 4.3: one VM exit", machine.unit(),
                      published.TABLE_4_3_COLUMNS, "published: cycles")
    table.reading += levels(machine)
    operations(table, machine, "exit", EXIT_ITEMS, published.TABLE_4_3, names, True)
    table.reading.append(
        "The thesis's two columns are KVM without and with its bookkeeping for NMIs, which costs "
        "it " + ", ".join(f"{label} {published.TABLE_4_3_OVERHEAD[item]}"
                          for item, label in EXIT_ITEMS if item in published.TABLE_4_3_OVERHEAD)
        + " cycles. What bookkeeping costs here is in the table of the ablation.")
    table.reading.append(
        "INL and OUTL go to a port that traps: under KVM that is ELCR, which KVM keeps in memory; "
        "under PMUvisor and natively PM1a control, which is in the chipset and slow on hardware.")
    return table


def a1_metric(machine, experiment):
    """Linux times A.1 in ns, the test kernel in cycles; in the emulator both are counted."""
    return machine.main_metric(experiment)


def extra(machine, experiment, item, column):
    """What M's PMIs add to the run without any; None where either is not there."""
    metric = a1_metric(machine, experiment)
    value = machine.value(column, experiment, item, metric)
    base = machine.value(column, experiment, BASE, metric)
    return None if value is None or base is None else value - base


def published_extra(item):
    return {name: float(text) - float(published.TABLE_4_2[BASE][name])
            for name, text in published.TABLE_4_2[item].items()}


def table_4_2(machine, experiment, who):
    unit = "instructions (exact count)" if machine.exact else "ns: median"
    if not machine.exact and experiment == "a1k":
        unit = "cycles: median"
    names = columns_of(published.TABLE_4_2_COLUMNS)
    table = new_table(f"t42-{experiment}", f"Table 4.2, {who}: program A.1, N = 100000", unit,
                      published.TABLE_4_2_COLUMNS, "published: ms")
    table.reading += levels(machine)
    for item in PERIODS:
        values, whys = asked(machine, experiment, item, a1_metric(machine, experiment))
        pmis = published.TABLE_4_2_PMIS[item]
        table.group(f"M = {item[1:]}: {pmis} PMIs expected")
        table.rows.append(Row("whole program", value_cells(table, values, whys)
                              + published_cells(published.TABLE_4_2[item], names)))
        if not machine.exact:
            range_rows(table, machine, experiment, item, names)
        count_row(table, machine, "PMIs", experiment, item, ("pmis",), names)
        if item == BASE:
            continue
        added = {name: extra(machine, experiment, item, name) for name in COLUMNS}
        theirs = published_extra(item)
        block(table, "extra over base", added, whys,
              {name: f"{theirs[name]:.3f}" for name in theirs}, names, theirs)
    table.reading.append("Extra over base: less the run with M = 200000, which has no PMI. The "
                         "ratios are those of the extra.")
    if machine.exact and experiment == "a1":
        table.reading.append(bare_sentence(machine))
    if experiment == "a1k":
        table.reading.append(
            "The test kernel's handler makes the accesses that Linux's makes for a PMI, and does "
            "nothing else. So native's extra is small here, and a ratio to it larger than with "
            "Linux: compare the extra itself, and the ratios to KVM.")
    return table


def bare_sentence(machine):
    """What the base of Linux's ratios is, and the same without that."""
    ours, native = (extra(machine, "a1_bare", "m100", name) for name in ("msr+nmi", "native"))
    text = DR7
    if native is not None:
        text += f" Without that bit native's extra of 1000 PMIs is {number(native)}"
        if ours is not None:
            text += f"; with hypervisor_bit=off msr+nmi's is {number(ours)}, {ours / native:.4f} x that"
        text += "."
    return text


def overhead(plain, profiled):
    """In percent; None where either is not known."""
    return None if None in (plain, profiled) or plain == 0 else (profiled / plain - 1) * 100


def profile_metric(machine):
    return "instructions" if machine.exact else "time"


def profile_overhead(machine, column):
    return overhead(*(machine.value(column, "profile", item, profile_metric(machine))
                      for item in ("plain", "profiled")))


def difference(value, native):
    return NONE if None in (value, native) else points(value - native)


def share_distance(machine, column):
    """How far a function's share of the samples is from native's at most, in points; None where
    either column lacks one."""
    pairs = [[machine.value(name, "profile", f"share_{share}", "share")
              for name in (column, "native")] for share in published.TABLE_4_4]
    if any(None in pair for pair in pairs):
        return None
    return max(abs(ours - native) for ours, native in pairs)


def passthrough_fact(machine):
    """(whether every cell of it was measured, whether it holds, what was found)"""
    wrong, seen, asked_for = [], 0, 0
    for item, label in MSR_ITEMS:
        native = machine.value("native", "msr", item, "instructions")
        for name in HOLDS_FOR:
            value = machine.value(name, "msr", item, "instructions")
            exits = machine.value(name, "msr", item, "exits")
            asked_for += 1
            if None in (native, value, exits):
                continue
            seen += 1
            if value != native or exits != 0:
                wrong.append(f"{label} under {name}: {number(value)} for {number(native)}, "
                             f"{number(exits)} exits")
    found = "; ".join(wrong) if wrong else f"equal, no exit, in {seen} of {asked_for} cells"
    return bool(wrong) or seen == asked_for, not wrong, found


def must_hold(machine):
    """(what, wanted, found, HOLDS or BROKEN or NOT_MEASURED), in the emulator only."""
    def fact(what, wanted, known, good, found):
        verdict = (HOLDS if good else BROKEN) if known else NOT_MEASURED
        return what, wanted, found if known else NONE, verdict

    facts = [fact("Table 4.1: a passed-through access executes as native",
                  "native's count, 0 exits", *passthrough_fact(machine))]
    for experiment, who in (("a1", "Linux"), ("a1k", "test kernel")):
        ours = extra(machine, experiment, "m100", "msr+nmi")
        native = extra(machine, experiment, "m100", "native")
        known = None not in (ours, native) and native != 0
        times = ours / native if known else 0
        facts.append(fact(f"Table 4.2 ({who}): extra of 1000 PMIs under msr+nmi",
                          f"at most {MAX_EXTRA_RATIO} x native's", known,
                          times <= MAX_EXTRA_RATIO, f"{times:.4f} x native's"))
    ours, kvm = (machine.value(name, "exit", "cpuid", "root_instructions")
                 for name in ("msr+nmi", "kvm"))
    known = None not in (ours, kvm) and kvm != 0
    facts.append(fact("Table 4.3: root instructions of a CPUID exit",
                      f"at most {MAX_EXIT_SHARE_OF_KVM:g} x KVM's", known,
                      known and ours <= MAX_EXIT_SHARE_OF_KVM * kvm,
                      f"{number(ours)} to {number(kvm)}, {ratio(ours, kvm)}" if known else NONE))
    ours, native = profile_overhead(machine, "msr+nmi"), profile_overhead(machine, "native")
    known = None not in (ours, native)
    facts.append(fact("Table 4.5: overhead of perf record under msr+nmi",
                      f"within {MAX_PROFILE_POINTS} points of native", known,
                      known and abs(ours - native) <= MAX_PROFILE_POINTS,
                      f"{percent(ours, 2)} to {percent(native, 2)}, {points(ours - native)} points"
                      if known else NONE))
    worst = share_distance(machine, "msr+nmi")
    facts.append(fact("Table 4.4: share of each function under msr+nmi",
                      f"within {MAX_SHARE_POINTS} points of native", worst is not None,
                      worst is not None and worst <= MAX_SHARE_POINTS,
                      NONE if worst is None else f"{worst:.2f} points at most"))
    return facts
