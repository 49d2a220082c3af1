# SPDX-License-Identifier: BSD-2-Clause
# summary.py: what was run, where, and the main result of each table, as sentences. Every number in
# them comes from the results or from published.py.
from bench import added, leads
from bench.results import BY_COLUMN, COLUMNS, of_columns

KINDS = {
    "emulator": "an emulator: figures are counts of instructions, exits or accesses, and are exact "
    "except nginx's",
    "nested": "a machine under QEMU/KVM with nested VMX: cycles and time, the outer KVM's included",
    "metal": "a bare machine: cycles and time",
}
ALL = ", ".join(COLUMNS[:-1]) + " and " + COLUMNS[-1]


def where(machine):
    environment = machine.environment
    out = f"Run on {KINDS[environment['kind']]}. Processor: {environment['cpu'] or 'not known'}."
    if environment["emulator"]:
        out += f" Emulator: {environment['emulator']}."
    ran = [name for name in COLUMNS if machine.results["columns"][name]["status"] == "ok"]
    missing = [name for name in COLUMNS if name not in ran]
    out += f" Columns: {', '.join(ran) or 'none'}"
    out += f"; not run: {', '.join(missing)}" if missing else ""
    version = environment["kvm"].split(",")[0]
    return out + (f". KVM: {version}." if version else ".")


# Points of APERF/MPERF, of which a column may be away from native before a line says so.
CLOCK_POINTS = 1.0


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
        f"Columns differ in {words}: {machine.environment[key]}."
        for key, words in BY_COLUMN.items()
        if of_columns(machine.environment[key])
    ]
    return out + unlike_clocks(machine)


def results_of(machine):
    """[(table, sentence)]; a table that has nothing says so."""
    found = [*leads.sentences(machine)]
    found += [pair for section in added.sections() for pair in section.sentences(machine)]
    return [(name, text or "Not run.") for name, text in found]
