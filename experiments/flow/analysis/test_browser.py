# SPDX-License-Identifier: BSD-2-Clause
# test_browser.py: the time line in a real browser, wide and narrow: what is drawn is what went in,
# each control does what it says, and nothing is an error or a request.
import re

import pytest

from experiments.flow.analysis import analyses, timeline_page, trace_source
from experiments.flow.analysis.hand_made import (
    A_STACK,
    B_STACK,
    A,
    B,
    cpuid,
    halt,
    load,
    source,
    tick,
    wake,
)
from experiments.flow.analysis.states import timeline
from testbed import browser

KHZ = 1000  # a tick is a microsecond, the last digit of the tables
WHERE = " (emulator)"
WIDTHS = (1300, 700)
AXIS, ROW = 26, 24  # of timeline.js
RECORDS = [
    [
        load(1000, A, B_STACK),
        tick(1500, A),
        load(1600, B, A_STACK),
        load(1950, A, B_STACK),
        halt(2000, A),
        wake(3000, A),
        cpuid(3500, A),
    ],
    [cpuid(1200, B), cpuid(1900, B)],
]
NAMES = {
    "pti": False,
    "tasks": [
        {"pid": 71, "tid": 71, "comm": "calm", "pgd": hex(A), "stack": None},
        {
            "pid": 72,
            "tid": 72,
            "comm": "init",
            "pgd": None,
            "stack": None,
            "maps": [["0x400000", "0x402000", "x"], ["0x7f000000", "0x7f001000", "w"]],
        },
    ],
}
CALM, NAMELESS = "calm [71]", f"cr3 {B:#x}"


def text_of(name):
    """JavaScript that gives a table's rows that are shown, as lists of texts."""
    return (
        f"Array.from(document.querySelectorAll('[data-table={name}] tbody tr')).filter("
        "(row) => row.offsetHeight > 0).map("
        "(row) => Array.from(row.cells, (cell) => cell.textContent))"
    )


class Chart:
    """A page with a time line, and the places in it."""

    def __init__(self, page, width):
        self.page, self.width = page, width

    def view(self):
        return self.page.value("timeline.view()")

    def rows(self):
        return self.page.value("timeline.rows()")

    def table(self, name):
        return self.page.value(text_of(name))

    def box(self):
        """Left, top and width of what shows time, in the window."""
        return self.page.value(
            """(() => { scrollTo(0, 0);
            const box = document.getElementById("view").getBoundingClientRect();
            return [box.left, box.top, box.width]; })()"""
        )

    def at(self, part, row=None):
        """A place in the window: by part of the width, and by row, or on the axis."""
        left, top, width = self.box()
        return left + part * width, top + (8 if row is None else AXIS + ROW * row + ROW / 2)

    def press(self, action):
        self.page.click(f"[data-action={action}]")

    def focus(self):
        self.page.value("document.getElementById('view').focus()")

    def type(self, text):
        """Into the empty filter."""
        self.page.value(
            """(() => { const field = document.getElementById("filter");
            field.value = ""; field.dispatchEvent(new Event("input")); })()"""
        )
        self.page.click("#filter")
        self.page.type(text)

    def sort(self, name, column):
        self.page.click(f"[data-table={name}] th:nth-child({column + 1}) button")


@pytest.fixture(scope="module", name="page")
def make_page(tmp_path_factory):
    made = browser.Page(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="module", name="file")
def make_file(tmp_path_factory):
    made = source(trace_source.TRACE_FLOW, *RECORDS, tsc_khz=KHZ)
    line = timeline(made, NAMES)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(timeline_page.html(made, line, "Two & <processes>", WHERE), encoding="utf-8")
    return line, path


@pytest.fixture(name="opened", params=WIDTHS)
def open_page(request, page, file):
    """The Timeline and a Chart of it."""
    line, path = file
    with page.opened(path, request.param):
        yield line, Chart(page, request.param)


def expected_rows(line):
    found = {f"Processor {number}": intervals for number, intervals in line.processors.items()}
    return {**found, CALM: line.processes[A].intervals, NAMELESS: line.processes[B].intervals}


