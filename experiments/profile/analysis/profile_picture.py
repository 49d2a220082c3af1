# SPDX-License-Identifier: BSD-2-Clause
# profile_picture.py: draws distance.svg of results/answers/profile.json: of one real program the
# distance from the truth by the number of samples; of all loads that of the whole run. Usage:
# profile_picture.py
import os

HERE = os.path.dirname(os.path.abspath(__file__))
from bench import plots
from experiments.profile.analysis.profile_tables import LOADS, TITLE
from experiments.shared.analysis import answers

PICTURE = os.path.join(os.path.dirname(HERE), "distance.svg")
MARKS = "oDs^v*PXhd"
SHOWN = "sqlite3"
KEY = "profile-distance"


def described(rows):
    """What the picture says, in words."""
    return "; ".join(
        f"{row['label']}, {row['load']}: {row['by_function']:.3f} at {row['samples']} samples"
        for row in rows
    )


def draw(answer):
    """The SVG's text."""
    rows = answer["rows"]
    pyplot = plots.library()
    figure, (lines, bars) = pyplot.subplots(1, 2, figsize=(plots.WIDTH * 1.2, 3.4))
    one = [row for row in rows if row["load"] == SHOWN]
    for mark, row in enumerate(one):
        lines.plot(
            *zip(*row["curve"]),
            marker=MARKS[mark % len(MARKS)],
            markersize=3,
            linewidth=1,
            label=row["label"],
        )
    lines.plot(
        *zip(*answer["chance"]),
        color=plots.INK,
        linestyle="--",
        linewidth=1,
        label="samples at random",
    )
    lines.set_xscale("log", base=2)
    lines.set_yscale("log")
    lines.set_title(f"{SHOWN}, by function", loc="left")
    lines.set_xlabel("samples")
    lines.set_ylabel("total variation from the truth")
    labels = list(dict.fromkeys(row["label"] for row in rows))
    for place, load in enumerate(LOADS):
        points = [
            (row["by_function"], labels.index(row["label"])) for row in rows if row["load"] == load
        ]
        bars.scatter(*zip(*points), marker=MARKS[place], s=16, label=load)
    bars.set_yticks(range(len(labels)), labels)
    bars.invert_yaxis()
    bars.set_xscale("log")
    bars.set_xlabel("total variation")
    bars.set_title("all loads, by function", loc="left")
    bars.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.2), ncol=3)
    figure.subplots_adjust(wspace=0.75)
    lines.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.4, -0.2), ncol=2)
    return plots.svg_of(KEY, TITLE, described(rows), figure, pyplot, alone=True).svg


def write(answer):
    with open(PICTURE, "w", encoding="utf-8") as out:
        out.write(draw(answer) + "\n")


if __name__ == "__main__":
    write(answers.kept("profile"))
