# SPDX-License-Identifier: BSD-2-Clause
# results_page.py: docs/results.md, a page for each section of each machine beside its pictures in
# docs/results/, and tables on pages of experiments, of the files of results in results/. No boot,
# no figure that is not in them.
# Usage: python3 -m bench.results_page
import glob
import html
import os
import re
import sys

from bench import added, kept, leads, plots, report, results, summary
from bench.cells import Drawn, OnPage, Table
from bench.measurements import TOP

FILES = os.path.join(TOP, "results", "*.json")
PAGE, PICTURES = os.path.join(TOP, "docs", "results.md"), os.path.join(TOP, "docs", "results")
HEAD = """<!-- SPDX-License-Identifier: BSD-2-Clause -->
# Results

This page shows the results of each machine in [results/](../results/README.md): three pictures, and
links to one page for each part of the results. On these pages, click the title of a table to open
the table. `make report` makes all pages and pictures from the files in
[results/](../results/README.md), in seconds and without a boot. `make bench` writes such a file.

"""
# On a page of an experiment: what stands between these lines is the kept table of that key.
MADE = re.compile(
    r"(<!-- made by make report: ([\w-]+) -->\n).*?(<!-- the end of \2 -->\n)", re.DOTALL
)
ON_PAGES = os.path.join(TOP, "experiments", "**", "*.md")
LICENSE = "<!-- SPDX-License-Identifier: BSD-2-Clause -->\n"


def escaped(text):
    return html.escape(text, quote=False).replace("|", "&#124;").replace("\n", " ")


def row_of(texts):
    return f"| {' | '.join(texts)} |"


def heads_of(table):
    """Markdown has one line of heads: the name of each group but the first goes into its own. The
    first group's is above the table."""
    heads, at = [], 0
    for place, (text, span) in enumerate(table.groups):
        heads += [
            f"{escaped(text)}: {escaped(head)}" if text and place else escaped(head)
            for head in table.heads[at : at + span]
        ]
        at += span
    return heads


def cell_of(cell):
    text = escaped(cell.text)
    return (f"*{text}*" if cell.kind in ("missing", "published") and text.strip("- ") else text) + (
        f" <sup>{cell.note}</sup>" if cell.note else ""
    )


def rows_of(table, heads):
    yield row_of(["", *heads])
    yield "|---|" + "--:|" * len(table.heads)
    for row in table.rows:
        label = f"**{escaped(row.label)}**" if row.kind == "group" else escaped(row.label)
        cells = map(cell_of, row.cells) if row.kind != "group" else [""] * len(table.heads)
        yield row_of([label, *cells])
    yield ""
    yield from (
        f"<sup>{number}</sup> {escaped(text)}  " for number, text in enumerate(table.notes, 1)
    )


def table_lines(table):
    yield f"<details><summary>{escaped(table.title)}</summary>"
    yield ""
    yield from (escaped(text) + "\n" for text in table.reading)
    if table.command:
        yield f"`{table.command}`\n"
    if table.rows:
        if table.groups[0][0]:
            yield f"{escaped(table.groups[0][0])}:\n"
        yield from rows_of(table, heads_of(table))
    elif not table.reading:
        yield "Not run."
    yield ""
    yield "</details>"
    yield ""


def lead_lines(name, machine):
    for one in leads.leads(machine):
        if one.bars:
            yield f"![{one.title}: {one.axis}](results/{name}-{one.key}.svg)\n"
            yield f"{escaped(one.sentence)} `{one.command}`\n"


def part_lines(part):
    part = part.what if isinstance(part, OnPage) else part
    part = part.text if isinstance(part, Drawn) else part
    if isinstance(part, str) and part:
        yield f"{escaped(part)}\n"
    elif isinstance(part, Table):
        yield from table_lines(part)


def section_text(machine, section):
    """A section's page."""
    lines = [
        f"{LICENSE}# {section.title.format('the thesis')}\n",
        f"{escaped(report.name_of(machine))}; [all parts](../results.md).\n",
    ]
    lines += [line for part in section.parts(machine) for line in part_lines(part)]
    return "\n".join(lines)


def environment_text(machine):
    return "\n".join(
        [
            f"{LICENSE}# Environment and versions\n",
            f"{escaped(report.name_of(machine))}; [all parts](../results.md).\n",
            *(f"- {what}: {escaped(text)}" for what, text in report.environment_pairs(machine)),
            "",
        ]
    )


def parts_of(name, machine):
    """(file, title, text) of each page."""
    for section in added.sections():
        yield f"{name}-{section.key}.md", section.title.format("the thesis"), section_text(
            machine, section
        )
    yield f"{name}-environment.md", "Environment and versions", environment_text(machine)


