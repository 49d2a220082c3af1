# SPDX-License-Identifier: BSD-2-Clause
# test_tools_page.py: what is compared of a tool's output, what counts as an exit for the PMU, and
# that the page TOOLS.md is of the rows of tools.ini. Boots nothing.

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
run some -{} = a b
differs time = \\d+ s\\b
    Time is another each time.
leave place = ^at 0x
    An address.
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
    assert some.cases == {"a": "some -a", "b": "some -b"}
    assert rows["less"].cases == {"a": "some -a"}
    assert (
        more.cases == {"b": "some -b"} and more.differs == some.differs and more.said_by == "some"
    )
    assert "msr" in tools.columns_of(more)
    guest = rows["guest"]
    assert guest.host == "some" and guest.get("image") == "tool-some" and guest.said_by == "guest"
    assert tools.columns_of(guest) == ["native", "msr"] and tools_table.in_boot(rows, "some") == [
        some,
        guest,
    ]


def test_chosen(rows, monkeypatch):
    """What a boot is told to run: all, but for a row that does not run in that column."""
    monkeypatch.setattr(tools_table, "read", lambda: rows)
    some, more, guest = (rows[name] for name in ("some", "more", "guest"))
    assert tools.chosen(some, "native", ()) == [] and tools.chosen(some, "msr+nmi", ()) == [
        "some/*"
    ]
    assert tools.chosen(more, "native", ()) == ["some/b"]
    assert tools.chosen(guest, "native", ["c", "some/a"]) == ["guest/c", "some/a"]
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
        ("run some", "walk some"),
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
        and tools_results.noticed(tool, "msr", CELL) == ""
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


def complaints(text, rows):
    """What the page's first table has not of the rows: tools, and cells of their columns. A column
    that is newer than the page is not missing in it."""
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.split("\n\n")[-2].splitlines()
    ]
    found = {line[0]: dict(zip(head, line)) for line in lines}
    wrong = [f"{title} is of no row" for title in found.keys() - titles_of(rows)]
    return wrong + [
        f"{tool.get('title')}: no {title}"
        for tool in rows.values()
        for title in (tools.titles()[name] for name in tools.columns_of(tool))
        if title in head and found.get(tool.get("title"), {}).get(title, "-") == "-"
    ]


def titles_of(rows):
    return {tool.get("title") for tool in rows.values()}


def test_page_is_of_the_rows():
    """TOOLS.md has each row, and each of its columns. Without one of them it is seen."""
    with open(tools_page.PAGE, encoding="ascii") as source:
        text = source.read()
    rows = tools_table.read()
    wrong = complaints(text, rows)
    assert not wrong, f"TOOLS.md is not of tools.ini: make tools ({wrong[:4]})"
    name, tool = next(iter(rows.items()))
    other = tools_table.Tool(name, {**tool.settings, "title": "None"})
    assert complaints(text, {**rows, name: other})
    assert complaints(text.replace("same; 0 exits", "-"), rows)


def test_page_made(rows):
    """Of cells that are given: the one table, and what a user notices."""
    worse = {**CELL, "others": 1}
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
    assert "1 of 4 lines differ; 0 exits" in text and "| Fewer lines. |" in text
    assert "| not run |" in tools_page.page(rows, {}) and "| not run |" not in text


def test_kept(monkeypatch, tmp_path):
    """What one boot has kept stands beside the others', and a page of a part is refused."""
    monkeypatch.setattr(tools_results, "FOLDER", tmp_path)
    tools_results.keep("gdb", "msr+nmi", CELL)
    tools_results.keep("rr", "native", CELL)
    assert tools_results.kept() == {"rr": {"native": CELL}, "gdb": {"msr+nmi": CELL}}
    with pytest.raises(SystemExit):
        tools_page.main()
