# SPDX-License-Identifier: BSD-2-Clause
# estimate.py: the counts that predict.py's model estimates cycles from, the published cells that it
# is fitted to and held against, and the rows of the report that have estimates. Estimates, no
# measurements: nothing here was run on hardware.
import functools
import os
import statistics
from typing import NamedTuple

from bench import predict, published, results
from bench.cells import NONE, Cell, Machine, number
from bench.formulas import BASE, LAST
from bench.measurements import ALL, TOP
from bench.predict import CONSTANTS, COSTS, DATA, SOURCES, TABLES, add_counts, divide, subtract
from bench.results import COLUMNS

RESULTS = os.path.join(TOP, "results", "emulator-skylake-x.json")
AGREEMENT = ("native", "kvm", "msr+nmi")
# By default perf record takes this many samples a second; the thesis names no other rate.
SAMPLES_A_SECOND = 4000
NINETY_PERCENT = 1.645  # standard deviations to each side
# At each exit the thesis's KVM checks for NMIs of the guest (its section 4.2.3). No run has that
# code: one VMREAD and 25 instructions are an estimate from its text.
BOOKKEEPING = {"vmread": 1, "other": 25}


# ---- counts ----


# What the program of an experiment executes by itself: the item that has it alone.
PROGRAMS = {
    "a1": BASE,
    "profile": "plain",
    "nginx": "plain",
    "nginx_2": "plain",
    "sampled": "plain",
}


def count_known(metrics, root=False):
    """{unit cost: how often it is in a cell}, and how many instructions that are; of root mode
    alone or of everything."""
    counts = {
        name: sum(
            metrics.get(metric, 0)
            for metric in cost["metrics"]
            if not (root and metric.startswith("nonroot_"))
        )
        for name, cost in COSTS.items()
    }
    return counts, sum(
        counts[name] for name, cost in COSTS.items() if cost.get("instruction", True)
    )


def count_program(machine, experiment):
    """Instructions of the measured program itself: those that it has natively, with nothing to
    disturb it."""
    alone = values_of(machine, "native", experiment, PROGRAMS.get(experiment))
    return alone.get("instructions", 0) - count_known(alone)[1]


def values_of(machine, *cell):
    return {name: entry["value"] for name, entry in machine.metrics(*cell).items()}


def counts_of(machine, column, experiment, item, root=False):
    """{unit cost: how often it is in a cell}, of root mode alone or of everything; `other` are the
    instructions that no unit cost is of. None: it was not counted, or it is one instruction that
    the model knows no cost of."""
    found = values_of(machine, column, experiment, item)
    by_kind = machine.results["tool"].get("counts") == results.COUNTS
    if not by_kind or "root_instructions" not in found:
        return None
    counts, known = count_known(found, root)
    counts["other"] = found["root_instructions" if root else "instructions"] - known
    if not root:
        counts["program"] = min(count_program(machine, experiment), counts["other"])
        counts["other"] -= counts["program"]
    counts = {name: count for name, count in counts.items() if count}
    return None if counts == {"other": 1} else counts


def counts_of_extra(machine, column, experiment, item):
    """Of what the PMIs add to a run of program A.1."""
    return subtract(*(counts_of(machine, column, experiment, name) for name in (item, BASE)))


def counts_of_pmi(machine, column, item=LAST):
    """Of one PMI of program A.1 under Linux."""
    return divide(counts_of_extra(machine, column, "a1", item), published.TABLE_4_2_PMIS[item])


def counts_of_sample(machine, column):
    """Of one sample of perf record."""
    added = subtract(
        *(counts_of(machine, column, "profile", item) for item in ("profiled", "plain"))
    )
    return divide(added, machine.value(column, "profile", "profiled", "samples"))


# ---- estimates ----


@functools.lru_cache(maxsize=None)
def model(fitted_to=TABLES):
    """The model fitted to tables of the thesis; to none: what is published of single operations
    alone. The counts are those of results/. None: these have no counts by kind."""
    cells = [one for one in kept_cells() if one.table in fitted_to]
    return predict.Model(cells) if cells or not fitted_to else None


def of_counts(counts, experiment="other"):
    fitted = model() if counts is not None else None
    return fitted and fitted.cycles(counts, experiment)


def of_ratio(counts, base, experiment="other"):
    known = None not in (counts, base) and any(base.values())
    fitted = model() if known else None
    return fitted and fitted.ratio(counts, base, experiment)


