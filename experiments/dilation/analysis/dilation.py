# SPDX-License-Identifier: BSD-2-Clause
# dilation.py: what a trace adds to a run: from the counts of a share of writes, untraced and
# traced, to timer interrupts and switches for each million guest instructions, to the simulator's
# miss rate, and to the share at which one of them has doubled. Pure.
import json
from dataclasses import asdict, dataclass, replace
from statistics import mean

TIMER = "236"  # Linux, LOCAL_TIMER_VECTOR
REGION = 2900  # guest/main.c
MILLION = 1_000_000
PRICED = 0.01  # the share of writes by which an exit's price is found
COSTS = ("vmread", "vmwrite", "rdmsr", "wrmsr")  # of root mode, beside its instructions
COUNTED = ("switches", "accesses", "misses", "own_accesses", "own_misses")  # by the knob

ALONE, PRICED_WAY = "left alone, instructions", "left alone, cycles estimated"
OFFSET = "TSC offset, cycles estimated"
# name: time in root mode is kept in the guest's clock or taken out of it, with an exit's price or
# as the emulator counts, and how a write is stepped.
WAYS = {
    ALONE: ("kept", False, "blocked"),
    "left alone, instructions, step by exits": ("kept", False, "exits"),
    PRICED_WAY: ("kept", True, "blocked"),
    OFFSET: ("taken", True, "blocked"),
    "retired instructions": ("taken", False, "blocked"),
}


@dataclass
class Counts:
    """Of one region."""

    writes: int = 0  # of the loop
    ticks: int = 0  # of the guest's clock
    guest: int = 0  # instructions
    user: int = 0  # those of CPL 3
    root: int = 0  # instructions of root mode
    exits: int = 0
    vmread: int = 0
    vmwrite: int = 0
    rdmsr: int = 0
    wrmsr: int = 0
    timer: int = 0  # interrupts, by the emulator
    switches: int = 0  # changes of the page table, by the emulator
    guest_timer: int = 0  # by /proc/interrupts
    guest_switches: int = 0  # by /proc/stat
    accesses: int = 0
    misses: int = 0
    own_accesses: int = 0  # of the loop's process
    own_misses: int = 0

    def costs(self):
        """As estimate.of_root() wants them."""
        return {
            "exits": self.exits,
            "instructions": self.root,
            **{name: getattr(self, name) for name in COSTS},
        }


@dataclass
class Pair:
    """A share of writes, untraced and traced."""

    untraced: Counts
    traced: Counts

    @property
    def share(self):
        return self.untraced.writes / self.untraced.guest


def counts_of(job, counted, region):
    root = region["root"]
    return Counts(
        writes=int(job["writes"]),
        ticks=int(job["ticks"]),
        guest=region["nonroot"]["instructions"],
        user=region["nonroot"]["user"],
        root=root["instructions"],
        exits=sum(one["count"] for one in region["exits"].values()),
        timer=counted["interrupts"].get(TIMER, 0),
        guest_timer=int(job["timer"]),
        guest_switches=int(job["switches"]),
        **{name: root[name] for name in COSTS},
        **{name: counted[name] for name in COUNTED},
    )


def read(jobs, lines, region):
    """The job's lines, those of the knob run_counts, and the ledger's regions; gives pairs by
    rising share."""
    counted = {one["region"]: one for one in map(json.loads, lines)}
    each = {
        int(job["region"]): counts_of(job, counted[int(job["region"])], region(job["region"]))
        for job in jobs
        if "region" in job
    }
    return [Pair(each[n], each[n + 1]) for n in sorted(each) if (n - REGION) % 2 == 0]


def to_json(pairs):
    return [asdict(pair) for pair in pairs]


def from_json(pairs):
    return [Pair(Counts(**pair["untraced"]), Counts(**pair["traced"])) for pair in pairs]


def clock_rate(counts):
    """Ticks of the guest's clock for each of its instructions."""
    return counts.ticks / counts.guest


