# SPDX-License-Identifier: BSD-2-Clause
# summary.py: what was run, where, and the main result of each table, as sentences. Every number in
# them comes from the results or from published.py.
import added
import published
from cells import number, percent, points, ratio
from formulas import extra, extra_in_print, profile_overhead, scaled
from results import BY_COLUMN, COLUMNS, of_columns
from tables import asked

KINDS = {
    "emulator": "an emulator: figures are counts of instructions, exits or accesses, and are exact "
    "except nginx's",
    "nested": "a machine under QEMU/KVM with nested VMX: cycles and time, the outer KVM's included",
    "metal": "a bare machine: cycles and time",
}
ALL = ", ".join(COLUMNS[:-1]) + " and " + COLUMNS[-1]
OTHERS = [name for name in COLUMNS if name != "native"]


def listed(texts):
    return ", ".join(texts)


def by_column(values, text):
    return listed(f"{text(values[name])} {name}" for name in COLUMNS if values[name] is not None)


def values_of(machine, experiment, item, metric):
    return {name: machine.value(name, experiment, item, metric) for name in COLUMNS}


def where(machine):
    environment = machine.environment
    out = f"Run on {KINDS[environment['kind']]}. Processor: {environment['cpu'] or 'not known'}."
    if environment["emulator"]:
        out += f" Emulator: {environment['emulator']}."
    ran = [name for name in COLUMNS if machine.results["columns"][name]["status"] == "ok"]
    missing = [name for name in COLUMNS if name not in ran]
    out += f" Columns: {listed(ran) or 'none'}"
    out += f"; not run: {listed(missing)}" if missing else ""
    version = environment["kvm"].split(",")[0]
    return out + (f". KVM: {version}." if version else ".")


# Points of APERF/MPERF, of which a column may be away from native before a line says so.
CLOCK_POINTS = 1.0
UNLIKE = {
    "apic": "local APIC's mode",
    "microcode": "microcode",
    "bios": "BIOS",
    "processors": "processors online",
    "turbo": "turbo",
    "frequency": "frequency",
}


def unlike_clocks(machine):
    """Sentences on SMIs in measurements, and on frequencies that are not native's."""
    smis, clocks = {}, {}
    for name in COLUMNS:
        for item in machine.items("machine", name):
            count = machine.value(name, "machine", item, "smis")
            smis[name] = smis.get(name, 0) + (count or 0)
            mine = machine.value(name, "machine", item, "aperf_per_mperf")
            its = machine.value("native", "machine", item, "aperf_per_mperf")
            if None not in (mine, its) and abs(mine - its) > CLOCK_POINTS:
                clocks.setdefault(name, []).append(f"{item} {mine:.1f} % (native {its:.1f} %)")
    out = []
    if any(smis.values()):
        out.append(
            "SMIs came during measurements: "
            + ", ".join(f"{count:,.0f} in {name}" for name, count in smis.items())
            + "."
        )
    out += [
        f"Column {name} ran at another frequency than native (APERF/MPERF): {', '.join(items)}."
        for name, items in clocks.items()
    ]
    return out


def unlike(machine):
    """What columns did not have in common though their figures depend on it, a sentence each."""
    out = [
        f"The columns are not alike in the {UNLIKE[key]}: {machine.environment[key]}."
        for key in BY_COLUMN
        if of_columns(machine.environment[key])
    ]
    return out + unlike_clocks(machine)


def of_operation(machine, experiment, item, words):
    # Without a ledger an emulator's figures are those of its TSC, which counts instructions.
    values = asked(machine, experiment, item, machine.metric, "time")
    if not values.known:
        return ""
    unit = "instructions" if machine.exact else "cycles (median)"
    return f"{words}: {by_column(values, number)} {unit}"


def table_4_1(machine):
    out = of_operation(machine, "msr", "rdmsr_evtsel", "RDMSR of EVTSEL")
    theirs = published.TABLE_4_1["rdmsr_evtsel"]
    return out and (
        f"{out}. Thesis: {theirs['native']} bare, {theirs['kvm']} KVM "
        f"({ratio(theirs['kvm'], theirs['native'])}), {theirs['msr']} passed through, "
        "in cycles."
    )


