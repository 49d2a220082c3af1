# SPDX-License-Identifier: BSD-2-Clause
# plots.py: the report's figures as SVG text, by matplotlib. Text stays text, colours that depend on
# light or dark come from the page, ids are unique to each figure. Gives "" where there is no data.
import hashlib
import io
import itertools
import math
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

from bench.cells import number
from bench.results import COLUMNS

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
COLUMN_COLOURS = {
    "native": "#8a8a8a",
    "kvm": "#D55E00",
    "kvm-new": "#CC79A7",
    "kvm-mediated": "#009E73",
    "intercept": "#E69F00",
    "msr": "#56B4E9",
    "thesis": "#332288",
    "msr+nmi": "#0072B2",
}
COLUMN_COLOURS = {name: COLUMN_COLOURS.get(name, "#5f7fa8") for name in COLUMNS}
PART_COLOURS = ("#009E73", "#7fcfb5", "#CC79A7", "#e8bfd6")
ROOT_COLOUR = "#9a9a9a"
# Exit reasons that PMUs cause have their colour in every figure; others take the rest in turn.
REASON_COLOURS = {
    "WRMSR": "#56B4E9",
    "RDMSR": "#E69F00",
    "RDPMC": "#F0E442",
    "exception or NMI": "#D55E00",
    "CPUID": "#0072B2",
    "external interrupt": "#009E73",
    "APIC write": "#CC79A7",
    "EPT violation": "#5f7fa8",
}
MORE_COLOURS = ("#b59f3b", "#7f7f7f", "#c9c9c9", "#332288", "#882255", "#44AA99")
MAX_REASONS = 8
# Colours that stand for the page's own, and are replaced by them.
INK, FAINT = "#010203", "#040506"
PLACEHOLDERS = {INK: "currentColor", FAINT: "var(--grid)"}
WIDTH = 7.6  # inches; the page scales
NARROW = 6.2  # of a figure beside which another one fits
NAME_WIDTH = 20  # letters of a column's name in one line
SEEN = 0.01  # of the longest bar: a shorter part is not seen, and has no colour
FONT = "DejaVu Sans"  # what text is measured with; page.py says what stands in for it


class NoPlots(Exception):
    """matplotlib is not there; the text is one line for the user."""


@dataclass
class Figure:
    key: str
    title: str
    desc: str  # for readers who do not see it
    svg: str
    text: str = ""  # what is said of it


def library():
    try:
        import matplotlib

        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        raise NoPlots(
            "no plots: matplotlib is missing for this Python; install python3-matplotlib "
            "and use /usr/bin/python3"
        ) from None
    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "font.family": FONT,
            "font.size": 9,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.titlesize": 9,
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "grid.color": FAINT,
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "legend.frameon": False,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "legend.fontsize": 9,
        }
    )
    return pyplot


ALONE_WIDTH = ' width="600"'
# What a picture that stands alone has in place of the page's colours.
ALONE = (
    "<style>svg{color:#1b1f24;--grid:#c3cad2;font-family:'DejaVu Sans',Verdana,sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e9ed;--grid:#4a535e}}</style>"
)


def drawn(title, desc, figure):
    """What a figure shows, as lines of text: words, points and colours, but not how matplotlib
    writes them."""
    yield from (title, desc)
    for axes in figure.axes:
        legend = axes.get_legend()
        yield from (
            axes.get_title("left"),
            axes.get_xlabel(),
            axes.get_ylabel(),
            axes.get_xscale(),
            axes.get_yscale(),
        )
        yield from (
            text.get_text() for text in [*axes.texts, *(legend.get_texts() if legend else [])]
        )
        yield from (str(line.get_color()) for line in axes.lines)
        points = [(axes.get_xlim(), axes.get_ylim())]
        points += [line.get_xydata() for line in axes.lines]
        points += [patch.get_bbox().get_points() for patch in axes.patches]
        for collection in axes.collections:  # dots have offsets, an area has one and a path
            offsets = collection.get_offsets()
            points += (
                [offsets]
                if len(offsets) > 1
                else [path.vertices for path in collection.get_paths()]
            )
        yield from (
            " ".join(f"{value:.6g}" for point in some for value in point) for some in points
        )


