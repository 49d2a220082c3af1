# SPDX-License-Identifier: BSD-2-Clause
# sampled_table.py: perf record of all processors by six and by ten events, beside the figures that
# came with KVM's mediated vPMU.
import published
from cells import percent
from measurements import ALL
from tables import asked, count_row, new_table, overhead, published_cells, value_cells

LOADS = ("six", "ten")
READING = (
    "Theirs is time of SPECint 2017 on 56 processors; ours is one program on one. The emulated "
    "vPMU's and "
    "the mediated one's figures are to be read beside the columns above which they stand; theirs "
    "with all "
    "registers passed through is the base of the same kind as msr+nmi."
)


def sampled_table(machine):
    table = new_table(
        "sampled",
        "perf record -F 1000 -a: what six and ten events add",
        "instructions" if machine.exact else "time",
        published.MEDIATED_COLUMNS,
        "published: percent of time",
    )
    table.reading.append(READING)
    for name in LOADS:
        item = next(one for one in ALL.items("sampled") if one.name == name)

        def added(column, name=name):
            return overhead(
                *(machine.value(column, "sampled", one, machine.metric) for one in ("plain", name))
            )

        table.add(
            item.label,
            value_cells(
                table,
                asked(machine, "sampled", name, machine.metric).to(added),
                lambda value: percent(value, 2),
            )
            + published_cells(
                table, published.MEDIATED["overhead"][name], lambda text: f"{text} %"
            ),
        )
        for metric in ("samples", "exits", "root_instructions"):
            count_row(table, machine, metric.replace("_", " "), "sampled", name, metric)
    return table
