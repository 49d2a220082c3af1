# SPDX-License-Identifier: BSD-2-Clause
# estimate_check.py: what a bare machine measured, beside the model's estimate of the same: so each
# machine that is measured checks the model. The machine has times and no counts. The counts are the
# emulator's, of the same column, experiment and item, from results/.
import re

from bench import estimate, results, textpage
from bench.cells import NONE, Cell, Table, number
from bench.formulas import BASE, LAST, PMIS
from bench.results import COLUMNS

KEY, TITLE = "check", "The estimate beside what this machine measured"
HEADS = ("median", "95 % interval", "estimate", "90 % interval", "inside")
OVER = (("measured here, cycles of the TSC", 2), ("bench/predict.py, cycles", 3))
OPERATIONS = {
    "CPUID": ("exit", "cpuid"),
    "WRMSR EVTSEL": ("msr", "wrmsr_evtsel"),
    f"one of {PMIS} PMIs": ("a1", LAST),
}
READING = (
    "The estimate is of the emulator's counts of the same column and operation, and says what the "
    "thesis's machine would take. {inside} of {known} measured medians are inside its interval."
)
NO_FREQUENCY = (
    "The results do not say the frequency of the TSC. So this time has no number of cycles."
)
NO_COUNTS = "results/ has no counts by kind"
NO_PAIR = "no column has both a time here and counts in results/"


def tsc_gigahertz(machine, column):
    """None: the results do not say."""
    text = results.values_of(machine.environment["frequency"], [column]).get(column, "")
    found = re.fullmatch(r"(\d+(?:\.\d+)?) MHz", text)
    return float(found[1]) / 1000 if found else None


def measured(machine, column, experiment, item):
    """({value: and where there are several samples low, high}, their unit) of one operation, in
    cycles if the TSC's frequency is known. None: the column has no such time."""
    less, times = (BASE, 1 / PMIS) if experiment == "a1" else ("", 1)
    entries = [machine.entry(column, experiment, name, "time") for name in (item, less or item)]
    if None in entries:
        return None
    value, base = (entry["value"] for entry in entries)
    samples = machine.samples(column, experiment, item, "time", less)
    found = samples.summary() if samples else {"value": value - (base if less else 0)}
    unit, gigahertz = entries[0]["unit"], tsc_gigahertz(machine, column)
    if unit == "ns" and gigahertz:
        unit, times = "cycles", times * gigahertz
    return {key: found[key] * times for key in ("value", "low", "high") if key in found}, unit


def cells_of(table, time, found):
    """The cells of a row: a measured() pair and an Estimate."""
    value, unit = time
    known = unit == "cycles"
    inside = known and estimate.is_inside(found, value["value"])
    ends = f"{number(value['low'])} to {number(value['high'])}" if "low" in value else NONE
    verdict = Cell("yes" if inside else "NO", "good" if inside else "bad")
    return [
        Cell(number(value["value"]) + f" {unit}" * (not known)),
        Cell(ends, "range"),
        *estimate.interval_cells(found),
        verdict if known else Cell(NONE, "missing", table.note(NO_FREQUENCY)),
    ]


def estimates(column, experiment, item):
    """An Estimate by the counts of results/; None: the column has none there."""
    if experiment == "a1":
        return estimate.of_pmi(estimate.counted(), column)
    return estimate.of_cell(estimate.counted(), column, experiment, item)


def trouble():
    """Why results/ has no estimate; "": it has some."""
    try:
        known = estimate.counted() and estimate.model()
        return "" if known else NO_COUNTS
    except results.Trouble as found:
        return str(found)


def add_rows(table, machine):
    """Adds a row for each operation and column."""
    for label, cell in OPERATIONS.items():
        pairs = {name: (measured(machine, name, *cell), estimates(name, *cell)) for name in COLUMNS}
        both = {name: pair for name, pair in pairs.items() if None not in pair}
        if both:
            table.group(label)
        for name, pair in both.items():
            table.add(name, cells_of(table, *pair))


def other_generation(machine):
    """A sentence, if the processor is not known to be of the model's generation."""
    known, cpu = estimate.DATA["generation"], machine.environment["cpu"]
    if re.search(known["names"], cpu):
        return []
    return [
        f"{cpu or 'This processor'} is not known to be a {known['name']}, of which the model's "
        "constants are: here a figure outside its interval does not say that the model is wrong."
    ]


def parts(machine):
    """What a report has of it, a table or a sentence that says why there is none: only a bare
    machine's time can be held against the estimate."""
    if machine.environment["kind"] != "metal":
        return []
    table, why = Table(KEY, TITLE, "", list(HEADS), list(OVER)), trouble()
    if not why:
        add_rows(table, machine)
    if not table.rows:
        return [f"No estimate stands beside the measured cycles: {why or NO_PAIR}."]
    said = [row.cells[-1].kind for row in table.rows if row.cells]
    inside, outside = said.count("good"), said.count("bad")
    table.reading.append(READING.format(inside=inside, known=inside + outside))
    table.reading += other_generation(machine)
    return [table.named(machine)]


def lines(machine):
    """The same for the console; without a figure one line."""
    for part in parts(machine):
        yield from [part] if isinstance(part, str) else textpage.lines_of(part)
