# SPDX-License-Identifier: BSD-2-Clause
# counted.py: what a counter counted around an operation (../tests/kernel/test_counted.c), less what
# the bare machine counts there, and less what the processor retired there by the emulator's ledger.
# Pure: no boot.
from dataclasses import dataclass
from fractions import Fraction

COLUMNS = (
    "native",
    "msr+nmi",
    "msr",
    "intercept",
    "kvm",
    "kvm-new",
    "kvm-mediated",
    "xen",
    "bitvisor",
)
NATIVE, BASE = "native", "empty"
# What an operation is called, by the groups of the table. Those of BASES are measured, and not
# shown.
GROUPS = {
    "Instructions that exit": {
        "cpuid": "CPUID",
        "rdmsr": "RDMSR, IA32_FEATURE_CONTROL",
        "wrmsr": "WRMSR, IA32_MISC_ENABLE",
        "wrmsr_deadline": "WRMSR, IA32_TSC_DEADLINE",
        "xsetbv": "XSETBV",
        "invd": "INVD",
        "wbinvd": "WBINVD",
        "vmcall": "VMCALL (natively a NOP)",
        "hlt": "HLT, with an interrupt pending",
    },
    "The PMU's registers": {
        "rdmsr_status": "RDMSR, GLOBAL_STATUS",
        "wrmsr_selector": "WRMSR, an event select",
        "rdpmc": "RDPMC",
        "stop_start": "counters off and on, GLOBAL_CTRL",
    },
    "Ports": {
        "in_kernel": "IN, port 61H",
        "in_user": "IN, port of PM1 control",
        "out_user": "OUT, port 80H",
    },
    "Strings": {
        "outs_user": "REP OUTSB, 16 bytes, port 80H",
        "outs_kernel": "REP OUTSB, 16 bytes, port 61H",
        "ins_kernel": "REP INSB, 16 bytes, port 61H",
        "ins_kernel_long": "REP INSB, 2,048 bytes, port 61H",
        "device_stos": "REP STOSB, 16 bytes, no memory there",
        "string": "REP LODSB",
        "string_split": "REP LODSB, interrupted",
    },
    "Memory": {
        "page_fault": "a page fault",
        "ept_violation": "a page's first read (EPT violation)",
        "device_read": "a read of the I/O APIC",
        "device_jump": "JMP by a pointer in a device",
    },
    "Events": {
        "interrupt": "an interrupt",
        "ipi": "an IPI to oneself, sent",
        "nmi": "an NMI to oneself",
        "pmi": "a PMI",
        "step": "a single step",
        "step_cpuid": "CPUID in single steps",
        "int3": "INT3",
        "int1": "INT1",
    },
    "User mode, switches": {
        "syscall": "SYSCALL and SYSRET",
        "user_cpuid": "CPUID in user mode",
        "mov_cr3": "MOV to CR3",
    },
}
LABELS = {row: label for rows in GROUPS.values() for row, label in rows.items()}
BASES = (BASE, "loop", "user_empty")
LEVELS = ("kernel", "user")


@dataclass
class Count:
    """The sums of `runs` runs of one operation."""

    runs: int
    instructions: dict  # by level: what the counter had
    branches: dict
    retired: dict | None  # by level: what the ledger has; None: its region has more than these runs
    exits: dict  # by name
    root: int | None = None  # root mode's instructions, where the ledger has the region

    @classmethod
    def of(cls, line, regions):
        region = regions.get(line["region"])
        return cls(
            int(line["runs"]),
            {"kernel": int(line["instructions"]), "user": int(line["user_instructions"])},
            {"kernel": int(line["branches"]), "user": int(line["user_branches"])},
            region and {level: region["nonroot"][level] for level in LEVELS},
            {exit["name"]: exit["count"] for exit in region["exits"].values()} if region else {},
            region and region["root"]["instructions"],
        )


def counts(lines, regions):
    """A column: {row: Count}, of the test kernel's lines and the ledger's regions, without rows
    that it skipped."""
    regions = {name: region for name, region in regions.items() if name != "0"}
    return {
        line["row"]: Count.of(line, regions)
        for line in lines
        if "row" in line and "skip" not in line
    }


def total(of_levels, levels=LEVELS):
    return sum(of_levels[level] for level in levels)


def each(column, row, what, base=BASE, levels=LEVELS):
    """What one run of an operation has more than the run around it."""
    if getattr(column[row], what) is None:
        return None
    one, other = (
        Fraction(total(getattr(column[name], what), levels), column[name].runs)
        for name in (row, base)
    )
    return one - other


@dataclass
class Cell:
    """One operation in one column: the count less the native one, and less what retired; and root
    mode's instructions there."""

    instructions: Fraction
    branches: Fraction
    retired: Fraction | None
    root: Fraction | None = None

    def found(self):
        return self.instructions, self.branches, self.retired


def cells(columns, base=BASE):
    """{(row, column): Cell} of {column: {row: Count}}."""
    native, out = columns[NATIVE], {}
    for name, column in columns.items():
        for row in column:
            if row not in native:
                continue
            apart = [
                each(column, row, what, base) - each(native, row, what, base)
                for what in ("instructions", "branches")
            ]
            retired = each(column, row, "retired", base)
            out[row, name] = Cell(
                *apart,
                None if retired is None else each(column, row, "instructions", base) - retired,
                None if column[row].root is None else Fraction(column[row].root, column[row].runs),
            )
    return out
