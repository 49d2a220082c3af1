# SPDX-License-Identifier: BSD-2-Clause
# dilation_table.py: the answer's table, of the ways of time and the shares; and the parts of the
# page that are made of the same data. What another price of an exit changes is calculated.
import pathlib

from bench import estimate, predict
from bench.cells import Cell, Table, number, percent
from experiments.dilation.analysis import dilation
from experiments.memory.analysis import memory_cost, memory_paper
from experiments.memory.analysis.schmidt_published import SCHMIDT
from experiments.shared.analysis import answers

PAGE = pathlib.Path(__file__).parents[1] / "README.md"

RATES = (
    (dilation.clock_rate, lambda value: f"{value:.2f}"),
    (dilation.timer_rate, lambda value: f"{value:.2f}"),
    (dilation.switch_rate, lambda value: f"{value:.2f}"),
    (dilation.miss_rate, lambda value: percent(100 * value, 3)),
)
HEADS = ("ticks an instruction", "timer interrupts", "switches", "misses")
READING = (
    "The loop's writes to one page are traced. Each cell is of the traced run; the row "
    '"untraced" is the same loop with the largest share and no trace. What has doubled is held '
    "against the mean of the untraced runs. Timer interrupts and context switches are for each "
    "million guest instructions. Misses are those of the loop's own accesses in a simulated "
    "cache of 32 KiB. The guest takes the emulator's tick, an instruction, for half a "
    "nanosecond. Where cycles are estimated each exit takes some ticks more (bench/predict.py). "
    "The rows at the end are no runs: time is instructions and exits at another price. An "
    "interval is that of the estimate."
)


def calculated(found):
    """(what the price of an exit is, what a traced write takes then in instructions' times, the
    shares from which on there is twice as much), each as values at the middle, the low and the high
    end; the paper's price is one value."""
    alone, priced = (found[name]["pairs"] for name in (dilation.ALONE, dilation.PRICED_WAY))
    counts = dilation.priced_pair(alone).traced
    write = [cycles / counts.writes for cycles in estimate.of_root(counts.costs())]
    paper = memory_paper.table_5_2().kvm_write * SCHMIDT["hertz"]
    exits = list(estimate.published_estimate(estimate.COSTS["exit"]))
    prices = [dilation.price_of_write(alone, one) for one in write]
    # Of a faster guest: a tick is the time of an instruction.
    faster = [dilation.price_of_write(alone, one / memory_cost.paper_cpi()) for one in write]
    for what, ticks, root_too in (
        ("left alone, the estimate", prices, True),
        ("left alone, the paper's cycles", [dilation.price_of_write(alone, paper)], True),
        ("left alone, the estimate, the paper's instructions", faster, True),
        ("TSC offset, the published exit", exits, False),
    ):
        yield (
            what,
            [dilation.ticks_of_write(alone, one, root_too) for one in ticks],
            [
                [dilation.calculated(alone, priced, rate, one, root_too) for one in ticks]
                for rate, _ in RATES
            ],
        )


def ticks_of_write(way):
    """What a traced write took of the guest's clock, in a run."""
    kind, ticks = way["time"].split()
    return dilation.ticks_of_write(way["pairs"], int(ticks), kind == "kept")


def write_text(values):
    """What a traced write takes, perhaps with its interval."""
    if len(values) == 1:
        return number(round(values[0]))
    return predict.text(predict.Estimate(*values))


def share_text(values):
    """The same of a share. A higher price has a lower one."""
    middle, *ends = map(dilation.percent_of, values)
    return middle + (f" ({ends[1].removesuffix(' %')} to {ends[0]})" if ends else "")


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
    made.group("calculated: doubled from")
    for what, write, shares in calculated(found):
        label = f"{what}: {write_text(write)} ticks a traced write"
        made.add(label, [Cell(share_text(one), "range") for one in shares])
    return made


def doubled(found):
    """The page's table: the runs, and what is calculated from them."""
    heads = ["way of time", "ticks of a traced write", "time", *HEADS[1:]]
    rows = [
        [
            name,
            number(round(ticks_of_write(way))),
            *(dilation.percent_of(dilation.doubles_at(way["pairs"], rate)) for rate, _ in RATES),
        ]
        for name, way in found.items()
    ]
    rows += [
        [f"{what}, calculated", write_text(write), *map(share_text, shares)]
        for what, write, shares in calculated(found)
    ]
    return answers.markdown(heads, rows)


def answer(found):
    """The page's first paragraph."""
    (_, write, shares), (_, paper, at_paper), (_, _, at_faster), _ = calculated(found)
    run = found[dilation.PRICED_WAY]
    timer, misses = (
        dilation.rises(run["pairs"], rate)[-1] for rate in (dilation.timer_rate, dilation.miss_rate)
    )
    text = (
        f"**Answer.** Yes, from some {share_text(shares[1])} of traced instructions on. There the "
        "guest has twice as many timer interrupts for the same instructions. Misses double at "
        f"{share_text(shares[3])}. Both hold if the clock is left alone, and a traced write takes "
        f"an estimated {write_text(write)} cycles, and any other instruction one cycle. With the "
        f"{write_text(paper)} cycles of the paper's Table 5.2 they double at "
        f"{share_text(at_paper[1])} and {share_text(at_paper[3])}; with its "
        f"{memory_cost.paper_cpi():.2f} cycles for another instruction interrupts double at "
        f"{share_text(at_faster[1])}. "
        "These shares are calculated from runs in the emulator, which cannot say what an exit "
        f"takes on hardware. In the run with {ticks_of_write(run):,.0f} ticks for a write, "
        f"{timer:.0f} times as many timer interrupts and {misses:.0f} times as many misses came at "
        "10 %."
    )
    return answers.paragraph(text)


def put(page, found):
    """The page with what is made in its places."""
    made = {"the answer": answer(found), "doubled from": doubled(found)}
    return answers.put(page, "dilation_picture.py", made)
