# SPDX-License-Identifier: BSD-2-Clause
# test_results_page.py: each file of results/ is as the schema wants it, docs/results.md is made of
# them.
import copy
import glob
import json
import os
import re

import pytest

from bench import added, environment, formulas, kept, leads, report, results, results_page, rowfile


@pytest.fixture(scope="module")
def machines():
    found = results_page.load()
    assert found, "results/ has no file"
    return found


FILES = glob.glob(os.path.join(results_page.TOP, "results", "**", "*.json"), recursive=True)


@pytest.mark.parametrize("file", [os.path.relpath(file, results_page.TOP) for file in FILES])
def test_a_file_is_as_written(file):
    """The writer writes each file as it is: each row on one line, and each cell in one row."""
    with open(os.path.join(results_page.TOP, file), encoding="ascii") as source:
        text = source.read()
    data = json.loads(text)
    assert text == rowfile.text_of(data), "rowfile.write() writes another text"
    if "measurements" in data:
        assert data["measurements"] == results.rows_of(
            results.measurements_of(data["measurements"])
        ), "a cell has more than one row"


def is_older(machines):
    """Whether a column came after these results: it is on the page as soon as it is measured."""
    return any(
        column["why"] == results.OLDER
        for machine in machines.values()
        for column in machine.results["columns"].values()
    )


def test_files_and_page_are_current(machines):
    assert is_older(machines) or not results_page.stale(machines), "make report"
    return f"{', '.join(machines)}"


def test_an_old_page_is_seen(machines):
    """Where one figure of one file is another, page, part and picture have to be made again."""
    name, machine = next(iter(machines.items()))
    changed = copy.deepcopy(machine.results)
    for one in changed["measurements"]:
        if (one["column"], one["experiment"], one["item"]) == ("msr+nmi", "a1", formulas.LAST):
            one["value"] *= 2
    wrong = results_page.stale({**machines, name: report.Machine(changed)})
    files = {line.partition(":")[0] for line in wrong}
    assert {
        "docs/results.md",
        f"docs/results/{name}-tables.md",
        f"docs/results/{name}-pmi.svg",
    } <= files, wrong


def test_an_old_table_on_a_page_is_seen(machines, tmp_path, monkeypatch):
    page, tables = tmp_path / "page.md", next(iter(machines.values())).results["tables"]
    kept_one = next(one for one in tables if one["table"])
    lines = "before\n<!-- made by make report: {0} -->\n{1}<!-- the end of {0} -->\nafter\n"
    page.write_text(lines.format(kept_one["key"], "by hand\n"))
    monkeypatch.setattr(results_page, "ON_PAGES", str(tmp_path / "*.md"))
    made = dict(results_page.pages_of(machines))[str(page)]
    assert kept_one["table"]["rows"][0]["label"] in made and kept_one["command"] in made
    assert made.startswith("before\n") and made.endswith("\nafter\n") and "by hand" not in made
    assert any("page.md: found another text" in line for line in results_page.stale(machines))
    page.write_text(made)
    assert not [line for line in results_page.stale(machines) if "page.md" in line]
    page.write_text(lines.format("no-such-table", ""))
    with pytest.raises(results.Trouble, match="no-such-table"):
        results_page.stale(machines)


def test_a_page_that_is_no_more_is_seen(machines, tmp_path, monkeypatch):
    name = next(iter(machines))
    monkeypatch.setattr(results_page, "PICTURES", str(tmp_path))
    for file in (f"{name}-gone.svg", f"{name}-pmi.svg", f"{name}-tables.md", "other.svg"):
        (tmp_path / file).write_text("")
    gone = str(tmp_path / f"{name}-gone.svg")
    assert results_page.left_over(machines) == [gone]
    assert any(f"{name}-gone.svg: found a file" in line for line in results_page.stale(machines))


def test_no_figure_without_a_command(machines):
    for machine in machines.values():
        assert all(
            one.command.startswith(("make ", "FULL=1 make ", "pytest "))
            for one in leads.leads(machine)
        )
        assert all(one["command"] for one in machine.results.get("tables", []))