def table_4_2(machine):
    out = []
    for experiment, who in (("a1", "Linux"), ("a1k", "test kernel")):
        native = extra(machine, "native", experiment, "m100")
        times = {name: extra(machine, name, experiment, "m100") for name in COLUMNS}
        if not native:
            continue
        unit = "instructions" if machine.exact else ("ns" if experiment == "a1" else "cycles")
        others = listed(
            f"{name} {ratio(times[name], native)}" for name in OTHERS if times[name] is not None
        )
        out.append(
            f"{who}: 1000 PMIs add {number(native)} {unit} natively"
            + (f"; {others}" if others else "")
        )
    theirs = extra_in_print("m100")
    if out:
        out.append(
            "thesis, time: "
            + listed(
                f"{name} {ratio(theirs[name], theirs['native'])}"
                for name in OTHERS
                if name in theirs
            )
        )
    return ". ".join(text[0].upper() + text[1:] for text in out) + "." if out else ""


def table_4_3(machine):
    values = values_of(machine, "exit", "cpuid", "root_instructions")
    values["native"] = None
    if any(value is not None for value in values.values()):
        out = f"Root-mode instructions of a CPUID exit: {by_column(values, number)}"
    else:
        out = of_operation(machine, "exit", "cpuid", "CPUID")
    theirs = published.TABLE_4_3["cpuid"]
    return out and (
        f"{out}. Thesis: {theirs['kvm']} KVM, {theirs['msr+nmi']} with its "
        "bookkeeping, in cycles."
    )


def table_4_4(machine):
    worst = {}
    for share in published.TABLE_4_4:
        values = values_of(machine, "profile", f"share_{share}", "share")
        for name in OTHERS:
            if None not in (values[name], values["native"]):
                worst[name] = max(worst.get(name, 0), abs(values[name] - values["native"]))
    if not worst:
        return ""
    return (
        "Largest distance of a function's share from native's, in points: "
        + listed(f"{name} {value:.2f}" for name, value in worst.items())
        + "."
    )


def table_4_5(machine):
    overheads = {name: profile_overhead(machine, name) for name in COLUMNS}
    if all(value is None for value in overheads.values()):
        return ""
    out = f"Overhead of perf record: {by_column(overheads, lambda value: percent(value, 2))}"
    if None not in (overheads["native"], overheads["msr+nmi"]):
        out += f" (msr+nmi {points(overheads['msr+nmi'] - overheads['native'])} points to native)"
    theirs = published.TABLE_4_5_OVERHEAD
    return (
        f"{out}. Thesis: {theirs['native']} % bare, {theirs['kvm']} % KVM, "
        f"{theirs['msr+nmi']} % passthrough."
    )


def nginx(machine, item):
    metric = "instructions" if machine.exact else "rate"
    values = values_of(machine, "nginx", item, metric)
    if all(value is None for value in values.values()):
        return ""
    return (
        ("Instructions per request: " if machine.exact else "Requests per second: ")
        + by_column(values, lambda value: scaled(value, "count"))
        + (" (medians; Tables 4.6 and 4.7 have the ranges)." if machine.exact else ".")
    )


def results_of(machine):
    """[(table, sentence)]; a table that has nothing says so."""
    found = [
        ("4.1, MSR accesses", table_4_1(machine)),
        ("4.2, program with PMIs", table_4_2(machine)),
        ("4.3, VM exits", table_4_3(machine)),
        ("4.4, profile", table_4_4(machine)),
        ("4.5, its overhead", table_4_5(machine)),
        ("4.6, nginx", nginx(machine, "plain")),
        ("4.7, nginx profiled", nginx(machine, "profiled")),
    ]
    found += [pair for section in added.sections() for pair in section.sentences(machine)]
    return [(name, text or "Not run.") for name, text in found]
