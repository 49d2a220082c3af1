# SPDX-License-Identifier: BSD-2-Clause
# more_tables.py: Tables 4.4 to 4.7, exits per PMI, the parts of a PMI and the ablation, from the
# results of one machine. The shapes are those of tables.py.
import plan
import pool
import published
from cells import NONE, Cell, Table, millions, number, percent, signed
from columns import VARIANTS
from measurements import ALL
from results import COLUMNS
from tables import (
    BASE,
    PERIODS,
    asked,
    block,
    count_row,
    difference,
    levels,
    new_table,
    of_items,
    overhead,
    profile_overhead,
    published_cells,
    range_rows,
    value_cells,
)

SPARSER = 10  # times as densely do samples come here as in the thesis
NGINX_ROWS = (
    ("latency_avg", "latency, average"),
    ("latency_max", "latency, maximum"),
    ("rate", "requests per second"),
    ("transfer", "transferred per s"),
)
PLOTTED = ("cpuid", "cpuid_blocked")  # of these: with all of them the figure would not be readable
EMULATED_TIME = (
    "A time that a program took in the emulator is the number of instructions "
    "executed meanwhile, idle time included, and says nothing of a real machine's."
)
NOT_REPEATED = (
    "What nginx executes depends on when its packets come, and differs from run to run. "
    "When a run ends, up to {connections} requests are under way, whose instructions are "
    "counted. "
)
ONE_RUN = "This is one run: differences below {batch} say nothing."
FEW_RUNS = (
    f"The figure is the median of {{runs}} runs; fewer than {pool.FEWEST} tell no difference."
)
MORE_RUNS = (
    "The figure is the median of {runs} runs; below it are the least and the 95th percentile, "
    "which of fewer than 20 runs is the most. Two columns differ where each median lies outside "
    "the other's range, and they are more than {batch} apart."
)
TWO_PROCESSORS = "two processors, as in the thesis"
UNITS_OF_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
UNITS_OF_SIZE = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def scaled(value, unit):
    """A time or a size in the unit that suits it; a count as it is."""
    for size, name in {"ns": UNITS_OF_TIME, "bytes": UNITS_OF_SIZE}.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.2f} {name}"
    return number(value) + {"ns": " ns", "bytes": " B", "percent": " %"}.get(unit, "")


def points_row(table, values, figures):
    """The difference to native's, ours and published, in percentage points."""
    table.add(
        "points to native",
        [Cell(difference(values[name], values["native"]), "ratio") for name in COLUMNS]
        + [
            Cell(difference(float(figures[name]), float(figures["native"])), "published")
            for name in table.theirs
        ],
        "sub",
    )


def table_4_4(machine):
    table = new_table(
        "t44",
        "Table 4.4: share of each function in the profile of Listing 2",
        "percent of samples",
        published.TABLE_4_4_COLUMNS,
        "published: percent",
        ["expected"],
    )
    for name, figures in published.TABLE_4_4.items():
        values = asked(machine, "profile", f"share_{name}", "share")
        table.add(
            f"{name}()",
            value_cells(table, values, "{:.2f}".format)
            + published_cells(table, figures)
            + [Cell(str(figures["expected"]), "published")],
        )
        points_row(table, values, figures)
    table.add("samples", value_cells(table, asked(machine, "profile", "profiled", "samples")))
    return table


def overhead_rows(table, overheads, theirs):
    """Overhead in percent, and the difference to native's in percentage points."""
    table.add(
        "overhead",
        value_cells(table, overheads, lambda value: percent(value, 2))
        + published_cells(table, theirs, lambda text: f"{text} %"),
    )
    points_row(table, overheads, theirs)


def table_4_5(machine):
    unit = "instructions (exact count), millions" if machine.exact else "time: median"
    table = new_table(
        "t45",
        "Table 4.5: Listing 2 without and with perf record",
        unit,
        published.TABLE_4_5_COLUMNS,
        "published: s",
    )
    table.reading += levels(machine)
    for _, item, _, label in ALL.items_in("t45"):
        values = asked(machine, "profile", item, machine.metric)
        block(
            table,
            label,
            values,
            published.TABLE_4_5[item],
            millions if machine.exact else lambda value: scaled(value, "ns"),
        )
    count_row(table, machine, "samples", "profile", "profiled", "samples")
    overheads = values.to(lambda name: profile_overhead(machine, name))
    overhead_rows(table, overheads, published.TABLE_4_5_OVERHEAD)
    if machine.exact:
        table.add(
            "instructions per sample",
            value_cells(table, values.to(lambda name: per_sample(machine, name))),
        )
        table.add(
            "overhead, 1/10 samples",
            value_cells(table, overheads, lambda value: percent(value / SPARSER, 2)),
        )
        table.reading.append(
            "Samples come about ten times as densely here as in the thesis, because an emulated "
            "program is short. So compare the cost of one sample: with profiling less without, by "
            "their number. The last row is calculated: a tenth of the samples, each at that cost."
        )
    table.reading.append(
        "Overhead: with profiling over without, less 1. The iterations are scaled "
        "to the machine, so compare overheads, not times."
    )
    return table