def counts_of_root(found):
    """Of root mode's part of something, counted by a ledger: exits, all instructions, and of these
    VMREAD, VMWRITE, RDMSR, WRMSR."""
    counts = {name: found[name] for name in ("vmread", "vmwrite", "rdmsr", "wrmsr")}
    other = max(found["instructions"] - sum(counts.values()), 0)
    return {**counts, "exit": found["exits"], "other": other}


def of_root(found):
    """Cycles of the same."""
    return of_counts(counts_of_root(found))


def of_cell(machine, column, experiment, item):
    """Cycles of a cell: of one operation, of a whole program, of one request. None: not known."""
    return of_counts(counts_of(machine, column, experiment, item), experiment)


def of_pmi(machine, column):
    """Cycles of one PMI of program A.1 under Linux."""
    return of_counts(counts_of_pmi(machine, column), "a1")


def as_percent(times):
    """What a ratio is more than 1, in percent."""
    return type(times)(*(100 * (one - 1) for one in times))


def of_overhead(machine, column, experiment, item, base):
    """In percent, what an item takes more than another."""
    pair = (counts_of(machine, column, experiment, name) for name in (item, base))
    found = of_ratio(*pair, experiment)
    return found and as_percent(found)


def of_rate(machine, column, rate=1000):
    """The part of a second, in percent, that perf record takes on the thesis's processor at this
    number of samples a second."""
    found = of_counts(counts_of_sample(machine, column))
    return found and type(found)(*(100 * rate * one / published.THESIS["hertz"] for one in found))


# ---- what was published ----


class Published(NamedTuple):
    """A cell of the thesis's tables, with the counts of the same operation here."""

    table: str
    experiment: str
    column: str
    item: str
    cycles: float
    counts: dict


@functools.lru_cache(maxsize=None)
def counted():
    """The results that the project keeps, whose counts the model is fitted with."""
    return Machine(results.load(RESULTS))


@functools.lru_cache(maxsize=None)
def kept_cells():
    return published_cells(counted())


def thesis_pmi(machine, column, item):
    """The counts of a PMI in a column of the thesis's Table 4.2. No run has its KVM with MSRs
    passed through: it is made of native's PMI and our KVM's exits for LVTPC and for an NMI."""
    if column in ("native", "kvm"):
        return counts_of_pmi(machine, column, item)
    linux = subtract(
        counts_of_pmi(machine, "native", item), counts_of(machine, "native", "pmi", "lvtpc_write")
    )
    written, overflow = (
        counts_of(machine, "kvm", "pmi", name, root=True)
        for name in ("lvtpc_write", "overflow_to_handler")
    )
    return add_counts(linux, written, overflow if column == "msr" else BOOKKEEPING)


def published_cells(machine):
    """The cells of Tables 4.1, 4.2 and 4.3; of 4.2 what one PMI adds."""
    found = []

    def add(table, experiment, column, item, cycles, counts):
        if counts is not None:
            found.append(Published(table, experiment, column, item, float(cycles), counts))

    for item, figures in published.TABLE_4_1.items():
        for column, cycles in figures.items():
            add("4.1", "msr", column, item, cycles, counts_of(machine, column, "msr", item))
    for item, figures in published.TABLE_4_3.items():
        kvm = counts_of(machine, "kvm", "exit", item)
        for column, cycles in figures.items():
            counts = kvm if column == "kvm" else add_counts(kvm, BOOKKEEPING)
            add("4.3", "exit", column, item, cycles, counts)
    base = published.TABLE_4_2[BASE]
    for item, figures in published.TABLE_4_2.items():
        pmis = published.TABLE_4_2_PMIS[item]
        for column, ms in figures.items() if pmis else ():
            cycles = (float(ms) - float(base[column])) / 1e3 * published.THESIS["hertz"] / pmis
            add("4.2", "a1", column, item, cycles, thesis_pmi(machine, column, item))
    return found


# ---- the report ----

# All items of these are estimated; of others those that measurements.ini marks.
RUNS = ("a1", "profile", "nginx", "nginx_2")
INTERVAL = "90 % interval"


