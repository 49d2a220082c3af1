# SPDX-License-Identifier: BSD-2-Clause
"""Draws curve.svg, and prints README.md's table, of results/answers/inference.json, without a boot.

Usage: python3 -m experiments.inference.analysis.inference_picture [--write]
--write: curve.svg; else the table goes to standard output
"""
import pathlib
import sys

from bench import plots
from bench.cells import number
from experiments.inference.analysis import inference, sights
from experiments.shared.analysis import answers

CURVE = pathlib.Path(__file__).resolve().parents[1] / "curve.svg"
COLOURS = {
    sights.NO_LOADS: "#8a8a8a",
    sights.ALL_LOADS: "#D55E00",
    sights.TARGETS: "#0072B2",
    sights.PIP: "#009E73",
}
WORDS = {
    sights.NO_LOADS: "no loads seen",
    sights.ALL_LOADS: "each load of CR3 exits",
    sights.TARGETS: "loads exit, but for CR3 targets",
    sights.PIP: "loads by Processor Trace",
}
LEAST = 1  # instructions; what costs less is drawn there, and is called 0


def right(one):
    """How wrong, for the front; in percent."""
    return 100 * one["wrong"]


def panels(answer):
    """(heading, rows, cost): under KVM what its host adds, and on a host that takes no exit by
    itself all there is."""
    first = next(iter(answer["boots"].values()))
    rows = inference.better(first["rows"])
    return [
        (
            "A host like KVM, which takes its exits anyway",
            rows,
            lambda one: inference.instructions_of(one, first["prices"], False),
        ),
        (
            "A host like PMUvisor, which takes none",
            [one for one in rows if one["exits"] != "KVM's"],
            lambda one: inference.instructions_of(one, answer["prices"], True),
        ),
    ]


def short(one):
    """A name for a dot: its colour says how loads are seen."""
    exits = {"none": "", "KVM's": "KVM's exits"}.get(one["exits"], one["exits"])
    return (
        ", ".join(part for part in (exits, f"{one['hz']:,} Hz" if one["hz"] else "") if part)
        or "nothing else"
    )


def apart(line, cost):
    """Those of a front whose names do not lie over each other."""
    found = []
    for one in line:
        if (
            not found
            or cost(one) > 4 * max(cost(found[-1]), LEAST)
            or 3 * right(one) < right(found[-1])
        ):
            found.append(one)
    return found


def draw(axes, heading, rows, cost):
    def place(one):
        return max(cost(one), LEAST), right(one)

    for loads, colour in COLOURS.items():
        seen = [place(one) for one in rows if one["loads"] == loads]
        axes.plot(*zip(*seen), "o", markersize=4.5, color=colour)
    line = inference.front([one for one in rows if one["loads"] != sights.PIP], cost, right)
    look = {"drawstyle": "steps-post", "color": COLOURS[sights.TARGETS], "linewidth": 1.1}
    axes.plot(*zip(*map(place, line)), zorder=0, **look)
    by_pt = inference.front([one for one in rows if one["loads"] == sights.PIP], cost, right)
    fast = min((one for one in rows if one["hz"] == max(sights.HZ)), key=right)
    look = {"xytext": (5, 4), "textcoords": "offset points", "fontsize": 7.5}
    for one in apart(line, cost) + by_pt + [fast]:
        axes.annotate(short(one), place(one), **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(LEAST / 2, 3e5)
    axes.set_ylim(1e-3, 200)
    axes.set_xticks(
        [LEAST, 10, 100, 1e3, 1e4, 1e5], ["0 to 1", "10", "100", "1 k", "10 k", "100 k"]
    )
    axes.set_yticks(
        [0.001, 0.01, 0.1, 1, 10, 100], ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]
    )
    axes.minorticks_off()
    axes.set_title(heading, loc="left")
    axes.set_xlabel("root instructions for each switch, for looking")
    axes.grid(True)
    axes.tick_params(bottom=False, left=False)
    return line


def curve(answer):
    """The Figure: how much time each host gives to the wrong one, by what looking costs."""
    pyplot = plots.library()
    figure, grid = pyplot.subplots(2, 1, figsize=(plots.WIDTH, 7.6))
    said = []
    for axes, (heading, rows, cost) in zip(grid, panels(answer)):
        line = draw(axes, heading, rows, cost)
        axes.set_ylabel("time given to the wrong one")
        said.append(
            f"{heading}, not beaten without PT: "
            + "; ".join(
                f"{inference.name(one)} {right(one):.3f} % for {cost(one):,.0f}" for one in line
            )
        )
    handles = [
        pyplot.Line2D([], [], marker="o", linestyle="", color=COLOURS[how], label=WORDS[how])
        for how in sights.LOADS
    ]
    handles.append(
        pyplot.Line2D([], [], color=COLOURS[sights.TARGETS], label="not beaten, without PT")
    )
    figure.subplots_adjust(hspace=0.35)
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.04), ncol=3)
    return plots.svg_of(
        "inference",
        "What a host can tell, and for how much (emulator)",
        ". ".join(said),
        figure,
        pyplot,
        alone=True,
    )


def share(value):
    if value is None:
        return "-"
    return f"{100 * value:.4f} %" if value < 0.001 else f"{100 * value:.1f} %"


def preempted(one):
    if not one["preempted_recall"]:
        return "none"
    return f"{share(one['preempted_recall'])} of {share(one['preempted_precision'])}"


def instructions(one, prices, anyway):
    value = inference.instructions_of(one, prices, anyway)
    return "-" if value is None else number(round(value))


# The table's columns: the text of a row, the prices of its boot, and those under PMUvisor.
COLUMNS = {
    "read": lambda one, *_: one["reading"],
    "switches found": lambda one, *_: f"{100 * one['found'] / one['switches']:.0f} %",
    "invented": lambda one, *_: number(one["invented"]),
    "of processes' time wrong": lambda one, *_: share(one["wrong_process"]),
    "of all time wrong": lambda one, *_: share(one["wrong"]),
    "preempted: recall of precision": lambda one, *_: preempted(one),
    "exits it makes": lambda one, *_: f"{inference.exits_of(one, False):.2f}",
    "with those taken anyway": lambda one, *_: f"{inference.exits_of(one, True):.2f}",
    "root instr., KVM": lambda one, prices, _: instructions(one, prices, False),
    "root instr., PMUvisor": lambda one, _, own: instructions(one, own, True),
}
HEADS = ("the host sees", *COLUMNS)


def cells(answer, rows):
    """The cells of one host: of both boots, or once where they read the same."""
    found = []
    for text in COLUMNS.values():
        of_boots = [
            text(one, boot["prices"], answer["prices"])
            for one, boot in zip(rows, answer["boots"].values())
        ]
        found.append(", ".join(dict.fromkeys(of_boots)))
    return found


def hosts(answer):
    """[(name, the rows of both boots)] of each host, its less wrong reading."""
    found = [inference.better(boot["rows"]) for boot in answer["boots"].values()]
    return [(inference.name(rows[0]), list(rows)) for rows in zip(*found)]


def table(answer):
    """README.md's table, in Markdown."""
    rows = [[name, *cells(answer, rows)] for name, rows in hosts(answer)]
    return answers.markdown(HEADS, rows)


def main():
    answer = answers.kept("inference")
    if sys.argv[1:] == ["--write"]:
        CURVE.write_text(curve(answer).svg + "\n", encoding="utf-8")
    else:
        print(table(answer))


if __name__ == "__main__":
    main()