def per_sample(machine, column):
    """What one sample adds; None where it is not known."""
    plain, profiled = (
        machine.value(column, "profile", item, "instructions") for item in ("plain", "profiled")
    )
    samples = machine.value(column, "profile", "profiled", "samples")
    return (
        None if None in (plain, profiled, samples) or samples == 0 else (profiled - plain) / samples
    )


def runs_reading(machine, experiment, item, where=""):
    """How many runs there are, and what they can tell."""
    found = [
        (entry, requests["value"])
        for name in COLUMNS
        if (entry := machine.entry(name, experiment, item, "instructions"))
        and (requests := machine.entry(name, experiment, item, "requests"))
    ]
    if not found:
        return []
    runs = sorted({entry["n"] for entry, _ in found})
    batch = max(pool.batch(*each) for each in found)
    tells = ONE_RUN if runs == [1] else FEW_RUNS if runs[0] < pool.FEWEST else MORE_RUNS
    return [
        ((where or NOT_REPEATED) + tells).format(
            connections=pool.CONNECTIONS,
            batch=percent(100 * batch),
            runs=" or ".join(map(str, runs)),
        )
    ]


def per_request(table, machine, experiment, item):
    """What a request executes, with the range over the runs."""
    values = asked(machine, experiment, item, "instructions")
    block(table, "instructions/request", values)
    range_rows(table, machine, experiment, item, "instructions")
    count_row(table, machine, "exits", experiment, item, "exits")


def nginx_table(machine, key, title, figures):
    item = ALL.items_in(key)[0].name
    table = new_table(
        key, title, "per request, and as wrk reports", published.TABLE_4_6_COLUMNS, "published"
    )
    table.reading += levels(machine)
    if machine.exact:
        per_request(table, machine, "nginx", item)
        table.group(TWO_PROCESSORS)
        per_request(table, machine, plan.TWO, item)
        table.reading += runs_reading(machine, "nginx", item)
        table.reading += runs_reading(machine, plan.TWO, item, "On two processors: ")
        table.group("as wrk reports, in emulated time")
    for metric, label in NGINX_ROWS:
        units = [
            entry["unit"]
            for name in COLUMNS
            if (entry := machine.entry(name, "nginx", item, metric))
        ]
        values = asked(machine, "nginx", item, metric)
        # Ratios of emulated time would look like results.
        block(
            table,
            label,
            values,
            figures[metric],
            lambda value, unit=(units or [""])[0]: scaled(value, unit),
            () if machine.exact or values["native"] is None else ("native",),
        )
    for metric in ("requests", "samples"):
        if any(machine.value(name, "nginx", item, metric) is not None for name in COLUMNS):
            count_row(table, machine, f"{metric}, all runs", "nginx", item, metric)
    if machine.exact:
        table.reading.append(EMULATED_TIME)
    return table


def table_4_6(machine):
    return nginx_table(
        machine, "t46", "Table 4.6: nginx and wrk without profiling", published.TABLE_4_6
    )


def table_4_7(machine):
    table = nginx_table(
        machine,
        "t47",
        "Table 4.7: nginx and wrk with perf record on the worker",
        published.TABLE_4_7,
    )

    def lost(name):
        """Of instructions what is added; of throughput, as the thesis has it, what is lost."""
        plain, profiled = (
            machine.value(name, "nginx", item, "instructions" if machine.exact else "rate")
            for item in ("plain", "profiled")
        )
        found = overhead(plain, profiled)
        return found if found is None or machine.exact else -found

    if machine.exact:
        table.group("of instructions per request; published: of throughput")
    overhead_rows(table, asked(machine, "nginx", "profiled").to(lost), published.TABLE_4_7_OVERHEAD)
    table.reading.append(
        "Overhead here is of instructions per request, between the medians: differences of points "
        "have "
        "the batch in them twice. The thesis's, from its text, is of throughput."
        if machine.exact
        else "Overhead: the part of the requests per second that is lost."
    )
    return table