def test_rows_and_states(opened):
    """Processors and processes are rows, and each interval is the state machine's."""
    line, chart = opened
    expected = expected_rows(line)
    assert sorted(chart.rows()) == sorted(expected)
    for row, intervals in expected.items():
        found = chart.page.value(f"timeline.states('{row}')")
        assert found == [[one.start, one.end, one.state] for one in intervals], row
    assert {one.state for one in line.processes[A].intervals} >= {"running", "preempted"}
    return f"{len(expected)} rows"


def test_drawn(opened):
    """The canvas has the state's colour where the state is, if it is wide enough to be seen."""
    line, chart = opened
    colours = {
        state: chart.page.value(
            f"getComputedStyle(document.documentElement).getPropertyValue('--{state}').trim()"
        )
        for state in ("running", "root", "idle", "waiting", "preempted")
    }
    _, _, width = chart.box()
    expected = expected_rows(line)
    wide = [
        (place, one)
        for place, row in enumerate(chart.rows())
        for one in expected[row]
        if one.state in colours and (one.end - one.start) * width / line.end > 5
    ]
    found = chart.page.value(
        "timeline.pixels("
        + str(
            [
                [(one.start + one.end) / 2 / line.end * width, AXIS + ROW * place + 4]
                for place, one in wide
            ]
        )
        + ")"
    )
    for (place, one), pixel in zip(wide, found):
        assert "#" + bytes(pixel[:3]).hex() == colours[one.state], (place, one)
    assert {"running", "idle", "preempted"} <= {one.state for _, one in wide}


def test_zoom_and_pan(opened):
    """Buttons, keys, wheel and drag change what is in view, each in its direction."""
    line, chart = opened
    whole, half = [0, line.end], [line.end / 4, line.end * 3 / 4]
    assert chart.view() == whole
    chart.press("in")
    assert chart.view() == half
    chart.press("right")
    assert chart.view() == [line.end * 3 / 8, line.end * 7 / 8]
    chart.press("left")
    assert chart.view() == half
    chart.press("out")
    assert chart.view() == whole
    chart.focus()
    chart.page.key("+")
    assert chart.view() == half
    chart.press("whole")
    assert chart.view() == whole
    chart.page.wheel(*chart.at(0.25, 1), -400)
    start, end = chart.view()
    assert 0 < start < 0.25 * line.end < end < line.end
    chart.page.drag(chart.at(0.6, 0), chart.at(0.4, 0))
    found = chart.view()
    assert found[0] > start and found[1] - found[0] == pytest.approx(end - start)
    chart.focus()
    chart.page.key("Home")
    assert chart.view() == whole


def test_sorts(opened):
    """A click on a column's head sorts the table by it, the next one turns it round; processes of
    the time line have their table's order."""
    line, chart = opened
    for column in range(len(chart.table("processes")[0])):
        for up in (True, False) if column == 0 else (False, True):
            chart.sort("processes", column)
            found = [row[column] for row in chart.table("processes")]
            key = str if column == 0 else float
            assert found == sorted(found, key=key, reverse=not up), (column, up)
            assert chart.rows()[2:] == [row[0] for row in chart.table("processes")]
    chart.sort("processors", 0)
    chart.sort("processors", 0)
    assert [row[0] for row in chart.table("processors")] == ["Processor 1", "Processor 0"]
    chart.sort("exits", 1)
    counts = [int(row[1]) for row in chart.table("exits")]
    assert counts == sorted(counts, reverse=True) and sum(counts) == sum(map(len, RECORDS))


def test_filters(opened):
    """What is typed leaves those processes alone, in the tables and in the time line."""
    _, chart = opened
    for text, wanted in (
        ("CAL", [CALM]),
        (f"{B:x}", [NAMELESS]),
        (f"{A:#x}", [CALM]),
        ("calm, cr3", [CALM, NAMELESS]),
        ("nobody", []),
        ("", [CALM, NAMELESS]),
    ):
        chart.type(text)
        assert sorted(row[0] for row in chart.table("processes")) == sorted(wanted), text
        assert sorted(chart.rows()[2:]) == sorted(wanted) and len(chart.rows()) == 2 + len(wanted)
        assert [row[0] for row in chart.table("nameless")] == [NAMELESS] * (NAMELESS in wanted)
        assert f"{len(wanted)} of 2 processes" in chart.page.value("document.body.innerText")


