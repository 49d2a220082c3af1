# SPDX-License-Identifier: BSD-2-Clause
# test_figures.py: a figure is written once, in figures.ini. Its tables are of that file; a page
# that quotes a figure links it, and quotes what the file has; and no measured number stands without
# a link.
import copy
import re

import pytest

from bench.cells import number
from docs import figures_page, pages

NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)*(?![\dA-Z])")
QUOTE = re.compile(r"\[([^\]]*)\]\((?:docs/|\.\./docs/|\.\./\.\./docs/)?figures\.md#([\w-]+)\)")
# Pages on which each measured number is a quotation.
QUOTING = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/nmi.md",
    "docs/tour.md",
    "docs/nested.md",
    "docs/measuring.md",
    "docs/guest.md",
    "docs/limits.md",
    "docs/metal.md",
)
# What a number is of that was counted, so that a small one is a figure, too.
COUNTED = r"(?:\s\w+)?\s(?:root )?(?:instructions?|exits?|VMREADs?|VMCS accesses)\b"
# Numbers that are none: of versions, sizes, arguments, years.
CONSTANTS = {
    "README.md": "100,000 1000 2024 6.1 7.3",
    "CONTRIBUTING.md": "500 100",
    "docs/nmi.md": "3.2 100 1000 2026 2025",
    "docs/nested.md": "100,005 4.4 5.6 5.11 6.1 7.2 2019",
    "docs/measuring.md": "7.3 4.1 4.7 4.2 100 2026 6.9 63",
    "docs/guest.md": "1 7.3 200000 10000 1000 100 125 1.024 0.0001 6.1 6.12 6.12.117 7.3.4 6.1.0",
    "docs/limits.md": "20 2.12 8259 7.1 7.2 512 254 6.1 640 300 600 192 517 2,054 133 1,500 "
    "2025.02 4096",
    "docs/metal.md": "6.1 6.12",
}


def numbers(text):
    return [found.rstrip(",") for found in NUMBER.findall(text)]


def unquoted(text):
    """A page without what its numbers are judged elsewhere: code, pictures, links, what is made."""
    text = re.sub(
        r"<!-- (Made|The bit's, made).*?<!-- End of what is made. -->", "", text, flags=re.DOTALL
    )
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", QUOTE.sub("", text))


def complaints(every, rows):
    wrong = []
    for page, text in every.items():
        for quoted, name in QUOTE.findall(text):
            if name not in rows and NUMBER.search(quoted):
                wrong.append(f"{page}: {quoted} is of {name}, which figures.ini has not")
            elif name in rows and set(numbers(quoted)) - set(numbers(rows[name]["figure"])):
                wrong.append(f"{page}: {quoted}, and {name} is {rows[name]['figure']}")
    for page in QUOTING:
        left, known = unquoted(every[page]), CONSTANTS.get(page, "").split()
        wrong += [
            f"{page}: {found} is no quotation"
            for found in numbers(left)
            if (sum(map(str.isdigit, found)) > 2 or "." in found) and found not in known
        ]
        wrong += [
            f"{page}: {found[0]} is no quotation"
            for found in re.finditer(f"({NUMBER.pattern}){COUNTED}", left)
            if found[1] not in known and sum(map(str.isdigit, found[1])) < 3
        ]
    for page in figures_page.HEADS:
        text = every[f"docs/{page}"]
        if text != figures_page.made(page, text, rows):
            wrong.append(
                f"docs/{page} is not what docs/figures_page.py makes of figures.ini: make docs"
            )
    return wrong


@pytest.fixture(name="every", scope="module")
def fixture_every():
    return pages.all_pages()


@pytest.fixture(name="rows", scope="module")
def fixture_rows():
    return figures_page.figures()


def test_figures(every, rows):
    found = complaints(every, rows)
    assert not found, "\n".join(found)


def test_rows(rows):
    """Each has its figure, environment, command and date."""
    for name, row in rows.items():
        assert row["environment"] in figures_page.ENVIRONMENTS and NUMBER.search(
            row["figure"] + "0"
        ), name
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"]), name
        assert re.match(r"(FULL=1 )?make", row["command"]), name


STALE = {
    "README.md": "[104](docs/figures.md#cpuid-exit)",
    "docs/nmi.md": "[8](figures.md#bookkeeping)",
    "docs/tour.md": "[104](figures.md#cpuid-exit)",
    "docs/nested.md": "[7.7](figures.md#nested-pmi-times)",
    "docs/guest.md": "[0.9935](figures.md#a1-bit-on)",
    "docs/limits.md": "[257](figures.md#mitigations)",
}


@pytest.mark.parametrize("page", STALE)
def test_stale_quotation_is_seen(every, rows, page):
    quoted = STALE[page]
    assert quoted in every[page]
    number = numbers(quoted)[0]
    wrong = {**every, page: every[page].replace(quoted, quoted.replace(number, "97", 1), 1)}
    assert len(complaints(wrong, rows)) == 1


@pytest.mark.parametrize(
    "page, text",
    [
        ("README.md", "An exit is 84 root instructions."),
        ("docs/nmi.md", "It adds 11 root instructions."),
        ("docs/tour.md", "It has 3 VMCS accesses."),
        ("docs/nested.md", "A PMI is 28,111 there."),
        ("docs/nested.md", "It costs 1.4 times that."),
        ("docs/figures.md", ""),
    ],
)
def test_number_without_a_link_is_seen(every, rows, page, text):
    wrong = {
        **every,
        page: (
            every[page] + text
            if text
            else every[page].replace("28,297", "1,440", 1).replace("1,440", "1,441", 1)
        ),
    }
    assert len(complaints(wrong, rows)) == 1


def test_stale_table_is_seen(every, rows):
    """A figure that is changed in the file alone is stale in each page that quotes it, and in its
    table."""
    changed = {
        **rows,
        "cpuid-exit": {**rows["cpuid-exit"], "figure": "91 root instructions, 6 VMREAD"},
    }
    found = complaints(every, changed)
    for page in ("README.md", "docs/tour.md", "docs/figures.md"):
        assert any(line.startswith(page) for line in found), found


def test_figures_are_of_results(every):
    """If the results change, docs/figures.md is stale. A figure that they do not have is named."""
    machine = copy.deepcopy(figures_page.emulator())
    of = "{exit cpuid root_instructions | kvm}"
    entry = machine.entry("kvm", "exit", "cpuid", "root_instructions")
    assert figures_page.filled(f"a {of} b", machine) == f"a {number(entry['value'])} b"
    assert figures_page.filled(of.replace("}", " / kvm}"), machine) == "1"
    entry["value"] = 4321
    found = complaints(every, figures_page.figures(machine=machine))
    assert any(line.startswith("docs/figures.md") for line in found), found
    with pytest.raises(ValueError, match="results/ has no {exit none"):
        figures_page.filled("{exit none root_instructions | kvm}", machine)
