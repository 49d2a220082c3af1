# SPDX-License-Identifier: BSD-2-Clause
# demand_cost.py: what the PMU costs root mode in a second, by how its registers reach the guest:
# each access exits (trap), they pass always and each switch between virtual machines takes them
# along (pass), or they pass while the guest counts (demand). Unit costs are of boots
# (tests/demand_boots.py); the rest is arithmetic.
#
# With s the share of time that the guest profiles, f samples a second while it does, g switches a
# second between processes that count, p sessions a second, v switches between virtual machines a
# second, k ticks a second:
#   trap   = p * trap.session + s * (f * trap.sample + trap.rest + g * trap.process)
#   pass   = v * switch
#   demand = p * demand.session + s * k * demand.look + open * v * switch,
#            open = s + p * tail / k, at most 1
# tail: ticks from the end of a session until accesses exit again. It closes at the second tick that
# finds nothing, which is one and a half ticks on average. Where open is 1 it never closes, and p is
# 0.
from dataclasses import dataclass

NANOSECOND = 1e-9
IDLE_TICKS = 2  # hypervisor/experiment.c
TAIL = IDLE_TICKS - 0.5
LEAST_SHARE, ALL = 1, 100  # of the shares that were measured: the two that give the unit costs
SECOND_USERS = ("counting", "whole")


@dataclass(frozen=True)
class Weights:
    """The price of an account in instructions: what an exit and an access to an MSR in root mode
    count beside its instructions. Both are 0 in what was measured: the emulator has no cycles."""

    exit: float = 0.0
    msr: float = 0.0

    def __call__(self, account):
        return (
            account["instructions"]
            + self.exit * account["exits"]
            + self.msr * (account["rdmsr"] + account["wrmsr"])
        )


@dataclass(frozen=True)
class Units:
    tick: float  # an exit of the tick that nobody has added to
    trap_sample: float  # all exits of one PMI
    trap_session: float  # a counter turned on and off
    trap_rest: float  # a second of profiling, without its PMIs: the kernel's own ticks
    trap_process: float  # a switch of the guest's between processes that count, four counters each
    demand_session: float  # on and off, with both openings, until accesses exit again
    demand_look: float  # a tick that finds it counting
    switch: dict  # by what it takes along: the PMU from one user to the next, once
    idle: dict  # by policy: a second in which an event is open and off, and accesses exit
    first_samples: float  # that an event takes before Linux has found its period


def cost(account, tick, price):
    """Of a region, without the ticks, which every way has."""
    return price(account) - account["ticks"] * tick


def seconds(account):
    return account["ns"] * NANOSECOND


def of(case, share):
    return case["shares"][share] if share in case["shares"] else case["shares"][str(share)]


def units(cases, price=Weights()):
    """cases: by name, what demand_boots.measured() gives. price: of an account, a number or an
    array of draws; the unit costs are then the same."""
    bare, trap, demand = of(cases["pass"], 0), cases["trap"], cases["demand"]
    tick = price(bare) / bare["ticks"]

    def spent(case, share):
        return cost(of(case, share), tick, price)

    idle = {
        name: spent(case, 0) / seconds(of(case, 0))
        for name, case in (("trap", trap), ("demand", demand))
    }
    a1 = trap["a1"]
    sample = (cost(a1["with"], tick, price) - cost(a1["without"], tick, price)) / a1["pmis"]
    # Two shares, two unknowns: what comes with each session, and what comes with time.
    found, times = [], []
    for share in (LEAST_SHARE, ALL):
        one = of(trap, share)
        found.append(spent(trap, share) - idle["trap"] * seconds(one) - sample * one["pmis"])
        times.append(seconds(one) * share / 100)
    rest = (found[1] - found[0]) / (times[1] - times[0])
    session = (found[0] - rest * times[0]) / trap["sessions"]
    little, whole = of(demand, LEAST_SHARE), of(demand, ALL)
    opened = (spent(demand, LEAST_SHARE) - idle["demand"] * seconds(little)) / demand["sessions"]
    look = (spent(demand, ALL) - opened) / whole["ticks"]
    by_process = cases["trap-processes"]["processes"]
    counted, plain = (cost(by_process[item], tick, price) for item in ("counted", "plain"))
    there_and_back = {
        name: spent(cases[f"pass-{name}"], 0) / of(cases[f"pass-{name}"], 0)["ticks"]
        for name in SECOND_USERS
    }
    return Units(
        tick,
        sample,
        session,
        rest,
        (counted - plain) / by_process["switches"],
        opened,
        look,
        {name: each / 2 for name, each in there_and_back.items()},
        idle,
        of(trap, LEAST_SHARE)["pmis"],
    )


