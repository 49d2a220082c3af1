# SPDX-License-Identifier: BSD-2-Clause
# test_page.py: how the report looks in a browser, 1300 and 700 pixels wide: that of results/, and
# that of a bare machine whose figures are made up; none of these was measured. Each check is a
# function in JavaScript that names what is wrong in the layout as it is drawn. Each is also seen to
# find what it is for: test_a_check_sees() harms the page.
import json
import random
import re

import pytest

from bench import importer, plots, published, report, results, results_page
from bench.measurements import ALL

WIDTHS = (1300, 700)
# Columns of the plan `thesis` (measurements.ini), each with how much longer work on the PMU takes.
COLUMNS = {"native": 1, "kvm": 12, "kvm-mediated": 3, "thesis": 1.6, "msr+nmi": 1.01}
ROUNDS, REPETITIONS, NOISE = 4, 3, 0.004

CHECKS = {
    "nothing is wider than the window": """all("body *").filter((one) =>
        !one.closest(".scroll") && !one.closest("svg") &&
        box(one).right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))""",
    "no column is cut": """tables().filter((one) => {
        const scroll = one.closest(".scroll");
        return box(one).width > scroll.clientWidth + 1 &&
            !(["auto", "scroll"].includes(getComputedStyle(scroll).overflowX) &&
              scroll.scrollWidth >= one.offsetWidth);
    }).map(name)""",
    "the first column stays": """tables().filter((one) => {
        const scroll = one.closest(".scroll");
        const first = Array.from(one.rows, (row) =>
            row.cells[0].colSpan > 1 ? row.cells[0].firstElementChild : row.cells[0]);
        const lefts = () => first.map((cell) => Math.round(box(cell).left)).join();
        const before = lefts();
        scroll.scrollLeft = 1e6;
        const last = Math.max(...Array.from(one.rows, (row) => box(row.lastElementChild).right));
        const good = lefts() === before && last <= box(scroll).right + 1;
        const solid = first.every((cell) => cell.tagName === "SPAN" ||
            getComputedStyle(cell).backgroundColor.startsWith("rgb("));
        scroll.scrollLeft = 0;
        return !good || !solid;
    }).map(name)""",
    "the first column leaves room": """tables().filter((one) => one.rows[1].cells.length > 1 &&
        box(one.rows[one.rows.length - 1].cells[0]).width > box(one.closest(".scroll")).width / 2
    ).map(name)""",
    "published figures are seen": """tables().filter((one) => {
        const heads = [...one.querySelectorAll("thead th")].filter(published);
        const edge = box(one.closest(".scroll")).right;
        return heads.length && (box(heads[0]).right > edge || heads.some((head) =>
            published(head.previousElementSibling) && head.cellIndex < 3));
    }).map(name)""",
    "no plot is empty": """axes().filter((one) => marks(one).filter((mark) =>
        box(mark).width > 1 || box(mark).height > 1).length === 0).map(name)""",
    "no panel has equal bars": """axes().filter((one) => {
        const ends = [...one.querySelectorAll(":scope > [id*='-text_'] > text")].filter((text) =>
            !getComputedStyle(text).font.startsWith("bold") &&
            getComputedStyle(text).fontWeight < 600).map((text) => text.textContent);
        return ends.length > 1 && new Set(ends).size === 1;
    }).map(name)""",
    "no colour of a legend is missing": """all("svg [id*='-legend_']").filter((one) => {
        const near = one.closest("[id*='-axes_']") || one.closest("svg");
        const drawn = new Set(marks(near).filter((mark) => box(mark).width > 1).flatMap(colours));
        return paths(one).flatMap(colours).some((colour) => !drawn.has(colour));
    }).map(name)""",
    "no label covers another": """all("svg").flatMap((svg) => {
        const texts = [...svg.querySelectorAll("text")].map((text) => [text, box(text)]);
        const frame = box(svg);
        return texts.filter(([text, one], at) => one.width > 0 &&
            (one.left < frame.left - 2 || one.right > frame.right + 2 ||
             texts.slice(at + 1).some(([, other]) =>
                Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
                Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 2))
        ).map(([text]) => name(svg) + ": " + text.textContent);
    })""",
    "no band is empty": """(() => {
        const spans = all("h1, h2, h3, p, li, dt, dd, figcaption, td, th, svg :is(text, path, use)")
            .map(box).filter((one) => one.height > 0).map((one) => [one.top, one.bottom])
            .sort((one, other) => one[0] - other[0]);
        const found = [];
        let end = spans[0][1];
        for (const [top, bottom] of spans) {
            if (top - end > 80) found.push(Math.round(top - end) + " above " + (top + scrollY));
            end = Math.max(end, bottom);
        }
        return found;
    })()""",
    "numbers look alike": """tables().filter((one) => one.querySelector("th small"))
        .flatMap((one) => [...one.querySelectorAll("tbody tr")].filter((row) => {
            // An estimate has the digits that its interval allows.
            if (row.cells[0].textContent.includes("estimate")) return false;
            const texts = (which) => [...row.querySelectorAll(which)].map((td) => td.textContent);
            const places = texts("td:not(.theirs)")
                .map((text) => /^[+-]?[\\d,]+(\\.\\d+)?( [a-zA-Z%]+|x)?$/.exec(text))
                .filter((found) => found && !/^0x?$/.test(found[0]))
                .map((found) => (found[1] || "").length);
            const whole = texts("td").join(" ").replace(/\\.\\d+/g, "");
            return new Set(places).size > 1 || /\\d{4}/.test(whole);
        }).map((row) => name(one) + ": " + row.textContent.replace(/\\s+/g, " ")))""",
    "a table has one unit of time": """tables().filter((one) => new Set(
        (one.closest("details") || one).textContent.match(/(?<=\\d |: )(ns|us|ms|s)\\b(?!\\.)/g)
    ).size > 1).map(name)""",
    "a reason is said once": """tables().flatMap((one) => {
        const rows = [...one.querySelectorAll("tbody tr:not(.group)")];
        const columns = Array.from(rows[0].cells, (cell, at) =>
            rows.map((row) => (row.cells[at].firstChild || row).textContent.trim()));
        const none = (text) => ["not run", "-", ""].includes(text);
        return columns.filter((texts) => texts.includes("not run") && texts.every(none))
            .map(() => name(one) + ": column")
            .concat(rows.filter((row) => {
                const notes = [...row.querySelectorAll("sup")].map((sup) => sup.textContent);
                return new Set(notes).size < notes.length;
            }).map(() => name(one) + ": row"));
    })""",
    "no section is empty": """all("h2").filter((one) =>
        !one.nextElementSibling || one.nextElementSibling.tagName === "H2" ||
        !one.nextElementSibling.textContent.trim()).map((one) => one.textContent)""",
}
WORDS = """
const all = (selector) => [...document.querySelectorAll(selector)];
const box = (one) => one.getBoundingClientRect();
const add = (rule) => document.styleSheets[0].insertRule(
    rule, document.styleSheets[0].cssRules.length);
const tables = () => all("table");
const axes = () => all("svg [id*='-axes_']");
const paths = (one) => [...one.querySelectorAll("path, use")];
const colours = (one) => (one.getAttribute("style") || "").match(/#[0-9a-f]{6}\\b/gi) || [];
const marks = (one) => paths(one).filter((path) => colours(path).length > 0 &&
    !path.closest("[id*='-legend_'], [id*='matplotlib.axis'], defs"));
const name = (one) => {
    const near = one.closest("[aria-labelledby], [aria-label]");
    return (near.getAttribute("aria-labelledby") || near.ariaLabel) + " " + one.id;
};
const published = (head) => head.querySelector("small") !== null;
"""
# What a check is for, taken away.
HARM = {
    "nothing is wider than the window": "add('p { width: 2000px; max-width: none; }')",
    "no column is cut": "add('.scroll { overflow: hidden; }')",
    "the first column stays": "add('th[scope=row] { position: static; }')",
    "the first column leaves room": "add('th[scope=row] > span { min-width: 40rem; }')",
    "published figures are seen": """all("tr").forEach((row) =>
        row.querySelectorAll(".theirs").forEach((cell) => row.append(cell)))""",
    "no plot is empty": "marks(axes()[0]).forEach((one) => one.remove())",
    "no panel has equal bars": """axes()[0].querySelectorAll(":scope > [id*='-text_'] > text")
        .forEach((one) => { one.textContent = "1"; })""",
    "no colour of a legend is missing": """all("svg [id*='-legend_'] [style*='#']").forEach((one) =>
        one.setAttribute("style", "fill: #123456"))""",
    "no label covers another": """all("svg text").slice(0, 3).forEach((one) => {
        one.setAttribute("x", 50); one.setAttribute("y", 50);
        one.removeAttribute("transform"); })""",
    "no band is empty": "add('h2 { margin-top: 200px; }')",
    "numbers look alike": """all("tbody td").filter((one) => one.textContent.endsWith(".00x"))
        .forEach((one) => { one.textContent = "1x"; })""",
    "a table has one unit of time": """all("thead small")[0].closest("details").querySelector("td")
        .textContent = "5 ns and 2 ms" """,
    "a reason is said once": """all("tbody tr").slice(0, 4).forEach((row) =>
        row.querySelectorAll("td").forEach((one) => { one.innerHTML = "not run<sup>1</sup>"; }))""",
    "no section is empty": "all('.parts')[1].remove()",
}


