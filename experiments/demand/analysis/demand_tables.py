# SPDX-License-Identifier: BSD-2-Clause
# demand_tables.py: the answer as a table, of the cases that were measured.
from bench.cells import Cell, Table, number
from experiments.demand.analysis import demand_cost as cost
from experiments.demand.analysis.demand_cost import Weights

FREQUENCIES = (100, 1000, 4000)
SHARES = (0.01, 0.1, 0.5, 0.9)
CHECKED = (25, 50, 75)  # percent
SESSIONS, TICKS = 0.1, 10  # a session each 10 s; tick=100, the default
# Not measured: what it would be if an exit and an access cost more than one instruction.
HEAVY = Weights(exit=1000, msr=100)


def crossovers(cases, weights=Weights()):
    """{(frequency, share): [(from, to) in switches a second, for each second user]}."""
    u = cost.units(cases, weights)
    return {
        (frequency, share): [
            (
                cost.beats_pass_above(u, share, SESSIONS, TICKS, what),
                cost.beats_trap_below(u, share, frequency, SESSIONS, TICKS, what),
            )
            for what in cost.SECOND_USERS
        ]
        for frequency in FREQUENCIES
        for share in SHARES
    }


def answer(cases):
    table = Table(
        "answer-demand",
        "On demand costs least between so many switches a second",
        "count",
        [f"{what}: {side}" for what in cost.SECOND_USERS for side in ("from", "to")]
        + [f"{what}, weighed: {side}" for what in cost.SECOND_USERS for side in ("from", "to")],
        [("emulator, by instructions of root mode", 4), ("with weights that nobody measured", 4)],
        reading=[
            "Below `from` the registers had better pass always, above `to` each access had better "
            "exit. "
            "A switch is one from a virtual machine to another. counting: the registers that "
            "counting "
            "needs; whole: precise sampling's and branch records, too. One session in 10 s.",
            f"Weighed: an exit counts {HEAVY.exit:,} instructions more, an access to an MSR in "
            f"root "
            f"mode {HEAVY.msr}.",
        ],
    )
    plain, heavy = crossovers(cases), crossovers(cases, HEAVY)
    for frequency in FREQUENCIES:
        for share in SHARES:
            pairs = plain[frequency, share] + heavy[frequency, share]
            table.add(
                f"{frequency:,} samples a second, {100 * share:g} % of the time",
                [Cell(f"{float(f'{value:.2g}'):,g}") for pair in pairs for value in pair],
            )
    return table


def unit_rows(cases):
    """[(what, instructions, exits, accesses to MSRs)] of the unit costs. Exits and accesses are
    what a weight of 1 adds."""
    plain = unit_values(cost.units(cases))
    more = [
        unit_values(cost.units(cases, weights)) for weights in (Weights(exit=1), Weights(msr=1))
    ]
    return [
        (what, value, *(other[what] - value for other in more)) for what, value in plain.items()
    ]


def unit_values(u):
    return {
        "trap: one PMI": u.trap_sample,
        "trap: a counter on and off": u.trap_session,
        "trap: a second of profiling, without its PMIs": u.trap_rest,
        "trap: a switch between two processes that count": u.trap_process,
        "on demand: on, off, and exits again": u.demand_session,
        "on demand: a tick that finds it counting": u.demand_look,
        **{f"a switch of the PMU, {what}": u.switch[what] for what in cost.SECOND_USERS},
    }


def points(cases):
    """[(second user, switches a second, share, {way: (found, by the formula)})]: what boots spent,
    without their ticks, where the units were not taken from."""
    u, out = cost.units(cases), []
    for what, slow, switches in (
        ("counting", "", 2000),
        ("counting", "-slow", 500),
        ("whole", "", 2000),
    ):
        names = {"trap": "trap", "pass": f"pass-{what}{slow}", "demand": f"demand-{what}{slow}"}
        found = {
            way: {share: pair for share, *pair in cost.checks(u, cases[name])}
            for way, name in names.items()
        }
        out += [
            (what, switches, share, {way: found[way][share] for way in names}) for share in CHECKED
        ]
    return out


def page(cases):
    """The lines of the README's tables."""
    yield from (
        f"| {what} | " + " | ".join(number(round(value, 1)) for value in values) + " |"
        for what, *values in unit_rows(cases)
    )
    yield from (
        f"| {row.label} | " + " | ".join(cell.text for cell in row.cells) + " |"
        for row in answer(cases).rows
    )
    for what, switches, share, ways in points(cases):
        yield f"| {what}, {switches:,} | {share} % | " + " | ".join(
            f"{number(round(found))} ({number(round(wanted))})" for found, wanted in ways.values()
        ) + " |"
