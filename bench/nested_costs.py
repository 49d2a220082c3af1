# SPDX-License-Identifier: BSD-2-Clause
# nested_costs.py: the table of what the outer KVM executes for one operation of the innermost
# guest, with PMUvisor in between and as KVM's plain guest, of what boots under KVM in the emulator
# have left (tests/e2e/test_nested_kernel.py makes them): consoles and ledgers nested-costs-COLUMN
# of a folder. Usage: python3 -m bench.nested_costs [DIR]   default: build/e2e
from bench import costs

PREFIX = "nested-costs-"
# The column of the plain guest is the boot menu's entry without a hypervisor.
COLUMNS = {
    "native": "KVM's guest",
    "intercept": "intercept",
    "msr": "msr",
    "msr+nmi": "msr+nmi",
    "apic_trap": "apic=trap",
}
A1K_PMIS = 1000
# Label, experiment, item, and the item to subtract with what is left divided by.
ROWS = (
    ("CPUID", "exit", "cpuid", None),
    ("VMCALL", "exit", "vmcall", None),
    ("RDMSR PERFEVTSEL0", "msr", "rdmsr_evtsel", None),
    ("WRMSR PERFEVTSEL0", "msr", "wrmsr_evtsel", None),
    ("RDMSR PMC0", "msr", "rdmsr_pmc", None),
    ("WRMSR PMC0", "msr", "wrmsr_pmc", None),
    ("RDMSR GLOBAL_CTRL", "msr", "rdmsr_ctrl", None),
    ("WRMSR GLOBAL_CTRL", "msr", "wrmsr_ctrl", None),
    ("RDPMC", "msr", "rdpmc", None),
    ("WRMSR or MOV to LVTPC", "pmi", "lvtpc_write", None),
    ("one PMI, the test kernel's", "a1k", "m100", ("m200000", A1K_PMIS)),
)
METRICS = (("root_instructions", "outer"), ("exits", "exits"), ("nonroot_instructions", "inner"))
READING = (
    "outer: instructions that the outer system executes in VMX root mode, its interrupts included; "
    "exits: VM exits to it, of the guest and of PMUvisor; inner: all others, the guest's and "
    "PMUvisor's own. The same kernel and QEMU in all columns, one processor. In the emulator; "
    "exact."
)


def table(folder):
    """The table of the boots that are there; without heads where there is none. ValueError: a line
    or a ledger that is not understood."""
    boots = {column: costs.measured(folder, PREFIX, column) for column in COLUMNS}
    return costs.table(
        "nested",
        "Under an outer KVM: what one operation of the guest costs",
        READING,
        {column: head for column, head in COLUMNS.items() if boots[column]},
        ROWS,
        METRICS,
        lambda column, *what: costs.of_operation(boots[column], *what, METRICS),
    )


if __name__ == "__main__":
    costs.main(table, "bench/nested_costs.py", PREFIX, "FULL=1 make e2e T=nested/costs")
