# SPDX-License-Identifier: BSD-2-Clause
# test_browser.py: the time line in a real browser, wide and narrow: what is drawn is what went in,
# each control does what it says, and nothing is an error or a request.
import re

import pytest

from experiments.flow.analysis import analyses, timeline_page, trace_source
from experiments.flow.analysis.hand_made import A_STACK, A, B, cpuid, load, source
from experiments.flow.analysis.states import timeline

KHZ = 1000  # a tick is a microsecond, the last digit of the tables
WHERE = " (emulator)"
ROW = 24  # of timeline.js
RECORDS = (
    "1000 load A B; 1500 tick A; 1600 load B A; 1950 load A B; 2000 halt A; 3000 wake A; "
    "3500 cpuid A",
    "1200 cpuid B; 1900 cpuid B",
)
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
CHART = "#chart .u-over"
SAVED_MS = 500


class Chart:
    """A page with a time line, and the places in it."""

    def __init__(self, browser, line):
        self.browser, self.line = browser, line
        self.value, self.table, self.sort = browser.value, browser.rows, browser.sort

    def view(self):
        return self.value(
            "[tracePage.charts.timeline.scales.x.min, tracePage.charts.timeline.scales.x.max]"
        )

    def rows(self):
        return self.value(
            "tracePage.charts.timeline.axes[1].values().map((text, i) => text.trim())"
        )

    def width(self):
        return self.browser.element(CHART).size["width"]

    def at(self, part, row):
        """A place in the chart by part of the width and by row."""
        return part * self.width(), ROW * row + ROW / 2

    def drag(self, start, end):
        self.browser.pointer(CHART, self.at(start, 0), self.at(end, 0), drag=True)

    def press(self, action):
        self.browser.click(f"[data-action={action}]")

    def key(self, text):
        self.browser.element("#chart").send_keys(text)
        self.browser.settle()

    def type(self, text):
        """Into the filter, which is empty then."""
        field = self.browser.element("#filter")
        field.clear()
        field.send_keys(text)
        self.browser.settle()

    def tip(self, part, row):
        self.browser.pointer(CHART, self.at(part, row))
        return self.browser.element("#tip").text

    def saved(self):
        """The page's address after what has changed is in it."""
        self.browser.driver.execute_async_script(f"setTimeout(arguments[0], {SAVED_MS})")
        return self.value("location.hash")


def write_page(path, made, names=None, where=""):
    line = timeline(made, names)
    path.write_text(timeline_page.html(made, line, "Two & <processes>", where), encoding="utf-8")
    return line


@pytest.fixture(scope="module", name="file")
def make_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    made = source(trace_source.TRACE_FLOW, *RECORDS, tsc_khz=KHZ)
    return write_page(path, made, NAMES, WHERE), path


@pytest.fixture(name="chart", params=[1300, 700])
def open_chart(request, browser, file):
    line, path = file
    with browser.opened(path, request.param):
        yield Chart(browser, line)


def test_drawn(chart):
    """Processors and processes are rows. The canvas has the colour of a state where the state
    is."""
    rows = {f"Processor {number}": found for number, found in chart.line.processors.items()}
    rows |= {CALM: chart.line.processes[A].intervals, NAMELESS: chart.line.processes[B].intervals}
    assert sorted(chart.rows()) == sorted(rows)
    wide = [
        (place, one)
        for place, row in enumerate(chart.rows())
        for one in rows[row]
        if (one.end - one.start) * chart.width() / chart.line.end > 5
    ]
    places = [
        (round((one.start + one.end) / 2 / chart.line.end * chart.width()), ROW * place + 4)
        for place, one in wide
    ]
    pixels = chart.value(
        f"""(() => {{ const {{ctx, bbox}} = tracePage.charts.timeline;
        const image = ctx.getImageData(bbox.left, bbox.top, bbox.width, bbox.height);
        return {[list(place) for place in places]}.map(([x, y]) =>
            Array.from(image.data.slice(4 * (y * image.width + x)).slice(0, 3))); }})()"""
    )
    for (place, one), pixel in zip(wide, pixels):
        assert "#" + bytes(pixel).hex() == timeline_page.STATES[one.state][1], (place, one)
    states = {one.state for _, one in wide}
    assert {"running", "idle", "waiting", "preempted"} <= states


