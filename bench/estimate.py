# SPDX-License-Identifier: BSD-2-Clause
# estimate.py: cycles estimated from the emulator's counts for every column, with the unit costs of
# predict.py and their error bars. Estimates, no measurements: nothing here was run on hardware.
from bench import published
from bench.cells import NONE, Cell, number, ratio, ratios
from bench.formulas import BASE, LAST
from bench.measurements import ALL
from bench.predict import COST, cycles_of, less, picks, root_counts, trapped
from bench.results import COLUMNS


def three(counts):
    """Mean, lowest and highest, or None."""
    return None if counts is None else tuple(cycles_of(counts, pick) for pick in picks())


def operation(machine, column, experiment, item):
    """One operation: its root part, or the instruction itself where it does not exit. None: it was
    not measured, or the model has no unit cost of the instruction itself."""
    counts = root_counts(machine, column, experiment, item)
    if counts is None:
        return None
    if counts["exits"] == 0:
        kind = item.split("_")[0]
        if kind not in ("rdmsr", "wrmsr"):
            return None
        counts = {**dict.fromkeys(counts, 0), "instructions": 1, kind: 1}
    return three(counts)


def deliveries(machine, column, last=LAST):
    """What the PMIs of Linux's program A.1 add: root mode's part and the guest's."""
    root = less(root_counts(machine, column, "a1", last), root_counts(machine, column, "a1", BASE))
    values = [machine.value(column, "a1", item, "nonroot_instructions") for item in (last, BASE)]
    if root is None or None in values or machine.entry("intercept", "a1", last, "exits") is None:
        return None
    counts = dict(root, deliveries=published.TABLE_4_2_PMIS[last])
    counts["instructions"] += values[0] - values[1]
    # Those that the guest executes itself: what exits under intercept, less what exits here.
    for kind, count in less(
        *(trapped(machine, name, last) for name in ("intercept", column))
    ).items():
        counts[kind] += max(count, 0)
    return three(counts)


def estimated(table, machine, experiment, item):
    """A row of Linux's Table 4.2 beside its counts, because the published ratios are of time:
    estimated cycles of what these PMIs add, over native's, at the mean unit costs."""
    if not machine.exact or experiment != "a1":
        return
    found = {name: deliveries(machine, name, item) for name in COLUMNS}
    base = found["native"]
    texts = ratios([found[name] and found[name][0] for name in COLUMNS], base and base[0])
    pads = [Cell("", "published")] * (len(table.heads) - len(COLUMNS))
    cells = [Cell(text, "ratio") for text in texts]
    table.add("cycles, estimated, x native", cells + pads, "sub")


def low_to_high(low, high):
    return NONE if low == high else f"{ratio(low, 1)} to {ratio(high, 1)}"


def rows(table, label, found, whys):
    """What one operation takes, and its ratio to native, each with its range."""
    cells = [
        table.missing(whys[name]) if three is None else Cell(number(round(three[0])))
        for name, three in found.items()
    ]
    table.add(label, cells)

    def below(what, text, kind="range"):
        texts = (NONE if three is None else text(three) for three in found.values())
        table.add(what, [Cell(each, kind) for each in texts], "sub")

    below("range", lambda three: f"{three[1]:,.0f} to {three[2]:,.0f}")
    base = found["native"]
    if base is not None:
        below("x native", lambda three: ratio(three[0], base[0]), "ratio")
        quotients = lambda three: sorted(mine / its for mine, its in zip(three, base))
        below("range", lambda three: low_to_high(quotients(three)[0], quotients(three)[-1]))


def why(machine, column, experiment, item):
    """Why there is no estimate."""
    if machine.value(column, experiment, item, "exits") == 0:
        return "it does not exit, and there is no unit cost of the instruction itself"
    if experiment == "a1" and machine.entry("intercept", "a1", item, "exits") is None:
        return "needs the column intercept, which has the guest's accesses to MSRs"
    return machine.why(column, experiment, item)


def estimates(table, machine):
    def add(label, experiment, item, estimate):
        found = {name: estimate(name) for name in COLUMNS}
        rows(table, label, found, {name: why(machine, name, experiment, item) for name in COLUMNS})

    for title, experiment in (("Table 4.1: an access", "msr"), ("Table 4.3: an exit", "exit")):
        table.group(title)
        for _, item, _, label in ALL.items_in("estimate", experiment):
            add(
                label,
                experiment,
                item,
                lambda name, cell=(experiment, item): operation(machine, name, *cell),
            )
    table.group("Table 4.2: what 1000 PMIs add to Linux's program A.1")
    add("1000 PMIs", "a1", LAST, lambda name: deliveries(machine, name))


def unit_costs(_machine):
    costs = {key: number(round(cost.mean)) for key, cost in COST.items()}
    return {**costs, "cpi": f"{COST['cpi'].mean:.2f}"}


def misses(machine):
    """How far the estimate of KVM is from the thesis's KVM."""
    errors = [
        (found[0] / figures["kvm"] - 1) * 100
        for experiment, theirs in (("msr", published.TABLE_4_1), ("exit", published.TABLE_4_3))
        for item, figures in theirs.items()
        if (found := operation(machine, "kvm", experiment, item))
    ]
    return (
        [
            f"In the {len(errors)} rows of Tables 4.1 and 4.3 that the thesis has of its KVM, the "
            f"estimate for kvm is off by {min(errors):+.0f} to {max(errors):+.0f} %."
        ]
        if errors
        else []
    )
