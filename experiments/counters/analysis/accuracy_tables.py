# SPDX-License-Identifier: BSD-2-Clause
# accuracy_tables.py: how far counts of events are from native's, as in perfctr-xen's section 5, and
# what reading a count costs. From the results of one machine.
from bench import leads
from bench.cells import NONE, Cell, number, signed
from bench.measurements import Item
from bench.results import COLUMNS
from bench.tables import add_rows, asked, new_table, operations, value_cells

READ_ITEMS = (
    Item("accuracy", "one_rdpmc", (), "RDPMC, user space"),
    Item("accuracy", "one_read", (), "read()"),
)
# Below so many events an error in percent says nothing; the difference is given instead.
FEW = 1000
# Events that a program's own path decides; the others depend on where its memory is as well.
OF_THE_PATH = ("cycles", "instructions", "branches")
ANYWHERE = "_any"  # ends the name of a program whose memory is where Linux put it


def counted_items(machine):
    """The items that are counts of an event, PROGRAM.EVENT[.tN], by program."""
    found = [
        item
        for item in machine.items("accuracy")
        if any("count" in machine.metrics(name, "accuracy", item) for name in COLUMNS)
    ]
    programs = list(dict.fromkeys(item.partition(".")[0] for item in found))
    return sorted(found, key=lambda item: programs.index(item.partition(".")[0]))


def parts(item):
    """(program, event, whether it is of one of several threads)"""
    program, _, rest = item.partition(".")
    event, *thread = rest.split(".")
    return program, event or program, bool(thread)


def error(value, native):
    """In percent; None where either is not known or native's count is too small for it."""
    if value is None or native is None or native < FEW:
        return None
    return (value / native - 1) * 100


def kind_of(item):
    """The row of the short table that an item belongs to."""
    program, event, thread = parts(item)
    if program.endswith(ANYWHERE) and event not in OF_THE_PATH:
        return f"{event}, memory anywhere"
    return event + (", threads" if thread else "")


def errors(machine):
    """{kind: {column: [error without its sign]}} of all counts that are large enough."""
    found = {}
    for item in counted_items(machine):
        native = machine.value("native", "accuracy", item, "count")
        for name in COLUMNS:
            if name == "native":
                continue
            off = error(machine.value(name, "accuracy", item, "count"), native)
            if off is not None:
                found.setdefault(kind_of(item), {}).setdefault(name, []).append(abs(off))
    # First what counts nothing but the program, then what else it depends on.
    return dict(sorted(found.items(), key=lambda pair: ("anywhere" in pair[0], "," in pair[0])))


def worst(machine, events):
    """{column: largest error} of some events; where memory is anywhere is left out."""
    found = {}
    for kind, columns in errors(machine).items():
        if kind.split(",")[0] in events and "anywhere" not in kind:
            for name, values in columns.items():
                found[name] = max(found.get(name, 0), *values)
    return found


def percent_text(value):
    return "0 %" if value == 0 else f"{value:.3g} %"


def credited(machine):
    """What a vPMU adds that the guest has not retired; "" where it was not measured."""
    values = asked(machine, "accuracy", "exits", "all_modes")
    if not values.known or values["native"] is None:
        return ""
    return (
        "A vPMU in software adds the instructions that it emulates to the guest's counts; a "
        "passed PMU has what retired in the guest. The count of 100 CPUIDs and their loop: "
        + "; ".join(
            f"{number(values[name])} {leads.under(name, machine)}"
            for name in COLUMNS
            if values[name] is not None
        )
        + ". The table's loads have few such instructions."
    )


def short_table(machine):
    table = new_table(
        "accuracy-worst",
        "Accuracy: largest error of a count, by event",
        "error relative to native, without its sign",
        {},
        "",
    )
    if credited(machine):
        table.reading.append(credited(machine))
    found = errors(machine)

    def worst_cell(kind, name):
        if name in found[kind]:
            return Cell(percent_text(max(found[kind][name])))
        if name == "native":
            return Cell(NONE)
        return table.missing(machine.why(name, "accuracy", f"accuracy/{kind}"))

    for kind in found:
        table.add(kind, [worst_cell(kind, name) for name in COLUMNS])
    if found:
        if machine.exact and any("kvm" in columns for columns in found.values()):
            table.reading.append(
                "The model's caches go by the machine's addresses. PMUvisor's guest has the same "
                "ones, KVM's guest has its memory elsewhere, and KVM's own lines are in the caches "
                "as well: its references and misses cannot be set against native's here."
            )
        table.reading.append(f"Of all programs and counts of at least {FEW} events natively.")
        if any("anywhere" in kind for kind in found):
            table.reading.append(
                "Memory anywhere: where Linux happened to put it, so that which lines share a "
                "place in the caches differs from boot to boot, natively too."
            )
    return table


def error_text(value, native):
    """The relative error in percent; of small counts the difference."""
    off = error(value, native)
    if off is None:
        return signed(value - native)
    return "0 %" if off == 0 else f"{off:+.3g} %"


def error_cells(table, machine, experiment, item, metric="count"):
    """Native's value, and the others' errors."""
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


def long_table(machine):
    """Every count: native's, and the others' errors."""
    table = new_table("accuracy", "Accuracy: every count", "native: events; others: error", {}, "")
    program = None
    for item in counted_items(machine):
        first, _, rest = item.partition(".")
        if first != program:
            program = first
            table.group(program)
        table.add(rest or item, error_cells(table, machine, "accuracy", item))
        counts = asked(machine, "accuracy", item, "count")
        expected = asked(machine, "accuracy", item, "expected")
        if expected.known:
            texts = [
                NONE if None in pair else signed(pair[0] - pair[1])
                for pair in ((counts[name], expected[name]) for name in COLUMNS)
            ]
            table.add("to what it must be", [Cell(text, "ratio") for text in texts], "sub")
    if table.rows:
        table.reading.append(
            f"Where native counts fewer than {FEW}, the difference stands instead "
            "of the error in percent."
        )
        if machine.exact:
            table.reading.append(
                "Here the PMU's event cycles counts instructions too: the "
                "emulator executes one in each tick of its clock."
            )
    return table


def modes_table(machine):
    """Instructions that the guest counts, in all modes, over a loop with CPUIDs in it."""
    table = new_table(
        "modes", "Instructions counted in all modes over 100 CPUIDs and their loop", "count", {}, ""
    )
    values = asked(machine, "accuracy", "exits", "all_modes")
    if values.known:
        table.add("100 CPUIDs", value_cells(table, values))
        table.reading.append(
            "A CPUID that exits does not retire in the guest: the hypervisor executes it, while "
            "the guest's counter stands still. So a hypervisor that stops the PMU at exits counts "
            "fewer than native, one for each exit; a vPMU in software adds what it emulates. "
            "PMUvisor could add 1 to each counter that counts instructions. With the counters "
            "passed through it would have to ask which those are: an RDMSR of an event selector "
            "for each counter, and an RDMSR and a WRMSR for each that counts, at every such exit, "
            "which has no MSR access now. A loop that counts itself seldom exits, so it is left "
            "as it is: what retires in the guest is counted exactly."
        )
    return table


def reads_table(machine):
    """One count read by the program itself: what RDPMC in user space saves."""
    table = new_table("reads", "One count read by the program itself", machine.unit(), {}, "")
    items = [
        item
        for item in READ_ITEMS
        if any(machine.metrics(name, "accuracy", item.name) for name in COLUMNS)
    ]
    add_rows(table, machine, operations(machine, items, True), {"cost": machine.metric})
    return table