def clip(intervals, start, end):
    """The intervals' parts within a range."""
    return [
        one._replace(start=max(one.start, start), end=min(one.end, end))
        for one in intervals
        if one.start < end and one.end > start
    ]


def begun(before, start, end):
    """How many of these times are in a range."""
    return str(sum(start <= time < end for time in before))


def expected_totals(line, start, end):
    """Gives the texts of the three tables for a range, from the Timeline alone."""

    def cells(intervals, states):
        times = analyses.state_times(clip(intervals, start, end), states)
        total = sum(times.values())
        return [
            text
            for ns in times.values()
            for text in (f"{ns / 1e6:.3f}", f"{analyses.share(ns, total):.1f}")
        ]

    found = {}
    for key, label in ((A, CALM), (B, NAMELESS)):
        intervals = line.processes[key].intervals
        runs = [
            one.start
            for before, one in zip([None, *intervals], intervals)
            if one.state in ("running", "root")
            and (before is None or before.state not in ("running", "root"))
        ]
        found[label] = [
            begun(runs, start, end),
            *cells(intervals, analyses.STATES),
            begun([one.start for one in intervals if one.state == "preempted"], start, end),
        ]
    for number, intervals in line.processors.items():
        ran = [one for one in intervals if one.state == "running"]
        switches = [two.start for one, two in zip(ran, ran[1:]) if one.process != two.process]
        times = [record.time for record in line.records[number]]
        found[f"Processor {number}"] = [
            begun(switches, start, end),
            begun(times, start, end),
            *cells(intervals, analyses.PROCESSOR_STATES),
        ]
    records = [record for records in line.records.values() for record in records]
    for reason in {record.reason for record in records}:
        took = [
            one.root_time for one in records if one.reason == reason and start <= one.time < end
        ]
        found[reason] = [
            str(len(took)),
            f"{sum(took) / 1e6:.3f}",
            f"{max(took, default=0) / 1e3:.3f}",
        ]
    return found


def check_totals(line, chart, start, end):
    expected = expected_totals(line, start, end)
    rows = [row for name in ("processes", "processors", "exits") for row in chart.table(name)]
    assert len(rows) == len(expected)
    for first, *others in rows:
        assert others[: len(expected[first])] == expected[first], (first, start, end)


def test_totals_of_a_range(opened):
    """Dragged along the axis, or with Shift; the tables have that range's totals, and the whole
    trace's without a range. A click on the axis takes it away."""
    line, chart = opened
    check_totals(line, chart, 0, line.end + 1)
    written = chart.table("processes")
    _, _, width = chart.box()
    for low, high, row, modifiers in (
        (0.25, 0.75, None, 0),
        (0.9, 0.05, None, 0),
        (0.13, 0.41, 1, browser.SHIFT),
        (0.22, 0.9, 3, browser.SHIFT),
        (0.5, 0.52, None, 0),
    ):
        chart.page.drag(chart.at(low, row), chart.at(high, row), modifiers)
        start, end = chart.page.value("timeline.range()")
        assert start == pytest.approx(min(low, high) * line.end, abs=2 * line.end / width)
        assert end == pytest.approx(max(low, high) * line.end, abs=2 * line.end / width)
        check_totals(line, chart, start, end)
        assert chart.view() == [0, line.end]
    x, y = chart.at(0.3)
    chart.page.drag((x, y), (x + 2, y))
    assert chart.page.value("timeline.range()") is None
    check_totals(line, chart, 0, line.end + 1)
    assert chart.table("processes") == written