def trap(u, share, frequency, sessions, processes=0):
    return sessions * u.trap_session + share * (
        frequency * u.trap_sample + u.trap_rest + processes * u.trap_process
    )


def always(u, switches, what):
    return switches * u.switch[what]


def open_share(share, sessions, ticks, tail=TAIL):
    return min(1.0, share + sessions * tail / ticks)


def demand(u, share, switches, sessions, ticks, what, tail=TAIL):
    part = open_share(share, sessions, ticks, tail)
    return (
        (sessions * u.demand_session if part < 1 else 0)
        + share * ticks * u.demand_look
        + part * switches * u.switch[what]
    )


def beats_trap_below(u, share, frequency, sessions, ticks, what, processes=0):
    """Switches a second up to which demand costs less than trap; 0: at none."""
    left = trap(u, share, frequency, sessions, processes) - demand(
        u, share, 0, sessions, ticks, what
    )
    # max(0, left), for a number or an array.
    return (left + abs(left)) / 2 / (open_share(share, sessions, ticks) * u.switch[what])


def beats_pass_above(u, share, sessions, ticks, what):
    """Switches a second from which on demand costs less than pass; None: at none."""
    closed = 1 - open_share(share, sessions, ticks)
    if closed <= 0:
        return None
    return demand(u, share, 0, sessions, ticks, what) / (closed * u.switch[what])


def cheapest(u, share, switches, frequency, sessions, ticks, what):
    prices = {
        "trap": trap(u, share, frequency, sessions),
        "pass": always(u, switches, what),
        "demand": demand(u, share, switches, sessions, ticks, what),
    }
    return min(prices, key=prices.get)


def predicted(u, case, share):
    """What a boot's region should have cost by these formulas, and what it did cost, without
    ticks."""
    one = of(case, share)
    time, part = seconds(one), share / 100
    sessions = case["sessions"] if share else 0
    switches = 2 * one["ticks"] if case["second_user"] != "off" else 0
    what = case["second_user"] if switches else SECOND_USERS[0]
    if case["policy"] == "intercept":
        samples = u.first_samples + case["frequency"] * part * time if share else 0
        return (
            u.idle["trap"] * time
            + sessions * u.trap_session
            + part * time * u.trap_rest
            + samples * u.trap_sample
        )
    if case["policy"] != "demand":
        return switches * u.switch[what]
    # The exit that opens begins the hypervisor's tick anew, so a session has whole ticks; and at
    # the last but one of its pause the PMU still passes. Where the pauses are too short it opens
    # once.
    in_session, in_pause = (
        span * time / case["sessions"] * 1000 // case["tick_ms"] for span in (part, 1 - part)
    )
    open_ticks, looks = sessions * (in_session + 1), sessions * in_session
    if in_pause < IDLE_TICKS:
        sessions, open_ticks, looks = 1, one["ticks"], one["ticks"]
    each = switches / one["ticks"]
    return (
        u.idle["demand"] * time * (1 - min(1, open_ticks / one["ticks"]))
        + sessions * u.demand_session
        + looks * u.demand_look
        + open_ticks * each * u.switch[what]
    )


def checks(u, case, price=Weights()):
    """[(share, found, predicted)] of a boot."""
    return [
        (int(share), cost(of(case, share), u.tick, price), predicted(u, case, int(share)))
        for share in case["shares"]
    ]
