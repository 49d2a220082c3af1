# SPDX-License-Identifier: BSD-2-Clause
# predict.py: cycles from counts. A model of published unit costs (unit_costs.toml) and of three
# constants, which are fitted to the thesis's tables:
#     cycles = sum of (count x unit cost) + cpi x other instructions + delta x exits + nu x NMIs
# An estimate is a set of draws. Each draw takes every unit cost from its published distribution,
# moves the published cells and the published values of the constants by their own spread, and fits
# the constants to them. Half of the draws have no delta, because the thesis's tables cannot tell a
# cost of each exit from a higher cpi. Seeds are fixed. Knows no results. Debian's Python, for
# numpy.
import math
import os
from typing import NamedTuple

import numpy
import tomllib

from bench.measurements import TOP

with open(os.path.join(TOP, "bench", "unit_costs.toml"), "rb") as source:
    DATA = tomllib.load(source)
COSTS, CONSTANTS, SOURCES = DATA["cost"], DATA["constant"], DATA["source"]
TABLES = ("4.1", "4.2", "4.3")  # of the thesis: what the constants are fitted to
SEED, DRAWS, STEPS = 52, 1000, 12
LEVEL = (5, 50, 95)  # percentiles: 90 % of the draws are inside
# A table counts as this many independent cells, because its cells are off together.
INDEPENDENT = 2
NAMES, FREE = tuple(COSTS), tuple(CONSTANTS)
SCALES = {"cpi": "other", "delta": "exit", "nu": "nmi"}  # the count that a constant is of


def add_counts(counts, *others, times=1):
    """Counts plus others, each multiplied by `times`; None if one of them is not known."""
    if None in (counts, *others):
        return None
    total = dict(counts)
    for other in others:
        for name, count in other.items():
            total[name] = total.get(name, 0) + times * count
    return total


def subtract(counts, base):
    return add_counts(counts, base, times=-1)


def divide(counts, number):
    if counts is None or not number:
        return None
    return {name: count / number for name, count in counts.items()}


class Estimate(NamedTuple):
    """An estimate and its 90 % interval."""

    middle: float
    low: float
    high: float


def summarize(values):
    """The Estimate of draws."""
    low, middle, high = numpy.percentile(values, LEVEL)
    return Estimate(float(middle), float(low), float(high))


def mirror(draws):
    """Each draw and its opposite, so that chance moves no middle."""
    return numpy.concatenate([draws, -draws])


def log_normal(entries):
    """(logarithms of the medians, of the factors) of some entries of unit_costs.toml."""
    pairs = [(entry["median"], entry["factor"]) for entry in entries.values()]
    return numpy.log(numpy.array(pairs, float)).T


def split_counts(counts):
    """The counts of the unit costs, and those that the constants are of."""
    return (
        numpy.array([counts.get(name, 0) for name in NAMES], float),
        numpy.array([counts.get(SCALES[name], 0) for name in FREE], float),
    )


def discrepancy(experiment):
    return DATA["discrepancy"].get(experiment, DATA["discrepancy"]["other"])


def discrepancies(cells):
    return numpy.array([discrepancy(one.experiment) for one in cells])


def fit_constants(plain, scaled, wanted, weight, start, spread, free):
    """The constants of each draw, by Gauss and Newton: the least squares of the cells' logarithms,
    each with its weight, and of the constants' own. plain: cycles without the constants, scaled:
    what the constants are multiplied with, wanted: logarithms of the published cycles."""
    logs = start.copy()
    for _ in range(STEPS):
        theta = numpy.exp(logs) * free
        found = numpy.maximum(plain + theta @ scaled.T, 1)
        slope = weight[:, None] * scaled[None] * theta[:, None] / found[..., None]
        off = weight * (wanted - numpy.log(found))
        square = numpy.swapaxes(slope, 1, 2) @ slope + numpy.diag(spread**-2)
        pull = (slope * off[..., None]).sum(axis=1) + (start - logs) / spread**2
        logs += numpy.linalg.solve(square, pull[..., None])[..., 0].clip(-1, 1)
    return numpy.exp(logs) * free


