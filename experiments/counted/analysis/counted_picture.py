# SPDX-License-Identifier: BSD-2-Clause
# counted_picture.py: draws the answer: a dot for each operation and column whose count is not what
# the processor retired. The page's table has the counts less native's.
from bench import plots
from experiments.counted.analysis import counted

TITLE = "What a guest's counter counts around one operation, less what retired (emulator)"
DESC = "For each operation and column the instructions counted, less those that retired."
FEWER, MORE = "#0072B2", "#D55E00"


def picture(cells):
    pyplot = plots.library()
    apart = {
        place: int(cell.retired)
        for place, cell in cells.items()
        if place[0] in counted.LABELS and cell.retired
    }
    rows = [row for row in counted.LABELS if any(row == other for other, _ in apart)]
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH * 1.2, 0.19 * len(rows) + 0.6))
    for colour, label, sign in ((FEWER, "too few", -1), (MORE, "too many", 1)):
        found = [place for place, value in apart.items() if value * sign > 0]
        axes.scatter(
            [counted.COLUMNS.index(column) for _, column in found],
            [rows.index(row) for row, _ in found],
            s=30,
            color=colour,
            label=f"{label}: 1, or as many as stand there",
        )
    for (row, column), value in apart.items():
        if abs(value) != 1:
            place = counted.COLUMNS.index(column) + 0.12, rows.index(row)
            axes.annotate(f"{value:+d}", place, va="center", fontsize=8)
    axes.set_xticks(range(len(counted.COLUMNS)), counted.COLUMNS, fontsize=8)
    axes.set_yticks(range(len(rows)), [counted.LABELS[row] for row in rows])
    axes.tick_params(top=False, bottom=False, left=False, labeltop=True, labelbottom=False)
    axes.set_xlim(-0.5, len(counted.COLUMNS) - 0.3)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(True)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.01), ncol=2)
    return plots.svg_of("counted", TITLE, DESC, figure, pyplot, alone=True).svg + "\n"
