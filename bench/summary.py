# SPDX-License-Identifier: BSD-2-Clause
# summary.py: what was run, where, and the main result of each table, as sentences. Every number in
# them comes from the results or from published.py.
import math
import re

from bench import added, columns, figures, formulas, leads
from bench.cells import percent
from bench.measurements import ALIKE, EXPERIMENTS
from bench.results import COLUMNS, of_columns, values_of

KINDS = {
    "emulator": "an emulator: figures are counts of instructions, exits or accesses",
    "nested": "a machine under QEMU/KVM with nested VMX: cycles and time, the outer KVM's included",
    "metal": "a bare machine: cycles and time",
}


def where(machine):
    environment = machine.environment
    rounds = {one["round"] for one in machine.repetitions}
    out = f"Run on {KINDS[environment['kind']]}"
    out += f", in {len(rounds)} round{'s' * (len(rounds) > 1)}" if rounds else ""
    out += f". Processor: {environment['cpu'] or 'not known'}."
    if environment["emulator"]:
        out += f" Emulator: {environment['emulator']}."
    missing = [
        columns.head(name, machine)
        for name in COLUMNS
        if machine.results["columns"][name]["status"] != "ok"
    ]
    out += f" Not run: {'; '.join(missing)}." if missing else ""
    kvms = values_of(environment["kvm"], ("kvm",)).values()
    versions = " and ".join(dict.fromkeys(re.findall(r"\bLinux [^\s,]+", " ".join(kvms))))
    return out + (f" KVM: {versions}." if versions else "")


HARDWARE = "Nobody has measured PMUvisor on hardware."
MEASURE = (
    "To measure your own machine: make usb BENCH=thesis makes a USB stick that measures "
    "it in an hour (docs/metal.md)."
)


def repeated(machine):
    """What a second run says of the first screen's counts, in words."""
    if not machine.results.get("run", {}).get("second"):
        return "in one run"
    items = (formulas.BASE, formulas.LAST)
    entries = [
        machine.entry(name, "a1", item, machine.metric) for name in leads.ANSWERED for item in items
    ]
    found = [one for one in entries if one]
    apart = [figures.apart(one) for one in found if "again" in one]
    if apart:
        return f"and a second run agrees within {percent(math.ceil(1e4 * max(apart)) / 100, 2)}"
    if found and all(one["exact"] for one in found):
        return "with the same result in two runs"
    return "in one run"


def sureness(machine):
    """How sure the first screen's figures are."""
    if not machine.exact:
        kind = KINDS[machine.environment["kind"]]
        return f"How sure: measured on {kind}. Medians have 95 % intervals."
    out = f"{HARDWARE} How sure: instructions are counted in an emulator, {repeated(machine)}. "
    if leads.estimates(machine, "of_pmi"):
        out += (
            "Cycles and time are estimates for the thesis's processor, a Xeon Silver 4114, with "
            "90 % intervals."
        )
    return out.rstrip()


def legend(machine):
    """[(name for a reader, what the column is, with its key and options)] of all columns."""
    return [
        (
            columns.head(name, machine),
            f"{one.words} (key {name}" + f", {one.options}" * columns.is_pmuvisor(name) + ")",
        )
        for name, one in columns.COLUMNS.items()
    ]


def first(machine):
    """What stands above the pictures: whatever the columns have not in common, the answer, how sure
    it is, and how to measure."""
    return [*unlike(machine), *leads.answer(machine), sureness(machine), MEASURE]


# Points of APERF/MPERF, of which a column may be away from native before a line says so.
CLOCK_POINTS = 1.0


def clock(machine, column, experiment):
    """APERF over MPERF in percent: of an experiment's repetitions their mean. None: not known."""
    found = [
        one["aperf_per_mperf"]
        for one in machine.repetitions
        if (one["column"], one["experiment"]) == (column, experiment) and "aperf_per_mperf" in one
    ]
    if found:
        return sum(found) / len(found)
    return machine.value(column, "machine", experiment, "aperf_per_mperf")


def unlike_clocks(machine):
    """Sentences on SMIs in measurements, and on frequencies that are not native's."""
    smis, clocks = {}, {}
    for one in machine.repetitions:
        smis[one["column"]] = smis.get(one["column"], 0) + one.get("smis", 0)
    for name in COLUMNS:
        for item in machine.items("machine", name):
            count = machine.value(name, "machine", item, "smis")
            smis[name] = smis.get(name, 0) + (count or 0)
        for experiment in EXPERIMENTS:
            mine, its = (clock(machine, column, experiment) for column in (name, "native"))
            if None not in (mine, its) and abs(mine - its) > CLOCK_POINTS:
                clocks.setdefault(name, []).append(
                    f"{experiment} {mine:.1f} % (native {its:.1f} %)"
                )
    out = []
    if any(smis.values()):
        out.append(
            "SMIs came during measurements: "
            + "; ".join(
                f"{count:,.0f} in {columns.head(name, machine)}" for name, count in smis.items()
            )
            + "."
        )
    out += [
        f"{columns.head(name, machine)} ran at another frequency than native (APERF/MPERF): "
        f"{', '.join(items)}."
        for name, items in clocks.items()
    ]
    return out


def unlike(machine):
    """What columns did not have in common though their figures depend on it, a sentence each."""
    out = [
        f"Columns differ in {one.words}: {machine.environment[key]}."
        for key, one in ALIKE.items()
        if of_columns(machine.environment[key])
    ]
    found = figures.session_drift(machine)
    if found and found.told:
        out.append(
            f"The machine drifted: times changed by {found} from first to "
            "last start (99 % interval)."
        )
    return out + unlike_clocks(machine)


def results_of(machine):
    """[(table, sentence)]; a table that has nothing says so."""
    found = [*leads.sentences(machine)]
    found += [pair for section in added.sections() for pair in section.sentences(machine)]
    return [(name, text or "Not run.") for name, text in found]
