# SPDX-License-Identifier: BSD-2-Clause
# demand_picture.py: draws demand.svg of results/answers/demand.json, without a boot: what the three
# ways cost in a second, over the share of time that the guest profiles, and which is the cheapest
# at how many switches between virtual machines a second. Puts answer and tables on the page.
import os

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from bench import plots
from experiments.demand.analysis import demand_cost as cost
from experiments.demand.analysis import demand_tables
from experiments.shared.analysis import answers

PICTURE = os.path.join(TOP, "experiments", "demand", "demand.svg")
FREQUENCY, SESSIONS, TICKS = 1000, 0.1, 10  # a session each 10 s; tick=100, the default
SWITCHES = 1000  # of the left panel
SHARES = [n / 100 for n in range(1, 100)]
COLOURS = {
    "trap": plots.COLUMN_COLOURS["intercept"],
    "pass": plots.COLUMN_COLOURS["msr+nmi"],
    "demand": "#009E73",
}
LINES = {"counting": "-", "whole": "--"}
LEAST, MOST = 0.01, 100_000  # switches a second, of the right panel


def costs(axes, u):
    axes.plot(
        SHARES,
        [cost.trap(u, s, FREQUENCY, SESSIONS) / 1000 for s in SHARES],
        color=COLOURS["trap"],
        label="trap",
    )
    for what, line in LINES.items():
        axes.plot(
            SHARES,
            [cost.always(u, SWITCHES, what) / 1000] * len(SHARES),
            line,
            color=COLOURS["pass"],
            label=f"pass, {what}",
        )
        axes.plot(
            SHARES,
            [cost.demand(u, s, SWITCHES, SESSIONS, TICKS, what) / 1000 for s in SHARES],
            line,
            color=COLOURS["demand"],
            label=f"on demand, {what}",
        )
    axes.set_title(f"Cost at {SWITCHES:,} switches a second (emulator)", loc="left")
    axes.set_ylabel("root-mode instructions a second, thousands")


def plain(value, _):
    """A tick's text, such as 500, 20 k or 1 M."""
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def crossovers(axes, u):
    for what, line in LINES.items():
        high = [cost.beats_trap_below(u, s, FREQUENCY, SESSIONS, TICKS, what) for s in SHARES]
        low = [cost.beats_pass_above(u, s, SESSIONS, TICKS, what) or MOST for s in SHARES]
        axes.plot(
            SHARES,
            [max(value, LEAST) for value in high],
            line,
            color=COLOURS["trap"],
            label=f"trap = on demand, {what}",
        )
        axes.plot(SHARES, low, line, color=COLOURS["pass"], label=f"pass = on demand, {what}")
        if what == "counting":
            axes.fill_between(
                SHARES,
                low,
                high,
                where=[a < b for a, b in zip(low, high)],
                color=COLOURS["demand"],
                alpha=0.15,
                linewidth=0,
            )
    axes.set_yscale("log")
    axes.set_ylim(LEAST, MOST)
    axes.yaxis.set_major_formatter(plain)
    axes.minorticks_off()
    axes.set_title("Which costs least (emulator)", loc="left")
    axes.set_ylabel("switches between virtual machines a second")
    axes.text(0.5, 60, "on demand", ha="center", color=COLOURS["demand"])
    axes.text(0.5, 12_000, "trap", ha="center", color=COLOURS["trap"])
    axes.text(0.5, 0.03, "pass", ha="center", color=COLOURS["pass"])


def picture(data):
    u = cost.units(data["cases"])
    pyplot = plots.library()
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(plots.WIDTH * 1.25, 3.9))
    costs(left, u)
    crossovers(right, u)
    for axes in (left, right):
        axes.set_xlabel("share of time that the guest profiles")
        axes.grid(True)
        axes.tick_params(bottom=False, left=False)
        axes.set_xlim(0, 1)
        axes.legend(fontsize=7.5, ncol=2, loc="upper left", bbox_to_anchor=(-0.05, -0.14))
    figure.subplots_adjust(wspace=0.32)
    return (
        plots.svg_of(
            "demand",
            "When passing through on demand pays",
            "Emulator; one guest, perf at 1,000 samples a "
            "second. The areas are where each way costs the fewest instructions in root mode.",
            figure,
            pyplot,
            alone=True,
        ).svg
        + "\n"
    )


def main():
    with open(PICTURE, "w", encoding="utf-8") as target:
        target.write(picture(answers.kept("demand")))
    answers.write_page(demand_tables.PAGE, demand_tables.put, answers.kept("demand")["cases"])


if __name__ == "__main__":
    main()
