# SPDX-License-Identifier: BSD-2-Clause
# profile_tables.py: the answer's two tables, for the report and, in Markdown, for the page (between
# its marks), of what tests/sampling.py has measured or results/answers/profile.json has kept.
import os

HERE = os.path.dirname(os.path.abspath(__file__))
from bench.cells import NONE, Cell, Table, number
from experiments.shared.analysis import answers

PAGE = os.path.join(os.path.dirname(HERE), "README.md")
LOADS = ("listing2", "shorts", "sqlite3", "glpsol", "nginx", "closed")
CHANCE = "as many samples at random"
TITLE, INTERRUPTS_TITLE = "How true is a profile?", "From an overflow to its sample"
INTERRUPT_HEADS = (
    "overflows",
    "skid, median",
    "largest",
    "to the handler, median",
    "largest",
    "in another function",
    "merged",
    "lost",
    "of `closed` masked",
    "truly",
)


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
        (
            row["label"],
            [
                text(row[key])
                for key in (
                    "overflows",
                    "skid_median",
                    "skid_largest",
                    "handler_median",
                    "handler_largest",
                    "elsewhere",
                    "merged",
                    "lost",
                    "masked",
                    "truly_masked",
                )
            ],
        )
        for row in answer["interrupts"]
    ]


def of_distances(answer):
    table = Table(
        "answer-profile",
        TITLE,
        "total variation from the truth",
        [*LOADS, *LOADS],
        [("emulator, by function", len(LOADS)), ("by instruction", len(LOADS))],
        reading=[
            "Half the sum of the differences of all shares; 0 is the truth. The truth is the "
            "emulator's "
            "count of each instruction of the same run."
        ],
    )
    for label, texts in distances(answer):
        table.add(label, [Cell(text) for text in texts])
    return table


def of_interrupts(answer):
    table = Table(
        "answer-profile-interrupts",
        INTERRUPTS_TITLE,
        "instructions",
        list(INTERRUPT_HEADS),
        [("emulator", len(INTERRUPT_HEADS))],
        reading=[
            "Of all loads; of a vector closed; with a skid listing2, shorts and closed. Skid: "
            "outside "
            "root mode. To the handler: of all modes. Masked: the part of closed with interrupts "
            "off, of the "
            "samples and in truth."
        ],
    )
    for label, texts in interrupts(answer):
        table.add(label, [Cell(text) for text in texts])
    return table


def markdown(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join([label, *texts]) + " |" for label, texts in rows])


def put(page, answer):
    """The page with the tables between its marks."""
    rows, width = distances(answer), len(LOADS)
    for name, text in (
        (
            "by function",
            markdown(["way", *LOADS], [(label, texts[:width]) for label, texts in rows]),
        ),
        (
            "by instruction",
            markdown(["way", *LOADS], [(label, texts[width:]) for label, texts in rows]),
        ),
        ("interrupts", markdown(["way", *INTERRUPT_HEADS], interrupts(answer))),
    ):
        begin, end = f"<!-- made by profile_tables.py: {name} -->\n", f"<!-- the end of {name} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"README.md has no {begin!r} and {end!r}"
        page = f"{before}{begin}{text}\n{end}{after}"
    return page


def write_page(answer):
    with open(PAGE, encoding="utf-8") as source:
        page = source.read()
    with open(PAGE, "w", encoding="utf-8") as out:
        out.write(put(page, answer))


if __name__ == "__main__":
    write_page(answers.kept("profile"))
