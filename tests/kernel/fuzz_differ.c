/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The documented differences between a guest of PMUvisor and the machine itself: one table. The
 * native run makes of each result what the guest has to get, so that both runs have to be the same;
 * a row that never changed anything, or one that is missing, fails the test
 * (tests/e2e/test_fuzz.py).
 */
#include "fuzz.h"

#include "console/log.h"
#include "hypercall.h"
#include "kernel.h"

#define ANYTHING 0, ~0ULL
/* SDM Vol. 3, "Interrupt 8 - Double Fault Exception (#DF)" */
#define MAKES_DOUBLE_FAULT                                                                         \
    (BIT(VECTOR_DE) | BIT(VECTOR_TS) | BIT(VECTOR_NP) | BIT(VECTOR_SS) | BIT(VECTOR_GP) |          \
     BIT(VECTOR_PF))
#define PF_PRESENT BIT(0)
#define PF_RESERVED BIT(3)
#define CR4_HIDDEN CR4_VMXE
#define HYPERCALLS_OFFERED                                                                         \
    (BIT(HYPERCALL_NMI_PASSTHROUGH_ON) | BIT(HYPERCALL_NMI_PASSTHROUGH_OFF) |                      \
     BIT(HYPERCALL_UNKNOWN_NMI) | BIT(HYPERCALL_STATISTICS) | BIT(HYPERCALL_LOG) |                 \
     BIT(HYPERCALL_HOST_WORK))
#define FEATURES_ECX_VMX_SMX (BIT(5) | BIT(6))
#define LEAF_EXTENDED_1 0x80000001u
#define EXTENDED_1_EDX_SYSCALL BIT(11)
#define FEATURES_ECX_HYPERVISOR BIT(31)
#define FEATURE_CONTROL_SHOWN (FEATURE_CONTROL_LOCK)
#define FEATURE_CONTROL_HIDDEN                                                                     \
    (FEATURE_CONTROL_VMX_INSIDE_SMX | FEATURE_CONTROL_VMX_OUTSIDE_SMX | FEATURE_CONTROL_SENTER |   \
     FEATURE_CONTROL_SGX_LC | FEATURE_CONTROL_SGX)

struct row {
    enum fuzz_kind kind;
    uint64_t first, last; /* of the operation's subject */
    /* Makes the guest's result of the native one; false: this row has nothing to say. */
    bool (*change)(struct fuzz_op *op, const struct row *row);
    uint64_t clear, set; /* what the function takes */
    const char *why;
};

/* The operation comes to its end instead. */
static void is_done(struct fuzz_op *op)
{
    op->vector = FUZZ_DONE;
    op->error = 0;
    op->rip = op->start + op->length + 2; /* behind INT FUZZ_DONE */
    op->rflags = op->flags;
    op->others = op->others_before;
    op->cr2 = 0;
}

/* The operation's first instruction faults instead, and everything is as it was before. */
static bool faults(struct fuzz_op *op, unsigned vector)
{
    op->vector = vector;
    op->error = 0;
    op->rip = op->start;
    op->rflags = op->flags | RFLAGS_RF;
    op->others = op->others_before;
    op->cr2 = 0;
    return true;
}

static void outputs_are_inputs(struct fuzz_op *op)
{
    for (unsigned i = 0; i < FUZZ_VALUES; i++)
        op->value[i] = op->code_32 ? (uint32_t)fuzz_in.gpr[i] : fuzz_in.gpr[i];
}

static bool read_faults(struct fuzz_op *op, const struct row *row)
{
    (void)row;
    if (op->vector != FUZZ_DONE)
        return false;
    outputs_are_inputs(op);
    return faults(op, VECTOR_GP);
}

static bool bits(struct fuzz_op *op, const struct row *row, unsigned reg)
{
    uint64_t before = op->value[reg];

    if (op->vector != FUZZ_DONE)
        return false;
    op->value[reg] = (before & ~row->clear) | row->set;
    return op->value[reg] != before;
}

static bool rax_bits(struct fuzz_op *op, const struct row *row) { return bits(op, row, RAX); }
static bool rcx_bits(struct fuzz_op *op, const struct row *row) { return bits(op, row, RCX); }
static bool rdx_bits_of_32(struct fuzz_op *op, const struct row *row)
{
    return op->code_32 && bits(op, row, RDX);
}

