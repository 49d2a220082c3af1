# SPDX-License-Identifier: BSD-2-Clause
# counted_picture.py: draws the answer: a cell for each operation and column, less what the bare
# machine counts, and beside it less what the processor retired.
from bench import plots
from experiments.counted.analysis import counted

TITLE = "What a guest's counter counts around one operation (emulator)"
DESC = (
    "Two heat maps of operations by columns: instructions counted less those counted natively, and "
    "less those that "
    "the processor retired."
)
PANELS = {
    "counted, less native's": counted.COLUMNS[1:],
    "counted, less what retired": counted.COLUMNS,
}
LABEL, CELL_WIDTH, ROW, HEAD, GAP, MARGIN, FOOT = 250, 44, 17, 104, 26, 10, 40
STYLE = (
    "text{font-size:11px;fill:currentColor}.head{font-weight:bold}.zero{fill:var(--grid)}"
    ".less{fill:#0072B2}.more{fill:#D55E00}.on{fill:#fff}.line{stroke:var(--grid)}"
)
FAINTEST, DEEPEST = 0.75, 17  # opacity of a difference of 1; what has all colour


def text(x, y, words, name="", more=""):
    kind = f' class="{name}"' if name else ""
    return f'<text x="{x}" y="{y}"{kind}{more}>{plots.escape(words)}</text>'


def number_of(value):
    return f"{'−' if value < 0 else '+' if value > 0 else ''}{abs(float(value)):g}"


def square(x, y, value, mark):
    """One cell; `mark`: something stands beside its figure."""
    middle = ' text-anchor="middle"'
    if value is None:
        return [text(x + CELL_WIDTH / 2, y + 12, "–", "zero", middle)]
    if value == 0 and not mark:
        return [text(x + CELL_WIDTH / 2, y + 12, "0", "zero", middle)]
    deep = min(1, FAINTEST + (1 - FAINTEST) * abs(float(value)) / DEEPEST)
    return [
        f'<rect x="{x + 1}" y="{y + 1}" width="{CELL_WIDTH - 2}" height="{ROW - 2}" rx="2" '
        f'class="{"less" if value < 0 else "more"}" fill-opacity="{deep:.2f}"/>',
        text(x + CELL_WIDTH / 2, y + 12, number_of(value) + mark, "on", middle),
    ]


def heads(x, title, columns):
    out = [text(x, 34, title, "head")]
    for n, column in enumerate(columns):
        at = x + CELL_WIDTH * n + CELL_WIDTH / 2 + 4
        out.append(text(0, 0, column, "", f' transform="translate({at:g} {HEAD - 6}) rotate(-38)"'))
    return out


def lines_of(cells, starts):
    y, out = HEAD, []
    for group, rows in counted.GROUPS.items():
        out += [
            text(MARGIN, y + 12, group, "head"),
            f'<line x1="{MARGIN}" y1="{y + ROW - 1}" x2="{starts[-1][1]}" y2="{y + ROW - 1}" '
            f'class="line"/>',
        ]
        y += ROW
        for row, label in rows.items():
            out.append(text(MARGIN + 8, y + 12, label))
            for (x, _), (panel, columns) in zip(starts, PANELS.items()):
                for n, column in enumerate(columns):
                    cell = cells.get((row, column))
                    native = panel == next(iter(PANELS))
                    value = None if cell is None else cell.instructions if native else cell.retired
                    mark = "*" if native and cell is not None and cell.branches else ""
                    out += square(x + CELL_WIDTH * n, y, value, mark)
            y += ROW
    return out, y


def picture(cells):
    starts, x = [], LABEL
    for columns in PANELS.values():
        starts.append((x, x + CELL_WIDTH * len(columns)))
        x += CELL_WIDTH * len(columns) + GAP
    body = [
        line
        for (at, _), (title, columns) in zip(starts, PANELS.items())
        for line in heads(at, title, columns)
    ]
    rows, y = lines_of(cells, starts)
    width, height = starts[-1][1] + MARGIN + 50, y + FOOT
    body += rows + [
        text(
            MARGIN,
            y + 18,
            "Instructions of kernel and user mode, for one operation; blue: too few, "
            "orange: too many. * and as many branches. – not in the ledger.",
        ),
        text(MARGIN, 16, TITLE, "head"),
    ]
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'role="img" '
                'aria-labelledby="counted-title counted-desc">',
                f'<title id="counted-title">{plots.escape(TITLE)}</title>',
                f'<desc id="counted-desc">{plots.escape(DESC)}</desc>',
                plots.ALONE,
                f"<style>{STYLE}</style>",
                *body,
                "</svg>",
            ]
        )
        + "\n"
    )