def machine_lines(name, machine):
    yield f"## {report.name_of(machine)}\n"
    for part in summary.first(machine):
        yield from rows_of(part, part.heads) if isinstance(part, Table) else [f"{escaped(part)}\n"]
    yield from lead_lines(name, machine)
    yield from (f"- {head}: {words}" for head, words in summary.legend(machine))
    yield f"\n{summary.where(machine)} [Its file](../results/{name}.json).\n"
    yield from (f"- [{title}](results/{file})" for file, title, _ in parts_of(name, machine))
    yield ""


def load():
    """{name: Machine}, in the order of the names."""
    files = sorted(glob.glob(FILES))
    machines = [report.by_machine([results.load(file)])[0][0] for file in files]
    names = [os.path.basename(file).removesuffix(".json") for file in files]
    return dict(zip(names, report.numbered(machines)))


def text_of(machines):
    beside = [leads.side_by_side(list(machines.items()))] if len(machines) > 1 else []
    lines = [line for table in beside for line in table_lines(table)]
    lines += [line for name, machine in machines.items() for line in machine_lines(name, machine)]
    return HEAD + "\n".join(lines)


def kept_lines(machines, key):
    """The rows of a kept table, of the first machine that has one."""
    entries = [(each, one) for each in machines.values() for one in each.results.get("tables", [])]
    entries = [(each, one) for each, one in entries if one["key"] == key]
    if not entries:
        raise results.Trouble(f"a page wants the table {key}, which no file of results/ has")
    made = [(each, one) for each, one in entries if one["table"]]
    if not made:
        return [f"Not run: {entries[0][1]['why']}.\n"]
    machine, one = made[0]
    table, command = kept.as_table(one["table"]).named(machine), f"`{one['command']}`"
    if len(table.groups) > 1:
        above = [f"{escaped(table.groups[0][0])}:\n"] if table.groups[0][0] else []
        return [*above, *rows_of(table, heads_of(table)), f"{command}\n"]
    return [*rows_of(table, map(escaped, table.heads)), f"{command}: {table.groups[0][0]}\n"]


def with_tables(text, machines):
    """A page's text with the tables of now."""
    return MADE.sub(
        lambda found: f"{found[1]}\n" + "\n".join(kept_lines(machines, found[2])) + found[3], text
    )


def pages_of(machines):
    """(path, text) of all pages."""
    for file in sorted(glob.glob(ON_PAGES, recursive=True)):
        with open(file, encoding="utf-8") as page:
            text = page.read()
        if MADE.search(text):
            yield file, with_tables(text, machines)
    yield PAGE, text_of(machines)
    for name, machine in machines.items():
        yield from (
            (os.path.join(PICTURES, file), text) for file, _, text in parts_of(name, machine)
        )


def pictures(machines):
    """(path, Lead) of each picture that there has to be."""
    return [
        (os.path.join(PICTURES, f"{name}-{one.key}.svg"), one)
        for name, machine in machines.items()
        for one in leads.leads(machine)
        if one.bars
    ]


def drawing(one):
    """A Lead's picture, as the text of a file."""
    return one.draw("", alone=True).svg


def stale(machines):
    """What is not as the files of results have it, each in one line."""
    wrong = [
        f"{os.path.relpath(file, TOP)}: found a file that results/ gives no text for; wanted none: "
        "make report"
        for file in left_over(machines)
    ]
    for file, wanted in (
        *pages_of(machines),
        *((file, plots.mark_of(drawing(one))) for file, one in pictures(machines)),
    ):
        try:
            with open(file, encoding="utf-8") as source:
                found = source.read()
        except OSError:
            found = ""
        if wanted not in found or (file.endswith(".md") and wanted != found):
            wrong.append(
                f"{os.path.relpath(file, TOP)}: found another text than results/ gives; wanted "
                f"that of "
                "make report"
            )
    return wrong


def left_over(machines):
    """Files of these machines that are no page and no picture any more."""
    wanted = [file for file, _ in (*pages_of(machines), *pictures(machines))]
    made = [glob.glob(os.path.join(PICTURES, f"{glob.escape(name)}-*")) for name in machines]
    return sorted({file for each in made for file in each} - set(wanted))


def main():
    try:
        machines = load()
        os.makedirs(PICTURES, exist_ok=True)
        for file in left_over(machines):
            os.remove(file)
        for file, one in pictures(machines):
            report.write(file, drawing(one) + "\n")
        for file, text in pages_of(machines):
            report.write(file, text)
    except (results.Trouble, plots.NoPlots) as trouble:
        print(f"results_page: {trouble}", file=sys.stderr)
        return 1
    print(f"report: {os.path.relpath(PAGE)}, of {', '.join(machines)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
