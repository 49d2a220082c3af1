# SPDX-License-Identifier: BSD-2-Clause
"""Draws curve.svg and puts the figures on README.md, of results/answers/inference.json, without a
boot.

Usage: python3 -m experiments.inference.analysis.inference_picture
"""
import pathlib

from bench import plots
from bench.cells import number
from experiments.inference.analysis import inference, sights
from experiments.shared.analysis import answers

PAGE = pathlib.Path(__file__).resolve().parents[1] / "README.md"
CURVE = PAGE.with_name("curve.svg")
COLOURS = {
    sights.NO_LOADS: "#8a8a8a",
    sights.ALL_LOADS: "#D55E00",
    sights.TARGETS: "#0072B2",
    sights.PIP: "#009E73",
}
WORDS = {
    sights.NO_LOADS: "no loads seen",
    sights.ALL_LOADS: "each load of CR3 exits",
    sights.TARGETS: "loads exit, but for CR3 targets",
    sights.PIP: "loads by Processor Trace",
}
PRICED = {
    "accesses of CR0, CR3, CR4": "CR_ACCESS",
    "VMX-preemption timer": "PREEMPTION_TIMER",
    "HLT": "HLT",
    "external interrupt": "EXTERNAL_INTERRUPT",
}
LEAST = 1  # instructions; what costs less is drawn there, and is called 0


def right(one):
    """How wrong, for the front; in percent."""
    return 100 * one["wrong"]


def panels(answer):
    """(heading, rows, cost): under KVM what its host adds, and on a host that takes no exit by
    itself all there is."""
    first = next(iter(answer["boots"].values()))
    rows = inference.better(first["rows"])
    return [
        (
            "A host like KVM, which takes its exits anyway",
            rows,
            lambda one: inference.instructions_of(one, first["prices"], False),
        ),
        (
            "A host like PMUvisor, which takes none",
            [one for one in rows if one["exits"] != "KVM's"],
            lambda one: inference.instructions_of(one, answer["prices"], True),
        ),
    ]


def short(one):
    """A name for a dot: its colour says how loads are seen."""
    exits = {"none": "", "KVM's": "KVM's exits"}.get(one["exits"], one["exits"])
    return (
        ", ".join(part for part in (exits, f"{one['hz']:,} Hz" if one["hz"] else "") if part)
        or "nothing else"
    )


def apart(line, cost):
    """Those of a front whose names do not lie over each other."""
    found = []
    for one in line:
        if (
            not found
            or cost(one) > 4 * max(cost(found[-1]), LEAST)
            or 3 * right(one) < right(found[-1])
        ):
            found.append(one)
    return found


def draw(axes, heading, rows, cost):
    def place(one):
        return max(cost(one), LEAST), right(one)

    for loads, colour in COLOURS.items():
        seen = [place(one) for one in rows if one["loads"] == loads]
        axes.plot(*zip(*seen), "o", markersize=4.5, color=colour)
    line = inference.front([one for one in rows if one["loads"] != sights.PIP], cost, right)
    look = {"drawstyle": "steps-post", "color": COLOURS[sights.TARGETS], "linewidth": 1.1}
    axes.plot(*zip(*map(place, line)), zorder=0, **look)
    by_pt = inference.front([one for one in rows if one["loads"] == sights.PIP], cost, right)
    fast = min((one for one in rows if one["hz"] == max(sights.HZ)), key=right)
    look = {"xytext": (5, 4), "textcoords": "offset points", "fontsize": 7.5}
    for one in apart(line, cost) + by_pt + [fast]:
        axes.annotate(short(one), place(one), **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(LEAST / 2, 3e5)
    axes.set_ylim(1e-3, 200)
    axes.set_xticks(
        [LEAST, 10, 100, 1e3, 1e4, 1e5], ["0 to 1", "10", "100", "1 k", "10 k", "100 k"]
    )
    axes.set_yticks(
        [0.001, 0.01, 0.1, 1, 10, 100], ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"]
    )
    axes.minorticks_off()
    axes.set_title(heading, loc="left")
    axes.set_xlabel("root instructions for each switch, for looking")
    axes.grid(True)
    axes.tick_params(bottom=False, left=False)
    return line


def curve(answer):
    """The Figure: how much time each host gives to the wrong one, by what looking costs."""
    pyplot = plots.library()
    figure, grid = pyplot.subplots(2, 1, figsize=(plots.WIDTH, 7.6))
    said = []
    for axes, (heading, rows, cost) in zip(grid, panels(answer)):
        line = draw(axes, heading, rows, cost)
        axes.set_ylabel("time given to the wrong one")
        said.append(
            f"{heading}, not beaten without PT: "
            + "; ".join(
                f"{inference.name(one)} {right(one):.3f} % for {cost(one):,.0f}" for one in line
            )
        )
    handles = [
        pyplot.Line2D([], [], marker="o", linestyle="", color=COLOURS[how], label=WORDS[how])
        for how in sights.LOADS
    ]
    handles.append(
        pyplot.Line2D([], [], color=COLOURS[sights.TARGETS], label="not beaten, without PT")
    )
    figure.subplots_adjust(hspace=0.35)
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, -0.04), ncol=3)
    return plots.svg_of(
        "inference",
        "What a host can tell, and for how much (emulator)",
        ". ".join(said),
        figure,
        pyplot,
        alone=True,
    )


