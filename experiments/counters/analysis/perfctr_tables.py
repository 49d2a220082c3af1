# SPDX-License-Identifier: BSD-2-Clause
# perfctr_tables.py: what the paper of perfctr-xen has in its section 5, from the results of one
# machine: errors of counts by scenario (its Figure 7), overflows by thread (8, 9), real programs
# (10 to 13), and samples by function of a minimum-cost-flow solver (Tables 3 to 5).
from bench.cells import NONE, Cell, Row, Table, number, ratio, signed
from bench.results import COLUMNS
from bench.tables import asked, count_row
from experiments.counters.analysis import perfctr_published
from experiments.counters.analysis.accuracy_tables import error

EVENTS = (
    ("tsc", "TSC"),
    ("instructions", "instructions"),
    ("branches", "branches"),
    ("llc_references", "LLC references"),
    ("llc_misses", "LLC misses"),
)
SCENARIOS = (
    ("", "one thread"),
    (".t1", "two on one processor (2): thread 1"),
    (".t2", "thread 2"),
    (".p1", "two on two processors (1): thread 1"),
    (".p2", "thread 2"),
    (".m1", "moved between two processors (4): thread 1"),
    (".m2", "thread 2"),
)
OF_PROGRAMS = (
    ("instructions", "instructions"),
    ("branches", "branches"),
    ("cycles", "cycles"),
    ("llc_references", "LLC references"),
    ("llc_misses", "LLC misses"),
)
PROGRAMS = ("gzip", "bzip2", "xz", "sqlite3", "python3", "cc1", "glpsol")
# The paper's events, in the order of its Tables 3 to 5.
SAMPLED = (("cycles", "PAPI_TOT_CYC"), ("llc_misses", "PAPI_L2_TCM"), ("branches", "PAPI_BR_INS"))
SOLVER = "glpsol"
TOP = 6  # functions of each real program
LEAST_SHARE = 1  # in percent natively, of a function that has a row: the paper's


def error_text(value, native):
    """The relative error in percent; of small counts the difference."""
    off = error(value, native)
    if off is None:
        return signed(value - native)
    return "0 %" if off == 0 else f"{off:+.3g} %"


def error_cells(table, machine, experiment, item, metric="count"):
    values = asked(machine, experiment, item, metric)
    native = values["native"]
    cells = []
    for name in COLUMNS:
        if values[name] is None:
            cells.append(table.missing(values.why(name)))
        elif name == "native" or native is None:
            cells.append(Cell(number(values[name])))
        else:
            cells.append(Cell(error_text(values[name], native)))
    return cells


def scenarios(table, machine):
    for event, label in EVENTS:
        if not any(item.startswith(f"mixed.{event}") for item in machine.items("scenarios")):
            continue
        table.group(label)
        for ending, words in SCENARIOS:
            table.rows.append(
                Row(words, error_cells(table, machine, "scenarios", f"mixed.{event}{ending}"))
            )


def overflow_cell(table, machine, name, items):
    """The overflows of all threads, and how many there had to be where those are others."""
    found = [
        (
            machine.value(name, "scenarios", item, "overflows"),
            machine.value(name, "scenarios", item, "expected"),
        )
        for item in items
    ]
    if any(None in pair for pair in found):
        return table.missing(machine.why(name, "scenarios", items[0]))
    wrong = sum(abs(overflows - expected) for overflows, expected in found)
    total = number(sum(overflows for overflows, _ in found))
    return Cell(total if wrong == 0 else f"{total}, {number(wrong)} off")


def overflows(table, machine):
    runs = list(
        dict.fromkeys(
            item.rpartition(".t")[0]
            for item in machine.items("scenarios")
            if item.startswith("overflow.") and ".t" in item
        )
    )
    for run in runs:
        _, event, threads = run.split(".")
        items = [item for item in machine.items("scenarios") if item.startswith(f"{run}.t")]
        table.rows.append(
            Row(
                f"{event}, threads: {threads.removeprefix('of')}",
                [overflow_cell(table, machine, name, items) for name in COLUMNS],
            )
        )
        cells = []
        for name in COLUMNS:
            pairs = [
                (
                    machine.value(name, "scenarios", item, "count"),
                    machine.value("native", "scenarios", item, "count"),
                )
                for item in items
            ]
            if name == "native" or any(None in pair for pair in pairs):
                cells.append(Cell(NONE))
            else:
                cells.append(Cell(error_text(*max(pairs, key=lambda pair: abs(pair[0] - pair[1])))))
        table.rows.append(Row("count", cells, "sub"))