def estimate_rows(table, label, found, unit=""):
    """An estimate below the row that it is of, and its interval."""
    if not any(found.values()):
        return
    nothing = Cell(NONE, "range")
    middle, interval = [nothing] * len(COLUMNS), [nothing] * len(COLUMNS)
    for at, name in enumerate(COLUMNS):
        if found[name]:
            text, ends = interval_cells(found[name], unit)
            same = found[name].low == found[name].high
            middle[at] = Cell(text.text, "range")
            interval[at] = Cell("same counts", "range") if same else ends
    table.add(label, middle, "sub")
    table.add(INTERVAL, interval, "sub")


def estimated(table, machine, experiment, item, of=counts_of):
    """Rows: the cycles of a cell. Accesses and PMIs also have the ratio to native, because the
    published ratios are of cycles or time."""
    marked = [one.name for one in ALL.items_in("estimate", experiment)]
    if not machine.exact or not (item in marked or experiment in RUNS):
        return
    counts = {name: of(machine, name, experiment, item) for name in COLUMNS}
    estimate_rows(
        table,
        "cycles, estimate",
        {name: of_counts(one, experiment) for name, one in counts.items()},
    )
    if experiment == "msr" or (experiment == "a1" and of is counts_of_extra):
        base = counts["native"]
        found = {name: of_ratio(one, base, experiment) for name, one in counts.items()}
        estimate_rows(table, "x native, estimate", found, "x")


def estimated_extra(table, machine, experiment, item):
    """The same of what the PMIs of program A.1 add."""
    if item != BASE:
        estimated(table, machine, experiment, item, counts_of_extra)


def estimated_overhead(table, machine, experiment, item, base, sparser=1):
    """Rows: how much more cycles an item takes than another, with so many times fewer samples."""
    if machine.exact:
        found = {name: of_overhead(machine, name, experiment, item, base) for name in COLUMNS}
        found = {
            name: one and type(one)(*(each / int(sparser) for each in one))
            for name, one in found.items()
        }
        estimate_rows(table, "of cycles, estimate", found, " %")


def estimate_cells(found, wanted, unit=""):
    """Cells: an estimate, its interval, how far it is from what was published."""
    return [*interval_cells(found, unit), Cell(f"{100 * (found.middle / wanted - 1):+.0f} %")]


def is_inside(found, wanted):
    return found.low <= wanted <= found.high


def validation(table, _machine):
    """Every published cell, and what the model says that was fitted to the other two tables."""
    for number, pairs in by_table().items():
        table.group(f"Table {number}" + ", cycles of one PMI" * (number == "4.2"))
        names = getattr(published, f"TABLE_{number.replace('.', '_')}_COLUMNS")
        for cell, found in pairs:
            inside = is_inside(found, cell.cycles)
            table.add(
                f"{names[cell.column]}, {label_of(cell)}",
                [
                    Cell(rounded(cell.cycles), "published"),
                    *estimate_cells(found, cell.cycles),
                    Cell("yes" if inside else "NO", "good" if inside else "bad"),
                ],
            )


def label_of(cell):
    if cell.table == "4.2":
        return f"{published.TABLE_4_2_PMIS[cell.item]} PMIs"
    return next(one.label for one in ALL.items(cell.experiment) if one.name == cell.item)


def rounded(value):
    return number(round(value))


@functools.lru_cache(maxsize=None)
def by_table():
    """{table: [(cell, its Estimate by the other tables)]}"""
    found = {}
    for cell, one in predict.predict_left_out(kept_cells()):
        found.setdefault(cell.table, []).append((cell, one))
    return found


def typical_miss(pairs):
    """The median of the relative errors."""
    return statistics.median(abs(found.middle / cell.cycles - 1) for cell, found in pairs)


def misses(_machine):
    """How good the model is, in words."""
    found = by_table()
    if not found:
        return ["These results have no counts by kind, so there is no estimate."]
    pairs = [pair for each in found.values() for pair in each]
    inside = sum(is_inside(one, cell.cycles) for cell, one in pairs)
    medians = ", ".join(
        f"Table {name} {100 * typical_miss(each):.0f} %" for name, each in found.items()
    )
    return [
        f"Median error with a table left out of the fit: {medians}. {inside} of {len(pairs)} "
        f"published figures ({100 * inside / len(pairs):.0f} %) are inside their 90 % interval."
    ]


def per_sample_in_print():
    """{table of the thesis: {column: cycles that one sample adds}}"""
    hertz, rate = published.THESIS["hertz"], SAMPLES_A_SECOND
    base, last = published.TABLE_4_2[BASE], published.TABLE_4_2[LAST]
    pmis, found = published.TABLE_4_2_PMIS[LAST], {"4.2": {}, "4.5": {}, "4.7": {}}
    for name in published.TABLE_4_5_COLUMNS:
        found["4.2"][name] = (float(last[name]) - float(base[name])) / 1e3 * hertz / pmis
        plain, profiled = (float(published.TABLE_4_5[item][name]) for item in ("plain", "profiled"))
        found["4.5"][name] = (profiled - plain) * hertz / (profiled * rate)
        plain, profiled = (
            float(of["rate"][name]) for of in (published.TABLE_4_6, published.TABLE_4_7)
        )
        found["4.7"][name] = (1 - profiled / plain) * hertz / rate
    return found


def agreement(table, _machine):
    """Whether the thesis's tables agree with each other."""
    for name, figures in per_sample_in_print().items():
        cells = [Cell(rounded(figures[column]), "published") for column in AGREEMENT]
        table.add(f"Table {name}", cells)


def measured_elsewhere(machine):
    """(what, figure, unit, key of its source, how a model estimates it) of other machines."""
    for row in DATA["elsewhere"]:
        counts = counts_of(machine, *row["of"].split())
        if counts:
            counts = add_counts({}, *[counts] * row.get("times", 1))
            of = lambda fitted, counts=counts: fitted.cycles(counts, "exit")
            yield row["what"], row["published"], "", row["source"], of
    for item, figures in published.MEDIATED_OVERHEAD.items():
        for name, figure in figures.items():
            pair = [counts_of(machine, name, "sampled", one) for one in (item, "plain")]
            if None not in pair:
                words = published.MEDIATED_OVERHEAD_COLUMNS[name]
                what = f"perf record, {item} events, {words}"
                of = lambda fitted, pair=pair: as_percent(fitted.ratio(*pair))
                yield what, float(figure), " %", "mediated", of


def elsewhere(table, _machine):
    """Measurements of other machines, beside two models."""
    models = model(), model(())
    for what, figure, unit, source, of in measured_elsewhere(counted()) if models[0] else ():
        note = table.note(f"{SOURCES[source]}.")
        cells = [Cell(f"{figure:,}{unit}", "published", note)]
        for fitted in models:
            cells += estimate_cells(of(fitted), figure, unit)
        table.add(what, cells)


def used_costs():
    """The unit costs that these results have a count for."""
    machine = counted()
    found = {name for cell in machine.by_cell for name in counts_of(machine, *cell) or ()}
    return {name: cost for name, cost in COSTS.items() if name in found}


def costs(table, _machine):
    """Unit costs and constants, with what they are from."""
    fitted = model()

    def row(entry, cells):
        said = [f"{SOURCES[key]}." for key in entry["sources"]]
        note = table.note(" ".join([entry["how"][0].upper() + entry["how"][1:] + ".", *said]))
        table.add(entry["what"], [Cell(cells[0].text, cells[0].kind, note), *cells[1:]])

    table.group("unit costs, as published")
    for cost in used_costs().values():
        row(cost, interval_cells(published_estimate(cost)))
    for with_delta in (False, True) if fitted else ():
        words = "and a cost of each exit" if with_delta else "without a cost of each exit"
        table.group(f"constants, fitted to the thesis's tables, {words}")
        for name, found in fitted.constants(with_delta).items():
            if found.high:
                row(CONSTANTS[name], interval_cells(found))


def published_estimate(entry):
    wide = entry["factor"] ** NINETY_PERCENT
    return predict.Estimate(entry["median"], entry["median"] / wide, entry["median"] * wide)


def interval_cells(found, unit=""):
    middle, low, high = predict.round_texts(found)
    return [Cell(middle + unit), Cell(f"{low} to {high}{unit}", "range")]


def direct(table, _machine):
    """Published measurements of single operations beside the model."""
    fitted = model()
    for row in DATA["direct"] if fitted else ():
        found = fitted.single(row["counts"])
        low, high = row["low"], row["high"]
        note = table.note(f"{SOURCES[row['source']]}.")
        text = rounded(low) if low == high else f"{low} to {high}"
        table.add(row["what"], [Cell(text, "published", note), *interval_cells(found)])
