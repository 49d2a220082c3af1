# SPDX-License-Identifier: BSD-2-Clause
# counted_table.py: the answer as a table, of the report and of the page: the cells that differ,
# each with its reason.

from bench.cells import NONE, Cell, Table, signed
from experiments.counted.analysis import counted
from experiments.counted.analysis import counted_reasons as reasons
from experiments.shared.analysis import answers

SHOWN = counted.COLUMNS[1:]


def text_of(cell):
    """An operation's instructions less native's, and its branches where there are any."""
    branches = f" ({signed(float(cell.branches))} branch)" if cell.branches else ""
    return signed(float(cell.instructions)) + branches


def differing(cells):
    """The rows of which some cell is not 0, in the order of the groups."""
    return [
        row
        for row in counted.LABELS
        if any(
            (row, column) in cells
            and (cells[row, column].instructions or cells[row, column].branches)
            for column in SHOWN
        )
    ]


def table(cells):
    """For bench/report.py."""
    made = Table(
        "answer-counted",
        "What do virtual PMUs count?",
        "instructions per operation, less native's",
        list(SHOWN),
        [("emulator", len(SHOWN))],
        reading=[
            "Kernel and user mode together. Operations that are not here count everywhere as "
            "natively: "
            + ", ".join(
                label for row, label in counted.LABELS.items() if row not in differing(cells)
            )
            + "."
        ],
    )
    for row in differing(cells):
        line = []
        for column in SHOWN:
            if (row, column) not in cells:
                line.append(Cell(NONE))
                continue
            cell = cells[row, column]
            why = reasons.reason(row, column, cell)
            line.append(Cell(text_of(cell), note=made.note(reasons.REASONS[why]) if why else 0))
        made.add(counted.LABELS[row], line)
    return made


def markdown(cells):
    rows = []
    for row in differing(cells):
        here = {column: cells[row, column] for column in SHOWN if (row, column) in cells}
        why = {reasons.reason(row, column, cell) for column, cell in here.items()} - {None}
        texts = [text_of(here[column]) if column in here else "stops" for column in SHOWN]
        rows.append([counted.LABELS[row], *texts, ", ".join(sorted(why))])
    return answers.markdown(["an operation", *(f"`{column}`" for column in SHOWN), "why"], rows)


def unlike(cells, column, sign):
    """How many operations count too much there (1), or too little (-1)."""
    return sum(
        row in counted.LABELS and at == column and cell.instructions * sign > 0
        for (row, at), cell in cells.items()
    )


def span_of(cells, columns, sign):
    found = sorted({unlike(cells, column, sign) for column in columns})
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def answer(cells):
    """The whole in a few sentences."""
    branches = sum(
        row in counted.LABELS and bool(cell.branches)
        for (row, column), cell in cells.items()
        if column == reasons.KVMS[-1]
    )

    def most(columns):
        return max(int(cell.instructions) for (_, at), cell in cells.items() if at in columns)

    text = (
        f"**Of {len(counted.LABELS)} operations in the emulator, "
        f"{span_of(cells, ('msr+nmi', 'msr'), -1)} count too little under PMUvisor's `msr+nmi` "
        f"and `msr` ({unlike(cells, 'intercept', -1)} under `intercept`): one instruction, which "
        "exited and which root mode completed. None counts too much. Under each of the three KVMs "
        f"{span_of(cells, reasons.KVMS, 1)} count too much, all of them REP strings at a device, "
        f"by 1 to {most(reasons.KVMS)} instructions, and {span_of(cells, reasons.KVMS, -1)} too "
        f"little: INT1, which is not counted at all, with its {branches} branch.** Xen counts "
        f"{unlike(cells, 'xen', -1)} too little, by one: INT1 and what its root mode completes, "
        f"more than PMUvisor's; and none too much. BitVisor counts {unlike(cells, 'bitvisor', 1)} "
        f"too much: its own instructions, up to {most((reasons.BITVISOR,))}. An emulator cannot "
        "say what a processor's own errata add at exits and interrupts."
    )
    return answers.paragraph(text)


def put(page, cells):
    """The page with what is made in its places."""
    made = {"the answer": answer(cells), "the table": markdown(cells)}
    return answers.put(page, "counted_kept.py", made)
