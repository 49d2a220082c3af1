#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# pictures.py: makes the pictures of docs/ from their texts: a graph from NAME.dot (graphviz), a
# terminal from NAME.txt. Each SVG says of which text it was made, so that a test sees an old one
# without graphviz, whose versions draw differently. Usage: pictures.py [NAME ...]
import argparse
import hashlib
import html
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMN, ROW, MARGIN = 7.23, 17, 14  # pixels of a terminal's character, line and border
STYLE = (
    "text{font:12px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;fill:#d4d4d4}"
    ".typed{fill:#8fd18f;font-weight:bold}.left-out{fill:#8a8a8a}.said{fill:#e6c07b}"
)


def mark(source):
    return f"<!-- made from sha256:{hashlib.sha256(source.encode()).hexdigest()} -->"


def is_current(svg, source):
    return mark(source) in svg


def kind_of(line):
    if line.startswith("$ "):
        return "typed", line
    if line.startswith(">>"):
        return "said", line[2:].strip()
    return ("left-out" if line == "..." else ""), line


def terminal(source):
    """A picture of a terminal; lines that begin with "# " are remarks to who edits the text."""
    lines = [kind_of(line) for line in source.splitlines() if not line.startswith("# ")]
    width = 2 * MARGIN + COLUMN * max(len(text) for _, text in lines)
    height = 2 * MARGIN + ROW * len(lines)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" rx="8" fill="#1e1e1e"/>',
    ]
    for number, (kind, text) in enumerate(lines):
        if text:
            # A fixed length keeps columns in line, whatever font there is.
            out.append(
                f'<text x="{MARGIN}" y="{MARGIN + ROW * number + 12}" class="{kind}" '
                f'textLength="{COLUMN * len(text):.1f}" xml:space="preserve">'
                f"{html.escape(text, quote=False)}</text>"
            )
    return "\n".join(out + ["</svg>"]) + "\n"


def graph(source):
    done = subprocess.run(
        ["dot", "-Tsvg"], input=source, capture_output=True, text=True, check=True
    )
    return done.stdout[done.stdout.index("<svg") :]


MAKERS = {".dot": graph, ".txt": terminal}


def texts():
    """{name of the picture: (path of its text, maker)}."""
    found = {}
    for name in sorted(os.listdir(HERE)):
        stem, ending = os.path.splitext(name)
        if ending in MAKERS:
            found[stem] = (os.path.join(HERE, name), MAKERS[ending])
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/ from their texts.")
    parser.add_argument("names", nargs="*", help="of the pictures; default: all")
    names = parser.parse_args().names
    for name, (path, maker) in texts().items():
        if not names or name in names:
            source = read(path)
            with open(os.path.join(HERE, name + ".svg"), "w", encoding="utf-8") as file:
                file.write(mark(source) + "\n" + maker(source))


if __name__ == "__main__":
    sys.exit(main())
