# SPDX-License-Identifier: BSD-2-Clause
# samples.py: what the samples of a measurement say: median and interval, warm-up, outliers,
# differences of two columns, drift over the session. Debian's Python, for scipy. Seeds are fixed,
# so that the same samples give the same report.
#
# A start is one boot. It measures one column in one round. Its samples have the memory layout, the
# temperature and the luck of that boot in common, so starts are independent and samples are not.
# Therefore every interval comes from a bootstrap over starts: rounds are drawn with replacement,
# and a drawn round brings all its samples. To draw again inside a round would count the spread of
# samples twice (A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application", 1997,
# section 3.8).
#
# A percentile interval of few rounds is too narrow: three rounds have ten different draws, and
# their spread is that of three values about their own mean. So an interval is
#     value +- t(R - 1) * sqrt(R / (R - 1)) * (standard error of the bootstrap)
# with R rounds. The root undoes that the spread is about the rounds' own mean. Student's t accounts
# for a standard error that is itself known from R rounds alone (T. Hesterberg, "What Teachers
# Should Know About the Bootstrap", The American Statistician 69, 2015, has both corrections). For a
# mean of rounds this is the usual t interval. test_samples.py measures how often it holds the
# truth, from two rounds on.
import functools
import math
from typing import NamedTuple

import numpy
from scipy import stats

SEED, DRAWS = 1, 999
# Of the interval of a value; and of that of a difference or a drift, which has to exclude 0. A
# report compares some hundred pairs: at 95 % it would tell five differences by chance.
LEVEL, LEVEL_TOLD = 0.95, 0.99
# Fewer repetitions show no warm-up. A repetition is far from the rest beyond so many standard
# deviations.
FEWEST, APART = 6, 5
MOST = 2  # decimals of a difference in percent
FENCE = 3  # "far out" (J. W. Tukey, "Exploratory Data Analysis", 1977), in interquartile ranges


class Difference(NamedTuple):
    """In percent, with its 99 % interval."""

    percent: float
    low: float
    high: float

    @property
    def told(self):
        return self.low > 0 or self.high < 0

    def __str__(self):
        """With the decimals that the interval's width allows. Its ends are rounded outwards, so
        that it still holds what it held, but not to 0 where a difference is told."""
        width = self.high - self.low
        places = -math.floor(math.log10(width)) if width > 0 else MOST
        places = min(max(places, 0), MOST)
        low, high = outwards(self, places)
        while self.told and not low * high and places < MOST:
            places += 1
            low, high = outwards(self, places)
        middle, low, high = (f"{each:,.{places}f}" for each in (self.percent, low, high))
        return f"{middle} % ({low} to {high})"


def outwards(interval, places):
    """Its ends with so many decimals."""
    low, high = (round(end * 10**places, 6) for end in (interval.low, interval.high))
    return math.floor(low) / 10**places, math.ceil(high) / 10**places