def real_programs(machine):
    """Those that were counted, in the order of PROGRAMS."""
    items = {item.partition(".")[0] for item in machine.items("real")}
    return [name for name in PROGRAMS if name in items]


def programs(table, machine):
    for program in real_programs(machine):
        table.group(program)
        for event, label in OF_PROGRAMS:
            table.rows.append(Row(label, error_cells(table, machine, "real", f"{program}.{event}")))
        count_row(table, machine, "exits, all modes", "real", program, "exits")
        count_row(table, machine, "of these CPUID", "real", program, "exits:CPUID")


def functions_of(machine, sampled):
    """[(item, function)] of those with a share natively, the largest first."""
    found = []
    for item in machine.items("real", "native"):
        share = machine.value("native", "real", item, "share")
        if item.startswith(f"{sampled}.") and share is not None and share >= LEAST_SHARE:
            found.append((-share, item, item.removeprefix(f"{sampled}.")))
    return [(item, name) for _, item, name in sorted(found)]


def sampled_words(machine, sampled):
    """What was sampled, for the table's heading: the period may differ from the paper's."""
    periods = {machine.value(name, "real", sampled, "period") for name in COLUMNS} - {None}
    return "one every " + " or ".join(number(period) for period in sorted(periods)) + " events"


def functions(table, machine):
    """The top functions of each real program but the solver, which has tables of its own."""
    for program in real_programs(machine):
        sampled = f"{program}.branches"
        found = functions_of(machine, sampled)
        if program == SOLVER or not found:
            continue
        table.group(f"{program}: {sampled_words(machine, sampled)}")
        for item, name in found[:TOP]:
            cells = []
            for column in COLUMNS:
                share = machine.value(column, "real", item, "share")
                if column == "native":
                    cells.append(Cell(f"{share:.2f} %"))
                else:
                    cells.append(samples_cell(table, machine, column, item))
            table.rows.append(Row(name, cells))


def samples_cell(table, machine, column, item):
    value = machine.value(column, "real", item, "samples")
    native = machine.value("native", "real", item, "samples")
    if value is None:
        sampled = ".".join(item.split(".")[:2])
        if machine.value(column, "real", sampled, "samples") is not None:
            return Cell(f"< {LEAST_SHARE} %")
        return table.missing(machine.why(column, "real", item))
    return Cell(number(value) if column == "native" else ratio(value, native))


def solver_table(machine, event, theirs):
    place = 3 + [name for name, _ in SAMPLED].index(event)
    sampled = f"{SOLVER}.{event}"
    heads = list(COLUMNS) + list(perfctr_published.COLUMNS)
    table = Table(
        f"mcf-{event}",
        f"Minimum-cost flow by function: {event} (perfctr-xen, Table {place}: {theirs})",
        "native: samples; others: samples over native's",
        heads,
        [
            ("measured: samples, and their ratio to native", len(COLUMNS)),
            ("published: ratio", len(perfctr_published.COLUMNS)),
        ],
    )
    empty = [Cell("", "published") for _ in perfctr_published.COLUMNS]
    found = functions_of(machine, sampled)
    if found:
        table.reading.append(
            f"perf record on GLPK's glpsol --mincost, {sampled_words(machine, sampled)}; the "
            f"paper: HPCToolkit, which Debian 12 and 13 do not have, on 429.mcf of SPEC CPU2006, "
            f"one every {number(perfctr_published.PERIODS[theirs])}. Functions are other "
            "ones, so only the spread can be compared. glpsol's function fn_ADDRESS is one that "
            "is not exported."
        )
        table.rows.append(
            Row(
                "all samples",
                [samples_cell(table, machine, name, sampled) for name in COLUMNS] + empty,
            )
        )
    for item, name in found:
        table.rows.append(
            Row(name, [samples_cell(table, machine, column, item) for column in COLUMNS] + empty)
        )
    table.group("429.mcf, published")
    for name, figures in perfctr_published.RATIOS[theirs].items():
        table.rows.append(
            Row(
                name,
                [Cell("") for _ in COLUMNS] + [Cell(text, "published") for text in figures.split()],
            )
        )
    return table


def solvers(machine):
    """The tables of each event; none where these results have none of real programs."""
    return [solver_table(machine, *names) for names in SAMPLED] if machine.ran("real") else []
