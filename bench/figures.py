# SPDX-License-Identifier: BSD-2-Clause
# figures.py: the parts of the report's sections that are no table (added.py): what the figures
# show, from the results of one machine; plots.py draws them.
import functools

from bench import columns, plots, published
from bench.cells import NS_PER_US, Cell, Drawn, Table, percent
from bench.columns import VARIANTS
from bench.facts import BROKEN, HOLDS, must_hold
from bench.formulas import BASE, PROFILED, extra, extra_in_print, of_one_pmi
from bench.measurements import ALL
from bench.plan import DELAY_US
from bench.results import COLUMNS

COUNTS = ("count", "instructions")
MAIN_TABLES = {"t41", "t42", "t43", "t45", "t46", "t47"}
SAMPLED = ("time", "rate")  # what these tables compare
PLOTTED = ("cpuid", "cpuid_blocked")  # of these: with all the figure would not be readable
SAMPLES = (
    "A sample is one repetition of a program in one start of a column. Starts are independent, "
    "samples of one start are not. So each interval comes from a bootstrap over rounds, and a "
    "difference compares two columns within each round. The tables tell a difference if its 99 % "
    "interval does not include 0. They tell one by chance in one of a hundred equal pairs."
)
ONE_ROUND = "round. So intervals say nothing of other starts, and no difference is told. "
COST_METRICS = ("exits", "root_instructions", "vmread", "vmwrite", "root_rdmsr", "root_wrmsr")


def wanted(metric):
    return metric in COST_METRICS or metric.startswith("exits:")


def exit_costs(machine, item):
    """By column, what one operation of experiment `exit` costs in root mode; not natively."""
    costs = {}
    for name in COLUMNS:
        metrics = machine.metrics(name, "exit", item)
        if name != "native" and "root_instructions" in metrics:
            costs[name] = {
                metric: entry["value"] for metric, entry in metrics.items() if wanted(metric)
            }
    return costs


def pmi_costs(machine, experiment):
    """By column, what one of 1000 PMIs costs: the run less its base, over the PMIs it counted."""
    found = {
        name: of_one_pmi(machine, name, experiment)
        for name in COLUMNS
        if machine.value(name, experiment, BASE, "root_instructions") is not None
    }
    return {
        name: {metric: value for metric, value in metrics.items() if wanted(metric)}
        for name, metrics in found.items()
        if "root_instructions" in metrics
    }


def extra_series(machine, experiment):
    data = {}
    for name in COLUMNS:
        dots = [
            (published.TABLE_4_2_PMIS[item], extra(machine, name, experiment, item))
            for item in PROFILED
        ]
        # A logarithmic axis has no place for what is not above 0.
        dots = [(pmis, value) for pmis, value in dots if value is not None and value > 0]
        if dots:
            data[name] = dots
    return data


def published_series():
    names = [name for name in COLUMNS if name in published.TABLE_4_2[BASE]]
    return {
        name: [(published.TABLE_4_2_PMIS[item], extra_in_print(item)[name]) for item in PROFILED]
        for name in names
    }


def ablation_groups(machine):
    main = "root_instructions" if machine.exact else machine.metric
    groups = []
    for _, item, _, heading in ALL.items_in("ablation"):
        if item not in PLOTTED:
            continue
        rows = []
        for variant, part in VARIANTS.items():
            metrics = machine.metrics("msr+nmi", "ablation", f"{item}@{variant}")
            if main in metrics:
                rows.append(
                    (part.title, metrics[main]["value"], metrics.get("vmread", {}).get("value"))
                )
        groups.append((heading, rows))
    return groups


def heads(machine):
    """The columns' names in figures."""
    return {name: columns.head(name, machine) for name in COLUMNS}


def cost_figure(machine, key, what, costs):
    """Where the cost of something goes, for the page."""
    where = "counts" if machine.exact else "median"
    return Drawn(
        lambda prefix: plots.cost_figure(
            prefix + key, f"Where the cost of {what} goes ({where})", costs, heads(machine)
        )
    )


