# SPDX-License-Identifier: BSD-2-Clause
# test_tools_page.py: what is compared of a tool's output, what counts as an exit for the PMU, and
# that the page TOOLS.md is of the rows of tools.ini. Boots nothing.
import re

import pytest

from bench import cells
from experiments.counters.analysis import tools_page, tools_report, tools_results
from experiments.counters.tests import tools, tools_table
from experiments.counters.tests.tools import Case
from testbed import machine

ROW = """[columns]
[tool some]
title = Some
image = tool-some
version = some 1
what = Counts.
case a = some -a
case b = some -b
differs time = \\d+ s\\b
    Time is another each time.
leave place = ^at 0x
    An address.
never kvm = It has no PMU.
expect msr = Fewer lines.
expect kvm = None.
[tool more]
of = some
title = More
only = b
[tool less]
of = some
title = Less
without = b
[tool guest]
with = some
title = Guest
columns = native msr
case c = guest -c
"""
CELL = {
    "cases": 2,
    "ended": 2,
    "good": 2,
    "alike": 2,
    "lines": 4,
    "numbers": 0,
    "part": 0.0,
    "others": 0,
    "shown": [],
    "pmu": 0,
    "exits": 7,
    "pmis": 3,
    "end": 0,
    "seconds": 1.0,
}


@pytest.fixture(name="rows")
def fixture_rows(tmp_path):
    path = tmp_path / "tools.ini"
    path.write_text(ROW)
    return tools_table.read(path)


def test_rows(rows):
    some, more = rows["some"], rows["more"]
    assert some.cases == {"a": "some -a", "b": "some -b"} and some.never == {
        "kvm": "It has no PMU."
    }
    assert rows["less"].cases == {"a": "some -a"}
    assert more.cases == {"b": "some -b"} and more.rules == some.rules and more.said_by == "some"
    assert "kvm" not in tools.columns_of(some) and "msr" in tools.columns_of(more)
    guest = rows["guest"]
    assert guest.host == "some" and guest.get("image") == "tool-some" and guest.said_by == "guest"
    assert tools.columns_of(guest) == ["native", "msr"] and tools_table.in_boot(rows, "some") == [
        some,
        guest,
    ]


def test_chosen(rows, monkeypatch):
    """What a boot is told to run: all, but for a row that never runs in that column."""
    monkeypatch.setattr(tools_table, "read", lambda: rows)
    some, more, guest = (rows[name] for name in ("some", "more", "guest"))
    assert tools.chosen(some, "native", ()) == [] and tools.chosen(some, "msr+nmi", ()) == [
        "some/*"
    ]
    assert tools.chosen(more, "native", ()) == ["some/b"]
    assert tools.chosen(guest, "native", ["c", "some/a"]) == ["guest/c", "some/a"]
    assert tools_page.part_of_boot({"guest": guest}, guest, "native") == ["guest/c"]
    assert tools_page.part_of_boot({"some": some, "guest": guest}, guest, "native") == []
    some.settings["fewer"] = "b"
    assert tools.cases_in(some, "native") == ["a", "b"] and tools.cases_in(some, "msr") == ["b"]
    assert tools.chosen(some, "msr", ()) == ["some/b", "guest/*"] and tools.chosen(
        some, "msr+nmi", ()
    ) == ["some/*"]


@pytest.mark.parametrize(
    "old, new",
    [
        ("what =", "where ="),
        ("    Time is another each time.\n", ""),
        ("case a", "case A b"),
        ("with = some", "with = some\nimage = other"),
    ],
    ids=["key", "reason", "name", "boot"],
)
def test_wrong_rows(tmp_path, old, new):
    path = tmp_path / "tools.ini"
    path.write_text(ROW.replace(old, new, 1))
    with pytest.raises(ValueError):
        tools_table.read(path)


def test_differences(rows):
    """A rule's match and a line that is left out are no difference; numbers have their part."""
    tool = rows["some"]

    def found(*lines, status=0):
        return {"a": Case(status, list(lines), "1")}

    native = found("took 12 s", "at 0x1", "count 1,000 of it", "end")
    assert not tools.differences(
        tool, native, found("took 9 s", "count 1,000 of it", "at 0x2", "end")
    )
    (one,) = tools.differences(tool, native, found("took 9 s", "count 990 of it", "end"))
    assert one.part == pytest.approx(0.01)
    (one,) = tools.differences(tool, native, found("took 9 s", "count none", "end"))
    assert one.part is None and one.found == "count none"
    assert len(tools.differences(tool, native, found("took 9 s", "end", status=1))) == 2
    assert tools.differences(tool, native, {})[0].found == "did not run"


