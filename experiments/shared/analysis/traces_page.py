# SPDX-License-Identifier: BSD-2-Clause
# traces_page.py: what the pages of the traces have beside the report's (bench/page.py): tables
# whose columns sort (tables.js), and styles, scripts and data inside.
import json
from html import escape


def add_where(parser):
    """The option that says where a trace was made; it stands beside each time on the page."""
    parser.add_argument(
        "--where",
        metavar="NAME",
        default="",
        type=" ({})".format,
        help="emulator, nested or metal: stands beside each time",
    )


def table(name, title, heads, rows, styles, under=""):
    """`heads`: (text, what a script calls the column; None: nothing does), the first one of the
    rows' names. `rows`: (number in the page's data, texts). `styles`: classes of columns, by their
    texts. `under`: HTML below the title."""
    classes = [f' class="{styles[text]}"' if text in styles else "" for text, _ in heads]
    classes[0] = ' class="text"'
    out = [
        f'<h2 id="{name}">{title}</h2>',
        under,
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}"><table '
        f'data-table="{name}"><thead><tr>',
    ]
    for style, (text, key) in zip(classes, heads):
        known = "" if key is None else f' data-sum="{escape(key)}"'
        out.append(f'<th scope="col"{style}{known}>{escape(text)}</th>')
    out.append("</tr></thead><tbody>")
    for number, (first, *others) in rows:
        out.append(
            f'<tr class="main" data-number="{number}"><th scope="row">{escape(first)}</th>'
            + "".join(f"<td{style}>{escape(text)}</td>" for style, text in zip(classes[1:], others))
            + "</tr>"
        )
    return "".join(out) + "</tbody></table></div>"


def styles(files):
    return [f"<style>{file.read_text(encoding='utf-8')}</style>" for file in files]


def scripts(data, files):
    """`data`: what the scripts find in the element #data, which JSON can say."""
    # In a script "<" could begin the script's end.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return [
        f'<script type="application/json" id="data">{text}</script>',
        *(f"<script>{file.read_text(encoding='utf-8')}</script>" for file in files),
    ]
