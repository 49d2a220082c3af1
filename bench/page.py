# SPDX-License-Identifier: BSD-2-Clause
# page.py: the report as one HTML page that needs nothing else: style and figures are inside, and no
# script. For light and dark, paper, and screens 360 pixels wide, where tables and figures scroll.
from html import escape

from bench.facts import BROKEN, HOLDS

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --page: #ffffff; --band: #f3f5f8;
  --line: #d0d7de; --grid: #c3cad2; --link: #0a58a8; --theirs: #fbf6ea; --good: #116329;
  --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a3acb7; --page: #14171b;
  --band: #1e2329; --line: #39414b; --grid: #4a535e; --link: #7cb7f5; --theirs: #27241b;
  --good: #6fd08c; --bad: #ff9d8f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 78rem; color: var(--ink); background: var(--page);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-top: .5rem;
  border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .4rem; }
p { margin: .4rem 0 .8rem; max-width: 46rem; }
a { color: var(--link); }
nav ul { list-style: none; margin: .5rem 0; padding: 0; display: flex; flex-wrap: wrap;
  gap: .15rem 1rem; font-size: .9rem; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .3rem 1rem;
  margin: .5rem 0; max-width: 60rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.lead { color: var(--soft); }
.scroll { overflow-x: auto; margin: .3rem 0 .2rem; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }
th, td { padding: .16rem .4rem; text-align: right; white-space: nowrap; }
th[scope=row], th.text { text-align: left; }
thead th { border-bottom: 1px solid var(--line); vertical-align: bottom; font-weight: 600;
  white-space: normal; }
thead tr.groups th { text-align: left; color: var(--soft); font-weight: 400; }
tbody th { font-weight: 600; }
tr.main > * { border-top: 1px solid var(--line); }
tr.sub > * { color: var(--soft); }
tr.sub th { font-weight: 400; padding-left: 1.6rem; }
tr.group th { text-align: left; padding-top: .7rem; }
.theirs { background: var(--theirs); }
.first { border-left: 2px solid var(--line); }
.missing { color: var(--soft); font-style: italic; }
.notes { font-size: .82rem; color: var(--soft); margin: .2rem 0 0; padding-left: 1.6rem;
  max-width: 60rem; overflow-wrap: anywhere; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
td.range { white-space: normal; min-width: 4rem; }
td.wrap { white-space: normal; text-align: left; min-width: 11rem; }
summary > h3 { display: inline; }
details { margin: .6rem 0; }
details > .scroll { margin-top: .6rem; }
code { font-size: .84rem; overflow-wrap: anywhere; }
.leads {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); gap: 0 1.5rem;
}
.leads h3 { margin: .6rem 0 .3rem; } .leads p { font-size: .9rem; margin: .3rem 0; }
.leads svg { width: 100%; height: auto; display: block; }
.leads svg text { font-family: "DejaVu Sans", Verdana, sans-serif !important; }
figure { margin: .8rem 0 1.2rem; }
figcaption { font-weight: 600; margin-bottom: .3rem; font-size: .95rem; }
figure svg text { font-family: "DejaVu Sans", Verdana, sans-serif !important; }
figure svg { display: block; width: 100%; min-width: 34rem; max-width: 52rem; height: auto; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  h1 { font-size: 1.35rem; } body { padding: .75rem; } }
@media print { :root { color-scheme: light; }
  body { max-width: none; font-size: 9.5pt; padding: 0; }
  nav { display: none; } details::details-content { content-visibility: visible; }
  .scroll { overflow: visible; } table { font-size: 6.6pt; }
  th, td { padding: .1rem .25rem; } figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  figure svg { min-width: 0; max-width: 100%; } }
"""


def paragraph(text, style=""):
    attribute = f' class="{style}"' if style else ""
    return f"<p{attribute}>{linked(text)}</p>"


def linked(text):
    """Escaped, with its web addresses as links."""
    words = []
    for word in text.split(" "):
        address = word.rstrip(".,;:)") if word.startswith("https://") else ""
        link = f'<a href="{escape(address)}">{escape(address)}</a>' if address else ""
        words.append(link + escape(word[len(address) :]))
    return " ".join(words)


def span_classes(table):
    """For each column: whether it begins a group, and whether it is somebody else's."""
    classes, at = [], 0
    for text, span in table.groups:
        theirs = text.startswith("published")
        for place in range(span):
            classes.append(
                " ".join(
                    name
                    for name, on in (("theirs", theirs), ("first", place == 0 and at > 0))
                    if on
                )
            )
        at += span
    return classes


def cell_html(table, name, cell, style):
    kinds = " ".join(
        word for word in (style, cell.kind if cell.kind in ("missing", "range") else "") if word
    )
    note = f'<sup><a href="#{name}-n{cell.note}">{cell.note}</a></sup>' if cell.note else ""
    attribute = f' class="{kinds}"' if kinds else ""
    return f"<td{attribute}>{escape(cell.text)}{note}</td>"


def head_html(table, styles):
    out = ["<thead>", '<tr class="groups"><td></td>']
    at = 0
    for text, span in table.groups:
        style = f' class="{styles[at]}"' if styles[at] else ""
        out.append(f'<th scope="colgroup" colspan="{span}"{style}>{escape(text)}</th>')
        at += span
    out.append("</tr><tr><td></td>")
    for head, style in zip(table.heads, styles):
        attribute = f' class="{style}"' if style else ""
        out.append(f'<th scope="col"{attribute}>{escape(head)}</th>')
    return "".join(out) + "</tr></thead>"


def table_html(table, prefix=""):
    """A table with its reading and its notes."""
    name = prefix + table.key
    styles = span_classes(table)
    out = [f'<details><summary><h3 id="{name}">{escape(table.title)}</h3></summary>']
    out += [paragraph(text) for text in table.reading]
    out += [f"<p><code>{escape(table.command)}</code></p>"] if table.command else []
    if not table.rows:
        return (
            "".join(out)
            + ("" if table.reading else paragraph("Not run.", "missing"))
            + "</details>"
        )
    out.append(f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}"><table>')
    out.append(head_html(table, styles))
    out.append("<tbody>")
    for row in table.rows:
        if row.kind == "group":
            out.append(
                f'<tr class="group"><th scope="colgroup" colspan="{len(table.heads) + 1}">'
                f"{escape(row.label)}</th></tr>"
            )
            continue
        out.append(f'<tr class="{row.kind}"><th scope="row">{escape(row.label)}</th>')
        out += [cell_html(table, name, cell, style) for cell, style in zip(row.cells, styles)]
        out.append("</tr>")
    out.append("</tbody></table></div>")
    if table.notes:
        out.append('<ol class="notes">')
        out += [
            f'<li id="{name}-n{at}">{linked(note)}</li>' for at, note in enumerate(table.notes, 1)
        ]
        out.append("</ol>")
    return "\n".join(out) + "</details>"


def facts_html(facts, name):
    out = [
        f'<details><summary><h3 id="{name}">What must hold</h3></summary>',
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}"><table>',
        '<thead><tr><th scope="col" class="text">what</th>'
        '<th scope="col" class="text">wanted</th><th scope="col" class="text">found</th>'
        '<th scope="col">verdict</th></tr></thead><tbody>',
    ]
    styles = {HOLDS: "good", BROKEN: "bad"}
    for what, wanted, found, verdict in facts:
        style = styles.get(verdict, "missing")
        out.append(
            f'<tr class="main"><td class="wrap">{escape(what)}</td><td class="wrap">'
            f'{escape(wanted)}</td><td class="wrap">{escape(found)}</td>'
            f'<td class="{style}">{escape(verdict)}</td></tr>'
        )
    return "\n".join(out) + "</tbody></table></div></details>"


def figure_html(figure):
    return (
        f"<figure><figcaption>{escape(figure.title)}</figcaption>"
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(figure.title)}">'
        f"{figure.svg}</div></figure>"
    )


def leads_html(leads):
    """leads: (plots.Figure or None, sentence, command)."""
    out = ['<div class="leads">']
    for figure, text, command in leads:
        out.append(
            f"<section><h3>{escape(figure.title)}</h3>{figure.svg}{paragraph(text)}"
            f"<p><code>{escape(command)}</code></p></section>"
            if figure
            else ""
        )
    return "\n".join(out) + "</div>"


def pairs_html(pairs):
    return (
        "<dl>"
        + "".join(f"<dt>{escape(name)}</dt><dd>{linked(text)}</dd>" for name, text in pairs)
        + "</dl>"
    )


def contents_html(entries):
    return (
        '<nav aria-label="Contents"><ul>'
        + "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in entries)
        + "</ul></nav>"
    )


def page_html(title, body):
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )
