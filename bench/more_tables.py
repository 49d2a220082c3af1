# SPDX-License-Identifier: BSD-2-Clause
# more_tables.py: Tables 4.4 to 4.7, exits per PMI, the parts of a PMI and the ablation, from the
# results of one machine. The shapes are those of tables.py.
import plan
import pool
import published
from cells import NONE, Cell, Row, columns_of, millions, number, percent, signed
from columns import is_kvm
from results import COLUMNS
from tables import (BASE, PERIODS, asked, block, count_row, difference, levels, new_table,
                    operations, overhead, profile_metric, profile_overhead, published_cells,
                    range_rows, ratio_cells, value_cells)

PROFILE_SHARES = tuple(published.TABLE_4_4)
SPARSER = 10  # times as densely do samples come here as in the thesis
NGINX_ROWS = (("latency_avg", "latency, average"), ("latency_max", "latency, maximum"),
              ("rate", "requests per second"), ("transfer", "transferred per s"))
PMI_ITEMS = (("overflow_to_handler", "overflow to handler"), ("handler_to_iret", "IRET and back"),
             ("lvtpc_write", "LVTPC write"), ("nmi_self", "NMI to itself"),
             ("pmu_switch", "PMU switch, no exit"))
VARIANTS = (("compiled_out", "not compiled in"), ("none", "none"), ("no_lost", "all but lost"),
            ("no_skid", "all but skid"), ("no_unblock", "all but unblock"),
            ("no_mask", "all but mask"), ("lazy", "all, unblock lazy"), ("all", "all"))
ABLATED = (("cpuid", "CPUID"), ("vmcall", "VMCALL"), ("inl", "INL"), ("outl", "OUTL"),
           ("cpuid_blocked", "CPUID in NMI handler"))
PLOTTED = ("cpuid", "cpuid_blocked")  # of these: with all of them the figure would not be readable
EMULATED_TIME = ("A time that a program took in the emulator is the number of instructions "
                 "executed meanwhile, idle time included, and says nothing of a real machine's.")
NOT_REPEATED = ("What nginx executes depends on when its packets come, and differs from run to run. "
                "When a run ends, up to {connections} requests are under way, whose instructions are "
                "counted. ")
ONE_RUN = "This is one run: differences below {batch} say nothing."
FEW_RUNS = (f"The figure is the median of {{runs}} runs; fewer than {pool.FEWEST} tell no difference.")
MORE_RUNS = ("The figure is the median of {runs} runs; below it are the least and the 95th percentile, "
             "which of fewer than 20 runs is the most. Two columns differ where each median lies outside "
             "the other's range, and they are more than {batch} apart.")
ONE_PROCESSOR = "the guest of the emulator's KVM has one processor"
TWO_PROCESSORS = "two processors, as in the thesis"
UNITS_OF_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
UNITS_OF_SIZE = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def scaled(value, unit):
    """A time or a size in the unit that suits it; a count as it is."""
    for size, name in {"ns": UNITS_OF_TIME, "bytes": UNITS_OF_SIZE}.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.2f} {name}"
    return number(value) + {"ns": " ns", "bytes": " B", "percent": " %"}.get(unit, "")


def table_4_4(machine):
    names = columns_of(published.TABLE_4_4_COLUMNS)
    table = new_table("t44", "Table 4.4: share of each function in the profile of Listing 2",
                      "percent of samples", published.TABLE_4_4_COLUMNS, "published: percent",
                      ["expected"])
    for name in PROFILE_SHARES:
        values, whys = asked(machine, "profile", f"share_{name}", "share")
        figures = published.TABLE_4_4[name]
        expected = [Cell(str(figures["expected"]), "published")]
        table.rows.append(Row(f"{name}()", value_cells(table, values, whys, "{:.2f}".format)
                              + published_cells(figures, names) + expected))
        native = values["native"]
        cells = [Cell(difference(values[column], native), "ratio") for column in COLUMNS]
        cells += [Cell(difference(float(figures[column]), float(figures["native"])), "published")
                  for column in names]
        table.rows.append(Row("points to native", cells + [Cell("", "published")], "sub"))
    values, whys = asked(machine, "profile", "profiled", "samples")
    blanks = [Cell("", "published") for _ in range(len(names) + 1)]
    table.rows.append(Row("samples", value_cells(table, values, whys) + blanks))
    return table