static bool hypervisor_leaf(struct fuzz_op *op, const struct row *row)
{
    (void)row;
    for (unsigned i = 0; i < FUZZ_VALUES; i++)
        op->value[i] = 0;
    if (op->subject == CPUID_HV_FEATURES) {
        op->value[RAX] = PMUVISOR_VERSION_MAJOR << 16 | PMUVISOR_VERSION_MINOR << 8 |
                         PMUVISOR_VERSION_PATCH;
        op->value[RCX] = HYPERCALLS_OFFERED;
    } else if (op->subject == CPUID_HV_SIGNATURE) {
        op->value[RAX] = CPUID_HV_LAST;
        op->value[RBX] = PMUVISOR_SIGNATURE_EBX;
        op->value[RCX] = PMUVISOR_SIGNATURE_ECX;
        op->value[RDX] = PMUVISOR_SIGNATURE_EDX;
    }
    return true;
}

/* Of a write the values are: what is read then, 0, whether it was done, whether undoing it was. */
static bool write_faults(struct fuzz_op *op, const struct row *row)
{
    (void)row;
    if (!op->value[2])
        return false;
    op->value[0] = op->value[2] = op->value[3] = 0;
    return faults(op, VECTOR_GP);
}

/* A write of what is there already has no effect, any other faults. */
static bool is_kept(struct fuzz_op *op, const struct row *row)
{
    return op->value[0] != op->before && write_faults(op, row);
}

static bool mtrrs_turned_off(struct fuzz_op *op, const struct row *row)
{
    if (op->cpl != 0)
        return false;
    if (op->detail & MTRR_DEF_TYPE_E)
        return is_kept(op, row);
    is_done(op);
    op->value[0] = op->before;
    op->value[2] = op->value[3] = true;
    return true;
}

static bool change_faults(struct fuzz_op *op, const struct row *row)
{
    return (op->detail ^ op->before) & row->clear && write_faults(op, row);
}

/* Done, but for these bits: what is read then has them as they were. */
static bool bits_stay(struct fuzz_op *op, const struct row *row)
{
    uint64_t read = op->value[0];

    if (!op->value[2])
        return false;
    op->value[0] = (read & ~row->clear) | (op->before & row->clear);
    return op->value[0] != read;
}

static bool cr4_faults(struct fuzz_op *op, const struct row *row)
{
    if (op->vector != FUZZ_DONE || !(op->subject & row->clear))
        return false;
    outputs_are_inputs(op);
    op->value[RBX] = fuzz_base.cr4;
    return faults(op, VECTOR_GP);
}

/* Answered; what the answer has to be depends on the privilege level, and the guest checked it. */
static bool call_is_answered(struct fuzz_op *op, const struct row *row)
{
    (void)row;
    is_done(op);
    op->value[0] = true;
    return true;
}

static bool string_faults(struct fuzz_op *op, const struct row *row)
{
    uint16_t pm1 = machine_pm1a_control();

    (void)row;
    if (op->vector != FUZZ_DONE || op->subject > pm1 + 1u || op->subject + op->detail <= pm1)
        return false;
    outputs_are_inputs(op);
    op->value[RBX] = fuzz_in.gpr[RDI] ^ fuzz_in.gpr[RSI] << 32;
    return faults(op, VECTOR_GP);
}

static bool page_faults(struct fuzz_op *op, const struct row *row)
{
    (void)row;
    /* Where the page table itself cannot be read, what it allows is not known. */
    bool reached = op->vector == FUZZ_DONE ||
                   (op->hidden_table && op->vector == VECTOR_PF && op->error & PF_PRESENT &&
                    !(op->error & PF_RESERVED));
    if (!op->hidden || !reached)
        return false;
    bool executed = op->rip - 2 == fuzz_in.gpr[RDI] || op->rip == fuzz_in.gpr[RDI];
    faults(op, VECTOR_GP);
    if (executed)
        op->rip = fuzz_in.gpr[RDI];
    return true;
}

/* What was being delivered is gone, unless it and #GP make a double fault. */
static bool delivery_faults(struct fuzz_op *op, const struct row *row)
{
    bool contributes = op->vector < EXCEPTIONS && BIT(op->vector) & MAKES_DOUBLE_FAULT;

    (void)row;
    if (!op->hidden || op->vector != op->detail)
        return false;
    /* Of INT n and INT3 the address pushed was the next one. */
    if (op->vector == VECTOR_BP || op->vector >= EXCEPTIONS)
        op->rip = op->start;
    op->vector = contributes ? VECTOR_DF : VECTOR_GP;
    op->rflags |= RFLAGS_RF;
    op->error = 0;
    op->cr2 = 0;
    return true;
}