def per_pmi(machine, column, experiment):
    """{metric: what one of 1000 PMIs adds}: the run less its base, over the PMIs that it counted;
    {} where it is not known."""
    run, base = (machine.metrics(column, experiment, item) for item in (PERIODS[-1], BASE))
    pmis = run.get("pmis", {}).get("value")
    if not pmis or "exits" not in run:
        return {}
    return {
        metric: (run.get(metric, {}).get("value", 0) - base.get(metric, {}).get("value", 0)) / pmis
        for metric in sorted({*run, *base})
    }


def exits_per_pmi(machine, experiment, who):
    """Exits by reason that 1000 PMIs add, for each PMI that the program counted."""
    table = new_table(f"exits-{experiment}", f"Exits for one PMI ({who})", "exits per PMI")
    found = {name: per_pmi(machine, name, experiment) for name in COLUMNS}
    reasons = {
        metric
        for metrics in found.values()
        for metric, value in metrics.items()
        if metric.startswith("exits:") and value
    }
    whys = asked(machine, experiment, PERIODS[-1])
    for metric in ["exits", *sorted(reasons)]:
        values = whys.to(
            lambda name, metric=metric: found[name].get(metric, 0) if found[name] else None
        )
        table.add(
            metric.partition(":")[2] or "all",
            value_cells(table, values),
            "main" if metric == "exits" else "sub",
        )
    return table


def apic_modes(machine):
    """Where the local APIC is not in the same mode in all columns: a sentence."""
    modes = {name: machine.value(name, "pmi", "apic", "x2apic") for name in COLUMNS}
    x2apic = [name for name, mode in modes.items() if mode]
    return (
        [
            f"The local APIC is in x2APIC mode under {', '.join(x2apic)}, where LVTPC and ICR are "
            "MSRs, and in xAPIC mode elsewhere, where they are in memory."
        ]
        if x2apic and 0 in modes.values()
        else []
    )


def other_tables(machine):
    """The tables of measurements.ini that are not the thesis's."""
    made = [
        of_items(machine, key)
        for key, what in ALL.of_kind("table").items()
        if key not in published.TABLES and not (machine.exact and what.get("metal") == "yes")
    ]
    for table in made:
        table.reading += apic_modes(machine) if table.key == "pmi" else []
    return made


def ablation_table(machine):
    """What the bookkeeping and its parts add to an exit, under msr+nmi."""
    heads = ["root instr.", "added", "VMREAD", "VMWRITE"] if machine.exact else ["cycles", "added"]
    table = Table(
        "ablation",
        "Ablation: an exit with parts of the bookkeeping left out",
        "",
        heads,
        [("msr+nmi: exact counts" if machine.exact else "msr+nmi: cycles, median", len(heads))],
    )
    main = "root_instructions" if machine.exact else machine.metric
    table.reading.append(
        "Added: to the same exit of a hypervisor without the bookkeeping's code, "
        "or, where that was not run, with all of it switched off. It adds "
        f"{published.TABLE_4_3_OVERHEAD['cpuid']} cycles to the thesis's CPUID."
    )
    for item, label in ((found.name, found.label) for found in ALL.items_in("ablation")):
        known = {
            variant: machine.metrics("msr+nmi", "ablation", f"{item}@{variant}")
            for variant in VARIANTS
        }
        if not any(known.values()):
            continue
        table.group(label)
        least = "compiled_out" if main in known["compiled_out"] else "none"
        bare = known[least].get(main, {}).get("value")
        for variant, part in VARIANTS.items():
            found = known[variant]
            if main not in found:
                why = machine.why("msr+nmi", "ablation", f"{item}@{variant}")
                table.add(part.title, [table.missing(why)])
                continue
            value = found[main]["value"]
            cells = [
                Cell(number(value)),
                Cell(NONE if bare is None else signed(value - bare), "ratio"),
            ]
            cells += (
                [
                    Cell(number(found[name]["value"]) if name in found else NONE)
                    for name in ("vmread", "vmwrite")
                ]
                if machine.exact
                else []
            )
            table.add(part.title, cells)
    return table