def test_range_buttons(opened):
    """What is in view is the range, the range in view, and none, by buttons and keys; the order by
    a column is that of the range's totals."""
    line, chart = opened
    dead = "document.querySelectorAll('[data-action]:disabled').length"
    assert chart.page.value(dead) == 2
    for by_key in (False, True):
        chart.press("in")
        part = chart.view()
        chart.focus()
        if by_key:
            chart.page.key("r")
        else:
            chart.press("choose")
        found = chart.page.value("timeline.range()")
        assert (
            found == [round(part[0] + 1e-9), round(part[1] + 1e-9)] and chart.page.value(dead) == 0
        )
        check_totals(line, chart, *found)
        chart.press("whole")
        chart.press("fit")
        assert chart.view() == found
        chart.focus()
        if by_key:
            chart.page.key("Escape")
        else:
            chart.press("clear")
        assert chart.page.value("timeline.range()") is None
        check_totals(line, chart, 0, line.end + 1)
        chart.press("whole")
    chart.sort("processes", 2)
    assert chart.rows()[2] == CALM
    chart.page.drag(chart.at(0.25), chart.at(0.39))
    assert chart.rows()[2] == NAMELESS and chart.table("processes")[0][0] == NAMELESS


def tip_box(chart):
    return chart.page.value(
        """(() => { const tip = document.getElementById("tip");
        const box = tip.getBoundingClientRect();
        return tip.hidden ? null : [box.left, box.top, box.right, box.bottom, tip.scrollWidth -
            tip.clientWidth, tip.textContent]; })()"""
    )


def test_where(opened):
    """Each time that the page says, but those at the axis, has beside it where it was."""
    _, chart = opened
    chart.page.move(*chart.at(0.5, 0))
    said = chart.page.value("document.body.innerText") + tip_box(chart)[5]
    times = re.findall(r"(?:\d |, )(?:ms|\u00b5s|ns)\b.{11}", said, re.DOTALL)
    assert len(times) > 12 and all(time.endswith(WHERE) for time in times), times


def test_tip(opened):
    """Under the pointer is the record: reason, RIP, CR3; and it goes with the pointer."""
    line, chart = opened
    at = next(record.time for record in line.records[0] if record.reason == "CPUID")
    chart.page.move(*chart.at(min(at / line.end, 0.999), 0))
    text = tip_box(chart)[5]
    for word in ("Processor 0", "CPUID", "0x401000", hex(A), CALM):
        assert word in text, text
    chart.page.move(*chart.at(0.5, chart.rows().index(NAMELESS)))
    assert "No name; first seen, ms: 0.200" in tip_box(chart)[5]
    chart.page.move(2, 2)
    assert tip_box(chart) is None


@pytest.mark.parametrize("height", [900, 360])
@pytest.mark.parametrize("width", WIDTHS)
def test_tip_hides_nothing(page, file, width, height):
    """Wherever the pointer is: the tip lies beside its row, and whole in the window."""
    line, path = file
    page.open(path, width, height)
    chart = Chart(page, width)
    seen = 0
    for scroll in (0, 150):
        for row in range(len(chart.rows())):
            for part in (0.001, 0.3, 0.64, 0.999):
                x, y = chart.at(part, row)
                page.value(f"scrollTo(0, {scroll})")
                page.settle()
                y -= page.value("scrollY")
                if not 0 < y < height:
                    continue
                page.move(x, y)
                left, top, right, bottom, cut, _ = tip_box(chart)
                assert left >= 0 and right <= width and cut <= 0, (row, part)
                assert top >= 0 and bottom <= height, (row, part, top, bottom)
                assert bottom <= y - ROW / 2 or top >= y + ROW / 2, (row, part, top, bottom)
                seen += 1
    return f"{seen} places"


