# SPDX-License-Identifier: BSD-2-Clause
# pool.py: the runs of what does not repeat, of one boot and of several, made one measurement each:
# the median, with how many runs it comes from, the least, the 95th percentile (of fewer than 20
# runs that is the most) and the most. And whether two of them differ.
import math

from bench.measurements import ALL

# Whose work depends on when a packet comes: its counts differ from run to run.
NOT_REPEATED = tuple(name for name, one in ALL.experiments.items() if not one.repeats)
# What is summed over a boot's runs, or their largest, by the program itself: of several boots so,
# too.
SUMS = ("requests", "duration", "samples", "throttled", "lost")
LARGEST = ("latency_max",)
# Counts of the ledger by reason and kind: a run that has none does not name them.
COUNTED = ("exits:", "vmcs_accesses:", "root_", "nonroot_")
FEWEST = 5  # runs of which a difference is told
CONNECTIONS = 16  # of wrk: so many requests are under way at a run's end, and are in its counts


def base_item(item):
    """Of run 2 and further ones, which are called ITEM.2 and so on."""
    return item.partition(".")[0]


def percentile(values, percent):
    """The nearest rank, of values in order: of an even number of them the lower one of the
    middle."""
    return values[math.ceil(len(values) * percent / 100) - 1]


def joined(entries):
    """One measurement of several of the same item and metric."""
    first = {**entries[0], "item": base_item(entries[0]["item"])}
    if len(entries) == 1:
        return first
    values = sorted(entry["value"] for entry in entries)
    if first["metric"] in SUMS:
        return {**first, "value": sum(values)}
    if first["metric"] in LARGEST:
        return {**first, "value": values[-1]}
    return {
        **first,
        "value": percentile(values, 50),
        "n": sum(entry["n"] for entry in entries),
        "min": min(entry.get("min", entry["value"]) for entry in entries),
        # Of distributions, which are one for each boot: the largest of theirs.
        "p95": (
            max(entry.get("p95", entry["value"]) for entry in entries)
            if "p95" in first
            else percentile(values, 95)
        ),
        "max": max(entry.get("p95", entry["value"]) for entry in entries),
    }


def with_zeros(entries, runs):
    """As many entries as there are runs, where one that is not there counts as 0."""
    lacking = runs - len(entries)
    if lacking > 0 and entries[0]["metric"].startswith(COUNTED):
        return entries + [{**entries[0], "value": 0}] * lacking
    return entries


def pooled(measurements):
    """The same list with one entry for each item and metric of what does not repeat."""
    groups, out = {}, []
    for entry in measurements:
        if entry["experiment"] in NOT_REPEATED:
            cell = (entry["column"], entry["experiment"], base_item(entry["item"]))
            groups.setdefault(cell, {}).setdefault(entry["metric"], []).append(entry)
        else:
            out.append(entry)
    for metrics in groups.values():
        runs = len(metrics.get("instructions", ()))
        out += [joined(with_zeros(entries, runs)) for entries in metrics.values()]
    return out


def name_of(entry):
    return tuple(entry[key] for key in ("column", "experiment", "item", "metric"))


def compared(first, later):
    """The measurements of first runs, with what second runs say of them. A count is exact if its
    second run has the same value. If the second run has another value, that is the key `again`.
    """
    values = {name_of(entry): entry["value"] for entry in later}
    cells = {name[:3] for name in values}
    out = []
    for entry in first:
        name, more = name_of(entry), {}
        if entry["exact"]:
            # A run that has none of a count does not name it.
            other = values.get(name, 0 if name[:3] in cells else None)
            more["exact"] = other == entry["value"]
            if other not in (None, entry["value"]):
                more["again"] = other
        out.append({**entry, **more})
    return out


def without_measured(skipped, measurements):
    """What was skipped, less what another boot of the same has brought."""
    measured = {
        (entry["column"], entry["experiment"], base_item(entry["item"]))
        for entry in measurements
        if entry["experiment"] in NOT_REPEATED
    }
    return [
        entry
        for entry in skipped
        if (entry["column"], entry["experiment"], base_item(entry["item"])) not in measured
    ]


def batch(entry, requests):
    """The part of one run that the requests under way at its end are, of all that it counted."""
    return CONNECTIONS * entry["n"] / requests


def differ(one, other, resolution):
    """Whether two pooled measurements differ: each median lies outside the other's range, and they
    are further apart than this part of them. None where the runs are too few to tell."""
    if min(one["n"], other["n"]) < FEWEST:
        return None
    outside = all(
        not here["min"] <= there["value"] <= here.get("max", here["p95"])
        for here, there in ((one, other), (other, one))
    )
    return outside and abs(one["value"] - other["value"]) > resolution * other["value"]
