# SPDX-License-Identifier: BSD-2-Clause
# pool.py: the runs of what does not repeat, of one boot and of several, made one measurement each:
# the median, with how many runs are behind it, the least and the 95th percentile.
import math

# Whose work depends on when a packet comes: its counts differ from run to run.
NOT_REPEATED = ("nginx", "nginx_2")
# What is summed over a boot's runs, or their largest, by the program itself: of several boots so, too.
SUMS = ("requests", "duration", "samples", "throttled", "lost")
LARGEST = ("latency_max",)


def base_item(item):
    """Of run 2 and further ones, which are called ITEM.2 and so on."""
    return item.partition(".")[0]


def percentile(values, percent):
    """The nearest rank, of values in order: of an even number of them the lower one of the middle."""
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
    return {**first, "value": percentile(values, 50), "n": sum(entry["n"] for entry in entries),
            "min": min(entry.get("min", entry["value"]) for entry in entries),
            "p95": max(entry.get("p95", entry["value"]) for entry in entries)
            if "p95" in first else percentile(values, 95)}


def pooled(measurements):
    """The same list with one entry for each item and metric of what does not repeat."""
    groups, out = {}, []
    for entry in measurements:
        if entry["experiment"] in NOT_REPEATED:
            key = (entry["column"], entry["experiment"], base_item(entry["item"]), entry["metric"])
            groups.setdefault(key, []).append(entry)
        else:
            out.append(entry)
    return out + [joined(entries) for entries in groups.values()]