def timer_rate(counts):
    """Timer interrupts for each million of the guest's instructions."""
    return counts.timer * MILLION / counts.guest


def switch_rate(counts):
    """Context switches, by the guest's own counter."""
    return counts.guest_switches * MILLION / counts.guest


def miss_rate(counts):
    """Misses of the loop's process in the simulated cache, of its accesses."""
    return counts.own_misses / counts.own_accesses


def times(pair, rate):
    """How many times as much in the traced run."""
    return rate(pair.traced) / rate(pair.untraced)


def rises(pairs, rate):
    """How many times as much each traced run has as untraced runs have on average. One of those has
    only a dozen interrupts. Without share 0: the first run has fewer than all others."""
    untraced = mean(rate(pair.untraced) for pair in pairs if pair.share)
    return [rate(pair.traced) / untraced if pair.traced.exits else 1 for pair in pairs]


def doubles_at(pairs, rate, factor=2):
    """The share from which on the traced run has `factor` times as much, by a line between the two
    measured shares around it; None: none of them has."""
    before = None
    for pair, here in zip(pairs, rises(pairs, rate)):
        share = pair.share
        if here >= factor:
            if before is None or before[1] >= factor:
                return share
            return before[0] + (share - before[0]) * (factor - before[1]) / (here - before[1])
        before = share, here
    return None


def at_share(pairs, share, rate):
    """How many times as much the traced run has at this share, by the same line."""
    shares = [pair.share for pair in pairs]
    place = next((n for n, here in enumerate(shares) if here >= share), len(shares) - 1)
    factors = rises(pairs, rate)
    low, high = factors[max(place - 1, 0)], factors[place]
    part = (share - shares[place - 1]) / (shares[place] - shares[place - 1]) if place else 0
    return low + part * (high - low)


def with_price(pairs, ticks, root_too=True):
    """The pairs of a run without a price, if each exit took so many ticks: time is instructions and
    exits at that price. Without root_too an offset hides root mode's instructions."""
    return [
        Pair(
            pair.untraced,
            replace(
                pair.traced,
                ticks=pair.traced.guest + root_too * pair.traced.root + ticks * pair.traced.exits,
            ),
        )
        for pair in pairs
    ]


def calculated(alone, priced, rate, ticks, root_too=True):
    """The share from which on a rate doubles at this price of an exit. Interrupts follow the clock:
    the rate has doubled where the clock is as many times as fast as in the run with a price."""
    factor = at_share(priced, doubles_at(priced, rate), clock_rate)
    return doubles_at(with_price(alone, ticks, root_too), clock_rate, factor)


def priced_pair(pairs):
    """The pair by which an exit's price is found."""
    return min(pairs, key=lambda pair: abs(pair.share - PRICED))


def ticks_of_write(pairs, ticks, root_too=True):
    """What a traced write takes of the guest's clock, at this price of an exit."""
    counts = priced_pair(pairs).traced
    return (root_too * counts.root + ticks * counts.exits) / counts.writes


def price_of_write(pairs, cycles):
    """The price of an exit that makes a traced write take so many cycles."""
    counts = priced_pair(pairs).traced
    return (cycles * counts.writes - counts.root) / counts.exits


def price(pair, cycles_of):
    """Ticks that an exit lacks in the emulator, by a function from costs to cycles: what root
    mode's instructions do not say of them."""
    costs = pair.traced.costs()
    return round((cycles_of(costs) - costs["instructions"]) / costs["exits"])


def percent_of(share):
    return "never" if share is None else f"{100 * share:.2g} %"


def said(name, pairs):
    """In one sentence, where it begins to matter."""
    clock, timer, misses = (
        percent_of(doubles_at(pairs, rate)) for rate in (clock_rate, timer_rate, miss_rate)
    )
    return (
        f"{name}: doubled are time from {clock} on, timer interrupts from {timer}, misses from "
        f"{misses}"
    )
