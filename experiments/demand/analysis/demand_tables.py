# SPDX-License-Identifier: BSD-2-Clause
# demand_tables.py: the answer as a table, of the cases that were measured, in instructions and in
# estimated cycles; and the page's parts that are made of them.
import dataclasses
import pathlib

from bench import estimate, predict
from bench.cells import Cell, Table, number
from experiments.demand.analysis import demand_cost as cost
from experiments.demand.analysis.demand_cost import Weights
from experiments.shared.analysis import answers

PAGE = pathlib.Path(__file__).parents[1] / "README.md"
FREQUENCIES = (100, 1000, 4000)
SHARES = (0.01, 0.1, 0.5, 0.9)
CHECKED = (25, 50, 75)  # percent
SESSIONS, TICKS = 0.1, 10  # a session each 10 s; tick=100, the default
USUAL = (1000, 0.1)  # of these: what the page's answer says

# Each way's unit costs share what the estimate is off by; the ways do not share it.
WAYS = (
    ("trap_sample", "trap_session", "trap_rest", "trap_process"),
    ("demand_session", "demand_look"),
)


def draws(account):
    """An estimate of an account's cycles, as draws."""
    return estimate.model().draw(estimate.counts_of_root(account))


def unit_cycles(cases):
    """The unit costs in estimated cycles, as draws."""
    found, model = cost.units(cases, draws), estimate.model()
    *off, of_switch = (model.draw_discrepancy("other", which) for which in range(len(WAYS) + 1))
    return dataclasses.replace(
        found,
        switch={what: each * of_switch for what, each in found.switch.items()},
        **{
            name: getattr(found, name) * factor
            for names, factor in zip(WAYS, off)
            for name in names
        },
    )


def crossovers(u):
    """{(frequency, share): [from, to, in switches a second, for each second user]}."""
    return {
        (frequency, share): [
            value
            for what in cost.SECOND_USERS
            for value in (
                cost.beats_pass_above(u, share, SESSIONS, TICKS, what),
                cost.beats_trap_below(u, share, frequency, SESSIONS, TICKS, what),
            )
        ]
        for frequency in FREQUENCIES
        for share in SHARES
    }


def rounded(value):
    """Two digits."""
    return f"{float(f'{value:.2g}'):,g}"


def answer(cases):
    table = Table(
        "answer-demand",
        "On demand costs least between so many switches a second",
        "count",
        [f"{what}: {side}" for what in cost.SECOND_USERS for side in ("from", "to")] * 2,
        [("emulator, by instructions of root mode", 4), ("by estimated cycles", 4)],
        reading=[
            "Below `from` the registers had better pass always, above `to` each access had better "
            "exit. A switch is one from a virtual machine to another. counting: the registers "
            "that counting needs; whole: precise sampling's and branch records, too. One session "
            "in 10 s.",
            "Cycles are estimated from the same counts (bench/predict.py), with a 90 % interval.",
        ],
    )
    plain, cycles = crossovers(cost.units(cases)), crossovers(unit_cycles(cases))
    for (frequency, share), values in plain.items():
        table.add(
            f"{frequency:,} samples a second, {100 * share:g} % of the time",
            [Cell(rounded(value)) for value in values]
            + [
                Cell(predict.text(predict.summarize(value)), "range")
                for value in cycles[frequency, share]
            ],
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


def usual(cases):
    """The page's answer, of the usual rate and share."""
    plain, cycles = crossovers(cost.units(cases))[USUAL], crossovers(unit_cycles(cases))[USUAL]
    ends = map(rounded, plain)
    theirs = (predict.text(predict.summarize(one)) for one in cycles)
    text = (
        f"**Answer.** In the emulator, with `perf` at {USUAL[0]:,} samples a second for "
        f"{100 * USUAL[1]:g} % of the time, one session in 10 seconds, on demand costs root mode "
        f"the fewest instructions from {next(ends)} to {next(ends)} switches between virtual "
        "machines a second where a switch takes the registers that counting needs, and from "
        f"{next(ends)} to {next(ends)} where it takes branch records too. Below it is better to "
        "pass always, above to trap each access. By estimated cycles it is the cheapest from "
        f"{next(theirs)} to {next(theirs)} switches, and with branch records from {next(theirs)} "
        f"to {next(theirs)}. Nobody has measured the cycles."
    )
    return answers.paragraph(text)


def put(page, cases):
    """The page with what is made in its places."""
    cycles, table = unit_values(unit_cycles(cases)), answer(cases)
    made = {
        "the answer": usual(cases),
        "unit costs": answers.markdown(
            ["what", "instructions", "exits", "accesses to MSRs in root mode", "cycles, estimated"],
            [
                [
                    what,
                    *(number(round(value, 1)) for value in values),
                    predict.text(predict.summarize(cycles[what])),
                ]
                for what, *values in unit_rows(cases)
            ],
        ),
        "switches": answers.markdown(
            [
                "",
                *(head for head in table.heads[:4]),
                *(f"{head}, cycles" for head in table.heads[4:]),
            ],
            [[row.label, *(cell.text for cell in row.cells)] for row in table.rows],
        ),
        "found": answers.markdown(
            ["second user, switches a second", "profiled", "trap", "pass", "on demand"],
            [
                [
                    f"{what}, {switches:,}",
                    f"{share} %",
                    *(
                        f"{number(round(found))} ({number(round(wanted))})"
                        for found, wanted in ways.values()
                    ),
                ]
                for what, switches, share, ways in points(cases)
            ],
        ),
    }
    return answers.put(page, "demand_picture.py", made)