static const struct row rows[] = {
    {FUZZ_CPUID, 1, 1, rcx_bits, FEATURES_ECX_VMX_SMX, FEATURES_ECX_HYPERVISOR,
     "CPUID.1:ECX: no VMX, no SMX, and the hypervisor bit"},
    {FUZZ_CPUID, CPUID_HV_SIGNATURE, 0x4fffffff, hypervisor_leaf, 0, 0,
     "CPUID 40000000H to 4FFFFFFFH are the hypervisor's"},
    {FUZZ_CPUID, LEAF_EXTENDED_1, LEAF_EXTENDED_1, rdx_bits_of_32, 0, EXTENDED_1_EDX_SYSCALL,
     "CPUID 80000001H:EDX says SYSCALL as in 64-bit mode, whatever the guest's code is"},
    {FUZZ_RDMSR, IA32_VMX_BASIC, IA32_VMX_EXIT_CTLS2, read_faults, 0, 0,
     "the VMX capability MSRs belong to a hidden feature"},
    {FUZZ_RDMSR, IA32_FEATURE_CONTROL, IA32_FEATURE_CONTROL, rax_bits, FEATURE_CONTROL_HIDDEN,
     FEATURE_CONTROL_SHOWN, "IA32_FEATURE_CONTROL is locked and allows nothing"},
    {FUZZ_WRMSR, IA32_APIC_BASE, IA32_APIC_BASE, change_faults, BITS(51, 12), 0,
     "the local APIC cannot be moved: the hypervisor's page table has it where it is"},
    {FUZZ_WRMSR, IA32_MISC_ENABLE, IA32_MISC_ENABLE, bits_stay, MISC_ENABLE_XD_DISABLE, 0,
     "Execute Disable stays on, whatever is written: the hypervisor's page tables use it"},
    {FUZZ_WRMSR, IA32_BIOS_UPDT_TRIG, IA32_BIOS_UPDT_TRIG, write_faults, 0, 0,
     "no microcode is loaded: it may change what VMX can do"},
    {FUZZ_WRMSR, IA32_MTRR_PHYSBASE0, 0x21f, is_kept, 0, 0,
     "MTRRs keep what firmware set: the EPT has their types"},
    {FUZZ_WRMSR, IA32_MTRR_FIX64K_00000, IA32_MTRR_FIX4K_F8000, is_kept, 0, 0,
     "fixed-range MTRRs, the same"},
    {FUZZ_WRMSR, IA32_MTRR_DEF_TYPE, IA32_MTRR_DEF_TYPE, mtrrs_turned_off, 0, 0,
     "MTRRs cannot be turned off: a write with E = 0 is accepted and has no effect"},
    {FUZZ_CR4, ANYTHING, cr4_faults, CR4_HIDDEN, 0,
     "CR4.VMXE is a bit of a hidden feature: reserved"},
    {FUZZ_HYPERCALL, ANYTHING, call_is_answered, 0, 0, "VMCALL is answered"},
    {FUZZ_STRING, ANYTHING, string_faults, 0, 0,
     "no string I/O on the ports of the PM1 control register, which are watched"},
    {FUZZ_PAGE, ANYTHING, page_faults, 0, 0, "the hypervisor's memory cannot be touched: #GP(0)"},
    {FUZZ_DELIVERY, ANYTHING, delivery_faults, 0, 0,
     "an event whose delivery touches it becomes #GP(0), or a double fault"},
};

static uint64_t used[LENGTH_OF(rows)];

void fuzz_differ(struct fuzz_op *op)
{
    for (unsigned i = 0; i < LENGTH_OF(rows); i++)
        if (rows[i].kind == op->kind && op->subject >= rows[i].first && op->subject <= rows[i].last)
            used[i] += rows[i].change(op, &rows[i]);
}

void fuzz_differences(void)
{
    for (unsigned i = 0; i < LENGTH_OF(rows); i++)
        log_printf("fuzz-difference: used=%lu why=\"%s\"\n", used[i], rows[i].why);
}
