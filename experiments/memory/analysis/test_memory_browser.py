# SPDX-License-Identifier: BSD-2-Clause
# test_memory_browser.py: the memory trace's page in a real browser, wide and narrow: the
# instruction that is clicked has its points in the picture, where the picture has them; columns
# sort; nothing is an error or a request.
import re

import pytest

from experiments.memory.analysis import memory_page, memory_points
from experiments.memory.analysis.symbols import Symbols
from experiments.memory.analysis.test_memory_tool import access, found
from testbed import browser

WIDTHS = (1300, 700)
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


@pytest.fixture(scope="module", name="page")
def make_page(tmp_path_factory):
    made = browser.Page(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="module", name="file")
def make_file(tmp_path_factory):
    pytest.importorskip("matplotlib", reason="python3-matplotlib is not installed")
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(
        memory_page.html(found(*ACCESSES), ACCESSES, "Some & <accesses>", names=NAMES),
        encoding="utf-8",
    )
    return path


@pytest.fixture(name="opened", params=WIDTHS)
def open_page(request, page, file):
    """The page."""
    with page.opened(file, request.param):
        yield page


def rows(page, name):
    return page.value(
        f"Array.from(document.querySelectorAll('[data-table={name}] tbody tr'), "
        "(row) => Array.from(row.cells, (cell) => cell.textContent))"
    )


def points(page):
    """Where the points are that are drawn: parts of the picture's width and height, from below."""
    left, top, width, height = page.value(
        """(() => {
        const box = document.getElementById("addresses-plot").getBBox();
        return [box.x, box.y, box.width, box.height]; })()"""
    )
    drawn = page.value("document.querySelector('path.points').getAttribute('d')")
    return [
        ((float(x) - left) / width, 1 - (float(y) - top) / height)
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", drawn)
    ]


def expected_points(rip):
    axis = memory_page.Axis({one.gla // 4096 for one in ACCESSES})
    return [
        (number / COUNT, (axis.place(one.gla) + 0.5) / (axis.end + 1))
        for number, one in enumerate(ACCESSES)
        if one.rip == rip
    ]


def check_points(page, rip):
    columns, lines = memory_points.GRID
    ours, theirs = points(page), sorted(expected_points(rip))
    assert len(ours) == len(theirs) > 0
    for (x, y), (number, place) in zip(ours, theirs):
        assert abs(x - number) < 1 / columns + 1e-3 and abs(y - place) < 1 / lines + 1e-3


def pressed(page):
    return page.value(
        f"Array.from(document.querySelectorAll('{LINES} [aria-pressed=true]'), "
        "(button) => button.textContent)"
    )


def test_click(opened):
    """Points of the instruction that is clicked, and what they are; a second click, another one and
    the button change it."""
    instructions = [row[0] for row in rows(opened, "instructions")]
    assert instructions == [f"{rip:#x}" for rip in (FAR, ROWS, OTHER)]
    assert points(opened) == [] and pressed(opened) == []
    said = "document.getElementById('chosen').textContent"
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
        opened.click(f"{LINES}:nth-child({place}) button")
        check_points(opened, rip)
        assert pressed(opened) == [f"{rip:#x}"] and opened.value(said) == words
    opened.click("#every")
    assert points(opened) == [] and pressed(opened) == [] and opened.value(said) == ""
    opened.click(f"{LINES}:nth-child(2) td:nth-child(2)")  # all of its row
    check_points(opened, ROWS)
    opened.click(f"{LINES}:nth-child(2) button")
    assert points(opened) == []
    opened.value(f"document.querySelector('{LINES}:nth-child(1) button').focus()")
    opened.key("\r")
    check_points(opened, FAR)


def pixels(page, path):
    """Of the picture, what lies between its axes."""
    from matplotlib import image

    page.picture(path, whole=False)
    left, top, right, bottom = map(
        round,
        page.value(
            """(() => {
        const box = document.getElementById("addresses-plot").getBoundingClientRect();
        return [box.left + 3, box.top, box.right, box.bottom - 3]; })()"""
        ),
    )
    return (image.imread(path)[top:bottom, left:right, :3] * 255).round().astype(int)


def test_points_are_the_picture_s(opened, tmp_path):
    """Where the points are drawn the picture has some of its own; and the others are paler."""
    opened.place(f"{LINES}:nth-child(2) button")  # scrolls there
    opened.settle()
    before = pixels(opened, tmp_path / "before.png")
    opened.click(f"{LINES}:nth-child(2) button")
    after = pixels(opened, tmp_path / "after.png")
    red = abs(after - (0xB4, 0x23, 0x18)).sum(axis=2) < 40
    assert red.sum() > 100
    around = red.copy()
    for y, x in zip(*red.nonzero()):
        square = slice(max(y - 2, 0), y + 3), slice(max(x - 2, 0), x + 3)
        assert before[square].min() < 200, (x, y)
        around[square] = True
    ink = [3 * 255 - one.sum(axis=2) for one in (before, after)]
    others = (ink[0] > 150) & ~around
    assert others.sum() > 100 and (ink[1][others] < ink[0][others] / 2).all()


def test_sorts(opened):
    """A click on a column's head; the rows keep their points."""
    opened.click("[data-table=instructions] th:nth-child(1) button")
    opened.click("[data-table=instructions] th:nth-child(1) button")
    assert [row[0] for row in rows(opened, "instructions")] == [
        "0x401544",
        "0x402000",
        f"{OTHER:#x}",
    ]
    opened.click(f"{LINES}:nth-child(1) button")
    check_points(opened, ROWS)
    opened.click("[data-table=pages] th:nth-child(3) button")
    counts = [int(row[2]) for row in rows(opened, "pages")]
    assert counts == sorted(counts, reverse=True)
    opened.click("[data-table=pages] th:nth-child(3) button")
    assert [int(row[2]) for row in rows(opened, "pages")] == sorted(counts)


def test_functions(opened):
    """Names of functions, by instruction and in a table of their own."""
    assert [row[2] for row in rows(opened, "instructions")] == ["put+0x0", "main+0x44", ""]
    assert rows(opened, "functions") == [["put", "200"], ["main", "199"]]


@pytest.mark.filterwarnings("ignore:Data has no positive values")
@pytest.mark.parametrize("width", WIDTHS)
def test_without_a_picture(page, tmp_path, width):
    """Walks have no linear address: there is no picture, and nothing to click for it."""
    walks = [access(n, 0x1000 * n, kind="walk") for n in range(3)]
    path = tmp_path / "page.html"
    path.write_text(memory_page.html(found(*walks), walks, "Walks"), encoding="utf-8")
    page.open(path, width)
    assert page.value("document.getElementById('points')") is None
    page.click("[data-table=kinds] th:nth-child(3) button")
    assert rows(page, "kinds") == [["walk", "W", "3", "24"]] and page.wrong == []