def account(msrs=None, rdpmc=0, pmis=0, nmis=0):
    exits = {"31": {"count": sum((msrs or {}).values()), "msrs": msrs or {}}, "10": {"count": 5}}
    if rdpmc:
        exits["15"] = {"count": rdpmc}
    return {"exits": exits, "pmi": {"exits": pmis, "raised": pmis}, "nmi": {"exits": nmis}}


def test_pmu_exits():
    """Accesses to its registers, RDPMC, PMIs; not CPUID, nor another MSR."""
    assert tools.pmu_exits(account({str(0x1B): 9, str(0x10): 1})) == 0
    assert tools.pmu_exits(account({str(0x38F): 2, str(0xC1): 3, str(0x834): 1})) == 6
    assert tools.pmu_exits(account(rdpmc=4, pmis=3, nmis=3)) == 7


def test_cell_texts(rows):
    tool = rows["some"]
    assert (
        tools_results.short(CELL) == "same; 0 exits"
        and tools_results.noticed(tool, "msr", CELL) == "nothing"
    )
    worse = {**CELL, "numbers": 1, "part": 0.02, "others": 1}
    assert tools_results.compared(worse) == "1 of 4 lines differ, 1 counts by at most 2 %"
    assert tools_results.noticed(tool, "msr", worse) == "Fewer lines."
    assert tools_results.noticed(tool, "kvm-new", worse) == "None."
    assert "status 5" in tools_results.short({**CELL, "end": 5})
    assert tools_results.ran({**CELL, "alike": 1}) == "1 of 2 cases end otherwise"


def test_report_table(monkeypatch):
    """Of what was kept."""
    kept = {"some": {"native": CELL, "kvm": {**CELL, "pmu": 1200}, "msr": {**CELL, "end": 5}}}
    monkeypatch.setattr(tools_results, "kept", lambda: kept)
    table = tools_report.tools_table(None, None)
    assert isinstance(table, cells.Table)
    texts = [one.text for one in table.rows[0].cells]
    assert sorted(texts) == ["0", "1,200", "fails"], texts
    monkeypatch.setattr(tools_results, "kept", lambda: {})
    with pytest.raises(machine.Skip):
        tools_report.tools_table(None, None)


def sections(text):
    """{heading: its text} of the page."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def columns_shown(text):
    """Titles of the page's columns. A column that is newer than the page is not missing in it."""
    head = next(line for line in text.splitlines() if line.startswith("| tool |"))
    return head.strip("| ").split(" | ")[1:]


def complaints(text, rows):
    """What the page has not of the rows: sections, columns, reasons, cases, sentences."""
    shown = columns_shown(text)
    found, titles = sections(text), tools.titles()
    wrong = [
        f"no section {tool.get('title')}"
        for tool in rows.values()
        if tool.get("title") not in found
    ]
    for tool in rows.values():
        part = found.get(tool.get("title"), "")
        wanted = [
            f"| {titles[name]} |" for name in tools.columns_of(tool) if titles[name] in shown
        ] + [
            *tool.never.values(),
            *(rule.reason for rule in tool.rules),
            *(f"`{case}`" for case in tool.cases),
        ]
        wrong += [f"{tool.name}: no {text}" for text in wanted if text not in part]
    return wrong + [
        f"section {title} is of no row"
        for title in found
        if title not in [tool.get("title") for tool in rows.values()]
    ]


def test_page_is_of_the_rows():
    """TOOLS.md has each row, each of its columns and each reason. Without one of them it is
    seen."""
    with open(tools_page.PAGE, encoding="ascii") as source:
        text = source.read()
    rows = tools_table.read()
    wrong = complaints(text, rows)
    assert not wrong, f"TOOLS.md is not of tools.ini: make tools ({wrong[:4]})"
    name, tool = next(iter(rows.items()))
    assert complaints(
        text, {**rows, name: tools_table.Tool(name, {**dict(tool.settings), "title": "None"})}
    )
    head, mark, last = text.rpartition("\n## ")
    assert complaints(head + mark + last.replace(f"| {tools.titles()['msr+nmi']} |", "| |"), rows)


def test_page_made(rows):
    """Of cells that are given: the one table, and what differs."""
    worse = {**CELL, "others": 1, "shown": [["a", "one | line", "another"]]}
    text = tools_page.page(
        rows,
        {
            name: {
                column: CELL if column == "native" else worse for column in tools.columns_of(tool)
            }
            for name, tool in rows.items()
        },
    )
    assert not complaints(text, rows), complaints(text, rows)
    assert "1 of 4 lines differ; 0 exits" in text and "one &#124; line" in text
    assert "| 1 of 1 (1 not run) |" in tools_page.page(
        rows, {"some": {"native": {**CELL, "cases": 1, "alike": 1}}}
    )
    assert "| not run |" in tools_page.page(rows, {}) and "| not run |" not in text
