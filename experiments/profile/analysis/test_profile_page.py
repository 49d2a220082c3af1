# SPDX-License-Identifier: BSD-2-Clause
# test_profile_page.py: page, picture and the report's tables are of results/answers/profile.json;
# and when another run is the same.
import copy

import pytest

from bench import plots
from experiments.profile.analysis import alike, profile_picture, profile_tables
from experiments.shared.analysis import answers


def test_page_and_picture():
    answer = answers.kept("profile")
    with open(profile_tables.PAGE, encoding="utf-8") as source:
        page = source.read()
    assert page == profile_tables.put(page, answer)
    with open(profile_picture.PICTURE, encoding="utf-8") as source:
        kept = plots.mark_of(source.read())
    assert kept and kept == plots.mark_of(
        profile_picture.draw(answer)
    ), "profile_picture.py draws another one"
    answer["rows"][0]["by_function"] *= 2
    assert kept != plots.mark_of(profile_picture.draw(answer))


def test_as_many_as_asked_for():
    """Eight ways of sampling at least, and five loads."""
    rows = answers.kept("profile")["rows"]
    assert len({row["label"] for row in rows}) >= 8 and len({row["load"] for row in rows}) >= 5


def test_tables():
    answer = answers.kept("profile")
    for table in (profile_tables.of_distances(answer), profile_tables.of_interrupts(answer)):
        assert all(len(row.cells) == len(table.heads) for row in table.rows)
        assert sum(span for _, span in table.groups) == len(table.heads)


def test_alike():
    answer = answers.kept("profile")
    assert not alike.unlike(answer, copy.deepcopy(answer))


@pytest.mark.parametrize(
    "load, key, by",
    [
        ("listing2", "by_function", 1e-6),
        ("closed", "by_function", 0.03),
        ("nginx", "samples", 100),
        (None, "merged", 1),
        (None, "handler_median", 2),
        (None, "masked", 0.03),
    ],
)
def test_other_runs_are_found(load, key, by):
    """A figure that moved by more than its interval, and a row that is missing."""
    answer = answers.kept("profile")
    changed = copy.deepcopy(answer)
    rows = changed["rows" if load else "interrupts"]
    next(row for row in rows if row.get("load") == load)[key] += by
    assert len(alike.unlike(answer, changed)) == 1
    rows.pop()
    assert len(alike.unlike(answer, changed)) == 2