def overhead_rows(table, machine_overheads, whys, theirs, names):
    """Overhead in percent, and the difference to native's in percentage points."""
    table.rows.append(Row("overhead", value_cells(table, machine_overheads, whys,
                                                  lambda value: percent(value, 2))
                          + published_cells(theirs, names, lambda text: f"{text} %")))
    native = machine_overheads["native"]
    cells = [Cell(difference(machine_overheads[column], native), "ratio") for column in COLUMNS]
    cells += [Cell(difference(float(theirs[name]), float(theirs["native"])), "published")
              for name in names]
    table.rows.append(Row("points to native", cells, "sub"))


def table_4_5(machine):
    names = columns_of(published.TABLE_4_5_COLUMNS)
    unit = "instructions (exact count), millions" if machine.exact else "time: median"
    table = new_table("t45", "Table 4.5: Listing 2 without and with perf record", unit,
                      published.TABLE_4_5_COLUMNS, "published: s")
    table.reading += levels(machine)
    for item, label in (("plain", "without profiling"), ("profiled", "with profiling")):
        values, whys = asked(machine, "profile", item, profile_metric(machine))
        block(table, label, values, whys, published.TABLE_4_5[item], names,
              text=millions if machine.exact else lambda value: scaled(value, "ns"))
    count_row(table, machine, "samples", "profile", "profiled", ("samples",), names)
    overheads = {name: profile_overhead(machine, name) for name in COLUMNS}
    overhead_rows(table, overheads, whys, published.TABLE_4_5_OVERHEAD, names)
    if machine.exact:
        table.rows.append(Row("instructions per sample", value_cells(
            table, {name: per_sample(machine, name) for name in COLUMNS}, whys)
            + [Cell("", "published") for _ in names]))
        table.rows.append(Row("overhead, 1/10 samples", value_cells(
            table, {name: None if overhead_there is None else overhead_there / SPARSER
                    for name, overhead_there in overheads.items()}, whys,
            lambda value: percent(value, 2)) + [Cell("", "published") for _ in names]))
        table.reading.append(
            "Samples come about ten times as densely here as in the thesis, because an emulated "
            "program is short. So compare the cost of one sample: with profiling less without, by "
            "their number. The last row is calculated: a tenth of the samples, each at that cost.")
    table.reading.append("Overhead: with profiling over without, less 1. The iterations are scaled "
                         "to the machine, so compare overheads, not times.")
    return table


def per_sample(machine, column):
    """What one sample adds; None where it is not known."""
    plain, profiled = (machine.value(column, "profile", item, "instructions")
                       for item in ("plain", "profiled"))
    samples = machine.value(column, "profile", "profiled", "samples")
    return None if None in (plain, profiled, samples) or samples == 0 else \
        (profiled - plain) / samples


def two_processors(table, machine, item, names):
    """The same with a processor for each of nginx and wrk."""
    table.group(TWO_PROCESSORS)
    values, whys = asked(machine, plan.TWO, item, "instructions")
    whys = {name: ONE_PROCESSOR if is_kvm(name) else why for name, why in whys.items()}
    block(table, "instructions/request", values, whys)
    range_rows(table, machine, plan.TWO, item, names, "instructions")
    count_row(table, machine, "exits", plan.TWO, item, ("exits",), names)


def runs_reading(machine, experiment, item, where=""):
    """How many runs there are, and what they can tell."""
    found = [(entry, requests["value"]) for name in COLUMNS
             if (entry := machine.entry(name, experiment, item, "instructions"))
             and (requests := machine.entry(name, experiment, item, "requests"))]
    if not found:
        return []
    runs = sorted({entry["n"] for entry, _ in found})
    batch = max(pool.batch(*each) for each in found)
    tells = ONE_RUN if runs == [1] else FEW_RUNS if runs[0] < pool.FEWEST else MORE_RUNS
    return [((where or NOT_REPEATED) + tells).format(
        connections=pool.CONNECTIONS, batch=percent(100 * batch), runs=" or ".join(map(str, runs)))]


