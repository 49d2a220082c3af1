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


def read():
    return answers.kept("inference")


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
    for one in rows:
        axes.plot(
            [max(cost(one), LEAST)], [right(one)], "o", markersize=4.5, color=COLOURS[one["loads"]]
        )
    line = inference.front([one for one in rows if one["loads"] != sights.PIP], cost, right)
    axes.plot(
        [max(cost(one), LEAST) for one in line],
        [right(one) for one in line],
        drawstyle="steps-post",
        color=COLOURS[sights.TARGETS],
        linewidth=1.1,
        zorder=0,
    )
    by_pt = inference.front([one for one in rows if one["loads"] == sights.PIP], cost, right)
    fast = min((one for one in rows if one["hz"] == max(sights.HZ)), key=right)
    for one in apart(line, cost) + by_pt + [fast]:
        axes.annotate(
            short(one),
            (max(cost(one), LEAST), right(one)),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize=7.5,
        )
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


def pair(values, text):
    """Of both boots, or once where they read the same."""
    found = [text(value) for value in values]
    return found[0] if len(set(found)) == 1 else ", ".join(found)


def share(value):
    if value is None:
        return "-"
    return f"{100 * value:.4f} %" if value < 0.001 else f"{100 * value:.1f} %"


def cells(answer, rows):
    """The cells of one host, of both boots."""
    prices = [boot["prices"] for boot in answer["boots"].values()]
    whole = [inference.instructions_of(one, answer["prices"], True) for one in rows]
    return [
        (
            rows[0]["reading"]
            if len({one["reading"] for one in rows}) == 1
            else "backwards, the paper's"
        ),
        pair(rows, lambda one: f"{100 * one['found'] / one['switches']:.0f} %"),
        pair(rows, lambda one: number(one["invented"])),
        pair(rows, lambda one: share(one["wrong_process"])),
        pair(rows, lambda one: share(one["wrong"])),
        pair(
            rows,
            lambda one: (
                f"{share(one['preempted_recall'])} of {share(one['preempted_precision'])}"
                if one["preempted_recall"]
                else "none"
            ),
        ),
        pair(rows, lambda one: f"{inference.exits_of(one, False):.2f}"),
        pair(rows, lambda one: f"{inference.exits_of(one, True):.2f}"),
        pair(
            [inference.instructions_of(one, price, False) for one, price in zip(rows, prices)],
            lambda value: number(round(value)),
        ),
        pair(whole, lambda value: "-" if value is None else number(round(value))),
    ]


HEADS = (
    "the host sees",
    "read",
    "switches found",
    "invented",
    "of processes' time wrong",
    "of all time wrong",
    "preempted: recall of precision",
    "exits it makes",
    "with those taken anyway",
    "root instr., KVM",
    "root instr., PMUvisor",
)


def hosts(answer):
    """[(name, the rows of both boots)] of each host, its less wrong reading."""
    found = [inference.better(boot["rows"]) for boot in answer["boots"].values()]
    return [(inference.name(rows[0]), list(rows)) for rows in zip(*found)]


def table(answer):
    """README.md's table, in Markdown."""
    lines = ["| " + " | ".join(HEADS) + " |", "|---|" + "---|" * (len(HEADS) - 1)]
    return lines + [
        "| " + " | ".join([name, *cells(answer, rows)]) + " |" for name, rows in hosts(answer)
    ]


def main():
    answer = read()
    if sys.argv[1:] == ["--write"]:
        CURVE.write_text(curve(answer).svg + "\n", encoding="utf-8")
    else:
        print("\n".join(table(answer)))


if __name__ == "__main__":
    main()
