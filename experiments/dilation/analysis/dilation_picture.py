# SPDX-License-Identifier: BSD-2-Clause
# dilation_picture.py: draws dilation.svg of results/answers/dilation.json, puts the answer and its
# table on the page, and keeps that file.
# Usage: python3 -m experiments.dilation.analysis.dilation_picture
import pathlib

from bench import plots
from experiments.dilation.analysis import dilation, dilation_table
from experiments.shared.analysis import answers

PICTURE = pathlib.Path(__file__).parents[1] / "dilation.svg"
LINES = {  # colour, style
    "left alone, cycles estimated": ("#D55E00", "-"),
    "left alone, instructions": ("#0072B2", "-"),
    "left alone, instructions, step by exits": ("#0072B2", "--"),
    "TSC offset, cycles estimated": ("#CC79A7", "-"),
    "retired instructions": ("#009E73", "-"),
}
TITLE = (
    "Timer interrupts for each million guest instructions, by the share of instructions that is "
    "traced"
)


def keep(found):
    ways = {name: {**way, "pairs": dilation.to_json(way["pairs"])} for name, way in found.items()}
    answers.keep(
        "dilation", "Debian's cloud kernel under pmuvisor-lab.efi, one processor", {"ways": ways}
    )
    draw(found)
    answers.write_page(dilation_table.PAGE, dilation_table.put, found)


def kept():
    """The ways of the kept run, as dilation_boot.answer() gives them."""
    data = answers.kept("dilation")["ways"]
    return {name: {**way, "pairs": dilation.from_json(way["pairs"])} for name, way in data.items()}


def draw(found):
    pyplot = plots.library()
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 3.6))
    for name, (colour, style) in LINES.items():
        pairs = found[name]["pairs"]
        axes.plot(
            [100 * pair.share for pair in pairs],
            [dilation.timer_rate(pair.traced) for pair in pairs],
            style,
            color=colour,
            label=name,
        )
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set_yscale("log")
    axes.set_xticks([0, 0.05, 0.1, 0.3, 1, 3, 10], ["0", "0.05", "0.1", "0.3", "1", "3", "10"])
    axes.set_xlabel("traced writes, % of the loop's instructions (0: none)")
    axes.set_ylabel("timer interrupts per million")
    axes.set_yticks([0.5, 1, 5, 10, 50], ["0.5", "1", "5", "10", "50"])
    axes.minorticks_off()
    axes.tick_params(left=False, bottom=False)
    axes.grid(True, axis="y")
    axes.legend(loc="upper left", fontsize=8)
    desc = "; ".join(
        f"{name}: {dilation.timer_rate(found[name]['pairs'][-1].traced):.2f} at 10 %"
        for name in LINES
    )
    made = plots.svg_of("dilation", TITLE, f"Emulator. {desc}.", figure, pyplot, alone=True)
    PICTURE.write_text(made.svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    draw(kept())
    answers.write_page(dilation_table.PAGE, dilation_table.put, kept())
