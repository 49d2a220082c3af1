# SPDX-License-Identifier: BSD-2-Clause
# page.py: HTML pages that need nothing else, by the templates beside it: style and figures are
# inside, and no script. For light and dark, paper, and screens 360 pixels wide, where tables and
# figures scroll.
import os

import jinja2
from markupsafe import Markup

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(os.path.dirname(os.path.abspath(__file__))),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
MACROS = TEMPLATES.get_template("macros.html").module


def paragraph(text, style=""):
    return str(MACROS.paragraph(text, style))


def figure_html(figure):
    return str(MACROS.figure(figure))


def render(template, **words):
    return TEMPLATES.get_template(template).render(words)


def page_html(title, body):
    """A page of these pieces of HTML."""
    return render("page.html", title=title, body=Markup("\n".join(body)))