def line(experiment, item, unit, middle, metric="time"):
    """A time with its spread, or a value of another metric."""
    words = f"value={middle:.2f}"
    if metric == "time":
        least, most = middle * 0.97, middle * 1.08
        words = f"n=25 min={least:.2f} median={middle:.2f} p95={most:.2f}"
    return f"bench: experiment={experiment} item={item} metric={metric} unit={unit} {words}\n"


def repetition(job, more, noise):
    """The lines of a job. `more`: how much longer work on the PMU takes."""
    if job == "msr":
        return [line(job, item, "tsc", noise(100 * more)) for item in ALL.names(job)]
    if job == "exit":
        return [line(job, item, "tsc", noise(1200)) for item in ALL.names(job)]
    if job == "pmi":
        return [line(job, item, "tsc", noise(1500 * more)) for item in ALL.names(job)]
    if job == "a1":
        return [
            line(job, item, "ns", noise(68e3 + 690 * more * pmis))
            for item, pmis in published.TABLE_4_2_PMIS.items()
        ] + [line("context_switch", item, "ns", noise(900 * more)) for item in ("plain", "counted")]
    if job == "profile":
        shares = [
            line(job, f"share_{name}", "percent", noise(20), "share")
            for name in published.TABLE_4_4
        ]
        return [
            line(job, "plain", "ns", noise(3e9)),
            line(job, "profiled", "ns", noise(3e9 * (1 + 0.07 * more))),
            line(job, "profiled", "count", 14000, "samples"),
            *shares,
        ]
    figures = (
        ("latency_avg", "ns", 4e5),
        ("latency_max", "ns", 3e6),
        ("rate", "count", 4e4),
        ("transfer", "bytes", 4e7),
    )
    return [
        line(job, item, unit, noise(value), metric)
        for item in ("plain", "profiled")
        for metric, unit, value in figures
    ]


