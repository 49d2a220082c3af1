# SPDX-License-Identifier: BSD-2-Clause
# figures.py: the parts of the report's sections that are no table (added.py): what the figures
# show, from the results of one machine; plots.py draws them.
from bench import plots, predict, published, tables
from bench.cells import Drawn, OnPage
from bench.columns import VARIANTS
from bench.facts import Facts, must_hold
from bench.formulas import BASE, PROFILED, extra, extra_in_print, of_one_pmi
from bench.measurements import ALL
from bench.results import COLUMNS

PLOTTED = ("cpuid", "cpuid_blocked")  # of these: with all the figure would not be readable
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


def cost_figure(machine, key, what, costs):
    """Where the cost of something goes, for the page."""
    where = "exact counts" if machine.exact else "median"
    return Drawn(
        lambda prefix: plots.cost_figure(
            prefix + key, f"Where the cost of {what} goes ({where})", costs
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
    """What PMIs add to program A.1, beside the thesis's."""
    series = [
        (
            who,
            "extra instructions" if machine.exact else f"extra time, {unit}",
            extra_series(machine, experiment),
        )
        for experiment, who, unit in (("a1", "Linux", "ns"), ("a1k", "test kernel", "cycles"))
    ]
    if any(data for _, _, data in series):
        series.append(("thesis", "extra time, ms", published_series()))
    return [
        Drawn(
            lambda prefix: plots.lines_figure(
                f"{prefix}f42", "Table 4.2: what PMIs add to program A.1", series
            )
        )
    ]


def ablation_figure(machine):
    return [
        Drawn(
            lambda prefix: plots.ablation_figure(
                f"{prefix}parts",
                "An exit under msr+nmi with parts of the bookkeeping left out",
                ablation_groups(machine),
                "root-mode instructions" if machine.exact else "cycles",
            )
        )
    ]


def facts(machine):
    return [Facts(must_hold(machine))]


def model(machine):
    lines = predict.predicted_lines(machine)
    if not lines:
        why = (
            "the counts that it needs are not in these results."
            if machine.exact
            else "it is made from an emulator's counts; this machine has cycles of its own."
        )
        return [OnPage(f"No prediction: {why}", "missing")]
    title = "The model's prediction beside the thesis's figures"
    return [
        predict.reading(lines),
        Drawn(lambda prefix: plots.prediction_figure(f"{prefix}predicted", title, lines)),
        tables.make(machine, "predict"),
        tables.make(machine, "costs"),
    ]