def share(value):
    if value is None:
        return "-"
    return f"{100 * value:.4f} %" if value < 0.001 else f"{100 * value:.1f} %"


def preempted(one):
    if not one["preempted_recall"]:
        return "none"
    return f"{share(one['preempted_recall'])} of {share(one['preempted_precision'])}"


def instructions(one, prices, anyway):
    value = inference.instructions_of(one, prices, anyway)
    return "-" if value is None else number(round(value))


# The table's columns: the text of a row, the prices of its boot, and those under PMUvisor.
COLUMNS = {
    "read": lambda one, *_: one["reading"],
    "switches found": lambda one, *_: f"{100 * one['found'] / one['switches']:.0f} %",
    "invented": lambda one, *_: number(one["invented"]),
    "of processes' time wrong": lambda one, *_: share(one["wrong_process"]),
    "of all time wrong": lambda one, *_: share(one["wrong"]),
    "preempted: recall of precision": lambda one, *_: preempted(one),
    "exits it makes": lambda one, *_: f"{inference.exits_of(one, False):.2f}",
    "with those taken anyway": lambda one, *_: f"{inference.exits_of(one, True):.2f}",
    "root instr., KVM": lambda one, prices, _: instructions(one, prices, False),
    "root instr., PMUvisor": lambda one, _, own: instructions(one, own, True),
}
HEADS = ("the host sees", *COLUMNS)


def cells(answer, rows):
    """The cells of one host: of both boots, or once where they read the same."""
    found = []
    for text in COLUMNS.values():
        of_boots = [
            text(one, boot["prices"], answer["prices"])
            for one, boot in zip(rows, answer["boots"].values())
        ]
        found.append(", ".join(dict.fromkeys(of_boots)))
    return found


def hosts(answer):
    """[(name, the rows of both boots)] of each host, its less wrong reading."""
    found = [inference.better(boot["rows"]) for boot in answer["boots"].values()]
    return [(inference.name(rows[0]), list(rows)) for rows in zip(*found)]


def table(answer):
    """README.md's table, in Markdown."""
    rows = [[name, *cells(answer, rows)] for name, rows in hosts(answer)]
    return answers.markdown(HEADS, rows)


def prices(answer):
    """README.md's second table: what an exit takes, of both boots and of PMUvisor."""
    of_boots = [boot["prices"] for boot in answer["boots"].values()]
    rows = []
    for words, reason in PRICED.items():
        first, second = (boot[reason] for boot in of_boots)
        rows.append(
            [
                words,
                *(number(round(one["mean"])) for one in (first, second)),
                *(number(first[what]) for what in ("least", "exits")),
                number(round(answer["prices"][reason]["mean"])),
            ]
        )
    heads = ["exit", "KVM, one boot", "KVM, another boot", "least", "how many", "PMUvisor"]
    return answers.markdown(heads, rows)


def spread(values, text=lambda value: f"{100 * value:.2g} %"):
    """The values of both boots, as the text of the least and of the most."""
    return " to ".join(dict.fromkeys(text(value) for value in (min(values), max(values))))


def of_both(answer, exits, loads=sights.NO_LOADS, hz=0, reading=None):
    """The row of this host in each boot: by a reading, or by that which is less wrong."""
    found = []
    for boot in answer["boots"].values():
        rows = [one for one in boot["rows"] if reading in (None, one["reading"])]
        wanted = exits, loads, hz
        found += [
            one
            for one in inference.better(rows)
            if (one["exits"], one["loads"], one["hz"]) == wanted
        ]
    return found


def values(rows, key):
    return [one[key] for one in rows]


def found_share(rows):
    return spread(
        [one["found"] / one["switches"] for one in rows], lambda one: f"{100 * one:.0f} %"
    )


def exits_each(rows):
    return spread([inference.exits_of(one, False) for one in rows], lambda one: f"{one:.1f}")


def answer_text(answer):
    """README.md's first paragraph."""
    loads = of_both(answer, "HLT", sights.PIP)
    papers, backwards = (
        of_both(answer, "KVM's", reading=one) for one in (inference.PAPER, inference.BACKWARDS)
    )
    switches = spread(values(loads, "switches"), number)
    by_events = spread(values(loads, "wrong_by_events"), lambda one: f"{100 * one:.2f} %")
    missed = sum(one["switches"] - one["found"] for one in loads)
    assert not missed, "loads of CR3 do not find all switches: the page says that they do"
    return answers.paragraph(
        f"**Answer.** Loads of CR3 and HLT tell who ran: all switches ({switches}), and at most "
        f"{100 * max(values(loads, 'wrong')):.1g} % of the time goes to the wrong process (by the "
        f"scheduler's own events, which come a little earlier, {by_events}). This takes one "
        "exit for each switch, or none with Processor Trace. KVM's own exits find "
        f"{found_share(papers)} of the switches and give {spread(values(papers, 'wrong'))} of the "
        "time to the wrong process, if they are read as in the paper. Read backwards they find "
        f"{found_share(backwards)}, and {spread(values(backwards, 'wrong'))} of the time is wrong. "
        "An emulator cannot say how long an exit or a packet takes, nor how exact the times of "
        "real PT packets are."
    )