MARK = re.compile(r"<!-- made from sha256:[0-9a-f]{64} -->")


def mark_of(svg):
    """The line of a picture that stands alone that says of what it was made; "" where there is
    none."""
    found = MARK.search(svg)
    return found[0] if found else ""


SVG = "{http://www.w3.org/2000/svg}"
ElementTree.register_namespace("", SVG[1:-1])
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")


def unwrap(element):
    """Replace groups that only nest by their contents, and remove curves that draw nothing."""
    children = []
    for child in element:
        unwrap(child)
        if child.tag == SVG + "g" and set(child.attrib) <= {"id"}:
            children += child
        elif child.get("style") != "fill: none":
            children.append(child)
    element[:] = children


def small(text):
    """The SVG with one element on each line and five digits for each coordinate."""
    root = ElementTree.fromstring(text)
    unwrap(root)
    for path in root.iter(SVG + "path"):
        shape = re.sub(r"-?[0-9.]+", lambda found: f"{float(found[0]):.5g}", path.get("d"))
        path.set("d", " ".join(shape.split()))
    ElementTree.indent(root, "")
    return ElementTree.tostring(root, encoding="unicode")


def is_kept(file, svg):
    """Whether the file of a picture shows what this one does."""
    with open(file, encoding="utf-8") as source:
        kept = mark_of(source.read())
    return kept != "" and kept == mark_of(svg)


def svg_of(key, title, desc, figure, pyplot, alone=False):
    """The figure as an element of a page: no prologue, no fixed size, ids of its own. `alone`: as a
    small file, with a mark of what it shows, because matplotlib's versions write it differently."""
    made_from = hashlib.sha256("\n".join(drawn(title, desc, figure)).encode()).hexdigest()
    pyplot.rcParams["svg.hashsalt"] = key
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, words in PLACEHOLDERS.items():
        text = text.replace(colour, words)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{key}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{key}-\1)", text)
    text = re.sub(r'href="#([^"]+)"', rf'href="#{key}-\1"', text)
    head = re.match(r"<svg[^>]*>", text)[0]
    box = re.search(r'viewBox="([^"]+)"', head)[1]
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{box}"{ALONE_WIDTH * alone} role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{escape(title)}</title>'
        f'<desc id="{key}-desc">{escape(desc)}</desc>' + (ALONE if alone else "")
    )
    text = opening + text[len(head) :].strip()
    if alone:
        text = f"{small(text)}\n<!-- made from sha256:{made_from} -->"
    return Figure(key, title, desc, text)


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def beside(axes, text, width, place, **more):
    """The text at the end of a bar."""
    axes.annotate(
        text, (width, place), xytext=(4, 0), textcoords="offset points", va="center", **more
    )


def name_bars(axes, names, most, room):
    """The names of horizontal bars, the first on top, and no scale."""
    axes.set_yticks(range(len(names)), names)
    if not axes.yaxis_inverted():  # panels may share it
        axes.invert_yaxis()
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.set_xlim(0, (most or 1) * room)
    axes.tick_params(axis="y", length=0)


def stacked(axes, names, parts, colours, title):
    """Horizontal stacked bars; at each end the sum, as a figure."""
    places = range(len(names))
    totals = [sum(values) for values in zip(*(values for _, values in parts))]
    left = [0.0] * len(names)
    for (label, values), colour in zip(parts, colours):
        if max(values) > SEEN * max(totals):
            axes.barh(places, values, left=left, color=colour, label=label, height=0.62)
        left = [start + value for start, value in zip(left, values)]
    rounded = [round(total, 2) for total in totals]
    for place, total in enumerate(rounded):
        beside(axes, number(total, rounded), total, place, fontsize=8.5)
    axes.set_title(title, loc="left")
    name_bars(axes, names, max(totals), 1.3)
    if any(label for label, _ in parts):
        look = {"fontsize": 8, "handlelength": 1, "columnspacing": 1, "borderaxespad": 0.2}
        axes.legend(ncol=2, loc="upper left", bbox_to_anchor=(0, 0), **look)


