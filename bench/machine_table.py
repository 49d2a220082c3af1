# SPDX-License-Identifier: BSD-2-Clause
# machine_table.py: what a bare machine did besides while it measured: SMIs, its frequency, how much
# of the time its processor was not halted (experiment `machine`, README.md).
from measurements import EXPERIMENTS
from results import COLUMNS
from tables import asked, new_table, value_cells

METRICS = (
    ("smis", "SMIs", "{:,.0f}".format),
    ("aperf_per_mperf", "APERF/MPERF, %", "{:.1f}".format),
    ("mperf_per_tsc", "MPERF/TSC, %", "{:.1f}".format),
)
# Points of APERF/MPERF, of which a column may be away from native before a line says so.
CLOCK_POINTS = 1.0


def machine_table(machine):
    table = new_table(
        "machine", "What else the machine did while it measured", "counts and percent"
    )
    table.reading.append(
        "SMIs stop the processor for firmware's own work. APERF/MPERF is the "
        "average frequency over the one of the TSC, MPERF/TSC the part of the "
        "time in which the processor was not halted."
    )
    there = machine.items("machine")
    for experiment in EXPERIMENTS:
        if experiment not in there:
            continue
        table.group(experiment)
        for metric, label, text in METRICS:
            values = asked(machine, "machine", experiment, metric)
            if values.known:
                table.add(label, value_cells(table, values, text))
    return table


def unlike_clocks(machine):
    """Sentences on SMIs in measurements, and on frequencies that are not native's."""
    smis, clocks = {}, {}
    for name in COLUMNS:
        for item in machine.items("machine", name):
            count = machine.value(name, "machine", item, "smis")
            smis[name] = smis.get(name, 0) + (count or 0)
            mine = machine.value(name, "machine", item, "aperf_per_mperf")
            its = machine.value("native", "machine", item, "aperf_per_mperf")
            if None not in (mine, its) and abs(mine - its) > CLOCK_POINTS:
                clocks.setdefault(name, []).append(f"{item} {mine:.1f} % (native {its:.1f} %)")
    out = []
    if any(smis.values()):
        out.append(
            "SMIs came during measurements: "
            + ", ".join(f"{count:,.0f} in {name}" for name, count in smis.items())
            + "."
        )
    out += [
        f"Column {name} ran at another frequency than native (APERF/MPERF): {', '.join(items)}."
        for name, items in clocks.items()
    ]
    return out
