# SPDX-License-Identifier: BSD-2-Clause
# convert.py: the lines of one boot, and the emulator's ledger of it, to measurements: the base is
# subtracted, then everything is per operation (README.md, "results.json").
from bench.pool import NOT_REPEATED
from bench.results import Trouble, check_unit

# Of values that a program prints: quotients of a time, which do not repeat from machine to machine.
RATES = ("rate", "transfer")
ROOT_COUNTERS = (
    ("vmread", "vmread"),
    ("vmwrite", "vmwrite"),
    ("root_rdmsr", "rdmsr"),
    ("root_wrmsr", "wrmsr"),
    ("root_listed", "listed"),
)
# Of what each world executes most regions have nothing, so a 0 is no measurement.
EXECUTED = (
    *"rdmsr_pmu rdmsr_apic rdmsr_other wrmsr_pmu wrmsr_apic wrmsr_other spec_ctrl".split(),
    *"l1d_flush verw rdpmc iret cr3_load cpuid apic_access nmi".split(),
)
SPARSE = {f"{world}_{name}" for world in ("root", "nonroot") for name in EXECUTED}


def per_operation(total, ops):
    """A whole number where it is one."""
    return total // ops if isinstance(total, int) and total % ops == 0 else total / ops


def region_totals(ledger, number):
    """What the ledger counted in a region, by (metric, unit)."""
    if ledger is None:
        raise Trouble(f"region {number}: there is no ledger of this boot")
    try:
        return totals_of(ledger, number)
    except (AttributeError, KeyError, TypeError) as trouble:
        raise Trouble(
            f"region {number}: this is no ledger of testbed/run.sh: "
            f"{type(trouble).__name__} {trouble}"
        ) from None


def totals_of(ledger, number):
    region = ledger["regions"].get(str(number))
    if region is None:
        raise Trouble(f"region {number}: not in the ledger; the program never marked it")
    if region["begins"] != 1 or region["open"]:
        ended = "never ended" if region["open"] else "ended"
        raise Trouble(
            f"region {number}: begun {region['begins']} times and {ended}, wanted once " "and ended"
        )
    root, nonroot = region["root"]["instructions"], region["nonroot"]["instructions"]
    totals = {
        ("instructions", "instructions"): root + nonroot,
        ("root_instructions", "instructions"): root,
        ("nonroot_instructions", "instructions"): nonroot,
        ("exits", "count"): sum(entry["count"] for entry in region["exits"].values()),
    }
    for metric, key in ROOT_COUNTERS:
        totals[metric, "count"] = region["root"][key]
    for world in ("root", "nonroot"):
        counts = {**region["executed"][world], "nmi": region["nmi"][world]}
        totals.update({(f"{world}_{name}", "count"): counts[name] for name in EXECUTED})
    # A VM entry delivers an NMI that it injects through the guest's IDT.
    totals["nonroot_nmi", "count"] += region["nmi"]["injected"]
    for entry in region["exits"].values():
        name = entry["name"]
        totals[f"exits:{name}", "count"] = entry["count"]
        totals[f"root_instructions:{name}", "instructions"] = entry["root_instructions"]["sum"]
        totals[f"vmcs_accesses:{name}", "count"] = entry["vmcs_accesses"]["sum"]
    return totals


class Converter:
    """One boot's lines in one column."""

    def __init__(self, lines, ledger, column, kind):
        self.lines, self.ledger, self.column, self.kind = lines, ledger, column, kind
        self.measurements, self.skipped, self.errors = [], [], []
        self.why = {(line.experiment, line.item): line.skip for line in lines if line.skip}

    def cell(self, line):
        return {"column": self.column, "experiment": line.experiment, "item": line.item}

    def add(self, line, metric, unit, value, exact, n=1, **spread):
        self.measurements.append(
            {
                **self.cell(line),
                "metric": metric,
                "unit": unit,
                "value": value,
                "exact": exact,
                "n": n,
                **spread,
            }
        )

    def base_of(self, line, has):
        """The line of this line's base that has what is subtracted, or None."""
        if line.base is None:
            return None
        if (line.experiment, line.base) in self.why:
            raise Trouble(
                f"its base {line.base} was left out: {self.why[line.experiment, line.base]}"
            )
        for other in self.lines:
            if (other.experiment, other.item) == (line.experiment, line.base) and has(other):
                if other.ops != line.ops:
                    raise Trouble(f"ops={line.ops}, but its base {line.base} has ops={other.ops}")
                return other
        raise Trouble(f"its base {line.base} has no such line")

    def from_region(self, line):
        totals = region_totals(self.ledger, line.region)
        base = self.base_of(line, lambda other: other.region is not None)
        less = region_totals(self.ledger, base.region) if base else {}
        for metric, unit in {**totals, **less}:
            value = totals.get((metric, unit), 0) - less.get((metric, unit), 0)
            if value == 0 and metric in SPARSE:
                continue
            self.add(
                line,
                metric,
                unit,
                per_operation(value, line.ops),
                line.experiment not in NOT_REPEATED,
            )

    def from_tsc(self, line):
        base = self.base_of(line, lambda other: other.metric == line.metric and other.n is not None)
        less, ops = base.median if base else 0, line.ops or 1
        emulated = self.kind == "emulator"
        # There the TSC counts instructions; runs that are all alike have no noise in them.
        exact = emulated and line.min == line.p95 and (base is None or base.min == base.p95)
        self.add(
            line,
            line.metric,
            "instructions" if emulated else "cycles",
            per_operation(line.median - less, ops),
            exact,
            line.n,
            min=per_operation(line.min - less, ops),
            p95=per_operation(line.p95 - less, ops),
        )

    def from_value(self, line):
        check_unit(line.metric, line.unit, "unit", self.kind)
        exact = (
            self.kind == "emulator"
            and line.unit in ("count", "bytes")
            and line.metric not in RATES
            and line.experiment not in NOT_REPEATED
        )
        if line.n is not None:
            self.add(
                line,
                line.metric,
                line.unit,
                line.median,
                exact and line.min == line.p95,
                line.n,
                min=line.min,
                p95=line.p95,
            )
        else:
            self.add(line, line.metric, line.unit, line.value, exact)

    def convert(self):
        for line in self.lines:
            if line.skip:
                self.skipped.append({**self.cell(line), "why": line.skip})
                continue
            try:
                if line.region is not None and self.kind == "emulator":
                    self.from_region(line)
                if line.unit == "tsc":
                    if line.n is None:
                        raise Trouble("unit=tsc wants n, min, median and p95")
                    self.from_tsc(line)
                elif line.metric is not None:
                    self.from_value(line)
            except Trouble as trouble:
                text = f"{line.experiment}/{line.item}: {trouble}"
                self.errors.append(text)
                self.skipped.append({**self.cell(line), "why": str(trouble)})
        return self


def convert(lines, ledger, column, kind):
    """An object with measurements, skipped and errors."""
    return Converter(lines, ledger, column, kind).convert()
