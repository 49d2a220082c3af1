# SPDX-License-Identifier: BSD-2-Clause
# counted_reasons.py: why a count differs, cell by cell, from the sources that were read: KVM's of
# linux-source-6.1 6.1.192-2 and linux-source-7.3 7.3.4-1~bpo13+1, Xen's of RELEASE-4.17.7,
# BitVisor's of 66559d6, and this hypervisor's. A cell that is not here has to be 0; of BitVisor's
# the ledger says what each has to be.
import pathlib
import re

from experiments.counted.analysis.counted import COLUMNS, LABELS

KVMS = ("kvm", "kvm-new", "kvm-mediated")
OURS = ("msr+nmi", "msr", "intercept")
TRAPPING = ("kvm", "kvm-new")
XEN, BITVISOR = ("xen",), "bitvisor"

# The page has the reasons in words, as a list: "- **key**: reason".
PAGE = pathlib.Path(__file__).parents[1] / "README.md"
_, LIST, _ = re.split("<!-- .*the reasons -->", PAGE.read_text(encoding="utf-8"))
REASONS = {
    key: " ".join(text.split())
    for key, text in re.findall(r"\*\*(.*)\*\*: ([^*]*)(?:\n- |\n$)", LIST)
}
# {row: (columns, instructions, branches, reason)}: less the native count.
NATIVE_APART = [
    *(
        (row, OURS, -1, 0, "completed")
        for row in "cpuid rdmsr wrmsr in_user xsetbv invd vmcall step_cpuid user_cpuid".split()
    ),
    *(
        (row, ("intercept",), -1, 0, "completed")
        for row in ("rdmsr_status", "wrmsr_selector", "rdpmc", "stop_start")
    ),
    ("outs_user", KVMS, 16, 0, "each return"),
    ("outs_kernel", KVMS, 1, 0, "each return"),
    ("ins_kernel", KVMS, 1, 0, "each return"),
    ("ins_kernel_long", KVMS, 2, 0, "each return"),
    ("device_stos", KVMS, 16, 0, "each store"),
    ("int1", KVMS + XEN, -1, -1, "icebp"),
    *(
        (row, XEN, -1, 0, "completed")
        for row in (
            "cpuid rdmsr wrmsr wrmsr_deadline rdmsr_status wrmsr_selector in_kernel "
            "outs_kernel ins_kernel ins_kernel_long xsetbv invd wbinvd vmcall device_read "
            "device_stos ipi hlt nmi step_cpuid user_cpuid stop_start"
        ).split()
    ),
]
# {row: (columns, instructions, reason)}: less what retired.
RETIRED_APART = [
    *(
        (row, KVMS, 1, "emulated")
        for row in (
            "cpuid rdmsr wrmsr wrmsr_deadline xsetbv invd wbinvd vmcall hlt wrmsr_selector "
            "in_kernel in_user out_user device_read device_jump ipi nmi step_cpuid user_cpuid"
        ).split()
    ),
    *((row, TRAPPING, 1, "emulated") for row in ("rdmsr_status", "rdpmc")),
    ("outs_user", KVMS, 17, "each return"),
    ("outs_kernel", KVMS, 2, "each return"),
    ("ins_kernel", KVMS, 2, "each return"),
    ("ins_kernel_long", KVMS, 3, "each return"),
    ("device_stos", KVMS, 16, "each store"),
    ("stop_start", ("native", "msr+nmi", "msr", "kvm-mediated", BITVISOR), -3, "off"),
    ("stop_start", ("intercept", "xen"), -2, "off"),
    ("stop_start", TRAPPING, -1, "off"),
]
EXPECTED = {
    (row, column): (instructions, branches, reason)
    for row, columns, instructions, branches, reason in NATIVE_APART
    for column in columns
}
RETIRED = {
    (row, column): (instructions, reason)
    for row, columns, instructions, reason in RETIRED_APART
    for column in columns
}
NOT_IN_LEDGER = {"string_split"}  # its region has tries without a split, too
# On the second of two processors besides.
SECOND = {("wbinvd", column): (-1, 0, "completed") for column in OURS}


# Of BitVisor: instructions that do not retire in an operation, because root mode completes them,
# and why.
COMPLETED = {
    **{
        row: (1, "root counts")
        for row in ("cpuid", "rdmsr", "in_user", "xsetbv", "ipi", "nmi", "user_cpuid")
    },
    "step_cpuid": (8, "step lost"),
}
# It has no handler for INVD, and stops the machine: do_exit's last case (core/x86/vt_main.c).
NOT_MEASURED = {("invd", BITVISOR)}


def reason(row, column, cell):
    """The key of REASONS for a cell that counts otherwise than natively; None: it does not."""
    if column == BITVISOR and (cell.instructions or cell.branches):
        return COMPLETED.get(row, (0, "root counts"))[1]
    found = EXPECTED.get((row, column))
    return found and found[2]


def by_ledger(row, cell):
    """What a BitVisor's cell is to be, as Cell.found() has it. The ledger has no branches of root
    mode: there are some, or none."""
    if row in NOT_IN_LEDGER:
        return cell.instructions, cell.branches, None
    completed = COMPLETED.get(row, (0, ""))[0]
    branches = (cell.branches if cell.branches > 0 else None) if cell.root else 0
    return cell.root - completed, branches, cell.root + RETIRED.get((row, BITVISOR), (0, ""))[0]


def unexplained(cells, columns=COLUMNS, besides=(), without=()):
    """A line for each cell that is another one than its reason says, or has none; and for each that
    is missing."""
    out = [
        f"{row}, {column}: not measured"
        for row in LABELS
        for column in columns
        if (row, column) not in cells and row not in without and (row, column) not in NOT_MEASURED
    ]
    expected = {**EXPECTED, **dict(besides)}
    for (row, column), cell in cells.items():
        instructions, branches, _ = expected.get((row, column), (0, 0, ""))
        retired, _ = RETIRED.get((row, column), (0, ""))
        wanted = (
            by_ledger(row, cell)
            if column == BITVISOR
            else (instructions, branches, None if row in NOT_IN_LEDGER else retired)
        )
        if cell.found() != wanted:
            found, wanted = (
                [None if one is None else float(one) for one in both]
                for both in (cell.found(), wanted)
            )
            out.append(
                f"{row}, {column}: {found}, explained {wanted} (instructions and branches less "
                "native's, instructions less what retired)"
            )
    return out