def test_zoom_and_pan(chart):
    """Buttons, keys, wheel and dragging change what is in view, each in its direction."""
    end = chart.line.end
    whole, half = [0, end], [end / 4, end * 3 / 4]
    for action, view in (
        ("in", half),
        ("right", [end * 3 / 8, end * 7 / 8]),
        ("left", half),
        ("out", whole),
        ("left", whole),
    ):
        chart.press(action)
        assert chart.view() == view
    for key, view in (("+", half), ("\ue014", [end * 3 / 8, end * 7 / 8]), ("\ue011", whole)):
        chart.key(key)
        assert chart.view() == view
    chart.drag(0.75, 0.25)
    assert chart.view() == pytest.approx(half, abs=2 * end / chart.width())
    chart.browser.value(
        f"""document.querySelector("{CHART}").dispatchEvent(new WheelEvent("wheel",
        {{deltaY: -400, cancelable: true}}))"""
    )
    chart.browser.settle()
    assert half[0] < chart.view()[1] < half[1]
    chart.press("whole")
    for _ in range(60):
        chart.value("document.querySelector('[data-action=in]').click()")
    chart.browser.settle()
    assert chart.view()[1] - chart.view()[0] == pytest.approx(20)


def test_sorts(chart):
    """A click on a column's head sorts the table by it, the next one turns it round; processes of
    the time line have their table's order."""
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
    assert counts == sorted(counts, reverse=True) and sum(counts) == 9


def test_filters(chart):
    """What is typed leaves those processes alone, in the tables and in the time line."""
    for text, wanted in (
        ("CAL", [CALM]),
        (f"{B:x}", [NAMELESS]),
        (f"{A:#x}", [CALM]),
        ("calm, cr3", [CALM, NAMELESS]),
        ("nobody", []),
        (" ", [CALM, NAMELESS]),
    ):
        chart.type(text)
        assert sorted(row[0] for row in chart.table("processes")) == sorted(wanted), text
        assert sorted(chart.rows()[2:]) == sorted(wanted) and len(chart.rows()) == 2 + len(wanted)
        assert [row[0] for row in chart.table("nameless")] == [NAMELESS] * (NAMELESS in wanted)
        assert chart.browser.element("#count").text == f"{len(wanted)} of 2 processes"


def clip(intervals, start, end):
    """The intervals' parts within a range."""
    return [
        one._replace(start=max(one.start, start), end=min(one.end, end))
        for one in intervals
        if one.start < end and one.end > start
    ]


def begun(times, start, end):
    """How many of these times are in a range."""
    return str(sum(start <= time < end for time in times))


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


def test_totals(chart):
    """The tables have the totals of what is in view."""
    for start, end in (0, 0), (0.25, 0.75), (0.05, 0.9), (0.22, 0.41), (0.5, 0.52):
        if end:
            chart.press("whole")
            chart.drag(start, end)
        low, high = chart.view()
        expected = expected_totals(chart.line, low, high if end else high + 1)
        rows = [row for name in ("processes", "processors", "exits") for row in chart.table(name)]
        assert len(rows) == len(expected)
        for first, *others in rows:
            assert others[: len(expected[first])] == expected[first], (first, low, high)
    chart.press("whole")
    chart.sort("processes", 2)
    assert chart.rows()[2] == CALM
    chart.drag(0.25, 0.39)
    assert chart.rows()[2] == NAMELESS and chart.table("processes")[0][0] == NAMELESS


def test_where(chart):
    """Each time that the page says, but those at the axis, has beside it where it was."""
    said = chart.value("document.body.innerText") + chart.tip(0.5, 0)
    times = re.findall(r"(?:\d |, )(?:ms|\u00b5s|ns)\b.{11}", said, re.DOTALL)
    assert len(times) > 12 and all(time.endswith(WHERE) for time in times), times


