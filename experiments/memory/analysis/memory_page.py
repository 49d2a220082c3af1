# SPDX-License-Identifier: BSD-2-Clause
# memory_page.py: a memory trace as one HTML page in the report's style: which addresses when, how
# much is touched within a window, and sums. The points are a picture inside of the figure, which
# has no size that grows with them; those of an instruction that is clicked are drawn over it.
import bisect
import pathlib
from html import escape

from bench import page, plots
from experiments.memory.analysis import memory_points, memory_sums, symbols
from experiments.memory.analysis.memory_filter import KERNEL_HALF
from experiments.shared.analysis import traces_page

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "analysis"
STYLES = (SHARED / "pages.css", HERE / "memory_page.css")
SCRIPTS = (SHARED / "tables.js", HERE / "memory_page.js")
PAGE = 1 << memory_sums.PAGE_BITS
WINDOWS = 100  # that the trace is cut into
REGION_PAGES = 16  # pages between two touched ones from which on there is a gap
TICKS = 14  # addresses on the axis
TOP = 12  # rows of a table
INSTRUCTIONS = 40  # of that of instructions
DPI = 200
COLOURS = {"R": "#56B4E9", "W": "#0072B2", "RW": "#009E73", "other": "#D55E00"}
WORDS = {"R": "read", "W": "write", "RW": "read and write", "other": "page walk or event delivery"}


def group(access):
    return "other" if access.kind in ("walk", "event") else access.direction


class Axis:
    """Addresses without the gaps between regions: those that are near each other keep their
    distance."""

    def __init__(self, pages):
        self.starts, self.places = [], []  # of each region: first page, and where it is drawn
        at, last = 0, None
        for number in sorted(pages):
            if last is None or number - last > REGION_PAGES:
                at += 1 if last is not None else 0  # a page's room between two
                self.starts.append(number)
                self.places.append(at)
            else:
                at += number - last - 1
            last = number
            at += 1
        self.end = at

    def place(self, address):
        """In pages."""
        region = bisect.bisect_right(self.starts, address // PAGE) - 1
        return self.places[region] + address / PAGE - self.starts[region]

    def ticks(self):
        """(place, text): regions' first addresses, and where there is room pages between."""
        step = max(1, -(-self.end // TICKS))
        found, last = [], None
        for start, place, after in zip(self.starts, self.places, [*self.places[1:], self.end]):
            at = place
            while at < after:
                if last is None or at - last >= step:
                    found.append((at, f"{(start + at - place) * PAGE:#x}"))
                    last = at
                at += step
        return found


def address_of(access, physical):
    """None: it has none that the picture could show."""
    if physical:
        return access.gpa
    return None if access.kind == "walk" else access.gla


def scatter_figure(shown, axis, count, physical, pyplot):
    """`shown`: (number, address, access) of each that is drawn; `count`: of all accesses."""
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 4.6), dpi=DPI)
    for name in COLOURS:
        rows = [
            (number, axis.place(address))
            for number, address, access in shown
            if group(access) == name
        ]
        if rows:
            axes.scatter(
                *zip(*rows),
                s=1.2,
                color=COLOURS[name],
                label=WORDS[name],
                linewidths=0,
                rasterized=True,
            )
    axes.set_yticks(*zip(*axis.ticks()))
    axes.set_ylim(-0.5, axis.end + 0.5)
    axes.set_xlim(0, count)
    axes.patch.set_gid("plot")  # where memory_page.js draws
    axes.set_xlabel("access number")
    axes.set_ylabel(f"{'physical' if physical else 'linear'} address, gaps left out")
    axes.tick_params(axis="y", labelsize=7)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncol=4,
        markerscale=6,
        fontsize=8,
        handletextpad=0.2,
        columnspacing=1,
    )
    pyplot.rcParams["savefig.dpi"] = DPI
    made = plots.svg_of(
        "addresses",
        "Addresses over time",
        f"{len(shown)} accesses to {len(axis.starts)} regions of memory",
        figure,
        pyplot,
    )
    # Where it is less high than its width wants, it stays on the left.
    made.svg = made.svg.replace("<svg ", '<svg preserveAspectRatio="xMinYMid" ', 1)
    return made


def windows_figure(accesses, physical, pyplot):
    """Pages and lines of each window."""
    window = max(1, -(-len(accesses) // WINDOWS))
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 2.4))
    for (name, bits), colour in zip(memory_sums.UNITS.items(), ("#D55E00", "#0072B2")):
        found = memory_sums.per_window(accesses, bits, window, physical)
        axes.step(
            [place * window for place in range(len(found) + 1)],
            [*found, found[-1]],
            where="post",
            label=name,
            color=colour,
        )
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, len(accesses))
    axes.set_xlabel("access number")
    axes.set_ylabel("touched")
    axes.grid(axis="y")
    axes.legend()
    return plots.svg_of(
        "windows",
        f"Pages and lines in each window of {window} accesses",
        "How many different pages and lines of 64 bytes each window touches",
        figure,
        pyplot,
    )


def powers(count):
    """Windows of 1, 2, 4 ... accesses, and of all."""
    return [1 << bit for bit in range(count.bit_length()) if 1 << bit < count] + [count]


