# SPDX-License-Identifier: BSD-2-Clause
# accuracy_figure.py: errors of counts, drawn (bench/plots.py).
from bench import plots
from bench.results import COLUMNS


def accuracy_figure(key, title, errors):
    """errors: {event: {column: [absolute relative error in percent]}}; 0 sits at the left edge."""
    if not errors:
        return None
    pyplot = plots.library()
    events = list(errors)
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 0.42 * len(events) + 1.3))
    names = [name for name in COLUMNS if any(name in errors[event] for event in events)]
    step = 0.62 / max(len(names), 1)
    for at, name in enumerate(names):
        dots = [
            (value, place + (at - (len(names) - 1) / 2) * step)
            for place, event in enumerate(events)
            for value in errors[event].get(name, ())
        ]
        axes.scatter(
            *zip(*dots),
            s=22,
            color=plots.COLUMN_COLOURS[name],
            label=name,
            alpha=0.85,
            linewidths=0,
            clip_on=False,
            zorder=3,
        )
    axes.set_xscale("symlog", linthresh=1e-4)
    axes.set_xlim(left=0)
    ticks = [0, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000, 10000]
    top = max(
        [value for event in errors.values() for values in event.values() for value in values]
        + [1e-3]
    )
    ticks = [tick for tick in ticks if tick < top * 10]
    axes.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, ticks[-1])
    axes.set_yticks(range(len(events)), events)
    axes.invert_yaxis()
    axes.set_xlabel("error relative to native, without its sign")
    axes.grid(True, axis="x")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.6 / len(events) - 0.06), ncol=len(names)
    )
    desc = "; ".join(
        f"{event}: "
        + ", ".join(f"{name} at most {max(values):.3g} %" for name, values in errors[event].items())
        for event in events
    )
    return plots.svg_of(key, title, desc, figure, pyplot)