NOTE = re.compile(r"^\| `([\w./-]+\.json)` \| `([0-9a-f]+)` \| (.+) \|$", re.MULTILINE)
NOTES = os.path.join(results_page.TOP, "results", "README.md")


def not_of(digest, found, notes):
    """A line for each of these {name: data} that was measured with other code than that of this
    digest, unless a note of that digest says why the file stands. Files of bare machines are as
    old as they are: they have their version."""
    noted = {name: sources for name, sources, _ in NOTE.findall(notes)}
    for name, data in found.items():
        about = data.get("environment")
        if not isinstance(about, dict) or about.get("kind") not in results.KINDS[1:]:
            of = data.get("sources") or data.get("tool", {}).get("sources") or "unknown"
            if of != digest and noted.get(name) != digest:
                yield (
                    f"results/{name} is of code {of}, and {', '.join(environment.SOURCES)} are "
                    f"{digest}: measure again, or say why its figures still hold, by a row of "
                    f"results/README.md: | `{name}` | `{digest}` | why |"
                )
            elif of == digest and name in noted:
                yield f"results/{name} is of code {of}: take its row from results/README.md"
    yield from (f"results/README.md: there is no {name}" for name in sorted({*noted} - {*found}))


def results_and_notes():
    found, folder = {}, os.path.dirname(NOTES)
    for file in FILES:
        with open(file, encoding="utf-8") as source:
            found[os.path.relpath(file, folder)] = json.load(source)
    with open(NOTES, encoding="utf-8") as source:
        return found, source.read()


def test_results_are_of_this_code():
    wrong = list(not_of(environment.sources(), *results_and_notes()))
    assert not wrong, "\n".join(wrong)


def test_results_of_other_code_are_seen():
    found, notes = {"a.json": {"tool": {"sources": "aa"}}}, "| `a.json` | `bb` | a name changed |"
    assert not list(not_of("aa", found, ""))
    (line,) = not_of("bb", found, "")
    assert "| `a.json` | `bb` | why |" in line and "measure again" in line
    assert not list(not_of("bb", found, notes))
    assert len(list(not_of("cc", found, notes))) == len(list(not_of("aa", found, notes))) == 1
    assert len(list(not_of("bb", {}, notes))) == 1
    metal = {"m.json": {"environment": {"kind": "metal"}, "tool": {}}}
    assert not list(not_of("aa", metal, ""))


@pytest.mark.parametrize(
    "name, text, same",
    [
        ("nmi/nmi.c", "/* other */ int a; // words\n", True),
        ("nmi/nmi.c", "int  a ;", False),
        ("nmi/nmi.c", 'int a; char *b = "//";', False),
        ("pmu/pmu.asm", "int a; a comment\n", False),
        ("vmx/exit/README", "text", True),
    ],
)
def test_digest_is_of_code_alone(tmp_path, name, text, same):
    def digest(**files):
        for folder in environment.SOURCES:
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for file, words in files.items():
            (tmp_path / file).write_text(words)
        return environment.sources(str(tmp_path))

    before = digest(**{"nmi/nmi.c": "int a;"})
    assert (digest(**{name: text}) == before) is same
    assert environment.code_of("a.asm", "mov eax, ';' ; none") == environment.code_of(
        "a.asm", "mov eax, ';'"
    )


@pytest.mark.parametrize("harm", ["schema", "cell"])
def test_a_wrong_file_is_seen(machines, harm):
    found = {**next(iter(machines.values())).results}
    if harm == "schema":
        found["schema"] = 0
    else:
        found["measurements"] = [{**found["measurements"][0], "value": "much"}]
    with pytest.raises(results.Trouble):
        results.validate(found)


def test_tables_of_answers_are_those_of_their_files(machines):
    """The same answer stands in results/answers/ and in the emulator's results."""
    (machine,) = (one for one in machines.values() if one.environment["kind"] == "emulator")
    stored = {one["key"]: one["table"] for one in machine.results["tables"]}
    for one in added.measured():
        if one.kept:
            assert kept.as_table(stored[one.key]) == one.kept(), "python3 -m bench.put_kept"
