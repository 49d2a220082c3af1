# SPDX-License-Identifier: BSD-2-Clause
# figures.py: what the report's figures show, gathered from the results of one machine; plots.py
# draws them.
import added
import plots
import published
from more_tables import ABLATED, PLOTTED, VARIANTS
from predict import predictions
from results import COLUMNS
from tables import BASE, PERIODS, extra, published_extra

COST_METRICS = ("exits", "root_instructions", "vmread", "vmwrite", "root_rdmsr", "root_wrmsr")


def wanted(metric):
    return metric in COST_METRICS or metric.startswith("exits:")


def exit_costs(machine, item):
    """By column, what one operation of experiment `exit` costs in root mode; not natively."""
    costs = {}
    for name in COLUMNS:
        metrics = machine.metrics(name, "exit", item)
        if name != "native" and "root_instructions" in metrics:
            costs[name] = {metric: entry["value"] for metric, entry in metrics.items()
                           if wanted(metric)}
    return costs


def pmi_costs(machine, experiment):
    """By column, what one of 1000 PMIs costs: the run less its base, over the PMIs it counted."""
    costs = {}
    for name in COLUMNS:
        run = machine.metrics(name, experiment, PERIODS[-1])
        base = machine.metrics(name, experiment, BASE)
        pmis = run.get("pmis", {}).get("value")
        if not pmis or "root_instructions" not in run or "root_instructions" not in base:
            continue
        costs[name] = {metric: (run.get(metric, {}).get("value", 0)
                                - base.get(metric, {}).get("value", 0)) / pmis
                       for metric in set(run) | set(base) if wanted(metric)}
    return costs


def extra_series(machine, experiment):
    data = {}
    for name in COLUMNS:
        dots = [(published.TABLE_4_2_PMIS[item], extra(machine, experiment, item, name))
                for item in PERIODS[1:]]
        # A logarithmic axis has no place for what is not above 0.
        dots = [(pmis, value) for pmis, value in dots if value is not None and value > 0]
        if dots:
            data[name] = dots
    return data


def published_series():
    names = [name for name in COLUMNS if name in published.TABLE_4_2[BASE]]
    return {name: [(published.TABLE_4_2_PMIS[item], published_extra(item)[name])
                   for item in PERIODS[1:]] for name in names}


def ablation_groups(machine):
    main = "root_instructions" if machine.exact else machine.main_metric("ablation")
    groups = []
    for item, heading in ABLATED:
        if item not in PLOTTED:
            continue
        rows = []
        for variant, words in VARIANTS:
            metrics = machine.metrics("msr+nmi", "ablation", f"{item}@{variant}")
            if main in metrics:
                rows.append((words, metrics[main]["value"], metrics.get("vmread", {}).get("value")))
        groups.append((heading, rows))
    return groups


def all_figures(machine, prefix):
    """{place: figure}; a place whose data is missing has none. Raises plots.NoPlots."""
    unit = "instructions" if machine.exact else "time"
    where = "exact counts" if machine.exact else "median"
    series = [("Linux", f"extra {unit}" + ("" if machine.exact else ", ns"),
               extra_series(machine, "a1")),
              ("test kernel", f"extra {unit}" + ("" if machine.exact else ", cycles"),
               extra_series(machine, "a1k"))]
    if any(data for _, _, data in series):
        series.append(("thesis", "extra time, ms", published_series()))
    def cost(place, what, costs):
        title = f"Where the cost of {what} goes ({where})"
        return plots.cost_figure(prefix + place, title, costs)

    program = "program A.1, M = 100"
    found = {
        "pmi-a1k": cost("pmi-a1k", f"one PMI of the test kernel's {program},",
                        pmi_costs(machine, "a1k")),
        "pmi-a1": cost("pmi-a1", f"one PMI of Linux's {program},", pmi_costs(machine, "a1")),
        "exit": cost("exit", "one CPUID exit", exit_costs(machine, "cpuid")),
        "t42": plots.lines_figure(f"{prefix}f42", "Table 4.2: what PMIs add to program A.1",
                                  series),
        "ablation": plots.ablation_figure(
            f"{prefix}parts", "An exit under msr+nmi with parts of the bookkeeping left out",
            ablation_groups(machine),
            "root-mode instructions" if machine.exact else "cycles"),
        "predict": plots.prediction_figure(f"{prefix}predicted",
                                           "The model's prediction beside the thesis's figures",
                                           predictions(machine)),
    }
    for section in added.sections():
        found.update(section.figures(machine, prefix))
    return {place: figure for place, figure in found.items() if figure}
