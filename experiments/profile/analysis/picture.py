# SPDX-License-Identifier: BSD-2-Clause
# picture.py: draws the answer of results/answers/profile.json: the distance from the truth by the number of
# samples, by function and, of the whole run, by instruction. /usr/bin/python3 picture.py writes distance.svg.
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
DATA = os.path.join(TOP, "results", "answers", "profile.json")
PICTURE = os.path.join(os.path.dirname(HERE), "distance.svg")
MARKS = "oDs^v*PX"
KEY, TITLE = "profile-distance", "How far a profile is from the truth"


def described(rows):
    """What the picture says, in words."""
    return "; ".join(f"{row['label']}: {row['by_function']:.4f} by function at {row['samples']} samples, "
                     f"{row['by_instruction']:.3f} by instruction" for row in rows)


def draw(data):
    """A plots.Figure of the rows, which the file has."""
    sys.path.insert(0, os.path.join(TOP, "bench"))
    import plots
    rows = data["rows"]
    pyplot = plots.library()
    figure, (lines, bars) = pyplot.subplots(1, 2, figsize=(plots.WIDTH * 1.2, 3.4))
    for number, row in enumerate(rows):
        lines.plot(*zip(*row["curve"]), marker=MARKS[number % len(MARKS)], markersize=4, linewidth=1,
                   label=row["label"])
    lines.plot(*zip(*data["chance"]), color=plots.INK, linestyle="--", linewidth=1, label="samples drawn at random")
    lines.set_xscale("log", base=2)
    lines.set_yscale("log")
    lines.set_title("by function", loc="left")
    lines.set_xlabel("samples")
    lines.set_ylabel("total variation from the truth")
    bars.barh(range(len(rows)), [row["by_instruction"] for row in rows], height=0.66, color="#5f7fa8")
    bars.set_yticks(range(len(rows)), [row["label"] for row in rows])
    bars.invert_yaxis()
    bars.set_xlim(0, 1)
    bars.set_title("by instruction, all samples", loc="left")
    figure.subplots_adjust(wspace=0.75)
    figure.legend(*lines.get_legend_handles_labels(), loc="lower center", bbox_to_anchor=(0.5, -0.3), ncol=3)
    return plots.svg_of(KEY, TITLE, described(rows), figure, pyplot, alone=True)


def main():
    with open(DATA, encoding="utf-8") as source:
        drawn = draw(json.load(source)).svg
    with open(PICTURE, "w", encoding="utf-8") as out:
        out.write(drawn + "\n")


if __name__ == "__main__":
    main()
