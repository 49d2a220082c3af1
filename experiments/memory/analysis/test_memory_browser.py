# SPDX-License-Identifier: BSD-2-Clause
# test_memory_browser.py: the memory trace's page in a real browser, wide and narrow: the
# instruction that is clicked has its points in the picture, where the picture has them; columns
# sort; nothing is an error or a request.
import pytest

from experiments.memory.analysis import memory_page
from experiments.memory.analysis.memory_points import Axis
from experiments.memory.analysis.symbols import Symbols
from experiments.memory.analysis.test_memory_tool import access, found

ROWS, FAR, OTHER = 0x401544, 0x402000, 0xFFFFFFFF81000010
NAMES = Symbols([(0x401500, 0x100, "main"), (0x402000, 0, "put")])
COUNT = 400
# One goes up, one is on two pages far away in turn, one has a single point.
ACCESSES = [
    (
        access(n, 0x10000 + 64 * n, rip=ROWS, text="mov [rax], rcx")
        if n % 2
        else access(n, 0x7F0000002000 + n % 4 * 0x800, rip=FAR, text="push rbx & <more>")
    )
    for n in range(COUNT - 1)
] + [access(COUNT - 1, 0x18000, rip=OTHER, text="inc [rbx]")]
LINES = "[data-table=instructions] tbody tr"


@pytest.fixture(scope="module", name="file")
def make_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(
        memory_page.html(found(*ACCESSES), ACCESSES, "Some & <accesses>", names=NAMES),
        encoding="utf-8",
    )
    return path


@pytest.fixture(name="page", params=[1300, 700])
def open_page(request, browser, file):
    with browser.opened(file, request.param):
        yield browser


def points(page, series="data.at(-1)"):
    """Where a series of the picture has points, by default that of the chosen instruction."""
    return page.value(
        f"""(() => {{ const chart = tracePage.charts.addresses;
        return chart.{series}.map((y, i) => [chart.data[0][i], y]).filter(([, y]) => y !== null);
        }})()"""
    )


def expected_points(rip):
    axis = Axis({one.gla // 4096 for one in ACCESSES})
    return [[number, axis.place(one.gla)] for number, one in enumerate(ACCESSES) if one.rip == rip]


def coloured(page):
    """How many pixels of the picture are red, and how many are blue."""
    return page.value(
        """(() => { const {ctx, bbox} = tracePage.charts.addresses, found = [0, 0];
        const copy = new OffscreenCanvas(bbox.width, bbox.height)
            .getContext("2d", {willReadFrequently: true});
        copy.drawImage(ctx.canvas, -bbox.left, -bbox.top);
        const {data} = copy.getImageData(0, 0, bbox.width, bbox.height);
        for (let i = 0; i < data.length; i += 4) {
            found[0] += data[i + 3] > 128 && data[i] - data[i + 2] > 100;
            found[1] += data[i + 3] > 128 && data[i + 2] - data[i] > 100;
        }
        return found; })()"""
    )


def pressed(page):
    return page.value(
        f"Array.from(document.querySelectorAll('{LINES} [aria-pressed=true]'), "
        "(button) => button.textContent)"
    )


def test_click(page):
    """Points of the instruction that is clicked, and what they are; a second click, another one and
    the button change it."""
    assert [row[0] for row in page.rows("instructions")] == [
        f"{rip:#x}" for rip in (FAR, ROWS, OTHER)
    ]
    assert sorted(points(page, "data[2]")) == sorted(
        point for rip in (FAR, ROWS, OTHER) for point in expected_points(rip)
    )
    assert points(page) == [] and pressed(page) == []
    untouched = coloured(page)
    assert untouched[0] == 0 and untouched[1] > 100
    for place, rip, words in (
        (
            1,
            FAR,
            "0x402000, push rbx & <more>, put+0x0: 200 points, access 0 to 398, addresses "
            "0x7f0000002000 to 0x7f0000003000",
        ),
        (
            2,
            ROWS,
            "0x401544, mov [rax], rcx, main+0x44: 199 points, access 1 to 397, addresses "
            "0x10040 to 0x16340",
        ),
        (
            3,
            OTHER,
            "0xffffffff81000010, inc [rbx]: 1 point, access 399 to 399, addresses 0x18000 "
            "to 0x18000",
        ),
    ):
        page.click(f"{LINES}:nth-child({place}) button")
        assert points(page) == expected_points(rip)
        assert pressed(page) == [f"{rip:#x}"] and page.element("#chosen").text == words
        red, blue = coloured(page)
        assert red > 0 and blue < untouched[1] / 2
    page.click("#every")
    assert points(page) == [] and pressed(page) == [] and page.element("#chosen").text == ""
    assert coloured(page) == untouched
    page.click(f"{LINES}:nth-child(2) td:nth-child(2)")  # all of its row
    assert points(page) == expected_points(ROWS)
    page.click(f"{LINES}:nth-child(2) button")
    assert points(page) == []
    page.element(f"{LINES}:nth-child(1) button").send_keys("\n")
    page.settle()
    assert points(page) == expected_points(FAR)


def test_sorts(page):
    """A click on a column's head; the rows keep their points."""
    page.sort("instructions", 0)
    page.sort("instructions", 0)
    assert [row[0] for row in page.rows("instructions")] == ["0x401544", "0x402000", f"{OTHER:#x}"]
    page.click(f"{LINES}:nth-child(1) button")
    assert points(page) == expected_points(ROWS)
    for up in (False, True):
        page.sort("pages", 2)
        counts = [int(row[2]) for row in page.rows("pages")]
        assert counts == sorted(counts, reverse=not up)


def test_functions(page):
    """Names of functions, by instruction and in a table of their own."""
    assert [row[2] for row in page.rows("instructions")] == ["put+0x0", "main+0x44", ""]
    assert page.rows("functions") == [["put", "200"], ["main", "199"]]


def test_without_a_picture(browser, tmp_path):
    """Walks have no linear address: there is no picture, and nothing to click for it."""
    walks = [access(n, 0x1000 * n, kind="walk") for n in range(3)]
    path = tmp_path / "page.html"
    path.write_text(memory_page.html(found(*walks), walks, "Walks"), encoding="utf-8")
    with browser.opened(path, 1300):
        assert browser.value("document.getElementById('addresses')") is None
        browser.sort("kinds", 2)
        assert browser.rows("kinds") == [["walk", "W", "3", "24"]]