def nginx_table(machine, key, title, item, figures):
    names = columns_of(published.TABLE_4_6_COLUMNS)
    table = new_table(key, title, "per request, and as wrk reports", published.TABLE_4_6_COLUMNS,
                      "published")
    table.reading += levels(machine)
    if machine.exact:
        values, whys = asked(machine, "nginx", item, "instructions")
        block(table, "instructions/request", values, whys)
        range_rows(table, machine, "nginx", item, names, "instructions")
        count_row(table, machine, "exits", "nginx", item, ("exits",), names)
        two_processors(table, machine, item, names)
        table.reading += runs_reading(machine, "nginx", item)
        table.reading += runs_reading(machine, plan.TWO, item, "On two processors: ")
        table.group("as wrk reports, in emulated time")
    for metric, label in NGINX_ROWS:
        values, whys = asked(machine, "nginx", item, metric)
        units = [entry["unit"] for name in COLUMNS
                 if (entry := machine.entry(name, "nginx", item, metric))]
        unit = units[0] if units else ""
        table.rows.append(Row(label, value_cells(table, values, whys,
                                                 lambda value, unit=unit: scaled(value, unit))
                              + published_cells(figures[metric], names)))
        # Ratios of emulated time would look like results.
        if values["native"] is not None and not machine.exact:
            theirs = {name: figures[metric][name].split()[0] for name in names}
            block_ratio(table, values, theirs, names)
    for metric in ("requests", "samples"):
        if any(machine.value(name, "nginx", item, metric) is not None for name in COLUMNS):
            count_row(table, machine, f"{metric}, all runs", "nginx", item, (metric,), names)
    if machine.exact:
        table.reading.append(EMULATED_TIME)
    pad_rows(table)
    return table


def block_ratio(table, values, theirs, names):
    cells = ratio_cells(values, "native")
    base = float(theirs["native"])
    cells += [Cell(f"{float(theirs[name]) / base:.2f}x", "published") for name in names]
    table.rows.append(Row("x native", cells, "sub"))


def pad_rows(table):
    """Rows that have nothing published get empty cells there."""
    for row in table.rows:
        if row.kind != "group":
            row.cells += [Cell("", "published")] * (len(table.heads) - len(row.cells))


def table_4_6(machine):
    return nginx_table(machine, "t46", "Table 4.6: nginx and wrk without profiling", "plain",
                       published.TABLE_4_6)


def table_4_7(machine):
    table = nginx_table(machine, "t47", "Table 4.7: nginx and wrk with perf record on the worker",
                        "profiled", published.TABLE_4_7)
    metric = "instructions" if machine.exact else "rate"
    overheads, whys = {}, {}
    for name in COLUMNS:
        plain, profiled = (machine.value(name, "nginx", item, metric)
                           for item in ("plain", "profiled"))
        whys[name] = machine.why(name, "nginx", "profiled")
        if metric == "rate":
            # Of throughput, as the thesis has it: the part of the requests that is lost.
            overheads[name] = None if None in (plain, profiled) or plain == 0 else \
                (1 - profiled / plain) * 100
        else:
            overheads[name] = overhead(plain, profiled)
    if machine.exact:
        table.group("of instructions per request; published: of throughput")
    overhead_rows(table, overheads, whys, published.TABLE_4_7_OVERHEAD,
                  columns_of(published.TABLE_4_6_COLUMNS))
    table.reading.append(
        "Overhead here is of instructions per request, between the medians: differences of points have "
        "the batch in them twice. The thesis's, from its text, is of throughput."
        if machine.exact else "Overhead: the part of the requests per second that is lost.")
    return table


