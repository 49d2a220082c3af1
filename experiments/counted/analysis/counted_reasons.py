# SPDX-License-Identifier: BSD-2-Clause
# counted_reasons.py: why a count differs, cell by cell, from the sources that were read: KVM's of
# linux-source-6.1 6.1.192-2 and linux-source-7.3 7.3.4-1~bpo13+1, Xen's of RELEASE-4.17.7,
# BitVisor's of 66559d6, and this hypervisor's. A cell that is not here has to be 0; of BitVisor's
# the ledger says what each has to be.
from experiments.counted.analysis.counted import COLUMNS, LABELS

KVMS = ("kvm", "kvm-new", "kvm-mediated")
OURS = ("msr+nmi", "msr", "intercept")
TRAPPING = ("kvm", "kvm-new")
XEN, BITVISOR = ("xen",), "bitvisor"

REASONS = {
    "completed": "Root mode completes the instruction and moves RIP behind it (PMUvisor: "
    "vmx/exit/outcome.h:skip_bytes(); Xen: update_guest_eip(), arch/x86/hvm/vmx/vmx.c, and "
    "_hvm_emulate_one(), arch/x86/hvm/emulate.c). The exit is fault-like: the instruction did not "
    "retire "
    '(SDM Vol. 3, "Instructions That Cause VM Exits"), and neither adds anything to a counter that '
    "is "
    "the guest's.",
    "each return": "KVM's x86_emulate_instruction() (x86.c) counts one instruction each time that "
    "it goes back to the "
    "guest or to its user program, even where RIP has not moved. A REP string goes back once for "
    "each element that the user program does, once for each 1,024 elements that KVM's kernel does, "
    "and "
    "once more with RCX = 0, because x86_emulate_insn() (emulate.c) leaves RIP after the last "
    "element: "
    '"skip rip writeback".',
    "each store": "As for ports: each element is an EPT violation, an exit to the user program, "
    "and one count in "
    "x86_emulate_instruction() (x86.c). The guest then re-enters at the REP with RCX = 0, and the "
    "processor retires it: one more.",
    "icebp": "KVM intercepts #DB. At an INT1 handle_exception_nmi() (vmx/vmx.c) moves RIP by the "
    "inner "
    "skip_emulated_instruction(), not by kvm_skip_emulated_instruction(), which alone counts. "
    "Neither the "
    "instruction nor the branch is counted. Xen intercepts #DB as well, and injects it: "
    "vmx_vmexit_handler() and vmx_propagate_intr() (arch/x86/hvm/vmx/vmx.c). The INT1 itself never "
    "retires.",
    "root counts": "BitVisor's exit controls do not load IA32_PERF_GLOBAL_CTRL (vt__vmcs_init(), "
    "core/x86/vt_init.c): "
    "the guest's counters go on in root mode, at CPL 0. Each exit adds root mode's instructions, "
    "by the "
    "ledger to the digit, less the instruction that root mode completed (add_ip()).",
    "step lost": "As above. Besides add_ip() leaves no debug exception pending: the single step of "
    "the CPUID is lost, "
    "and with it the seven instructions of its handler.",
    "emulated": "KVM counts what it executes for the guest: kvm_skip_emulated_instruction() and "
    "x86_emulate_instruction() (x86.c) call kvm_pmu_trigger_event() (6.1) or "
    "kvm_pmu_instruction_retired() (7.3; pmu.c). The processor has not retired it.",
    "off": "The counters are off for a part of it (IA32_PERF_GLOBAL_CTRL): the WRMSR that stops "
    "them and the two "
    "instructions behind it are not counted.",
}
# {row: (columns, instructions, branches, reason)}: less the native count.
NATIVE_APART = [
    *(
        (row, OURS, -1, 0, "completed")
        for row in (
            "cpuid",
            "rdmsr",
            "wrmsr",
            "in_user",
            "xsetbv",
            "invd",
            "vmcall",
            "step_cpuid",
            "user_cpuid",
        )
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
            "cpuid",
            "rdmsr",
            "wrmsr",
            "wrmsr_deadline",
            "rdmsr_status",
            "wrmsr_selector",
            "in_kernel",
            "outs_kernel",
            "ins_kernel",
            "ins_kernel_long",
            "xsetbv",
            "invd",
            "wbinvd",
            "vmcall",
            "device_read",
            "device_stos",
            "ipi",
            "hlt",
            "nmi",
            "step_cpuid",
            "user_cpuid",
            "stop_start",
        )
    ),
]
# {row: (columns, instructions, reason)}: less what retired.
RETIRED_APART = [
    *(
        (row, KVMS, 1, "emulated")
        for row in (
            "cpuid",
            "rdmsr",
            "wrmsr",
            "wrmsr_deadline",
            "xsetbv",
            "invd",
            "wbinvd",
            "vmcall",
            "hlt",
            "wrmsr_selector",
            "in_kernel",
            "in_user",
            "out_user",
            "device_read",
            "device_jump",
            "ipi",
            "nmi",
            "step_cpuid",
            "user_cpuid",
        )
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
                f"native's, "
                "instructions less what retired)"
            )
    return out
