# SPDX-License-Identifier: BSD-2-Clause
# dilation_table.py: the answer's table, of the ways of time and the shares.
from bench.cells import Cell, Table, percent
from experiments.dilation.analysis import dilation

RATES = (
    (dilation.clock_rate, lambda value: f"{value:.2f}"),
    (dilation.timer_rate, lambda value: f"{value:.2f}"),
    (dilation.switch_rate, lambda value: f"{value:.2f}"),
    (dilation.miss_rate, lambda value: percent(100 * value, 3)),
)
HEADS = ("ticks an instruction", "timer interrupts", "switches", "misses")
READING = (
    'The loop\'s writes to one page are traced. Each cell is of the traced run; the row "untraced" '
    "is the same loop "
    "with the largest share and no trace. Timer interrupts and context switches are for each "
    "million guest "
    "instructions. Misses are those of the loop's own accesses in a simulated cache of 32 KiB. The "
    "guest takes the "
    "emulator's tick, an instruction, for half a nanosecond. Where cycles are estimated each exit "
    "takes some ticks "
    "more (bench/predict.py)."
)


def table(found):
    made = Table(
        "answer-dilation",
        "Does dilation matter?",
        "count",
        list(HEADS),
        [("emulator", len(HEADS))],
        reading=[READING],
    )
    for name, way in found.items():
        made.group(f"{name} (root_time {way['time']})")
        rows = [("untraced", way["pairs"][-1].untraced)]
        rows += [(percent(100 * pair.share, 2), pair.traced) for pair in way["pairs"]]
        for label, counts in rows:
            made.add(label, [Cell(write(rate(counts))) for rate, write in RATES])
        made.add(
            "doubled from",
            [
                Cell(dilation.percent_of(dilation.doubles_at(way["pairs"], rate)))
                for rate, _ in RATES
            ],
        )
    return made