def test_tip(chart):
    """Under the pointer is the record: reason, RIP, CR3; and it goes with the pointer."""
    at = next(record.time for record in chart.line.records[0] if record.reason == "CPUID")
    text = chart.tip(min(at / chart.line.end, 0.998), 0)
    for word in ("Processor 0", "CPUID", "0x401000", hex(A), CALM):
        assert word in text, text
    text = chart.tip(0.5, chart.rows().index(NAMELESS))
    assert "no name; first seen, ms: 0.200" in text and "may be: init [72]" in text
    chart.browser.pointer("h1", (2, 2))
    assert chart.browser.element("#tip").text == ""


def test_without_a_name(chart):
    """What the trace tells of a process that nothing names, and whose memory its exits fit."""
    assert chart.table("nameless") == [
        [NAMELESS, "0.200", "nothing seen", "0.960", "0, 1", "2", "0x401000", "1", "0", "init [72]"]
    ]
    assert chart.line.candidates == {B: [("init", 72)]}


def test_many_records(browser, tmp_path):
    """Where more records are near than are listed, the tip gives their number."""
    count, most = 40, 6
    records = [cpuid(1000 + 20 * n, A) for n in range(count)] + [cpuid(1_000_000, A)]
    made = source(trace_source.TRACE_FLOW, records, tsc_khz=KHZ)
    line = write_page(tmp_path / "page.html", made)
    with browser.opened(tmp_path / "page.html", 1300):
        text = Chart(browser, line).tip(0.001, 0)
        assert text.count("0x401000") == most and f"and {count - most} more: zoom in" in text


@pytest.mark.parametrize("height", [900, 300])
def test_tip_hides_nothing(browser, file, height):
    """Wherever the pointer is, the tip lies beside its row, in the window."""
    line, path = file
    with browser.opened(path, 700, height):
        chart = Chart(browser, line)
        for row in range(4):
            assert chart.tip(0.3, row)
            top, bottom, at = chart.value(
                f"""(() => {{ const box = document.getElementById("tip").getBoundingClientRect();
                return [box.top, box.bottom, document.querySelector("{CHART}")
                    .getBoundingClientRect().top + {ROW} * {row}]; }})()"""
            )
            assert 0 <= top < bottom <= height and (bottom <= at or top >= at + ROW), row


def test_many_processes(browser, tmp_path):
    """The first ones are rows. The filter finds the others."""
    count, most = 70, 60
    tables = [A + (n << 13) for n in range(count)]
    records = [load(1000 * n + 1000, table, A_STACK) for n, table in enumerate(tables + tables[:1])]
    made = source(trace_source.TRACE_FLOW, records, tsc_khz=KHZ)
    line = write_page(tmp_path / "page.html", made)
    with browser.opened(tmp_path / "page.html", 1300):
        chart = Chart(browser, line)
        assert len(chart.rows()) == 1 + most and len(chart.table("processes")) == count
        last = chart.table("processes")[-1][0]
        chart.type(last)
        assert chart.rows() == ["Processor 0", last]


def test_link(browser, file):
    """The page's address has the view, the order and the filter. Opened, it brings them back, and
    so does a change of it. With all as it was the address is the file's alone."""
    line, path = file

    def state(chart):
        return chart.view(), chart.rows(), chart.table("processes"), chart.table("exits")

    with browser.opened(path, 1300):
        chart = Chart(browser, line)
        untouched = state(chart)
        chart.press("in")
        chart.sort("processes", 3)
        chart.sort("exits", 0)
        chart.type("CR3, calm")
        fragment, wanted = chart.saved(), state(chart)
        for word in ("view=", "sort=processes.3d%2Cexits.0u", "filter="):
            assert word in fragment, fragment
    for opened, expected in (
        (fragment, wanted),
        ("", untouched),
        ("#view=x-9&sort=none.99u,processes.77d", untouched),
    ):
        with browser.opened(path, 1300, fragment=opened):
            assert state(chart) == expected, opened
    with browser.opened(path, 1300):
        browser.driver.execute_script(f"location.hash = '{fragment}'")
        assert chart.saved() == fragment and state(chart) == wanted
        chart.type(" ")
        chart.press("whole")
        browser.driver.execute_script("location.hash = '#view='")
        assert chart.saved() == "" and state(chart) == untouched