def two_lines(name):
    return textwrap.fill(name, NAME_WIDTH)


def one_line(heading):
    return heading.replace("\n", " ")


def unequal(panels):
    """(the panels (heading, parts, ...) whose bars differ, sentences on the others)"""
    found, said = [], []
    for panel in panels:
        totals = {round(sum(values), 2) for values in zip(*(values for _, values in panel[1]))}
        if len(totals) > 1:
            found.append(panel)
        else:
            said.append(f"{one_line(panel[0])}: {number(*totals)} in each.")
    return found, said


def cost_parts(names, costs):
    """What small multiples of `costs` show: for each column a mapping of metrics to numbers."""

    def row(metric):
        return [costs[name].get(metric, 0) for name in names]

    reasons = sorted(
        {
            metric
            for name in names
            for metric, value in costs[name].items()
            if metric.startswith("exits:") and value > 0
        }
    )
    by_size = sorted(reasons, key=lambda metric: -max(row(metric)))
    shown = by_size[: MAX_REASONS - 1]
    parts = [(metric.partition(":")[2], row(metric)) for metric in shown]
    known = [sum(values) for values in zip(*[row(metric) for metric in shown])] or [0] * len(names)
    others = [max(total - part, 0) for total, part in zip(row("exits"), known)]
    if any(value > 1e-6 for value in others):
        parts.append(("other", others))
    accesses = [("VMREAD", row("vmread")), ("VMWRITE", row("vmwrite"))]
    msrs = [("RDMSR", row("root_rdmsr")), ("WRMSR", row("root_wrmsr"))]
    parts = parts or [("exits", row("exits"))]
    # An access has one colour in all panels; reasons are other things.
    return [
        ("VM exits,\nby reason", parts, reason_colours(parts)),
        ("Root-mode\ninstructions", [("", row("root_instructions"))], [ROOT_COLOUR]),
        ("Of these VMREAD\nand VMWRITE", accesses, PART_COLOURS),
        ("Of these RDMSR\nand WRMSR", msrs, PART_COLOURS[2:]),
    ]


def reason_colours(parts):
    more = iter(MORE_COLOURS)
    return [REASON_COLOURS.get(label) or next(more) for label, _ in parts]


def sentence(names, costs, metrics, heads):
    def words_of(cost):
        return ", ".join(
            f"{number(round(cost.get(metric, 0), 2))} {words}" for metric, words in metrics
        )

    return "; ".join(f"{heads[name]}: {words_of(costs[name])}" for name in names)


COST_WORDS = (("exits", "exits"), ("root_instructions", "root-mode instructions"))


