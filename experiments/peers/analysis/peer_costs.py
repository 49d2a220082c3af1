# SPDX-License-Identifier: BSD-2-Clause
# peer_costs.py: the table of what operations cost under other hypervisors than KVM, beside
# PMUvisor, of what boots of one kernel with one set of programs have left
# (experiments/peers/tests/test_peers.py makes them): consoles and ledgers peers-COLUMN of a folder.
# Usage: python3 -m experiments.peers.analysis.peer_costs [DIR]   default: build/e2e

from bench import costs, lines

PREFIX = "peers-"
COLUMNS = {
    "native": "native",
    "msr+nmi": "msr+nmi",
    "xen": "Xen, spec-ctrl=no",
    "xen-default": "Xen, as it is",
    "bitvisor": "BitVisor",
}
# What is subtracted, and how many operations the difference is of: of Linux's A.1 its PMIs are
# counted, since a hypervisor may make more of them; so are perf's samples.
A1K = ("m200000", lambda found: found["a1k", "m100"]["pmis"])
A1 = ("m200000", lambda found: found["a1", "m1000"]["pmis"])
PROFILE = ("plain", lambda found: found["profile", "profiled"]["samples"])
ROWS = (
    ("CPUID", "exit", "cpuid", None),
    ("CPUID in the NMI handler", "exit", "cpuid_blocked", None),
    ("IN from port 0xCF8", "exit", "inl_passed", None),
    ("RDMSR PERFEVTSEL0", "msr", "rdmsr_evtsel", None),
    ("WRMSR PERFEVTSEL0, changed", "msr", "wrmsr_evtsel_change", None),
    ("RDMSR GLOBAL_CTRL", "msr", "rdmsr_ctrl", None),
    ("WRMSR GLOBAL_CTRL, changed", "msr", "wrmsr_ctrl_change", None),
    ("RDMSR GLOBAL_STATUS", "msr", "rdmsr_status", None),
    ("RDPMC", "msr", "rdpmc", None),
    ("write of LVTPC", "pmi", "lvtpc_write", None),
    ("an NMI to oneself", "pmi", "nmi_self", None),
    ("overflow to handler", "pmi", "overflow_to_handler", None),
    ("one PMI, handler of a few lines", "a1k", "m100", A1K),
    ("one PMI, Linux (program A.1)", "a1", "m1000", A1),
    ("one sample of perf record", "profile", "profiled", PROFILE),
)
# An exit that takes so many times the shortest had an interrupt of the hypervisor's in it.
INTERRUPTED = 2
METRICS = (("root_instructions", "root"), ("nonroot_instructions", "guest"), ("exits", "exits"))
READING = (
    "root: instructions in VMX root mode; guest: all others; exits: VM exits. The same kernel and "
    "programs in all columns, one processor; Xen's guest is its PVH dom0. An operation that is one "
    "exit is without interrupts of the hypervisor's; of the last three rows timers are a part. In "
    "the emulator; no cycles."
)


def one_exit(folder, column):
    """{(experiment, item): root instructions of one exit}, for the items with one exit of one
    reason for each operation: the mean, without the longest where something interrupted the
    hypervisor."""
    console, ledger = costs.left(folder, PREFIX, column)
    found, _ = lines.parse(console)
    out = {}
    for line in found:
        exits = (
            []
            if line.region is None
            else list(ledger["regions"][str(line.region)]["exits"].values())
        )
        if len(exits) == 1 and exits[0]["count"] == line.ops:
            root = exits[0]["root_instructions"]
            total, count = root["sum"], root["samples"]
            if count > 1 and root["max"] > INTERRUPTED * root["min"]:
                total, count = total - root["max"], count - 1
            out[line.experiment, line.item] = total / count
    return out


def table(folder):
    """The table of the boots that are there; without heads where there is none. ValueError: a line
    or a ledger that is not understood."""
    boots = {column: costs.measured(folder, PREFIX, column) for column in COLUMNS}
    there = {column: head for column, head in COLUMNS.items() if boots[column]}
    single = {column: one_exit(folder, column) for column in there}

    def cost(column, experiment, item, less):
        found = costs.of_operation(boots[column], experiment, item, less, METRICS)
        if found is not None and less is None:
            found["root_instructions"] = single[column].get(
                (experiment, item), found["root_instructions"]
            )
        return found

    return costs.table(
        "peers",
        "Other hypervisors: what one operation of the guest costs",
        READING,
        there,
        ROWS,
        METRICS,
        cost,
    )


if __name__ == "__main__":
    costs.main(
        table, "experiments/peers/analysis/peer_costs.py", PREFIX, "FULL=1 make e2e T=peers/"
    )
