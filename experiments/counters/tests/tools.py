# SPDX-License-Identifier: BSD-2-Clause
# tools.py: the tools of guest/tools/tools.ini: their boots, in every column; what each case
# printed, beside what it printed natively; and its exits for PMU work. For the tests and for the
# page (make tools).
import difflib
import os
import re
from typing import NamedTuple

from bench import columns
from experiments.counters.tests import tools_table
from experiments.counters.tests.tools_table import LIMIT, MEMORY, extras
from testbed import boots
from testbed.machine import STATUS_POWEROFF, exit_count, made

NATIVE, OTHER = "native", "msr+nmi"
FOLDER = "guest"  # of what the guest leaves, by the knob guest_files
KVM_MEMORY = 512  # MiB, of a guest under the emulator's KVM
KVM_SLOWER = 3  # so many times the instructions of the other columns
# KVM's own kernel has its mitigations off, as PMUvisor has; its guest's stay the other columns'.
KVM_WORDS = "mitigations=off pmv.inner_mitigations=auto pmv.seconds=86400"
RDMSR, WRMSR, RDPMC = "31", "32", "15"  # basic exit reasons
# Of the PMU, as SDM Vol. 4, "Architectural MSRs" and Linux's msr-index.h number them, and its local
# vector in x2APIC mode: the registers of pmu/pmu_registers.c, and LVTPC.
PMU_MSRS = [
    range(*both)
    for both in (
        (0x0C1, 0x0CB),
        (0x186, 0x190),
        (0x1A6, 0x1A8),
        (0x1C8, 0x1CA),
        (0x1D9, 0x1DA),
        (0x309, 0x319),
        (0x329, 0x32A),
        (0x345, 0x346),
        (0x38D, 0x393),
        (0x3F1, 0x3F8),
        (0x4C1, 0x4CB),
        (0x600, 0x601),
        (0x680, 0x6A0),
        (0x6C0, 0x6E0),
        (0x834, 0x835),
        (0xDC0, 0xDE0),
        (0x1900, 0x1AFF),
    )
]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Case(NamedTuple):
    """What one case did."""

    status: int
    lines: list
    region: str


class Difference(NamedTuple):
    """Lines of a case that differ; of two that differ in numbers alone, by which part at most."""

    case: str
    native: str
    found: str
    part: float | None = None


def titles():
    """{column: title}, in the order of the page."""
    return {
        **{name: columns.COLUMNS[name].head for name in columns.COLUMNS},
        **{name: extra.title for name, extra in extras().items()},
    }


def columns_of(tool):
    """Those that a row is run in."""
    return tool.words_of("columns") or [*columns.COLUMNS, *tool.words_of("also")]


def cases_in(tool, column):
    """The cases that a row runs in a column."""
    fewer = [] if column in (NATIVE, OTHER, *tool.words_of("also")) else tool.words_of("fewer")
    return fewer or list(tool.cases)


def chosen(tool, column, cases):
    """What the job is told to run: cases of this row, or ROW/CASE of those in its boot, or ROW/*
    for all of a row. Without any, what all rows in this boot run in that column; nothing: all that
    the image has.
    """
    if cases:
        return [case if "/" in case else f"{tool.said_by}/{case}" for case in cases]
    if tool.get("only") or tool.get("without"):
        return [f"{tool.said_by}/{case}" for case in tool.cases]
    rows = tools_table.in_boot(tools_table.read(), tool.host)
    runs = [
        run
        for row in rows
        if column in columns_of(row)
        for run in (
            [f"{row.name}/*"]
            if len(cases_in(row, column)) == len(row.cases)
            else [f"{row.name}/{case}" for case in cases_in(row, column)]
        )
    ]
    return [] if runs == [f"{row.name}/*" for row in rows] else runs


def options_of(tool, column, cases=(), **more):
    """lab.emulator()'s for a row's boot in a column."""
    extra = extras().get(column)
    base = extra.column if extra else column
    cases = chosen(tool, column, cases)
    words = " ".join(
        [
            *([f"pmv.cases={','.join(cases)}"] if cases else []),
            tool.get("words"),
            tool.get("leaves") if column in (NATIVE, OTHER) else "",
        ]
    ).strip()
    knobs = "".join(f"{knob.strip()}\n" for knob in tool.get("knobs").split("/") if knob.strip())
    found = {
        "entry": base if columns.is_pmuvisor(base) else NATIVE,
        "jobs": "tool,nmilog",
        "append": words,
        "knobs": knobs or None,
        "memory": tool.number("memory", MEMORY),
        "cpus": tool.number("cpus", 1),
        "limit": tool.number("limit", LIMIT),
        "initrd": boots.initrd(name=tool.get("image")),
    }
    files = more.pop("files", None)
    if columns.is_pmuvisor(base):
        found["config"] = f"console=none {extra.options if extra else ''}".strip()
    elif columns.is_kvm(base):
        host = columns.option(base, "host")
        image = "-".join(["kvm", tool.get("image"), *([host] if host else [])])
        found.update(
            jobs="kvm",
            initrd=boots.initrd(name=image),
            kernel=boots.kernel("cloud", host),
            memory=found["memory"] + KVM_MEMORY,
            limit=KVM_SLOWER * found["limit"],
            append=f"{words} {KVM_WORDS} pmv.kvm=tool,nmilog pmv.kvm_cpus={found['cpus']} "
            f"pmv.mediated={columns.option(base, 'mediated') or 0}".strip(),
        )
    if files:
        found["initrd"] = with_files(found["initrd"], boots.initrd(name=tool.get("image")), files)
    return {**found, **more}