def cost_figure(key, title, costs, heads):
    """costs: by column, of one PMI or of one exit; columns that did not run are absent. heads: the
    columns' names."""
    names = [name for name in COLUMNS if name in costs]
    panels, said = unequal(cost_parts(names, costs)) if names else ([], [])
    if not panels:
        return None
    pyplot = library()
    columns = len(panels) if len(panels) < 4 else 2
    size = (NARROW, (0.34 * len(names) + 0.8) * len(panels) / columns)
    words = {"squeeze": False, "sharey": True, "layout": "constrained"}
    figure, grid = pyplot.subplots(len(panels) // columns, columns, figsize=size, **words)
    for axes, panel in zip(grid.flat, panels):
        heading, parts, colours = panel
        stacked(axes, [two_lines(heads[name]) for name in names], parts, colours, heading)
    found = svg_of(key, title, sentence(names, costs, COST_WORDS, heads), figure, pyplot)
    found.text = " ".join(said)
    return found


@dataclass
class Bar:
    head: str  # the column, for a reader
    value: float
    text: str  # how the value looks
    low: float | None = None  # the ends of its interval
    high: float | None = None

    @property
    def end(self):
        return max(self.value, self.high or 0, 0)


HEAD_WIDTH = 22  # characters: a longer head takes two lines


def bars_figure(key, title, axis, bars, alone=False):
    """bars: {column: Bar} of the columns that ran; `axis`: what they are, with the unit. `alone`:
    as a file of its own, which has its title in it."""
    names = [name for name in COLUMNS if name in bars]
    if not names:
        return None
    pyplot = library()
    found = [bars[name] for name in names]
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 0.36 * len(names) + 0.5))
    colours = [COLUMN_COLOURS[name] for name in names]
    axes.barh(range(len(names)), [one.value for one in found], height=0.62, color=colours)
    for place, one in enumerate(found):
        if one.low is not None:
            axes.plot([one.low, one.high], [place, place], color=INK, linewidth=1.2)
        beside(axes, one.text, one.end, place)
    heads = [textwrap.fill(one.head, HEAD_WIDTH) for one in found]
    widest = max(len(one.text) for one in found)
    name_bars(axes, heads, max(one.end for one in found), 1 + 0.045 * widest)
    axes.set_xlabel(textwrap.fill(axis, 2 * HEAD_WIDTH))
    if alone:
        figure.suptitle(title, fontsize=10, fontweight="bold")
    desc = f"{axis}. " + "; ".join(f"{one.head}: {one.text}" for one in found)
    return svg_of(key, title, desc, figure, pyplot, alone)


def legend(figure, seen, heads, **look):
    """The colours of the columns in `seen`, below all panels."""
    names = [name for name in COLUMNS if name in seen]
    handles, labels = [seen[name] for name in names], [heads[name] for name in names]
    fit = int(NARROW / (0.072 * max(map(len, labels)) + 0.5))  # a letter's width, and a mark's
    columns = math.ceil(len(names) / math.ceil(len(names) / max(fit, 1)))
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0}
    figure.legend(handles, labels, ncol=columns, **place, **look)


def lines_figure(key, title, series, heads):
    """series: list of (heading, {column: [(PMIs, extra)]}), one panel each, log-log."""
    series = [(heading, data) for heading, data in series if data]
    if not series:
        return None
    pyplot = library()
    words = {"squeeze": False, "layout": "constrained"}
    figure, grid = pyplot.subplots(1, len(series), figsize=(NARROW, 2.7), **words)
    seen = {}
    marks = dict(zip(COLUMNS, itertools.cycle("oDs^v")))
    for axes, (heading, data) in zip(grid.flat, series):
        for name, dots in data.items():
            # Where two lines coincide the thinner, later one leaves the other visible.
            width, size = (3.4, 7) if name == "native" else (1.5, 4.5)
            look = {"color": COLUMN_COLOURS[name], "marker": marks[name], "label": name}
            seen[name] = axes.plot(*zip(*dots), linewidth=width, markersize=size, **look)[0]
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
        axes.minorticks_off()
        axes.set_title(heading, loc="left")
        axes.set_xlabel("PMIs")
        axes.grid(True)
    legend(figure, seen, heads)
    desc = ". ".join(
        f"{one_line(heading)}: "
        + "; ".join(
            f"{heads[name]} {number(dots[-1][1])} at {dots[-1][0]:,} PMIs"
            for name, dots in data.items()
        )
        for heading, data in series
    )
    return svg_of(key, title, desc, figure, pyplot)


