# SPDX-License-Identifier: BSD-2-Clause
# formulas.py: what tables.toml calls by name ("=NAME WORDS"): figures of a column, sentences, rows
# that are no items. From the results of one machine and published.py.
from bench import columns, pool, published, results
from bench.cells import NONE, Cell, number, percent, ratio, ratios, signed
from bench.columns import PARTS, VARIANTS
from bench.measurements import ALL, EXPERIMENTS
from bench.results import COLUMNS

PERIODS = ALL.names("a1")
BASE, *PROFILED = PERIODS
LAST = PERIODS[-1]
PMIS = published.TABLE_4_2_PMIS[LAST]

LEVELS = (
    "On this machine KVM's guest has one level of virtualisation below it, and PMUvisor's guests "
    "have two. One exit of PMUvisor's guest costs several exits of the host's KVM. So compare "
    "PMUvisor's columns with each other, not with KVM."
)
DR7 = (
    "In the emulator, CPUID shows a hypervisor natively, too. Without that bit, Linux reads DR7 at "
    "each NMI, which takes 11 instructions more."
)
TWO_RUN = "On two processors: "
NOT_REPEATED = (
    "nginx's counts depend on when packets come, and differ from run to run. When a run ends, up "
    f"to {pool.CONNECTIONS} requests are under way, and their instructions are counted. "
)
ONE_RUN = "This is one run: differences below {batch} mean nothing."
FEW_RUNS = (
    f"Each figure is the median of {{runs}} runs. Fewer than {pool.FEWEST} tell no difference."
)
MORE_RUNS = (
    "Each figure is the median of {runs} runs, with their range below it. Two columns differ if "
    "each median lies outside the other's range and the medians are more than {batch} apart."
)
RECOMPOSED = "of KVM's exits, x {}"
SPARSER = 10  # times as densely do samples come here as in the thesis
UNITS = {"bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))}
EVENT_EXITS = ("vmcall", "cpuid")  # of the ablation: the same two exits with nothing to do


def scaled(value, unit):
    """A size in the unit that suits it; a count as it is."""
    for size, name in UNITS.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.2f} {name}"
    return number(value) + {"bytes": " B", "percent": " %"}.get(unit, "")


# Figures of a column: None where one that they are made of is missing.


def extra(machine, column, experiment, item):
    """What M's PMIs add to the run without any."""
    found = machine.samples(column, experiment, item, machine.metric, BASE)
    if found:
        return found.summary()["value"]
    value, base = (machine.value(column, experiment, name, machine.metric) for name in (item, BASE))
    return None if value is None or base is None else value - base


def extra_of_one(machine, column, experiment, item):
    """What one of the 1000 PMIs adds."""
    value = extra(machine, column, experiment, item)
    return None if value is None else value / PMIS


def published_extra(item):
    base = published.TABLE_4_2[BASE]
    return {
        name: f"{float(text) - float(base[name]):.3f}"
        for name, text in published.TABLE_4_2[item].items()
    }


def extra_in_print(item):
    return {name: float(text) for name, text in published_extra(item).items()}


def more(value, base):
    """In percent."""
    return None if None in (value, base) or base == 0 else (value / base - 1) * 100


def overhead(machine, column, experiment, item, base):
    """What an item has more than another, in percent."""
    return more(*(machine.value(column, experiment, name, machine.metric) for name in (item, base)))


def profile_overhead(machine, column):
    return overhead(machine, column, "profile", "profiled", "plain")


def sparse(machine, column, *_):
    """The same of a tenth of the samples, each at its cost."""
    found = profile_overhead(machine, column)
    return None if found is None else found / SPARSER


def per_sample(machine, column, *_):
    """What one sample adds."""
    plain, profiled = (
        machine.value(column, "profile", item, "instructions") for item in ("plain", "profiled")
    )
    samples = machine.value(column, "profile", "profiled", "samples")
    return None if None in (plain, profiled) or not samples else (profiled - plain) / samples


def share_distance(machine, column, *_):
    """How far a function's share of the samples is from native's at most, in points."""
    pairs = [
        [machine.value(name, "profile", f"share_{share}", "share") for name in (column, "native")]
        for share in published.TABLE_4_4
    ]
    missing = any(None in pair for pair in pairs)
    return None if missing else max(abs(ours - its) for ours, its in pairs)


def lost(machine, column, experiment, item, base):
    """Of instructions what is added; of throughput, as the thesis has it, what is lost."""
    if machine.exact:
        return overhead(machine, column, experiment, item, base)
    found = more(*(machine.value(column, experiment, name, "rate") for name in (item, base)))
    return None if found is None else -found


def of_one_pmi(machine, column, experiment):
    """{metric: what one of 1000 PMIs adds}: the run less its base, over the PMIs that it counted;
    {} where it is not known."""
    run, base = (machine.metrics(column, experiment, item) for item in (LAST, BASE))
    pmis = run.get("pmis", {}).get("value")
    if not pmis or "exits" not in run:
        return {}
    return {
        metric: (run.get(metric, {}).get("value", 0) - base.get(metric, {}).get("value", 0)) / pmis
        for metric in sorted({*run, *base})
    }


