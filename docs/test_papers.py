# SPDX-License-Identifier: BSD-2-Clause
# test_papers.py: papers.md has each claim of the five papers once, in order, with a verdict, and
# with what shows it or the reason why it is not here. Its head counts the verdicts. Each command
# runs what its row names, and little more. That commands and links are right is test_docs.py's.
import collections
import re

import pytest

from bench import added, plan, results
from docs import pages, papers

CLAIMS = {"T": 39, "P": 28, "V": 30, "M": 24, "G": 14}
VERDICTS = ("shown", "partly", "not confirmed", "no", "hardware")
# What shows a claim: a command, or a page that has it.
SHOWS = re.compile(r"`[^`]*(make|pytest) [^`]+`|\[[^]]+\]\([^)]+\)")
# What a verdict wants of its row, besides: a figure that is in no command and no link.
FIGURE = re.compile(r"\d")
MOST_TESTS = 8  # of a command whose row does not say how many


def in_words(how):
    """Without commands and targets of links."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", how)


def complaints(text):
    found, wrong = papers.rows(text), []
    wanted = [
        f"{paper}{number:02}" for paper, count in CLAIMS.items() for number in range(1, count + 1)
    ]
    if [row[0] for row in found] != wanted:
        wrong.append(f"claims: {set(wanted) ^ {row[0] for row in found} or 'order, or one twice'}")
    for row in found:
        if len(row) != 4 or not all(row) or row[2] not in VERDICTS:
            wrong.append(
                f"{row}: wanted claim, what is here ({', '.join(VERDICTS)}), and how or why not"
            )
        elif row[2] in ("shown", "partly") and not SHOWS.search(row[3]):
            wrong.append(f"{row[0]}: {row[2]}, and nothing that shows it")
        elif row[2] == "partly" and not re.search(r"Missing: \w", row[3]):
            wrong.append(f"{row[0]}: partly, and does not say what is missing")
        elif row[2] == "not confirmed" and not FIGURE.search(in_words(row[3])):
            wrong.append(f"{row[0]}: not confirmed, and has no figure")
    return wrong


def counts(text):
    """How many rows have each verdict; and how many the page's head says."""
    return (
        collections.Counter(row[2] for row in papers.rows(text)),
        {
            word: int(number)
            for word, number in re.findall(r"^\| ([a-z ]+) \| (\d+) \|", text, re.MULTILINE)
        },
    )


def ill_selected(text, tests):
    """Commands of end-to-end tests that select none of `tests`, {full: names}, or many and another
    number than the row says."""
    wrong = []
    for command, (ids, said, _) in papers.commands(text).items():
        for full, quoted, plain in pages.E2E.findall(command):
            count = len(pages.selected(quoted or plain, tests[bool(full)]))
            if count != int(said) if said else not 0 < count <= MOST_TESTS:
                wrong.append(f"{' '.join(ids)}: {command} selects {count} tests, said: {said}")
    return wrong


def ill_measured(text):
    """Measurements without ONLY=, or with a word that no boot and no table has in its name."""
    names = [boot.first or boot.name for boot in plan.make("emulator", results.COLUMNS)]
    names += [one.key for one in added.measured()]
    return [
        f"{' '.join(ids)}: {command}"
        for command, (ids, *_) in papers.commands(text).items()
        if command.startswith("make bench")
        for words in [re.findall(r"ONLY=(\S+)", command)]
        if not words or not all(any(word in name for name in names) for word in words[0].split(","))
    ]


def unmeasured(text):
    """Commands without minutes, once others have theirs (docs/papers.py)."""
    found = papers.commands(text)
    without = [command for command, (*_, minutes) in found.items() if not minutes]
    return without if len(without) < len(found) else []


@pytest.fixture(name="text", scope="module")
def read_page():
    return pages.read(papers.PAGE)


@pytest.fixture(name="tests", scope="module")
def collect():
    return {full: pages.e2e_tests(full=int(full)) for full in (False, True)}


def test_claims(text):
    assert sum(CLAIMS.values()) == 135 and not complaints(text), complaints(text)


def test_counts(text):
    found, said = counts(text)
    assert found == said, f"rows: {dict(found)}; the page's head: {said}"
    return ", ".join(f"{word} {found[word]}" for word in VERDICTS)


@pytest.mark.more
def test_commands(text, tests):
    """Each command without FULL=1 has a test that runs without it, and each selects as many as its
    row says."""
    assert not ill_selected(text, tests), ill_selected(text, tests)
    quick = {full: tests[False] for full in (False, True)}
    assert ill_selected(text, quick), "all tests are quick"


def test_measurements(text):
    assert not ill_measured(text), ill_measured(text)


def test_minutes(text):
    assert not unmeasured(text), unmeasured(text)
    first, *others = papers.commands(text)
    for command in (first, *others):
        text = papers.with_minutes(text, command, 7)
    found = papers.commands(text)
    assert {minutes for *_, minutes in found.values()} == {"7"} and not unmeasured(text)
    assert unmeasured(text.replace(f"`{first}` (7 min)", f"`{first}`")) == [first]


@pytest.mark.parametrize(
    "old, new",
    [
        ("| M13 | writes to devices", "| M14 | writes to devices"),
        (
            "| M17 | Table 5.2: slowdowns | hardware | the page that M16 links has an estimate |\n",
            "",
        ),
        (
            "| T07 | a PMI goes to the guest as its NMI | shown |",
            "| T07 | a PMI goes to the guest as its NMI | yes |",
        ),
        ("| shown | `make e2e T=memory_kernel/test_events` |", "| shown | seen |"),
        (
            "| M17 | Table 5.2: slowdowns | hardware | the",
            "| M17 | Table 5.2: slowdowns | hardware | |",
        ),
        ("Missing: an audit of the code", "An audit is missing"),
        (
            "27.5 and 53.917 s are 96 % more, 35.6 and 53.328 s are 50 % more. By V15's command "
            "it is 152 and 120 % here",
            "other figures",
        ),
    ],
    ids=["twice", "gone", "verdict", "unshown", "unreasoned", "unsaid", "no_figure"],
)
def test_fault_is_seen(text, old, new):
    assert old in text and len(complaints(text.replace(old, new))) == 1


def test_wrong_count_is_seen(text):
    changed = text.replace("an NMI | shown |", "an NMI | partly |").replace(
        "its NMI | shown |", "its NMI | partly |"
    )
    found, said = counts(changed)
    assert changed != text and found != said


@pytest.mark.more
@pytest.mark.parametrize(
    "old, new",
    [
        ("T=host/context_work", "T=host/"),
        ("(38 tests)", "(37 tests)"),
        ("T=host/work_price", "T=host/works_price"),
    ],
    ids=["too_many", "another_number", "none"],
)
def test_wrong_selection_is_seen(text, tests, old, new):
    assert old in text and len(ill_selected(text.replace(old, new), tests)) == 1


@pytest.mark.parametrize("new", ["", " ONLY=kernels-"], ids=["all", "none"])
def test_wrong_measurement_is_seen(text, new):
    old = " ONLY=kernel-`"
    assert old in text and len(ill_measured(text.replace(old, f"{new}`"))) == 1