class Model:
    """The constants fitted to some published cells, and the draws of an estimate."""

    def __init__(self, cells, costs=None, draws=DRAWS):
        rng = numpy.random.default_rng(SEED)
        self.normal = lambda *shape: mirror(rng.standard_normal((draws // 2, *shape)))
        middle, factor = log_normal(costs or COSTS)
        self.units = numpy.exp(middle + factor * self.normal(len(NAMES)))
        self.free = numpy.ones((draws, len(FREE)))
        self.free[::2, FREE.index("delta")] = 0
        self.noise = self.normal(3)
        start, spread = log_normal(CONSTANTS)
        start = start + spread * self.normal(len(FREE))
        self.theta = self.fit(cells, start, spread) if cells else numpy.exp(start) * self.free

    def fit(self, cells, start, spread):
        """The constants of each draw."""
        known, scaled = (
            numpy.array(part) for part in zip(*(split_counts(one.counts) for one in cells))
        )
        noise, tables = discrepancies(cells), [one.table for one in cells]
        share = DATA["discrepancy"]["shared"]
        common = {table: self.normal(1) for table in TABLES}
        moved = share * numpy.hstack([common[table] for table in tables])
        moved += (1 - share**2) ** 0.5 * self.normal(len(cells))
        size = numpy.array([tables.count(table) for table in tables])
        return fit_constants(
            self.units @ known.T,
            scaled,
            numpy.log([one.cycles for one in cells]) + noise * moved,
            (INDEPENDENT / size) ** 0.5 / noise,
            start,
            spread,
            self.free,
        )

    def draw(self, counts):
        known, scaled = split_counts(counts)
        return self.units @ known + self.theta @ scaled

    def draw_discrepancy(self, experiment, which=0):
        """What no count knows: a factor for each draw."""
        return numpy.exp(discrepancy(experiment) * self.noise[:, which])

    def cycles(self, counts, experiment="other"):
        """The Estimate of these counts, {name of a unit cost: number}. `other`: the instructions
        that no unit cost is of."""
        return summarize(self.draw(counts) * self.draw_discrepancy(experiment))

    def ratio(self, counts, base, experiment="other"):
        """The Estimate of the quotient. What both have costs the same on both sides."""
        both = {name: min(counts.get(name, 0), base.get(name, 0)) for name in {*counts, *base}}
        same = self.draw(both) * self.draw_discrepancy(experiment)
        sides = [
            same + self.draw(subtract(side, both)) * self.draw_discrepancy(experiment, which)
            for which, side in ((1, counts), (2, base))
        ]
        return summarize(sides[0] / sides[1])

    def single(self, counts):
        """The Estimate of single operations by themselves: nothing is around them that an exit or
        an NMI could cost more for."""
        known, scaled = split_counts(counts)
        scaled *= [name == "cpi" for name in FREE]
        return summarize(self.units @ known + self.theta @ scaled)

    def constants(self, with_delta):
        """{name: Estimate} of the constants, of the draws with delta or of those without."""
        rows = self.theta[1 if with_delta else 0 :: 2]
        return {name: summarize(rows[:, at]) for at, name in enumerate(FREE)}


def predict_left_out(cells, costs=None):
    """[(cell, its Estimate by the other tables)]"""
    found = []
    for table in dict.fromkeys(one.table for one in cells):
        made = Model([one for one in cells if one.table != table], costs)
        mine = (one for one in cells if one.table == table)
        found += [(one, made.cycles(one.counts, one.experiment)) for one in mine]
    return found


def text(found, unit=""):
    """An estimate with its interval, rounded to what its width allows."""
    middle, low, high = round_texts(found)
    return f"{middle}{unit} " + ("(the same counts)" if low == high else f"({low} to {high}{unit})")


def round_texts(found):
    """(middle, low, high) in two digits of the interval's width."""
    size, name = (1e6, " M") if found.middle >= 1e7 else (1, "")
    width = (found.high - found.low) / size
    places = 1 - math.floor(math.log10(width)) if width else 0
    return [f"{round(value / size, places):,.{max(places, 0)}f}{name}" for value in found]