def per_pmi(machine, column, experiment, _item, *metric):
    found = of_one_pmi(machine, column, experiment)
    return found.get(" ".join(metric), 0) if found else None


def of_one_exit(machine, column, reason):
    """Root instructions of one exit of this reason in Linux's PMIs."""
    found = of_one_pmi(machine, column, "a1")
    exits, instructions = (found.get(f"{what}:{reason}") for what in ("exits", "root_instructions"))
    return instructions / exits if exits and instructions else None


def of_kvms_parts(machine):
    """{column: one PMI of its design, made of native's PMI and of KVM's exits}, for the thesis's
    two designs. Both take KVM's exit for the write of LVTPC. With NMIs injected, the NMI exits,
    too."""
    native = extra_of_one(machine, "native", "a1", LAST)
    lvtpc = machine.value("kvm", "pmi", "lvtpc_write", "root_instructions")
    nmi = of_one_exit(machine, "kvm", "exception or NMI")
    parts = {"msr": (native, nmi, lvtpc), "thesis": (native, lvtpc)}
    return {name: sum(some) for name, some in parts.items() if None not in some}


def recomposed(table, machine):
    """A row: the thesis's two designs made of KVM's parts, as parts of KVM's PMI; beside them the
    published ones."""
    kvm, found = extra_of_one(machine, "kvm", "a1", LAST), of_kvms_parts(machine)
    if not kvm or not found:
        return
    texts = ratios([found.get(name) for name in COLUMNS], kvm)
    cells = [Cell(text, "ratio") for text in texts]
    theirs = extra_in_print(LAST)
    named = [name if name in ("msr", "msr+nmi") else None for name in table.theirs]
    cells += [Cell(ratio(theirs[one], theirs["kvm"]) if one else "", "published") for one in named]
    table.add(RECOMPOSED.format(columns.head("kvm", machine)), cells, "sub")


# Lists that rows are made for.


def shares(_machine):
    """The functions of Table 4.4."""
    return [(name, name) for name in published.TABLE_4_4]


def exit_reasons(machine, experiment):
    """Of what a PMI adds in any column."""
    found = {
        metric
        for name in COLUMNS
        for metric, value in of_one_pmi(machine, name, experiment).items()
        if metric.startswith("exits:") and value
    }
    return [(metric, metric.partition(":")[2]) for metric in sorted(found)]


def machine_experiments(machine):
    there = machine.items("machine")
    return [(name, name) for name in EXPERIMENTS if name in there]


# Sentences above a table.


def levels(machine):
    """Where the columns are not on one level."""
    return [LEVELS] if results.ONE_LEVEL in machine.results["columns"]["kvm"]["detail"] else []


def bare(machine):
    """What the base of Linux's ratios is, and the same without that."""
    ours, native = (extra(machine, name, "a1_bare", "m100") for name in ("msr+nmi", "native"))
    text = DR7
    if native is not None:
        text += f" Then 1000 PMIs add {number(native)} natively"
        if ours is not None:
            text += f" and {number(ours)} under PMUvisor, {ours / native:.4f} x as many"
        text += "."
    return [text]


def bookkeeping(_machine):
    """What the thesis's bookkeeping costs, by item."""
    costs = published.TABLE_4_3_OVERHEAD
    items = (item for item in ALL.items_in("t43") if item.name in costs)
    return {"costs": ", ".join(f"{item.label} {costs[item.name]}" for item in items)}


def naive(_machine):
    return {"naive": columns.CONFIGS["naive"].title}


def runs(machine, experiment, item):
    """How many runs of nginx there are, and what they can tell."""
    found = [
        (entry, requests["value"])
        for name in COLUMNS
        if (entry := machine.entry(name, experiment, item, "instructions"))
        and (requests := machine.entry(name, experiment, item, "requests"))
    ]
    if not found:
        return []
    counts = sorted({entry["n"] for entry, _ in found})
    batch = max(pool.batch(*each) for each in found)
    tells = ONE_RUN if counts == [1] else FEW_RUNS if counts[0] < pool.FEWEST else MORE_RUNS
    where = NOT_REPEATED if experiment == "nginx" else TWO_RUN
    said = tells.format(batch=percent(100 * batch), runs=" or ".join(map(str, counts)))
    return [where + said]


def apic_modes(machine):
    """Where the local APIC is not in the same mode in all columns."""
    modes = {name: machine.value(name, "pmi", "apic", "x2apic") for name in COLUMNS}
    x2apic = [columns.head(name, machine) for name, mode in modes.items() if mode]
    return (
        [
            f"The local APIC is in x2APIC mode under {'; '.join(x2apic)}. There LVTPC and ICR are "
            "MSRs. In the other columns, which are in xAPIC mode, they are in memory."
        ]
        if x2apic and 0 in modes.values()
        else []
    )


# The tables of parts and configurations.


