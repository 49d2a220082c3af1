# SPDX-License-Identifier: BSD-2-Clause
# trace_page.py: a trace as one HTML page that needs nothing else. It has the report's style
# (bench/page.py), the trace as JSON, uPlot, trace_page.js, and the script of that kind of trace,
# which draws.
import json
import pathlib
from html import escape

from bench import page

HERE = pathlib.Path(__file__).resolve().parent
UPLOT = HERE.parent / "vendor" / "uplot"


def add_where(parser):
    """The option that says where a trace was made; it stands beside each time on the page."""
    parser.add_argument(
        "--where",
        metavar="NAME",
        default="",
        type=" ({})".format,
        help="emulator, nested or metal: stands beside each time",
    )


def html(title, body, data, script, style):
    """`body`: HTML under the title. `data`: what `script` finds as tracePage.data. `style`: CSS."""
    styles = [UPLOT / "uPlot.min.css", HERE / "trace_page.css"]
    scripts = [UPLOT / "uPlot.iife.min.js", HERE / "trace_page.js", script]
    # In a script "<" could begin the script's end.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return page.page_html(
        title,
        [
            *(f"<style>{file.read_text(encoding='utf-8')}</style>" for file in styles),
            f"<style>{style}</style>",
            f"<h1>{escape(title)}</h1>",
            *body,
            f'<script type="application/json" id="data">{text}</script>',
            f"<!-- uPlot: {(UPLOT / 'LICENSE').read_text(encoding='utf-8')} -->",
            *(f"<script>{file.read_text(encoding='utf-8')}</script>" for file in scripts),
        ],
    )


def legend(marks):
    """`marks`: (CSS colour, text)."""
    items = (
        f'<li><i style="background:{colour}"></i>{escape(text)}</li>' for colour, text in marks
    )
    return f'<ul class="legend">{"".join(items)}</ul>'