def cost_figures(machine):
    """Of a PMI of program A.1, in the test kernel and in Linux, and of an exit."""
    program = "program A.1, M = 100"
    return [
        cost_figure(
            machine,
            "pmi-a1k",
            f"one PMI of the test kernel's {program},",
            pmi_costs(machine, "a1k"),
        ),
        cost_figure(machine, "pmi-a1", f"one PMI of Linux's {program},", pmi_costs(machine, "a1")),
        cost_figure(machine, "exit", "one CPUID exit", exit_costs(machine, "cpuid")),
    ]


def extra_figure(machine):
    """What PMIs add to program A.1, beside the thesis's. On a bare machine all times are in us."""
    series = [
        (
            f"{who}:\n{'instructions' if machine.exact else unit}",
            in_units(extra_series(machine, experiment), 1 if machine.exact else size),
        )
        for experiment, who, unit, size in (
            ("a1", "Linux", "us", NS_PER_US),
            ("a1k", "Test kernel", "cycles", 1),
        )
    ]
    if any(data for _, data in series):
        unit, size = ("ms", 1) if machine.exact else ("us", 1 / 1000)
        series.append((f"Published:\n{unit}", in_units(published_series(), size)))
    return [
        Drawn(
            lambda prefix: plots.lines_figure(
                f"{prefix}f42", "Table 4.2: what PMIs add to program A.1", series, heads(machine)
            )
        )
    ]


def in_units(series, size):
    return {name: [(pmis, value / size) for pmis, value in dots] for name, dots in series.items()}


def ablation_figure(machine):
    return [
        Drawn(
            lambda prefix: plots.ablation_figure(
                f"{prefix}parts",
                "An exit under PMUvisor with parts of the bookkeeping left out",
                ablation_groups(machine),
                "root-mode instructions" if machine.exact else "cycles",
            )
        )
    ]


def facts(machine):
    """What must hold, as a table."""
    table = Table("hold", "What must hold", "", ["wanted", "found", "verdict"], [("", 3)])
    for what, wanted, found, verdict in must_hold(machine):
        kind = {HOLDS: "good", BROKEN: "bad"}.get(verdict, "missing")
        table.add(what, [Cell(wanted, "text"), Cell(found, "text"), Cell(verdict, kind)])
    return [table]


def two_runs(machine):
    """Which counts are exact: a paragraph."""
    counts = [one for one in machine.results["measurements"] if one["unit"] in COUNTS]
    equal, other = sum(one["exact"] for one in counts), [one for one in counts if "again" in one]
    if not equal and not other:
        return [f"One run. Each of the {len(counts):,} counts comes from one run."]
    told = ""
    if other:
        where = ", ".join(dict.fromkeys(one["experiment"] for one in other))
        told = f" {len(other):,} had another value there ({where})"
        whole = [one for one in other if one["metric"] == "instructions"]
        if whole:
            most = max(whole, key=apart)
            difference = percent(100 * apart(most), 2)
            told += (
                f"; of an item's instructions the largest difference is {difference} "
                f"({most['experiment']} {most['item']}, "
                f"under {columns.head(most['column'], machine)})"
            )
        told += "."
    once = len(counts) - equal - len(other)
    if once:
        told += f" The other {once:,} come from one run, or are medians of several (nginx)."
    return [
        f"Two runs. {equal:,} of {len(counts):,} counts had the same value in a second run, in "
        f"which Linux began its work {DELAY_US / 1000} ms later: these are exact.{told}"
    ]


def apart(entry):
    """How far the second run's value is from the first's, as a part of the larger one."""
    values = entry["value"], entry["again"]
    return abs(values[0] - values[1]) / max(map(abs, values))


def starts_of(machine):
    """{(round, column): its place in the session, from 0 on}"""
    places = {(one["round"], one["position"], one["column"]) for one in machine.repetitions}
    return {(place, column): at for at, (place, _, column) in enumerate(sorted(places))}


def sampled_items(machine):
    """(experiment, item, metric, label) of each item of the main tables that has samples."""
    for experiment in ALL.experiments:
        for item in ALL.items(experiment) or ():
            for metric in SAMPLED if set(item.tables) & MAIN_TABLES else ():
                if any(machine.samples(name, experiment, item.name, metric) for name in COLUMNS):
                    yield experiment, item.name, metric, item.label


def session_drift(machine):
    """A samples.Difference of the session's end to its begin; None: there is none to be known."""
    starts = starts_of(machine)
    items = [one[:3] for one in sampled_items(machine) if one[2] == "time"]
    if not items:
        return None
    from bench.samples import drift

    found = []
    for name in COLUMNS:
        rows = [machine.samples(name, *item) for item in items]
        rows = [one.by_round for one in rows if one and min(one.by_round.values()) > 0]
        common = set.intersection(*map(set, rows)) if rows else ()
        found.append(
            [
                (starts[place, name] / max(1, len(starts) - 1), [one[place] for one in rows])
                for place in sorted(common)
            ]
        )
    return drift(found)


def sample_words(machine, experiment, items):
    """What the samples of an experiment are, as a sentence."""
    found = [machine.samples(name, experiment, *item[:2]) for item in items for name in COLUMNS]
    found = [one for one in found if one]
    warm = [one.warm_up for one in found if one.warm_up]
    outliers = sum(one[-1] for each in found for one in each.marked())
    rounds = len({place for one in found for place in one.rounds})
    return (
        f"Experiment {experiment}: {sum(len(one.samples) for one in found):,} samples in {rounds} "
        + ("rounds. " if rounds > 1 else ONE_ROUND)
        + (f"Warm-up: at most {max(warm)} repetitions of a start, in " if warm else "Warm-up: in ")
        + f"{len(warm) or 'none'} of {len(found)} series; medians leave it out. Outliers, which "
        f"medians include: {outliers:,}."
    )


def sample_panels(machine, experiment, items, about):
    """What plots.samples_figure() draws of an experiment. `about`: {(column, round, number):
    repetition}."""
    starts = starts_of(machine)
    most = max((number for _, _, number in about), default=1)

    def place(name, start, number):
        return starts.get((start, name), 0) + (number - 1) / most

    panels = []
    for item, metric, label in items:
        dots = {}
        for name in COLUMNS:
            found = machine.samples(name, experiment, item, metric)
            middle = found and machine.value(name, experiment, item, metric)
            if middle:
                dots[name] = [
                    (place(name, start, number), 100 * (value / middle - 1), warm, outlier)
                    for start, number, value, warm, outlier in found.marked()
                ]
        panels.append((label, dots))
    beside = {}
    for (name, start, number), one in about.items():
        beside.setdefault(name, []).append(
            (place(name, start, number), one.get("aperf_per_mperf"), one.get("smis", 0))
        )
    return panels, beside


def samples(machine):
    """Each sample of the main tables' items by its place in the session, beside it SMIs and
    frequency; and what the samples are, in words."""
    of, out = {}, []
    for experiment, *item in sampled_items(machine):
        of.setdefault(experiment, []).append(item)
    for experiment, items in of.items():
        about = {
            (one["column"], one["round"], one["number"]): one
            for one in machine.repetitions
            if one["experiment"] == experiment
        }
        panels = sample_panels(machine, experiment, items, about)
        draw = functools.partial(drawn_samples, experiment, panels, heads(machine))
        out.append(Drawn(draw, sample_words(machine, experiment, items)))
    return [SAMPLES, *out] if out else []


def drawn_samples(experiment, panels, names, prefix):
    title = f"Every sample of {experiment}, in percent of its column's median"
    return plots.samples_figure(f"{prefix}samples-{experiment}", title, *panels, names)