def count_cells(found, *metrics):
    return [Cell(number(found[name]["value"]) if name in found else NONE) for name in metrics]


def ablation(table, machine):
    """What the bookkeeping and its parts add to an exit, under msr+nmi."""
    main = "root_instructions" if machine.exact else machine.metric
    for item in ALL.items_in("ablation"):
        known = {
            variant: machine.metrics("msr+nmi", "ablation", f"{item.name}@{variant}")
            for variant in VARIANTS
        }
        if not any(known.values()):
            continue
        table.group(item.label)
        least = "compiled_out" if main in known["compiled_out"] else "none"
        base = known[least].get(main, {}).get("value")
        for variant, found in known.items():
            title = VARIANTS[variant].title
            if main not in found:
                why = machine.why("msr+nmi", "ablation", f"{item.name}@{variant}")
                table.add(title, [table.missing(why)])
                continue
            value = found[main]["value"]
            added = Cell(NONE if base is None else signed(value - base), "ratio")
            counts = count_cells(found, "vmread", "vmwrite") if machine.exact else []
            table.add(title, [Cell(number(value)), added, *counts])


def events(table, machine):
    """Exits at which the bookkeeping has something to do, with its steps left out one by one: what
    a step costs then, and which NMIs are lost without it."""
    for item in ALL.items_in("events"):
        table.group(item.label)
        for part in PARTS.values():
            cell = ("msr+nmi", "events", f"{item.name}@{part.variant}")
            found = machine.metrics(*cell)
            if "root_instructions" not in found:
                table.add(part.title, [table.missing(machine.why(*cell))])
                continue
            root = found["root_instructions"]["value"]
            idle = [
                machine.value("msr+nmi", "ablation", f"{name}@{part.variant}", "root_instructions")
                for name in EVENT_EXITS
            ]
            added = Cell(NONE if None in idle else signed(root - sum(idle)), "ratio")
            counts = count_cells(found, "vmread", "vmwrite", "delivered")
            table.add(part.title, [Cell(number(root)), added, *counts])


# Experiment, item, metric, and head of the column, which has the item's label.
CONFIG_FIGURES = tuple(
    (item.experiment, item.name, metric, head.format(item.label))
    for experiment, metric, head in (
        ("exit", "root_instructions", "{}: root instr."),
        ("exit", "root_listed", "{}: MSRs by areas"),
        ("msr", "instructions", "{}: instr."),
        ("a1", "instructions", "A.1, {}: instr."),
    )
    for item in ALL.items_in("config", experiment)
    if item.name != BASE
)


def column_heads():
    return list(COLUMNS)


def config_heads():
    return [figure[3] for figure in CONFIG_FIGURES] + ["exits per PMI", "instr. per PMI"]


def config_cell(row, experiment, item):
    """The cell of a configuration, or of a column as the other tables have it."""
    if row.name in columns.COLUMNS:
        return row.name, experiment, item
    return row.on, "config", f"{experiment}.{item}@{row.name}"


def config_row(table, machine, label, row):
    def value(experiment, item, metric):
        return machine.value(*config_cell(row, experiment, item), metric)

    found = [value(*figure[:3]) for figure in CONFIG_FIGURES]
    for metric in ("exits", "instructions"):
        last, base = (value("a1", item, metric) for item in (LAST, BASE))
        found.append(None if None in (last, base) else (last - base) / PMIS)
    why = machine.why(*config_cell(row, *CONFIG_FIGURES[0][:2]))
    table.add(label, [table.missing(why) if one is None else Cell(number(one)) for one in found])


def config(table, machine):
    """Columns in other configurations than the other tables'."""
    for place in dict.fromkeys(row.on for row in columns.CONFIGS.values()):
        table.group(columns.head(place, machine))
        config_row(table, machine, "as in the tables", columns.COLUMNS[place])
        for row in columns.CONFIGS.values():
            if row.on == place:
                config_row(table, machine, row.title, row)


# Of the same columns on hardware: their pairs without mitigations and with them, in time.
TWIN = "mitigations=auto"
TWIN_FIGURES = tuple(
    (item.experiment, item.name, head.format(item.label))
    for experiment, head in (("exit", "{}: cycles"), ("msr", "{}: cycles"), ("a1", "A.1, {}: ns"))
    for item in ALL.items_in("config", experiment)
    if item.name != BASE
)


def twin_heads():
    return [figure[2] for figure in TWIN_FIGURES]


def twins(table, machine):
    """Columns with mitigations off below the measured Linux, as the other tables have them, and
    with those that each takes by itself."""
    for twin in columns.CONFIGS.values():
        if twin.options != TWIN:
            continue
        table.group(columns.head(twin.on, machine))
        for label, row in (("off", columns.COLUMNS[twin.on]), (TWIN, twin)):
            cells = [config_cell(row, *figure[:2]) for figure in TWIN_FIGURES]
            found = [(machine.value(*cell, "time"), machine.why(*cell)) for cell in cells]
            table.add(
                label,
                [table.missing(why) if one is None else Cell(number(one)) for one, why in found],
            )