@pytest.mark.parametrize("width", WIDTHS)
def test_tip_in_a_low_window(page, tmp_path, width):
    """Where a window has no room for all records that are near, there are fewer, and their number
    is said."""
    count, most = 40, 8
    made = source(
        trace_source.TRACE_FLOW,
        [cpuid(1000 + 20 * n, A) for n in range(count)] + [cpuid(1_000_000, A)],
        tsc_khz=KHZ,
    )
    path = tmp_path / "page.html"
    path.write_text(timeline_page.html(made, timeline(made), "Low"), encoding="utf-8")
    shown = {}
    for height in (900, 280):
        page.open(path, width, height)
        x, y = Chart(page, width).at(0.001, 0)
        by = max(0, round(y - height / 2))  # the row comes to the middle
        page.value(f"scrollTo(0, {by})")
        page.settle()
        page.move(x, y - by)
        left, top, right, bottom, cut, text = tip_box(Chart(page, width))
        assert left >= 0 and right <= width and cut <= 0 and top >= 0 and bottom <= height
        assert bottom <= y - by - ROW / 2 or top >= y - by + ROW / 2
        shown[height] = text.count("CPUID0x")
        assert f"and {count - shown[height]} more: zoom in" in text
    assert shown[900] == most > shown[280] > 0 and page.wrong == []


def test_link(opened, file):
    """The page's address has what is in view, range, order and filter; opened, it brings them back,
    and so does a change of it. With all as it was the address is the file's alone."""
    _, chart = opened
    state = (
        "[timeline.view().map(Math.round), timeline.range(), timeline.rows(), "
        f"{text_of('processes')}, {text_of('exits')}, document.getElementById('filter').value]"
    )
    unsorted = chart.page.value(state)
    chart.press("in")
    chart.page.drag(chart.at(0.2), chart.at(0.6))
    chart.sort("processes", 3)
    chart.sort("exits", 0)
    chart.type("CR3, calm")
    wait = "new Promise((done) => setTimeout(done, 500))"
    chart.page.value(wait)
    fragment, wanted = chart.page.value("location.hash"), chart.page.value(state)
    for word in ("view=", "range=", "sort=processes.3d%2Cexits.0u", "filter="):
        assert word in fragment, fragment
    chart.page.open(file[1], chart.width, fragment=fragment)
    assert chart.page.value(state) == wanted
    chart.page.open(file[1], chart.width)
    assert chart.page.value(state) != wanted
    chart.page.value(f"location.hash = '{fragment}'; {wait}")
    assert chart.page.value(state) == wanted
    chart.page.value(f"location.hash = '#all=1'; {wait}")
    assert chart.page.value(state) == unsorted
    chart.page.open(file[1], chart.width, fragment="#view=x-9&range=5&sort=none.99u,processes.77d")
    assert chart.view() == [0, file[0].end] and len(chart.rows()) == 4
    chart.press("in")
    chart.press("out")
    chart.page.value(wait)
    assert chart.page.value("location.hash") == ""


def test_without_a_name(opened):
    """What the trace tells of a process that nothing names, and whose memory its exits fit."""
    line, chart = opened
    assert chart.table("nameless") == [
        [NAMELESS, "0.200", "nothing seen", "0.960", "0, 1", "2", "0x401000", "1", "0", "init [72]"]
    ]
    chart.sort("nameless", 1)
    title = chart.page.value(
        f"document.querySelectorAll('#labels li')[{chart.rows().index(NAMELESS)}].title"
    )
    assert title.startswith(NAMELESS) and "may be: init [72]" in title
    assert line.candidates == {B: [("init", 72)]}


@pytest.mark.parametrize("width", WIDTHS)
def test_many_processes(page, tmp_path, width):
    """The first ones are rows, a button shows all, and again the first; the address has it."""
    count = 40
    tables = [A + (n << 13) for n in range(count)]
    made = source(
        trace_source.TRACE_FLOW,
        [load(1000 * n + 1000, table, A_STACK) for n, table in enumerate(tables + tables[:1])],
        tsc_khz=KHZ,
    )
    path = tmp_path / "page.html"
    path.write_text(timeline_page.html(made, timeline(made), "Many"), encoding="utf-8")
    page.open(path, width)
    chart = Chart(page, width)
    assert len(chart.rows()) == 1 + 30
    page.click("#more")
    assert len(chart.rows()) == 1 + count
    page.value("new Promise((done) => setTimeout(done, 500))")
    assert page.value("location.hash") == "#all=1"
    page.open(path, width, fragment="#all=1")
    assert len(chart.rows()) == 1 + count
    page.click("#more")
    assert len(chart.rows()) == 1 + 30 and page.wrong == []