def bare_machine():
    """The Machine of a made-up session of the plan `thesis`."""
    rng, texts = random.Random(1), {}
    jobs = "msr exit pmi a1 profile nginx".split()
    for place in range(1, ROUNDS + 1):
        for position, (column, more) in enumerate(COLUMNS.items(), 1):
            out = [f'env: kind="metal"\nenv: cpu="made-up processor"\nenv: column="{column}"\n']
            out.append(f'env: round="{place}"\nenv: position="{position}"\n')
            for job in jobs:
                for number in range(1, REPETITIONS + 1):
                    smis, clock = int(rng.random() < 0.1), 100 + rng.random()
                    facts = f"smis={smis} aperf_per_mperf={clock:.2f}"
                    out.append(f"sample: job={job} number={number} {facts}\n")
                    out += repetition(job, more, lambda value: value * (1 + NOISE * rng.random()))
            texts[f"{place}.{column}"] = "".join([*out, f"end: column={column} status=0\n"])
    found, said, _ = importer.run(texts)
    assert not said
    ((machine,), _) = report.by_machine([results.validate(found)])
    return machine


@pytest.fixture(scope="module", name="pages")
def make_pages(tmp_path_factory):
    """{name: (file, text)}"""
    out = {}
    machines = {"results": list(results_page.load().values()), "bare": [bare_machine()]}
    for name, found in machines.items():
        file = tmp_path_factory.mktemp("page") / f"{name}.html"
        file.write_text(report.html_of(found), encoding="utf-8")
        out[name] = str(file)
    return out


def open_all(browser):
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.settle()


def found_by(browser, check):
    return browser.driver.execute_script(f"{WORDS} return {CHECKS[check]};")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("which", ["results", "bare"])
def test_in_a_browser(pages, browser, which, width):
    with browser.opened(pages[which], width):
        assert browser.value("document.querySelector('.leads').getBoundingClientRect().top") < 600
        assert browser.value("document.querySelectorAll('.leads svg').length") >= 3
        assert found_by(browser, "no band is empty") == []  # as it is opened, all tables closed
        open_all(browser)
        wrong = {check: found for check in CHECKS if (found := found_by(browser, check))}
        assert not wrong, json.dumps(wrong, indent=1)
        count = browser.value("document.querySelectorAll('table').length")
    return f"{count} tables at {width} pixels"


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_sees(pages, browser, check):
    with browser.opened(pages["bare"], 700):
        open_all(browser)
        assert found_by(browser, check) == []
        browser.driver.execute_script(f"{WORDS} {HARM[check]};")
        browser.settle()
        assert found_by(browser, check)
        browser.driver.refresh()


def test_a_bare_machine_has_its_own_commands(pages):
    with open(pages["bare"], encoding="utf-8") as source:
        text = source.read()
    assert "make bench" not in text
    assert "<code>make usb BENCH=thesis</code>, then <code>make collect</code>" in text


def test_a_bare_machine_has_no_section_without_figures(pages):
    """It is in a sentence, with all others of its kind."""
    with open(pages["bare"], encoding="utf-8") as source:
        text = source.read()
    assert 'id="m1-accuracy-of"' not in text and 'id="m1-pmi"' in text
    assert len(re.findall(r"Not measured on this machine: [^<]*\bAccuracy\b", text)) == 1


def test_a_figure_has_what_is_seen():
    """Bars that differ, and colours of parts that are long enough; the rest is said."""
    costs = {
        "kvm": {"exits": 1000.5, "exits:WRMSR": 1000, "exits:HLT": 0.5, "root_instructions": 9},
        "msr": {"exits": 1, "exits:WRMSR": 1, "root_instructions": 9},
    }
    figure = plots.cost_figure("key", "title", costs, {name: name for name in costs})
    assert ">WRMSR</text>" in figure.svg and ">HLT</text>" not in figure.svg
    assert figure.svg.count("axes_") == 1 and figure.text.startswith("Root-mode instructions: 9 in")