def working_set_figure(accesses, physical, pyplot):
    windows = powers(len(accesses))
    figure, axes = pyplot.subplots(figsize=(plots.WIDTH, 2.8))
    for (name, bits), colour in zip(memory_sums.UNITS.items(), ("#D55E00", "#0072B2")):
        axes.plot(
            windows,
            memory_sums.working_set(accesses, bits, windows, physical),
            marker="o",
            markersize=3,
            label=name,
            color=colour,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("window, accesses")
    axes.set_ylabel("mean working set")
    axes.grid()
    axes.legend()
    return plots.svg_of(
        "working-set",
        "Working set by window",
        "Mean number of different pages and lines that the last so many accesses touched",
        figure,
        pyplot,
    )


# ---- tables ----

TEXTS = {"instruction": "text", "function": "text", "of": "text"}  # of columns of text


def table(name, title, heads, rows, hint=""):
    """`rows`: lists of texts; the first column is the rows' head."""
    return traces_page.table(
        name, title, [(head, None) for head in heads], enumerate(rows), TEXTS, hint
    )


def of_instruction(access):
    """None: what a page walk or an event writes is no instruction's."""
    return None if access.kind in ("walk", "event") else access.rip


def instruction_table(accesses, top, names, hint):
    """`top`: (RIP, accesses); `names`: symbols.Symbols."""
    texts = {}
    for access in accesses:
        texts.setdefault(access.rip, access.text)
    heads = ("RIP", "instruction", *(["function"] if names else []), "accesses")
    return table(
        "instructions",
        "Instructions",
        heads,
        [
            (f"{rip:#x}", texts[rip], *([names.text(rip)] if names else []), str(count))
            for rip, count in top
        ],
        hint,
    )


def function_of(names):
    def name_of(access):
        found = names.function(access.rip) if of_instruction(access) is not None else None
        return found and found[0]

    return name_of


def tables(accesses, physical, names):
    if names:
        yield table(
            "functions",
            "Functions",
            ("function", "accesses"),
            [
                (name, str(count))
                for name, count in memory_sums.top(accesses, function_of(names), TOP)
            ],
        )
    kinds = sorted(memory_sums.counted(accesses).items())
    yield table(
        "kinds",
        "Kinds",
        ("kind", "direction", "accesses", "bytes"),
        [(kind, direction, str(count), str(size)) for (kind, direction), (count, size) in kinds],
    )
    yield table(
        "processes",
        "Processes",
        ("CR3", "accesses"),
        [
            (f"{key:#x}", str(count))
            for key, count in memory_sums.top(accesses, memory_sums.process_of, TOP)
        ],
    )
    yield table(
        "pages",
        "Pages",
        ("page", "of", "accesses"),
        [
            (f"{page_at:#x}", owner_of(page_at, physical), str(count))
            for page_at, count in memory_sums.top(
                accesses, lambda access: page_of(address_of(access, physical)), TOP
            )
        ],
    )


def owner_of(page_at, physical):
    if physical:
        return "physical memory"
    return "the kernel" if page_at >= KERNEL_HALF else "user space"


def page_of(address):
    return None if address is None else address & -PAGE


def lead(found, accesses, khz, where):
    """`found`: memory.Accesses; `accesses`: those of it that are shown."""
    span = (accesses[-1].tsc - accesses[0].tsc) / (khz or 1_000_000)
    total = sum(map(len, found.processors.values()))
    yield page.paragraph(
        f"{len(accesses)} of {total} accesses, processors: "
        f"{', '.join(map(str, sorted(found.processors)))}; {span:.3f} ms{where}. "
        f"{found.lost} accesses are lost.",
        "lead",
    )
    if found.unknown:
        yield page.paragraph(
            "Of some the record does not tell the size, and they are taken for one "
            "byte: "
            + "; ".join(f"{count} {why}" for why, count in found.unknown.most_common())
            + "."
        )
    if found.unread:
        yield page.paragraph(
            f"Reads of {found.unread} pages, which hold page tables, are not seen."
        )
    for text in found.complaints:
        yield page.paragraph(f"Note: {text}.", "lead")


HINT = (
    "A click on an instruction shows its points in the picture; a click on the head of a column "
    "sorts by it."
)


def addresses(accesses, physical, names, pyplot):
    """The picture, with the instructions beside it whose points it shows, and those points."""
    top = memory_sums.top(accesses, of_instruction, INSTRUCTIONS)
    shown = [
        (number, address_of(access, physical), access)
        for number, access in enumerate(accesses)
        if address_of(access, physical) is not None
    ]
    if not shown:
        return [instruction_table(accesses, top, names, "")], []
    axis = Axis({address // PAGE for _, address, _ in shown})
    figure = scatter_figure(shown, axis, len(accesses), physical, pyplot)
    rows = memory_points.of_instructions(shown, [rip for rip, _ in top], axis, len(accesses))
    return [
        '<section id="points"><div class="picture">',
        page.figure_html(figure),
        '<p class="tools"><button type="button" id="every" disabled>All points</button>'
        '<output id="chosen"></output></p></div>',
        instruction_table(accesses, top, names, page.paragraph(HINT, "hint")),
        "</section>",
    ], rows


def html(found, accesses, title, physical=False, names=symbols.NONE, where=""):
    """Takes memory.Accesses, those of it to be shown, in order and at least one, a title, and
    symbols.Symbols. Gives the page. Raises plots.NoPlots."""
    pyplot = plots.library()
    figures = (
        windows_figure(accesses, physical, pyplot),
        working_set_figure(accesses, physical, pyplot),
    )
    picture, points = addresses(accesses, physical, names, pyplot)
    return page.page_html(
        title,
        [
            *traces_page.styles(STYLES),
            f"<h1>{escape(title)}</h1>",
            *lead(found, accesses, found.tsc_khz, where),
            *picture,
            *map(page.figure_html, figures),
            *tables(accesses, physical, names),
            *traces_page.scripts(points, SCRIPTS),
        ],
    )
