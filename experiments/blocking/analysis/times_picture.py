# SPDX-License-Identifier: BSD-2-Clause
# times_picture.py: draws the thesis's Figures 2.1, 3.1 and 3.2 of the emulator's logs: who runs,
# when NMIs are blocked, when the PMI is masked. A span is as wide as any other, so that a picture
# changes where the order does.
import html

REGION = 2701  # tests/kernel/test_times.c
LINES = {  # its boots, and what is drawn of each
    "native": "On the machine (thesis, Figure 2.1)",
    "prolonged": "Under a hypervisor that leaves both as they are (Figure 3.1)",
    "secured": "Under PMUvisor (Figure 3.2)",
}
LABEL, WIDTH, SPAN, ROW, HEAD, MARGIN = 110, 760, 40, 22, 26, 12
STYLE = (
    "text{font:12px 'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#222}.head{font-weight:bold}"
    ".guest{fill:#cfe3f5}.root{fill:#f3cfa8}.on{fill:#555}.line{stroke:#bbb}.nmi{fill:#b3261e}"
)


def text(x, y, words, name=""):
    return (
        f'<text x="{x}" '
        f'y="{y}"{name and f" class={chr(34)}{name}{chr(34)}"}>{html.escape(words)}</text>'
    )


def bar(x, y, width, name):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{ROW - 8}" class="{name}"/>'


def panel(top, title, native, spans):
    """The drawing of one boot from there on, and where it ends."""
    out, step = [text(MARGIN, top + 14, title, "head")], min(SPAN, WIDTH // len(spans))
    rows = [
        ("runs", lambda span: "root" if span.root else "guest"),
        ("NMIs blocked", lambda span: span.blocked and "on"),
        ("PMI masked", lambda span: span.masked and "on"),
    ]
    for number, (label, kind) in enumerate(rows):
        y = top + HEAD + ROW * number
        out += [
            text(MARGIN, y + 11, label),
            f'<line x1="{LABEL}" y1="{y + ROW - 8}" x2="{LABEL + step * len(spans)}" '
            f'y2="{y + ROW - 8}" class="line"/>',
        ]
        out += [
            bar(LABEL + step * n, y, step, kind(span)) for n, span in enumerate(spans) if kind(span)
        ]
    y = top + HEAD + ROW * len(rows)
    out += [
        f'<path d="M{LABEL + step * n} {y - 4}l-4 9h8z" class="nmi"/>'
        for n, span in enumerate(spans)
        if span.nmi
    ]
    out.append(text(MARGIN, y + 6, "an NMI comes", ""))
    who = "blue: the system" if native else "blue: the guest; orange: root mode"
    out.append(text(LABEL + WIDTH - 220, top + 14, who))
    return out, y + 30


def picture(runs):
    """The SVG of {name of LINES: spans}."""
    body, top = [], MARGIN
    for name, title in LINES.items():
        part, top = panel(top, title, name == "native", runs[name])
        body += part
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + WIDTH + MARGIN}" '
                f'height="{top}" '
                f'viewBox="0 0 {LABEL + WIDTH + MARGIN} {top}">',
                f"<style>{STYLE}</style>",
                '<rect width="100%" height="100%" fill="#fff"/>',
                *body,
                "</svg>",
            ]
        )
        + "\n"
    )