def found_text(answer):
    """README.md's list of findings."""
    papers, backwards = (
        of_both(answer, "KVM's", reading=one) for one in (inference.PAPER, inference.BACKWARDS)
    )
    timers = [of_both(answer, "KVM's", hz=hz) for hz in sights.HZ if hz]
    loads, targets, packets = (
        of_both(answer, "HLT", one) for one in (sights.ALL_LOADS, sights.TARGETS, sights.PIP)
    )
    blind = of_both(answer, "none", sights.PIP)
    seen = of_both(answer, "KVM's", sights.PIP)
    guesses = [
        one
        for exits in ("KVM's", "interrupts", "none")
        for hz in sights.HZ
        for one in of_both(answer, exits, hz=hz)
        if one["preempted_recall"]
    ]
    price = [boot["prices"] for boot in answer["boots"].values()]
    dear = [inference.instructions_of(one, each, False) for one, each in zip(timers[-1], price)]
    sizes = [one["pip_bytes"] / one["switches"] for one in packets]
    (ticking,) = inference.better(answer["tick"])
    lines = (
        f"**KVM's own exits** cost nothing more. Read as in the paper (time belongs to the exit "
        f"before it), {spread(values(papers, 'wrong'))} of the time is wrong in the two boots. "
        f"Read backwards it is {spread(values(backwards, 'wrong'))}.",
        "**A timer buys accuracy dearly.** At 100 Hz, 1 kHz and 10 kHz beside KVM's exits "
        + ", ".join(spread(values(one, "wrong")) for one in timers)
        + f" of the time are wrong. At 10 kHz that is {exits_each(timers[-1])} exits a switch, and "
        f"{spread(dear, lambda one: number(round(one, -2)))} root instructions of KVM. A sample "
        "then finds each switch, but not its place.",
        "**Loads of CR3 buy all of it.** With page-table isolation loads exit "
        f"{exits_each(loads)} times a switch. With the four CR3-target values for the last "
        f"process's two tables it is {exits_each(targets)} exits.",
        f"**Without HLT idle time is a process's**: {spread(values(blind, 'wrong'))} of all time "
        "is wrong, however the loads are seen.",
        "**Processor Trace's PIP packets** tell the same without an exit, in "
        f"{spread(sizes, lambda one: f'{one:.0f}')} "
        "bytes a switch.",
        "**Whether a process was preempted** no host here tells in each boot. With loads, and the "
        "interrupt before them, beside all of KVM's exits "
        f"{spread(values(seen, 'preempted_recall'))} of that time is seen in the two boots (the "
        "cause of the difference is not known), and "
        f"{spread(values(seen, 'preempted_precision'), lambda one: f'{100 * one:.1f} %')} of what "
        'is said is so. The reason "external interrupt" alone does not do: KVM has its guest\'s '
        "clock tick by the VMX-preemption timer, and the external interrupts are the host's own. "
        "Without loads the hosts call nearly each change a preemption (recall "
        f"{spread(values(guesses, 'preempted_recall'))}, precision "
        f"{spread(values(guesses, 'preempted_precision'))}).",
        "**PMUvisor as it is** (`policy=msr+nmi`) takes no exit in the same stretch of the same "
        "load but its tick's, so without one its host learns nothing. With `tick=1` it is a host "
        f"with a timer at 1 kHz: {ticking['found']} of {number(ticking['switches'])} switches "
        f"found, {spread([ticking['wrong']])} of all time wrong "
        f"({spread([ticking['wrong_process']])} of processes' time), "
        f"{inference.exits_of(ticking, True):.1f} exits a "
        "switch.",
    )
    return "\n".join(
        answers.paragraph(line, initial_indent="- ", subsequent_indent="  ") for line in lines
    )


def checks_text(answer):
    """README.md's exits that were there, beside those made of the list."""
    (tick, by_list), (loads, loads_by_list) = (
        map(number, answer["checks"][what]) for what in ("PREEMPTION_TIMER", "CR_ACCESS")
    )
    return answers.paragraph(
        "Two of the ways to look were there as well, in PMUvisor's own boots, and their exits are "
        f"counted against those made of the list: {tick} by a tick of 1 ms, and {by_list} by the "
        f"list; {loads} loads that exited under `trace=flow`, and {loads_by_list}."
    )


def put(page, answer):
    """The page with all that is made of the answer between its marks."""
    made = {
        "the answer": answer_text(answer),
        "found": found_text(answer),
        "every host": table(answer),
        "prices": prices(answer),
        "exits that were there": checks_text(answer),
    }
    return answers.put(page, "inference_picture.py", made)


def main():
    answer = answers.kept("inference")
    CURVE.write_text(curve(answer).svg + "\n", encoding="utf-8")
    answers.write_page(PAGE, put, answer)


if __name__ == "__main__":
    main()
