# SPDX-License-Identifier: BSD-2-Clause
# report.py: results.json of one or more machines to report.html, or with --text to tables on the
# console. Runs of one machine are merged; machines are kept apart. Debian's Python, for matplotlib.
import argparse
import os
import sys

from markupsafe import Markup

from bench import added, columns, leads, page, plots, published, results, summary, textpage
from bench.cells import Drawn, Machine, OnPage, Table

TITLE = "PMUvisor: what virtualizing the PMU costs"
COLLECTED = Markup(", then <code>make collect</code>")  # on a bare machine
SUMMED = (
    "The columns of a machine, beside what the thesis published. "
    "Ratios are each column's own figure over native's and over KVM's: so the thesis's "
    "ratios of cycles or time can be read beside ratios of counts, while the figures "
    "themselves cannot be compared."
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


def by_machine(parts, names=results.COLUMNS):
    """Merges runs of one machine; gives the machines in the order of the files, and notes. Two
    machines can have the same processor: what one run could not have brought is kept apart.
    `names`: of the columns that are taken. results.Trouble: some of them are not alike."""
    groups, notes = [], []
    if set(names) != set(results.COLUMNS):
        parts = [results.only(part, names) for part in parts]
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
    for _, group in groups:
        merged, said = results.merge(group) if len(group) > 1 else (group[0], [])
        results.check_alike(merged)
        machines.append(Machine(merged))
        notes += said
    return numbered(machines), notes


def numbered(machines):
    """The same machines; those of the same kind and processor have the numbers of their sets."""
    whats = [(one.environment["kind"], one.environment["cpu"]) for one in machines]
    for at, what in enumerate(whats):
        machines[at].number = whats[: at + 1].count(what) if whats.count(what) > 1 else 0
    return machines


def name_of(machine):
    environment = machine.environment
    return f"{environment['kind']}: {environment['cpu'] or 'processor not known'}" + (
        f", set {machine.number}" if machine.number else ""
    )


def environment_pairs(machine):
    found, tool, run = machine.environment, machine.results["tool"], machine.results.get("run")
    pairs = [(words, found[key]) for key, words in results.ENVIRONMENT.items() if found[key]]
    version = (tool["version"] or "version not known") + ", quick run" * tool["quick"]
    pairs += [("tick", f"{found['tick']} (none)"), ("this project", version)]
    if run:
        took = f"{run['seconds'] / 60:.1f} min, {run['jobs']} at once on {run['processors']}"
        part = "" if run["whole"] else ", a part of the boots"
        pairs.append(("took", f"{took} processors{part}"))
    pairs.append(("schema of results", str(machine.results["schema"])))
    for name, column in machine.results["columns"].items():
        why = f"{column['status']}: {column['why']}"
        text = column["detail"] or "ok" if column["status"] == "ok" else why
        pairs.append((f"column {columns.head(name, machine)}", text))
    return pairs


def shown(section, machine, prefix):
    """What the page has of a section: parts with figures, and a sentence on the others. Nothing
    where only texts would be left of a section that has figures."""
    parts, absent = [], {}
    for part in section.parts(machine):
        part = part.what if isinstance(part, OnPage) else part
        if isinstance(part, Drawn):
            said, part = part.text, part.draw(prefix)
            if part:
                part.text = f"{said} {part.text}".strip()
        why = part.not_run() if isinstance(part, Table) else None
        if why is not None:
            absent.setdefault(why, []).append(part.title)
        elif part:
            parts.append(part)
    only_text = all(isinstance(part, str) for part in parts)
    if only_text and (absent or section.what["folder"] != "bench"):
        return []
    return parts + [
        f"Not run: {'; '.join(titles)}" + (f" ({why})." if why else ".")
        for why, titles in absent.items()
    ]


def words_of(machine, prefix):
    """What the page's template wants to know of a machine. Raises plots.NoPlots."""
    number = f", set {machine.number}" if machine.number else ""
    sections = [(one, shown(one, machine, prefix)) for one in added.sections()]
    return {
        "name": name_of(machine),
        "kind": f" ({machine.environment['kind']}{number})",
        "prefix": prefix,
        "top": summary.first(machine),
        "legend": summary.legend(machine),
        "where": summary.where(machine),
        "collected": COLLECTED * (machine.environment["kind"] == "metal"),
        "leads": [(one, one.draw(f"{prefix}lead-")) for one in leads.leads(machine)],
        "sentences": summary.results_of(machine),
        "environment": environment_pairs(machine),
        "sections": [(section, parts) for section, parts in sections if parts],
        "absent": [section.short for section, parts in sections if not parts],
    }


def beside(machines):
    """The machines side by side, where there are several."""
    named = [(name_of(machine), machine) for machine in machines]
    return [leads.side_by_side(named)] if len(named) > 1 else []


def html_of(machines, notes=()):
    quoted = [source for section in added.sections() for source in section.sources]
    return page.render(
        "report.html",
        title=TITLE,
        notes=notes,
        beside=beside(machines),
        summed=SUMMED,
        machines=[words_of(machine, f"m{at}-") for at, machine in enumerate(machines, 1)],
        sources=[
            (source["name"], f"{source['source']}. Machine: {source['machine']}.")
            for source in (published.THESIS, *quoted, published.MEDIATED)
        ],
    )


def text_of(machines):
    out = [line for table in beside(machines) for line in (*textpage.lines_of(table), "")]
    for machine in machines:
        out += [name_of(machine), "#" * len(name_of(machine))]
        legend = [": ".join(pair) for pair in summary.legend(machine)]
        for part in [*summary.first(machine), *legend, summary.where(machine)]:
            lines = textpage.lines_of(part) if isinstance(part, Table) else textpage.paragraph(part)
            out += lines + [""] * (part not in legend[:-1])
        for name, sentence in summary.results_of(machine):
            out += textpage.paragraph(f"{name}: {sentence}")
        out.append("")
        for section in added.sections():
            for part in section.parts(machine):
                if isinstance(part, Drawn):
                    part = part.text
                if isinstance(part, str):
                    out += [*textpage.paragraph(part), ""] if part else []
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
    parser.add_argument(
        "--columns",
        default=",".join(results.COLUMNS),
        metavar="C,C",
        help="the columns to report (default: all)",
    )
    arguments = parser.parse_args()
    names = arguments.columns.split(",")
    for name in names:
        if name not in results.COLUMNS:
            parser.error(f"unknown column '{name}', wanted some of {', '.join(results.COLUMNS)}")
    try:
        machines, notes = by_machine([results.load(name) for name in arguments.results], names)
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
