# SPDX-License-Identifier: BSD-2-Clause
# test_papers.py: papers.md has each claim of the five papers once, in order, with a verdict, and
# with what shows it or the reason why it is not here. That commands and links are right is
# test_docs.py's.
import re

import pytest

from docs import pages

CLAIMS = {"T": 35, "P": 27, "V": 29, "M": 24, "G": 14}
VERDICTS = ("shown", "partly", "no", "one guest", "hardware")
# What shows a claim: a command, or a page that has it.
SHOWS = re.compile(r"`[^`]*(make|pytest) [^`]+`|\[[^]]+\]\([^)]+\)")


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if re.match(r"\| [TPVMG]\d\d ", line)
    ]


def complaints(text):
    found, wrong = rows(text), []
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
        elif row[2] == "shown" and not SHOWS.search(row[3]):
            wrong.append(f"{row[0]}: shown, and nothing that shows it")
    return wrong


@pytest.fixture(name="text", scope="module")
def read_page():
    return pages.read("docs/papers.md")


def test_claims(text):
    assert sum(CLAIMS.values()) == 129 and not complaints(text), complaints(text)


def test_quick_commands(text):
    """Each command without FULL=1 has a test that runs without it."""
    quick = pages.test_names(full=0)
    commands = {"docs/papers.md": re.sub(r"FULL=1 make e2e T=\S+", "", text)}
    assert not pages.unmatched_words(commands, quick), pages.unmatched_words(commands, quick)
    assert pages.unmatched_words({"docs/papers.md": text}, quick), "all tests are quick"


@pytest.mark.parametrize(
    "old, new",
    [
        ("| M13 | writes to devices", "| M14 | writes to devices"),
        ("| G13 | guests move between Ice Lakes | one guest | nothing migrates |\n", ""),
        (
            "| T07 | a PMI goes to the guest as its NMI | shown |",
            "| T07 | a PMI goes to the guest as its NMI | yes |",
        ),
        ("| shown | `make e2e T=memory_kernel/events` |", "| shown | seen |"),
        ("| one guest | nothing migrates |", "| one guest | |"),
    ],
    ids=["twice", "gone", "verdict", "unshown", "unreasoned"],
)
def test_fault_is_seen(text, old, new):
    assert old in text and len(complaints(text.replace(old, new))) == 1
