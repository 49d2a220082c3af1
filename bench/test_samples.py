# SPDX-License-Identifier: BSD-2-Clause
# test_samples.py: the statistics, on sessions of a made-up machine with the noise of the emulator's
# knob tsc_noise: intervals hold the truth, planted differences are found, and none is told where
# there is none.
import numpy
import pytest

from bench import samples

SESSIONS = 200
JITTER, SMI, LOST = 1e-3, 0.02, 0.02
BLOCKS = 10  # of a sample
COST = 1000.0


def skewed(rng, *shape):
    """As testbed/instrument/noise.cc has it: 1 on average, mostly near 0, with a long tail."""
    return 9 * rng.random(shape) ** 8


def session(rng, columns=2, rounds=5, repetitions=3, slow=(), drift=0.0, shuffled=True, warm=()):
    """{column: [[round, number, value], ...]} and {(round, column): time from 0 to 1}. `slow`: what
    each column has more; `drift`: over the session; `warm`: what the first repetitions have more.
    """
    made, times, starts = {column: [] for column in range(columns)}, {}, rounds * columns
    for place in range(rounds):
        order = rng.permutation(columns) if shuffled else range(columns)
        for position, column in enumerate(map(int, order)):
            at = times[place + 1, column] = (place * columns + position) / max(1, starts - 1)
            rates = skewed(rng, 1) / 9 + skewed(rng, repetitions, BLOCKS).mean(axis=1)
            values = COST * (1 + (slow[column] if slow else 0) + JITTER * rates + drift * at)
            values += COST * LOST * (rng.random(repetitions) < SMI)
            values[: len(warm)] *= 1 + numpy.array(warm)
            made[column] += [[place + 1, n + 1, float(value)] for n, value in enumerate(values)]
    return made, times


def sessions(**words):
    for seed in range(SESSIONS):
        yield session(numpy.random.default_rng(seed), **words)


def differences(**words):
    for made, _ in sessions(**words):
        yield samples.difference(samples.Samples(made[0]), samples.Samples(made[1]))


def told(**words):
    """The part of sessions in which a difference is told."""
    return sum(found.told for found in differences(**words)) / SESSIONS


@pytest.mark.parametrize("rounds, repetitions", [(2, 3), (3, 1), (3, 5), (5, 3), (10, 3)])
def test_no_difference_is_told_where_there_is_none(rounds, repetitions):
    assert told(rounds=rounds, repetitions=repetitions) <= 0.05


@pytest.mark.parametrize("planted, rounds", [(0.005, 5), (0.01, 4), (0.05, 3)])
def test_planted_differences_are_found(planted, rounds):
    """As what they are: the interval holds the truth as often as it should, too."""
    found = list(differences(slow=(0, planted), rounds=rounds))
    assert sum(one.told and one.percent > 0 for one in found) >= 0.95 * SESSIONS
    truth = 100 * planted
    assert sum(one.low <= truth <= one.high for one in found) >= 0.97 * SESSIONS


def true_median(repetitions):
    made, _ = session(numpy.random.default_rng(0), columns=1, rounds=20000, repetitions=repetitions)
    return numpy.median([value for _, _, value in made[0]])


def held(half_width, rounds, repetitions):
    """How often an interval of a column's median holds the truth."""
    truth, count = true_median(repetitions), 0
    for made, _ in sessions(columns=1, rounds=rounds, repetitions=repetitions):
        rows = samples.Samples(made[0]).kept
        half = half_width(rows, samples.pooled_median)
        count += abs(samples.pooled_median(rows) - truth) <= half
    return count / SESSIONS


@pytest.mark.parametrize("rounds, repetitions", [(2, 5), (3, 1), (3, 5), (5, 3), (10, 5)])
def test_intervals_hold_the_truth(rounds, repetitions):
    assert held(samples.half_width, rounds, repetitions) >= 0.93


def test_a_percentile_interval_of_three_rounds_would_not(monkeypatch):
    """Why half_width() is as it is: without its two corrections it holds the truth too rarely."""

    def plain(rows, statistic):
        index = numpy.random.default_rng(1).integers(0, len(rows), (samples.DRAWS, len(rows)))
        low, high = numpy.percentile(statistic(rows[index]), (2.5, 97.5))
        return (high - low) / 2

    assert held(plain, 3, 5) < 0.85 < 0.93 <= held(samples.half_width, 3, 5)


def test_drift_in_a_fixed_order_is_taken_for_a_difference():
    """The column that is always the later one seems slower. Shuffling removes that."""
    words = {"columns": 5, "drift": 0.03}
    always = {"base": 0, "other": 4}

    def claimed(shuffled):
        return sum(
            samples.difference(
                samples.Samples(made[always["base"]]), samples.Samples(made[always["other"]])
            ).told
            for made, _ in sessions(shuffled=shuffled, **words)
        )

    assert claimed(shuffled=False) >= 0.95 * SESSIONS
    assert claimed(shuffled=True) <= 0.05 * SESSIONS


def drift_of(made, times):
    starts = []
    for column, each in made.items():
        by_round = samples.Samples(each).by_round
        starts.append([(times[one, column], [value]) for one, value in by_round.items()])
    return samples.drift(starts)


def test_drift_is_seen_and_not_invented():
    seen = [drift_of(*one) for one in sessions(columns=5, drift=0.02)]
    assert all(one.told and one.low <= 2.1 and one.high >= 1.9 for one in seen)
    assert sum(drift_of(*one).told for one in sessions(columns=5)) <= 0.05 * SESSIONS


def test_warm_up_is_found_and_not_invented():
    for warm, wanted in (((), 0), ((0.2,), 1), ((0.2, 0.1, 0.05), 3)):
        found = [
            samples.Samples(made[0]).warm_up
            for made, _ in sessions(columns=1, rounds=3, repetitions=10, warm=warm)
        ]
        assert found.count(wanted) >= 0.95 * SESSIONS, (warm, found)
    # Values that rise all the time have no steady state, and too few tell nothing.
    assert samples.Samples([[1, n, 100 + n] for n in range(1, 11)]).warm_up == 0
    assert samples.Samples([[1, 1, 9], [1, 2, 1], [1, 3, 1]]).warm_up == 0


def test_outliers_are_marked_and_kept():
    values = [[1, n, 100 + n % 3] for n in range(1, 13)] + [[2, 1, 500]]
    found = samples.Samples(values)
    assert [one[:3] for one in found.marked() if one[4]] == [(2, 1, 500)]
    assert found.summary()["n"] == 13 and found.by_round[2] == 500


def test_few_samples():
    assert samples.Samples([[1, 1, 5]]).summary() == {"value": 5, "n": 1}
    one_round = samples.Samples([[1, n, n] for n in (1, 2, 3)])
    assert one_round.summary()["low"] < 2 < one_round.summary()["high"]
    assert samples.difference(one_round, one_round) is None
    assert samples.difference(*[samples.Samples([[1, 1, -1], [2, 1, 1]])] * 2) is None
    same = samples.Samples([[1, 1, 5], [2, 1, 5]])
    assert samples.difference(same, same) == (0, 0, 0) and not samples.difference(same, same).told
    assert samples.drift([[(0, [1.0])], []]) is None


def test_the_same_samples_give_the_same_report():
    made, _ = session(numpy.random.default_rng(7))
    first = samples.Samples(made[0])
    again = samples.Samples(list(reversed(made[0])))
    assert first.summary() == again.summary()
    other = samples.Samples(made[1])
    assert samples.difference(first, other) == samples.difference(again, other)
