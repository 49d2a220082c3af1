# SPDX-License-Identifier: BSD-2-Clause
# report.py: results.json of one or more machines to report.html, or with --text to tables on the
# console. Runs of one machine are merged; machines are kept apart. Debian's Python, for matplotlib.
import argparse
import os
import sys

from bench import added, leads, page, plots, published, results, summary, textpage
from bench.cells import Drawn, Machine, OnPage, Table
from bench.facts import Facts

TITLE = "PMUvisor: the measurements"
SUMMED = (
    f"The columns {summary.ALL} on one machine in one run, beside what the thesis published. "
    "Ratios are each column's own figure over native's and over KVM's: so the thesis's "
    "ratios of cycles or time can be read beside ratios of counts, while the figures "
    "themselves cannot be compared."
)
ENVIRONMENT = (
    ("cpu", "processor"),
    ("emulator", "emulator"),
    ("kernel", "Linux"),
    ("kvm", "KVM"),
    ("compiler", "compiler"),
    ("mitigations", "kernel options"),
    ("root_mitigations", "PMUvisor's mitigations"),
    ("microcode", "microcode"),
    ("bios", "BIOS"),
    ("apic", "local APIC"),
    ("processors", "processors online"),
    ("turbo", "turbo"),
    ("frequency", "frequency"),
    ("date", "date"),
)


def belongs(part, group):
    """Why a set of results is no part of the machine of these; "" where it is one."""
    ours = results.ok_columns(part)
    for other in group:
        both = [name for name in results.ok_columns(other) if name in ours]
        if both:
            return f"column {', '.join(both)} is in both"
        for key, mine, its in results.differences(part, other):
            return f"{key} is '{mine}' in one and '{its}' in the other"
    return ""


def by_machine(parts):
    """Merges runs of one machine; gives the machines in the order of the files, and notes. Two
    machines can have the same processor: what one run could not have brought is kept apart."""
    groups, notes = [], []
    for part in parts:
        what = (part["environment"]["kind"], part["environment"]["cpu"])
        alike = [group for known, group in groups if known == what]
        whys = [belongs(part, group) for group in alike]
        if "" in whys:
            alike[whys.index("")].append(part)
            continue
        if whys:
            notes.append(
                f"results of the same processor, {what[1] or 'not known'}, are kept apart "
                f"as sets 1 to {len(alike) + 1}: {whys[-1]}"
            )
        groups.append((what, [part]))
    machines = []
    for at, (what, group) in enumerate(groups):
        merged, said = results.merge(group) if len(group) > 1 else (group[0], [])
        machine = Machine(merged)
        if [known for known, _ in groups].count(what) > 1:
            machine.number = sum(known == what for known, _ in groups[: at + 1])
        machines.append(machine)
        notes += said
    return machines, notes


def name_of(machine):
    environment = machine.environment
    return f"{environment['kind']}: {environment['cpu'] or 'processor not known'}" + (
        f", set {machine.number}" if machine.number else ""
    )


def environment_pairs(machine):
    found = machine.environment
    pairs = [("kind", found["kind"])]
    pairs += [(words, found[key]) for key, words in ENVIRONMENT if found[key]]
    pairs.append(("tick", f"{found['tick']} (none)"))
    tool = machine.results["tool"]
    pairs.append(
        (
            "this project",
            (tool["version"] or "version not known") + (", quick run" if tool["quick"] else ""),
        )
    )
    run = machine.results.get("run")
    if run:
        pairs.append(
            (
                "took",
                f"{run['seconds'] / 60:.1f} min, {run['jobs']} at once on "
                f"{run['processors']} processors"
                + ("" if run["whole"] else ", a part of the boots"),
            )
        )
    pairs.append(("schema of results", str(machine.results["schema"])))
    for name, column in machine.results["columns"].items():
        text = (
            column["detail"] if column["status"] == "ok" else f"{column['status']}: {column['why']}"
        )
        pairs.append((f"column {name}", text or column["status"]))
    return pairs


def part_html(part, prefix):
    """Raises plots.NoPlots."""
    style = ""
    if isinstance(part, OnPage):
        part, style = part.what, part.style
    if isinstance(part, str):
        return page.paragraph(part, style)
    if isinstance(part, Facts):
        return page.facts_html(part, prefix + "hold")
    if isinstance(part, Drawn):
        figure = part.draw(prefix)
        return page.figure_html(figure) if figure else ""
    return page.table_html(part, prefix)