def warm_up(rows):
    """How many first repetitions of each start are warm-up. `rows`: the values of each start, with
    NaN for repetitions that it lacks.

    MSER (K. P. White, "An Effective Truncation Heuristic for Bias Reduction in Simulation Output",
    Simulation 69, 1997) cuts so that the standard error of the rest's mean is least. The sequence
    is the median over starts of each repetition, divided by its start's median. At most half is
    cut. MSER also cuts something off most noise. So only those first repetitions of the cut count
    that are far from the rest, by a standard deviation that outliers do not change."""
    rows = rows[:, numpy.isfinite(rows).all(axis=0)]
    count = rows.shape[1]
    middles = numpy.median(rows, axis=1, keepdims=True)
    if count < FEWEST or not (middles > 0).all():
        return 0
    parts = rows / middles
    profile = numpy.median(parts, axis=0)
    errors = [numpy.var(profile[cut:]) / (count - cut) for cut in range(count // 2 + 1)]
    cut = int(numpy.argmin(errors))
    rest = profile[cut:]
    spread = (
        stats.median_abs_deviation(parts[:, cut:], axis=None, scale="normal") / len(rows) ** 0.5
    )
    near = abs(profile[:cut] - numpy.median(rest)) <= APART * spread
    first = int(near.argmax()) if near.any() else cut
    return first if first < count // 2 else 0  # at the bound the warm-up has no end


def median(values):
    """Along the last axis, without what is NaN: of an even number the mean of the middle two."""
    ordered = numpy.sort(values, axis=-1)  # NaN comes last
    count = numpy.isfinite(values).sum(axis=-1, keepdims=True)
    middle = [numpy.take_along_axis(ordered, at, axis=-1) for at in ((count - 1) // 2, count // 2)]
    return ((middle[0] + middle[1]) / 2)[..., 0]


def student(level, free):
    return stats.t.ppf((1 + level) / 2, free)


def half_width(rows, statistic, level=LEVEL):
    """Half the width of the interval of statistic(rows). The rows are independent of each other.
    None: there is only one."""
    count = len(rows)
    if count < 2:
        return None
    drawn = stats.bootstrap(
        (numpy.arange(count),),
        lambda index, axis: statistic(rows[index]),
        n_resamples=DRAWS,
        vectorized=True,
        axis=-1,
        method="percentile",
        random_state=numpy.random.default_rng(SEED),
    )
    wider = student(level, count - 1) * numpy.sqrt(count / (count - 1))
    return float(wider * drawn.standard_error)


def pooled_median(rows):
    """Of all samples of the rounds (..., round, sample)."""
    return median(rows.reshape(*rows.shape[:-2], -1))


class Samples:
    """The samples of one measurement, [[round, number, value], ...]."""

    def __init__(self, samples):
        self.samples = sorted(samples)
        self.rounds = sorted({one[0] for one in samples})
        most = max(one[1] for one in samples)
        self.rows = numpy.full((len(self.rounds), most), numpy.nan)
        for place, number, value in samples:
            self.rows[self.rounds.index(place), number - 1] = value
        self.warm_up = warm_up(self.rows)
        self.kept = self.rows[:, self.warm_up :]
        has = numpy.isfinite(self.kept).any(axis=1)
        self.rounds = [one for one, good in zip(self.rounds, has) if good]
        self.kept = self.kept[has]

    @functools.cached_property
    def by_round(self):
        """{round: its median}"""
        return dict(zip(self.rounds, median(self.kept)))

    @functools.cached_property
    def fences(self):
        """A sample outside these is an outlier. Outliers count like all others."""
        low, high = numpy.nanpercentile(self.kept, (25, 75))
        return low - FENCE * (high - low), high + FENCE * (high - low)

    def marked(self):
        """(round, number, value, whether it is warm-up, whether it is an outlier) of each."""
        low, high = self.fences
        for place, number, value in self.samples:
            warm = number <= self.warm_up
            yield place, number, value, warm, not warm and not low <= value <= high

    @functools.cache
    def summary(self):
        """value, n, and with at least two samples low and high. With one round the interval comes
        from its samples, and knows nothing of other starts."""
        value = pooled_median(self.kept)
        found = {"value": value.item(), "n": int(numpy.isfinite(self.kept).sum())}
        rows = self.kept
        if len(rows) == 1:
            rows = rows[numpy.isfinite(rows)][:, None]
        half = half_width(rows, pooled_median)
        if half is not None:
            found.update(low=found["value"] - half, high=found["value"] + half)
        return found


def in_percent(middle, half):
    """A Difference of logarithms of ratios."""
    return Difference(
        *(100 * float(numpy.expm1(at)) for at in (middle, middle - half, middle + half))
    )


def difference(base, other):
    """How much larger the other's samples are than the base's. A pair is the two medians of one
    round, so drift from round to round favours neither. None: there are fewer than two pairs, or
    values that have no ratio."""
    pairs = [
        (base.by_round[one], other.by_round[one]) for one in base.rounds if one in other.by_round
    ]
    if len(pairs) < 2 or min(map(min, pairs)) <= 0:
        return None
    steps = numpy.log([its / mine for mine, its in pairs])
    half = half_width(steps, lambda drawn: drawn.mean(axis=-1), LEVEL_TOLD)
    return in_percent(steps.mean(), half)


def drift(starts):
    """How much larger the values are at the session's end than at its begin. `starts`: for each
    column [(time, values of items)], with times from 0 to 1 in the order of the starts. Each start
    has one level: the mean of its items' logarithms, less the column's mean. The drift is the slope
    of all levels together (least squares). None: there are too few starts."""
    times, levels = [], []
    for each in starts:
        values = numpy.array([values for _, values in each], dtype=float)
        if len(each) < 2 or not values.size or not (values > 0).all():
            continue
        level = numpy.log(values).mean(axis=1)
        when = numpy.array([at for at, _ in each], dtype=float)
        times.append(when - when.mean())
        levels.append(level - level.mean())
    free = sum(map(len, times)) - len(times) - 1
    if free < 1:
        return None
    time, level = numpy.concatenate(times), numpy.concatenate(levels)
    spread = (time**2).sum()
    slope = (time * level).sum() / spread
    error = numpy.sqrt(((level - slope * time) ** 2).sum() / free / spread)
    return in_percent(slope, student(LEVEL_TOLD, free) * error)
