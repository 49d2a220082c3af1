# SPDX-License-Identifier: BSD-2-Clause
# memory_page.py: a memory trace as one HTML page: which addresses when, how much is touched within
# a window, and sums. The page's size has a limit that does not grow with the trace.
import pathlib

from bench import page
from experiments.memory.analysis import memory_points, memory_sums, symbols
from experiments.memory.analysis.memory_filter import KERNEL_HALF
from experiments.memory.analysis.memory_points import PAGE, of_instruction
from experiments.shared.analysis import trace_page

HERE = pathlib.Path(__file__).resolve().parent
WINDOWS = 100  # that the trace is cut into
TOP = 12  # rows of a table
INSTRUCTIONS = 40  # of that of instructions
GROUPS = {
    "R": ("read", "#56b4e9"),
    "W": ("write", "#0072b2"),
    "RW": ("read and write", "#009e73"),
    "other": ("page walk or event delivery", "#d55e00"),
}
UNIT_COLOURS = {"pages": "#d55e00", "lines": "#0072b2"}
COLOURS = {**{name: colour for name, (_, colour) in GROUPS.items()}, **UNIT_COLOURS}
STYLE = f""":root {{ {" ".join(f"--{name}: {colour};" for name, colour in COLOURS.items())} }}
/* The picture stays in view while the instructions under it are looked through. */
@media (min-height: 48rem) {{ .picture {{ position: sticky; top: 0; z-index: 2;
  background: var(--page); }} #tables :is(th, td, button) {{ scroll-margin-top: 65vh; }} }}
button.point {{ font: inherit; color: var(--link); background: none; border: 0; padding: 0;
  cursor: pointer; text-decoration: underline; }}"""
HINT = (
    "Dragging and the wheel zoom, and a double click shows all. A click on an instruction shows "
    "its points in the picture; a click on the head of a column sorts by it."
)
PICTURE = f"""<div class="picture"><h2>Addresses over time</h2><div id="addresses"></div>
{trace_page.legend([(f"var(--{name})", text) for name, (text, _) in GROUPS.items()])}
<p class="tools"><button type="button" id="every" disabled>All points</button>
<output id="chosen"></output></p></div>"""


def address_of(access, physical):
    """None: it has none that the picture could show."""
    if physical:
        return access.gpa
    return None if access.kind == "walk" else access.gla


def windows(accesses, physical):
    """Pages and lines of each window; the last one's again at its end."""
    size = max(1, -(-len(accesses) // WINDOWS))
    touched = {
        name: memory_sums.per_window(accesses, bits, size, physical)
        for name, bits in memory_sums.UNITS.items()
    }
    return {
        "size": size,
        "starts": [*range(0, len(accesses), size), len(accesses)],
        "touched": {name: [*found, found[-1]] for name, found in touched.items()},
    }


def powers(count):
    """Windows of 1, 2, 4 ... accesses, and of all."""
    return [1 << bit for bit in range(count.bit_length()) if 1 << bit < count] + [count]


def working_set(accesses, physical):
    sizes = powers(len(accesses))
    return {
        "windows": sizes,
        "means": {
            name: memory_sums.working_set(accesses, bits, sizes, physical)
            for name, bits in memory_sums.UNITS.items()
        },
    }


# ---- tables ----


def table(name, heads, rows, hint=""):
    """`rows`: lists of texts; the first column is the rows' head."""
    return {"name": name, "title": name.capitalize(), "heads": heads, "rows": rows, "hint": hint}


def instruction_table(accesses, top, names):
    """`top`: (RIP, accesses); `names`: symbols.Symbols."""
    texts = {}
    for access in accesses:
        texts.setdefault(access.rip, access.text)
    heads = ("RIP", "instruction", *(["function"] if names else []), "accesses")
    return table(
        "instructions",
        heads,
        [
            (f"{rip:#x}", texts[rip], *([names.text(rip)] if names else []), str(count))
            for rip, count in top
        ],
        HINT,
    )


def function_of(names):
    def name_of(access):
        found = names.function(access.rip) if of_instruction(access) is not None else None
        return found and found[0]

    return name_of


def tables(accesses, physical, names):
    if names:
        found = memory_sums.top(accesses, function_of(names), TOP)
        yield table(
            "functions", ("function", "accesses"), [(name, str(count)) for name, count in found]
        )
    kinds = sorted(memory_sums.counted(accesses).items())
    yield table(
        "kinds",
        ("kind", "direction", "accesses", "bytes"),
        [(kind, direction, str(count), str(size)) for (kind, direction), (count, size) in kinds],
    )
    found = memory_sums.top(accesses, memory_sums.process_of, TOP)
    yield table(
        "processes", ("CR3", "accesses"), [(f"{key:#x}", str(count)) for key, count in found]
    )
    found = memory_sums.top(accesses, lambda access: page_of(address_of(access, physical)), TOP)
    yield table(
        "pages",
        ("page", "of", "accesses"),
        [(f"{page_at:#x}", owner_of(page_at, physical), str(count)) for page_at, count in found],
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


def addresses(accesses, rips, physical):
    """The picture's data, and what the page says of each instruction's points; None, if no
    access has an address."""
    shown = [
        (number, address_of(access, physical), access)
        for number, access in enumerate(accesses)
        if address_of(access, physical) is not None
    ]
    if not shown:
        return None, []
    axis = memory_points.Axis({address // PAGE for _, address, _ in shown})
    return {
        "ticks": axis.ticks(),
        "end": axis.end,
        "groups": [(name, text) for name, (text, _) in GROUPS.items()],
        **memory_points.cells(shown, axis, rips),
    }, [memory_points.words(shown, rip) for rip in rips]


def html(found, accesses, title, physical=False, names=symbols.NONE, where=""):
    """Takes memory.Accesses, those of it to be shown, in order and at least one, a title, and
    symbols.Symbols. Gives the page."""
    top = memory_sums.top(accesses, of_instruction, INSTRUCTIONS)
    picture, words = addresses(accesses, [rip for rip, _ in top], physical)
    data = {
        "addresses": picture,
        "words": words,
        "windows": windows(accesses, physical),
        "working_set": working_set(accesses, physical),
        "tables": [instruction_table(accesses, top, names), *tables(accesses, physical, names)],
    }
    body = [
        *lead(found, accesses, found.tsc_khz, where),
        *([PICTURE] if picture else []),
        '<div id="tables"></div><div id="charts"></div>',
    ]
    return trace_page.html(title, body, data, HERE / "memory_page.js", STYLE)