def machine_html(machine, prefix):
    """The sections of one machine. Raises plots.NoPlots."""
    body = []
    for section in added.sections():
        title = section.title.format(name_of(machine))
        body.append(f'<h2 id="{prefix}{section.key}">{page.escape(title)}</h2>')
        body += filter(None, (part_html(part, prefix) for part in section.parts(machine)))
    return body


def sources_html():
    quoted = [source for section in added.sections() for source in section.sources]
    pairs = [
        (source["name"], f"{source['source']}. Machine: {source['machine']}.")
        for source in (published.THESIS, *quoted, published.KVM_2017, published.MEDIATED)
    ]
    return [
        '<h2 id="sources">Published figures</h2>',
        page.paragraph(
            "Quoted as published. Ratios of them, and what PMIs add over the run without any, are "
            "calculated here from the published figures."
        ),
        page.pairs_html(pairs),
    ]


def html_of(machines, notes=()):
    prefixes = [f"m{at}-" for at in range(1, len(machines) + 1)]
    body = [f"<h1>{page.escape(TITLE)}</h1>"]
    body += [page.paragraph(f"{note[0].upper()}{note[1:]}.") for note in notes]
    for prefix, machine in zip(prefixes, machines):
        if len(machines) > 1:
            body.append(f"<h3>{page.escape(name_of(machine))}</h3>")
        body.append(page.paragraph(summary.where(machine)))
        body += [page.paragraph(text) for text in summary.unlike(machine)]
        body.append(
            page.leads_html(
                [
                    (one.draw(f"{prefix}lead-"), one.sentence, one.command)
                    for one in leads.leads(machine)
                ]
            )
        )
    entries = []
    for prefix, machine in zip(prefixes, machines):
        number = f", set {machine.number}" if machine.number else ""
        kind = f" ({machine.environment['kind']}{number})" if len(machines) > 1 else ""
        entries += [
            (prefix + section.key, f"{section.short}{kind}") for section in added.sections()
        ]
    body.append(
        page.contents_html(
            [
                ("in-sentences", "In sentences"),
                *entries,
                ("environment", "Environment"),
                ("sources", "Published figures"),
            ]
        )
    )
    body.append(page.paragraph(SUMMED, "lead"))
    body.append('<h2 id="in-sentences">In sentences</h2>')
    for machine in machines:
        if len(machines) > 1:
            body.append(f"<h3>{page.escape(name_of(machine))}</h3>")
        body.append(page.pairs_html(summary.results_of(machine)))
    body.append('<h2 id="environment">Environment and versions</h2>')
    for machine in machines:
        body.append(f"<h3>{page.escape(name_of(machine))}</h3>")
        body.append(page.pairs_html(environment_pairs(machine)))
    for prefix, machine in zip(prefixes, machines):
        body += machine_html(machine, prefix)
    return page.page_html(TITLE, body + sources_html())


def text_of(machines):
    out = []
    for machine in machines:
        out += [name_of(machine), "#" * len(name_of(machine))]
        for text in [summary.where(machine), *summary.unlike(machine)]:
            out += textpage.paragraph(text) + [""]
        for name, sentence in summary.results_of(machine):
            out += textpage.paragraph(f"{name}: {sentence}")
        out.append("")
        for section in added.sections():
            for part in section.parts(machine):
                if isinstance(part, str):
                    out += [*textpage.paragraph(part), ""]
                elif isinstance(part, Facts):
                    out += [*textpage.fact_lines(part), ""]
                elif isinstance(part, Table):
                    out += [*textpage.lines_of(part), ""]
    return "\n".join(out)


def write(name, text):
    os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
    with open(name, "w", encoding="utf-8") as out:
        out.write(text)


def main():
    parser = argparse.ArgumentParser(description="Makes the report of one or more results.json.")
    parser.add_argument("results", nargs="+", metavar="RESULTS.json")
    parser.add_argument(
        "--out",
        default="bench/out/report.html",
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    parser.add_argument("--text", action="store_true", help="tables on the console, and no page")
    arguments = parser.parse_args()
    try:
        machines, notes = by_machine([results.load(name) for name in arguments.results])
        for note in notes:
            print(f"report: {note}", file=sys.stderr)
        if arguments.text:
            print(text_of(machines))
        else:
            write(arguments.out, html_of(machines, notes))
            print(f"report: {arguments.out}")
    except (results.Trouble, plots.NoPlots) as trouble:
        print(f"report: {trouble}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever reads the tables has enough; nothing is to be flushed at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as trouble:
        print(
            f"report: {trouble.filename or arguments.out}: {trouble.strerror}; give a place that "
            "can be written with --out",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
