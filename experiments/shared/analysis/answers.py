# SPDX-License-Identifier: BSD-2-Clause
# answers.py: what an experiment found out, kept as results/answers/NAME.json: the environment in
# words, and data of which its page, its table and its picture are made without a boot.
import json
import os
import subprocess
import textwrap

from bench import rowfile
from bench.environment import sources

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

WIDTH = 116  # of a page's lines


def file_of(name):
    return os.path.join(TOP, "results", "answers", f"{name}.json")


def commit():
    """That of the boots; and whether there is more than it has, results apart."""

    def said(*words):
        return subprocess.run(
            ["git", "-C", TOP, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = said("status", "--porcelain", "--", ".", ":!results", ":!docs", ":!*.svg", ":!*.md")
    return said("rev-parse", "--short", "HEAD") + (" and changes" if changed else "")


def environment(machine):
    """`machine`: what was emulated, and the kernels."""
    return f"emulator, {machine}; instructions, not cycles; commit {commit()}"


def keep(name, machine, data):
    """`data`: a dictionary that JSON can have."""
    about = {"environment": environment(machine), "sources": sources()}
    rowfile.write({**about, **data}, file_of(name))


def markdown(heads, rows):
    lines = ["| " + " | ".join(texts) + " |" for texts in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def put(page, maker, made):
    """The page with each text of {name: text} between its two marks."""
    for name, text in made.items():
        begin, end = f"<!-- made by {maker}: {name} -->\n", f"\n<!-- the end of {name} -->"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        assert found, f"the page has no {begin!r} and {end!r}"
        page = f"{before}{begin}{text}{end}{after}"
    return page


def paragraph(text, **how):
    """Lines of a page; a number stays with its percent sign. `how`: of textwrap.fill()."""
    how = {"break_long_words": False, "break_on_hyphens": False, **how}
    return textwrap.fill(text.replace(" %", "\u00a0%"), WIDTH, **how).replace("\u00a0", " ")


def write_page(page, put, data):
    """Writes the page, a Path, with what `put(text, data)` makes of it."""
    page.write_text(put(page.read_text(encoding="utf-8"), data), encoding="utf-8")


def kept(name):
    with open(file_of(name), encoding="utf-8") as source:
        return json.load(source)