def exits_per_pmi(machine, experiment, who):
    """Exits by reason that 1000 PMIs add, for each PMI that the program counted."""
    item = PERIODS[-1]
    table = new_table(f"exits-{experiment}", f"Exits for one PMI ({who})", "exits per PMI", {}, "")
    reasons, per_pmi, whys = {}, {}, {}
    for name in COLUMNS:
        whys[name] = machine.why(name, experiment, item)
        metrics = machine.metrics(name, experiment, item)
        pmis = metrics.get("pmis", {}).get("value")
        if not pmis or "exits" not in metrics:
            continue
        base = machine.metrics(name, experiment, BASE)
        per_pmi[name] = {}
        for metric in set(metrics) | set(base):
            if metric != "exits" and not metric.startswith("exits:"):
                continue
            added = metrics.get(metric, {}).get("value", 0) - base.get(metric, {}).get("value", 0)
            per_pmi[name][metric] = added / pmis
            if metric != "exits" and added != 0:
                reasons[metric] = True
    for metric in ["exits"] + sorted(reasons):
        values = {name: per_pmi[name].get(metric, 0) if name in per_pmi else None
                  for name in COLUMNS}
        label = "all" if metric == "exits" else metric.partition(":")[2]
        table.rows.append(Row(label, value_cells(table, values, whys),
                              "main" if metric == "exits" else "sub"))
    return table


def pmi_table(machine):
    table = new_table("pmi", "One PMI end to end (test kernel)", machine.unit(), {}, "")
    table.reading += levels(machine)
    modes = {name: machine.value(name, "pmi", "apic", "x2apic") for name in COLUMNS}
    x2apic = [name for name, mode in modes.items() if mode]
    if x2apic and 0 in modes.values():
        table.reading.append(
            f"The local APIC is in x2APIC mode under {', '.join(x2apic)}, where LVTPC and ICR are "
            "MSRs, and in xAPIC mode elsewhere, where they are in memory.")
    return operations(table, machine, "pmi", PMI_ITEMS, {}, (), True)


def switch_table(machine):
    table = new_table("switch", "A context switch between two processes that count for themselves",
                      machine.unit(), {}, "")
    operations(table, machine, "context_switch",
               (("plain", "without counters"), ("counted", "four counters add")), {}, (), False)
    table.reading.append("Two processes on one processor hand each other a byte. Each has four "
                         "counters of its own, as PAPI has them, which Linux saves and loads at "
                         "each switch.")
    return table


def ablation_table(machine):
    """What the bookkeeping and its parts add to an exit, under msr+nmi."""
    metric = machine.main_metric("ablation")
    heads = ["root instr.", "added", "VMREAD", "VMWRITE"] if machine.exact else \
        ["cycles", "added"]
    table = new_table("ablation", "Ablation: an exit with parts of the bookkeeping left out", "",
                      {}, "")
    table.heads = heads
    table.groups = [("msr+nmi: exact counts" if machine.exact else "msr+nmi: cycles, median",
                     len(heads))]
    main = "root_instructions" if machine.exact else metric
    table.reading.append("Added: to the same exit of a hypervisor without the bookkeeping's code, "
                         "or, where that was not run, with all of it switched off. It adds "
                         f"{published.TABLE_4_3_OVERHEAD['cpuid']} cycles to the thesis's CPUID.")
    for item, label in ABLATED:
        known = {variant: machine.metrics("msr+nmi", "ablation", f"{item}@{variant}")
                 for variant, _ in VARIANTS}
        if not any(known.values()):
            continue
        table.group(label)
        least = "compiled_out" if main in known["compiled_out"] else "none"
        bare = known[least].get(main, {}).get("value")
        for variant, words in VARIANTS:
            found = known[variant]
            if main not in found:
                why = machine.why("msr+nmi", "ablation", f"{item}@{variant}")
                table.rows.append(Row(words, [table.missing(why)] + [Cell("")] * (len(heads) - 1)))
                continue
            value = found[main]["value"]
            cells = [Cell(number(value)),
                     Cell(NONE if bare is None else signed(value - bare), "ratio")]
            cells += [Cell(number(found[name]["value"]) if name in found else NONE)
                      for name in ("vmread", "vmwrite")] if machine.exact else []
            table.rows.append(Row(words, cells))
    return table
