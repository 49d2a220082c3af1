# SPDX-License-Identifier: BSD-2-Clause
# shares.py: from addresses to shares, and how far two profiles are apart. Pure.
import bisect
import collections
import math


def share(counts):
    """{name: its part of all}."""
    total = sum(counts.values())
    assert total, "no samples"
    return {name: count / total for name, count in counts.items()}


def distance(one, other):
    """Total variation: half the sum of all differences of shares. 0: the same profile; 1: nothing
    in common."""
    return sum(abs(one.get(name, 0) - other.get(name, 0)) for name in one.keys() | other.keys()) / 2


class Functions:
    """Of a program: which function an address is in."""

    def __init__(self, symbols, wanted=None):
        """`symbols`: [(first, end, name)]; `wanted`: the names that a profile is of, or all."""
        self.ranges = sorted(one for one in symbols if wanted is None or one[2] in wanted)
        assert not wanted or {name for _, _, name in self.ranges} == set(
            wanted
        ), f"of {wanted} there are {self.ranges}"

    def of(self, address):
        """Its name; None: it is in none of those that are wanted."""
        place = bisect.bisect_right(self.ranges, (address, math.inf, "")) - 1
        return self.ranges[place][2] if place >= 0 and address < self.ranges[place][1] else None

    def counts(self, addresses):
        """`addresses`: {address: count}; {function: count}."""
        found = collections.Counter()
        for address, count in addresses.items():
            if (name := self.of(address)) is not None:
                found[name] += count
        return found

    def within(self, addresses):
        """The same by instruction."""
        return collections.Counter(
            {address: count for address, count in addresses.items() if self.of(address) is not None}
        )


def of_stacks(stacks, instructions):
    """{address: count} by branch records: the code between a branch's target and the next branch
    has run from its begin to its end. `stacks`: of each sample [(from, to)], the newest first;
    `instructions`: all addresses of the program's, in order."""
    found = collections.Counter()
    for stack in stacks:
        for (end, _), (_, start) in zip(stack, stack[1:]):
            first, last = bisect.bisect_left(instructions, start), bisect.bisect_right(
                instructions, end
            )
            # From one privilege level to another the code between is not straight.
            if start <= end:
                found.update(instructions[first:last])
    return found


def last_targets(stacks):
    """{address: count}: each sample moved to the last branch's target."""
    return collections.Counter(stack[0][1] for stack in stacks if stack)


def thinned(samples, step):
    """What a period `step` times as long would have: for each place to begin."""
    return [samples[first::step] for first in range(step) if samples[first::step]]


def by_samples(samples, profile, true):
    """[(samples, mean distance)]: `profile` makes shares of a list of samples."""
    found, step = [], 1
    while len(samples) // step >= 8:
        parts = thinned(samples, step)
        found.append(
            (len(samples) / step, sum(distance(profile(part), true) for part in parts) / len(parts))
        )
        step *= 2
    return found


def by_chance(true, samples):
    """The mean distance of so many samples that are drawn at random: of each share the mean
    deviation of a binomial distribution (de Moivre's sum)."""
    total = 0.0
    for part in true.values():
        if 0 < part < 1:
            over = math.floor(part * samples) + 1
            ways = (
                math.lgamma(samples + 1) - math.lgamma(over + 1) - math.lgamma(samples - over + 1)
            )
            total += (
                2
                * over
                * math.exp(ways + over * math.log(part) + (samples - over + 1) * math.log(1 - part))
            )
    return total / samples / 2


def part_masked(addresses, masked):
    """Of {address: count} the part that was with interrupts off, where {address: part} of the truth
    has it."""
    return sum(count * masked.get(address, 0) for address, count in addresses.items()) / sum(
        addresses.values()
    )
