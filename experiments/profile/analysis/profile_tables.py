# SPDX-License-Identifier: BSD-2-Clause
# profile_tables.py: the answer's two tables, for the report and, in Markdown, for the page (between
# its marks), of what tests/sampling.py has measured or results/answers/profile.json has kept.
import pathlib

from bench.cells import NONE, Cell, Table, number
from experiments.shared.analysis import answers

PAGE = pathlib.Path(__file__).parents[1] / "README.md"
LOADS = ("listing2", "shorts", "sqlite3", "glpsol", "nginx", "closed")
CHANCE = "as many samples at random"
TITLE, INTERRUPTS_TITLE = "How true is a profile?", "From an overflow to its sample"
INTERRUPTS = (
    ("overflows", "overflows"),
    ("skid, median", "skid_median"),
    ("largest", "skid_largest"),
    ("to the handler, median", "handler_median"),
    ("largest", "handler_largest"),
    ("in another function", "elsewhere"),
    ("merged", "merged"),
    ("lost", "lost"),
    ("of `closed` masked", "masked"),
    ("truly", "truly_masked"),
)
INTERRUPT_HEADS = [head for head, _ in INTERRUPTS]


def distances(answer):
    """[(label, [text])]: by function of each load, then by instruction; the first row is
    chance's."""
    ways = list(dict.fromkeys(row["label"] for row in answer["rows"]))
    found = {(row["label"], row["load"]): row for row in answer["rows"]}

    def line(label, keys):
        return [
            f"{found[label, load][key]:.3f}" if (label, load) in found else NONE
            for key in keys
            for load in LOADS
        ]

    return [(CHANCE, line(ways[0], ("chance", "chance_by_instruction")))] + [
        (label, line(label, ("by_function", "by_instruction"))) for label in ways
    ]


def interrupts(answer):
    """[(label, [text])]"""

    def text(value):
        return (
            NONE if value is None else number(value) if isinstance(value, int) else f"{value:.3f}"
        )

    return [
        (row["label"], [text(row[key]) for _, key in INTERRUPTS]) for row in answer["interrupts"]
    ]


def table(key, title, unit, groups, heads, rows, reading):
    made = Table(key, title, unit, heads, groups, reading=[reading])
    for label, texts in rows:
        made.add(label, [Cell(text) for text in texts])
    return made


def of_distances(answer):
    return table(
        "answer-profile",
        TITLE,
        "total variation from the truth",
        [("emulator, by function", len(LOADS)), ("by instruction", len(LOADS))],
        [*LOADS, *LOADS],
        distances(answer),
        "Half the sum of the differences of all shares; 0 is the truth. The truth is the "
        "emulator's count of each instruction of the same run.",
    )


def of_interrupts(answer):
    return table(
        "answer-profile-interrupts",
        INTERRUPTS_TITLE,
        "instructions",
        [("emulator", len(INTERRUPT_HEADS))],
        INTERRUPT_HEADS,
        interrupts(answer),
        "Of all loads; of a vector closed; with a skid listing2, shorts and closed. Skid: outside "
        "root mode. To the handler: of all modes. Masked: the part of closed with interrupts off, "
        "of the samples and in truth.",
    )


def put(page, answer):
    """The page with the tables between its marks."""
    rows, width = distances(answer), len(LOADS)
    by_function, by_instruction = (
        answers.markdown(["way", *LOADS], [[label, *texts[part]] for label, texts in rows])
        for part in (slice(width), slice(width, None))
    )
    made = {
        "by function": by_function,
        "by instruction": by_instruction,
        "interrupts": answers.markdown(
            ["way", *INTERRUPT_HEADS], [[label, *texts] for label, texts in interrupts(answer)]
        ),
    }
    return answers.put(page, "profile_tables.py", made)


if __name__ == "__main__":
    answers.write_page(PAGE, put, answers.kept("profile"))