def ablation_figure(key, title, groups, unit):
    """groups: list of (heading, [(variant, cost, vmreads or None)])."""
    panels, said = [], []
    for heading, rows in groups:
        found = [(f"{heading}:\n{unit}", [("", [cost for _, cost, _ in rows])])]
        if any(reads is not None for _, _, reads in rows):
            found.append((f"{heading}:\nVMREADs", [("", [reads or 0 for _, _, reads in rows])]))
        found, alike = unequal(found if rows else [])
        panels += [(*panel, [name for name, _, _ in rows]) for panel in found]
        said += alike
    if not panels:
        return None
    pyplot = library()
    lines = (len(panels) + 1) // 2
    size = (NARROW, 0.22 * lines * max(len(names) for *_, names in panels) + 0.4 * lines)
    words = {"squeeze": False, "sharey": "row", "layout": "constrained"}
    figure, grid = pyplot.subplots(lines, min(len(panels), 2), figsize=size, **words)
    for axes, (heading, parts, names) in zip(grid.flat, panels):
        reads = heading.endswith("VMREADs")
        colour = PART_COLOURS[0] if reads else COLUMN_COLOURS["msr+nmi"]
        stacked(axes, names, parts, [colour], heading)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    desc = ". ".join(
        f"{heading}: " + "; ".join(f"{name} {number(cost)}" for name, cost, _ in rows)
        for heading, rows in groups
    )
    found = svg_of(key, title, desc, figure, pyplot)
    found.text = " ".join(said)
    return found


def samples_figure(key, title, panels, beside, heads):
    """panels: list of (heading, {column: [(place, value, whether it is warm-up, whether it is an
    outlier)]}); beside: {column: [(place, frequency or None, SMIs)]}, of the same places."""
    panels = [(heading, dots) for heading, dots in panels if dots]
    if not panels:
        return None
    pyplot = library()
    count = (len(panels) + 3) // 2
    words = {"squeeze": False, "sharex": True, "layout": "constrained"}
    figure, grid = pyplot.subplots(count, 2, figsize=(NARROW, 1.05 * count + 0.2), **words)
    seen = {}
    for axes, (heading, dots) in zip(grid.flat, panels):
        for name, each in dots.items():
            for which, look in (
                ((False, False), {"marker": "."}),
                ((True, False), {"marker": "x"}),
                ((False, True), {"marker": "o", "markerfacecolor": "none"}),
            ):
                some = [(at, value) for at, value, *marks in each if tuple(marks) == which]
                if some:
                    look = {"linestyle": "", "markersize": 4, "color": COLUMN_COLOURS[name], **look}
                    (line,) = axes.plot(*zip(*some), **look)
                    seen.setdefault(name, line)
        axes.set_title(heading, loc="left")
        axes.grid(True, axis="y")
    said = []
    places = list(grid.flat[len(panels) :])
    for heading, at in (("APERF/MPERF, %", 1), ("SMIs", 2)):
        values = {one[at] for each in beside.values() for one in each} - {None}
        if len(values) < 2:
            said.append(
                f"{heading}: {number(*values)} in each." if values else f"{heading}: not known."
            )
            continue
        axes = places.pop(0)
        for name, each in beside.items():
            some = [(one[0], one[at]) for one in each if one[at] is not None]
            look = {"linestyle": "", "marker": ".", "markersize": 4, "color": COLUMN_COLOURS[name]}
            if some:
                axes.plot(*zip(*some), **look)
        axes.set_title(heading, loc="left")
        axes.grid(True, axis="y")
    for axes in places:
        axes.remove()
    figure.supxlabel("starts, in their order", fontsize=8)
    legend(figure, seen, heads, fontsize=8)
    desc = "Dots are samples, crosses warm-up, circles outliers. " + "; ".join(
        f"{heading}: " + ", ".join(f"{heads[name]} {len(each)}" for name, each in dots.items())
        for heading, dots in panels
    )
    found = svg_of(key, title, desc, figure, pyplot)
    found.text = " ".join(said)
    return found