def with_files(initrd, guest, files):
    """The initial RAM disk with more files, {path: bytes}; KVM's guest has its own inside."""
    if initrd == guest:
        return initrd, files
    return initrd, {"kvm/initrd": boots.bytes_of((made(guest), files))}


def left(boot):
    """The files that its guest left with the emulator: {name: bytes}."""
    folder = boot.path(FOLDER)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: boot.read(os.path.join("files", FOLDER, name)) for name in names}


def taken(lab, tool, column, cases=()):
    """What a row with `takes` finds in that folder of its guest: the files that native left of the
    row that it is of; native itself has those of msr+nmi."""
    other = tools_table.read()[tool.get("of")]
    boot = boot_of(lab, other, OTHER if column == NATIVE else NATIVE, cases)
    boot.expect_status(STATUS_POWEROFF)
    return {f"{tool.get('takes')}/{name}": data for name, data in left(boot).items()}


def boot_of(lab, tool, column, cases=(), name="", **more):
    """A row's boot in a column, in which others may run as well; `more`: of lab.emulator()'s, over
    the row's own."""
    if tool.get("takes") and "files" not in more:
        more = {**more, "files": taken(lab, tool, column, cases)}
    return lab.emulator(
        f"tool-{tool.host}{name}-{column}", **options_of(tool, column, cases, **more)
    )


def said(tool, lines):
    """Without what may differ: each match of a rule is its name, and lines to be left out are."""
    found = []
    for line in lines:
        if any(rule.expression.search(line) for rule in tool.left_out):
            continue
        for rule in tool.differs:
            line = rule.expression.sub(f"<{rule.name}>", line)
        found.append(line.rstrip())
    return found


def cases_of(boot, tool):
    """{case: Case}; a case that began and did not end has no status of its own: -1."""
    lines = {}
    for line in boot.console.splitlines():
        match = re.match(rf"tool-said: {re.escape(tool.said_by)}/([^:]+): ?(.*)", line)
        if match:
            lines.setdefault(match[1], []).append(match[2])
    ended = {
        row["case"]: row
        for row in boot.lines("tool")
        if "case" in row and row.get("name") == tool.said_by
    }
    return {
        name: Case(
            int(ended[name]["status"]) if name in ended else -1,
            lines.get(name, []),
            ended.get(name, {}).get("region", ""),
        )
        for name in [*ended, *(name for name in lines if name not in ended)]
    }


def ended(boot, tool, cases=()):
    """The same of a boot that has to end well, with all of these cases."""
    boot.expect_status(STATUS_POWEROFF)
    found = cases_of(boot, tool)
    missing = [name for name in cases or tool.cases if name not in found]
    assert (
        not missing
    ), f"boot {boot.name}: no end of {', '.join(missing)}; last line: {boot.last_line()}"
    return found


def part_of(native, found):
    """By which part at most two lines' numbers differ; None: they differ in more than numbers."""
    if NUMBER.sub("#", native).split() != NUMBER.sub("#", found).split():
        return None
    both = [
        [float(text.replace(",", "")) for text in NUMBER.findall(line)] for line in (native, found)
    ]
    return max(
        (abs(one - other) / max(abs(one), abs(other)) for one, other in zip(*both) if one != other),
        default=0.0,
    )


def differences(tool, native, found):
    """Of two {case: Case}: how each status and each line differs."""
    wrong = []
    for name in native:
        if name not in found:
            wrong.append(Difference(name, "ran", "did not run"))
            continue
        if native[name].status != found[name].status:
            wrong.append(
                Difference(
                    name, f"exit status {native[name].status}", f"exit status {found[name].status}"
                )
            )
        one, other = (said(tool, case.lines) for case in (native[name], found[name]))
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        for kind, first, last, begin, end in matcher.get_opcodes():
            if kind == "equal":
                continue
            for at in range(max(last - first, end - begin)):
                left = one[first + at] if first + at < last else ""
                right = other[begin + at] if begin + at < end else ""
                wrong.append(Difference(name, left, right, part_of(left, right)))
    return wrong


def pmu_exits(account):
    """Of the ledger, or of a region: exits for PMU work. Accesses to its registers, RDPMC, and PMIs
    and other NMIs that exited."""
    exits = account["exits"]
    accesses = sum(
        count
        for reason in (RDMSR, WRMSR)
        for index, count in exits.get(reason, {}).get("msrs", {}).items()
        if any(int(index) in block for block in PMU_MSRS)
    )
    arrived = max(account["pmi"]["exits"], account["nmi"]["exits"])
    return accesses + exits.get(RDPMC, {}).get("count", 0) + arrived


def accounts(boot, found):
    """The ledger's regions of these cases; the whole boot's where a job has marked none; none of a
    run that has left no ledger."""
    if not boot.ledger:
        return []
    regions = [
        boot.ledger["regions"][case.region]
        for case in found.values()
        if case.region in boot.ledger["regions"]
    ]
    return regions or [boot.ledger]


def exits_of(boot, found):
    """(exits for PMU work, all exits, PMIs) of these cases."""
    each = accounts(boot, found)
    return (
        sum(map(pmu_exits, each)),
        sum(map(exit_count, each)),
        sum(account["pmi"]["raised"] for account in each),
    )
