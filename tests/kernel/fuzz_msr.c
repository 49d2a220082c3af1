/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on CPUID, MSRs and RDPMC. Two lists say which MSRs are not written and
 * which values are not compared, each with its reason; everything else is tried, whatever it is.
 * SDM Vol. 2, "CPUID", "RDMSR", "WRMSR"; Vol. 3, "MSR-Bitmap Address"; Vol. 4.
 */
#include "fuzz.h"

#include "kernel.h"
#include "hypercall.h"

struct range {
    uint32_t first, last;
    const char *why;
};

/* Never written: natively it would end the machine, or the fuzzer's own view of it. */
static const struct range not_written[] = {
    {IA32_TIME_STAMP_COUNTER, IA32_TIME_STAMP_COUNTER, "the emulator's time, and every timer's"},
    {0x3b, 0x3b, "IA32_TSC_ADJUST: the same"},
    {IA32_FEATURE_CONTROL, IA32_FEATURE_CONTROL, "natively: its lock cannot be taken back"},
    {0x6e0, 0x6e0, "IA32_TSC_DEADLINE: arms a timer that fires in a later operation"},
    {IA32_X2APIC_FIRST, IA32_X2APIC_LAST, "INIT and SIPI by the ICR, LVT: fuzz_ipi() has its own"},
    {IA32_APIC_BASE, IA32_APIC_BASE, "off, the APIC loses all state; apic_base_value() moves it"},
    {IA32_EFER, IA32_EFER, "NXE: restored too late for the window; efer_value() has the rest"},
};

/* Their values depend on time, or on how many instructions ran before. */
static const struct range not_compared[] = {
    {IA32_TIME_STAMP_COUNTER, IA32_TIME_STAMP_COUNTER, "time"},
    {IA32_PMC0, IA32_PMC0 + 7, "counter"},
    {0xe7, 0xe8, "IA32_MPERF, IA32_APERF: time"},
    {IA32_FIXED_CTR0, IA32_FIXED_CTR0 + 3, "counter"},
    {IA32_A_PMC0, IA32_A_PMC0 + 7, "counter"},
    {0x6e0, 0x6e0, "IA32_TSC_DEADLINE: time"},
    {0x830, 0x830, "ICR: the hypervisor's NMIs to itself leave their command there"},
    {0x839, 0x839, "the local APIC timer's count: time"},
    {IA32_VMX_BASIC, IA32_VMX_EXIT_CTLS2, "not there for a guest: no value can be made of them"},
};

/* What the choice leans to: registers with a meaning here or in the hypervisor. */
static const struct range known[] = {
    {0x00, 0x01, "machine check"},
    {0x10, 0x1b, "TSC, platform, APIC base"},
    {0x2a, 0x3b, "power on, SMI count, feature control"},
    {0x48, 0x4f, "speculation control"},
    {0x79, 0x9e, "microcode, SGX, SMM"},
    {0xc1, 0xc8, "counters"},
    {0xe1, 0xfe, "wait control, MPERF, MTRRCAP"},
    {0x10a, 0x10f, "capabilities"},
    {0x122, 0x123, "TSX"},
    {0x174, 0x18d, "SYSENTER, machine check, events"},
    {0x198, 0x1d9, "power, MISC_ENABLE, LBR, DEBUGCTL"},
    {0x1f2, 0x1f3, "SMRR"},
    {IA32_MTRR_PHYSBASE0, 0x20f, "MTRRs"},
    {IA32_MTRR_FIX64K_00000, IA32_PAT, "MTRRs, PAT"},
    {IA32_MTRR_DEF_TYPE, IA32_MTRR_DEF_TYPE, "MTRRs"},
    {IA32_FIXED_CTR0, 0x30c, "counters"},
    {0x329, 0x345, "metrics, PERF_CAPABILITIES"},
    {0x38d, 0x392, "global PMU registers"},
    {0x3f1, 0x3f7, "PEBS"},
    {0x400, 0x41f, "machine check banks"},
    {IA32_VMX_BASIC, IA32_VMX_EXIT_CTLS2, "VMX"},
    {IA32_A_PMC0, 0x4c8, "counters"},
    {0x560, 0x587, "processor trace"},
    {0x600, 0x61f, "DS area, RAPL"},
    {0x680, 0x6df, "LBR, CET"},
    {0x6e0, 0x6e0, "TSC deadline"},
    {0x770, 0x777, "HWP"},
    {IA32_X2APIC_FIRST, 0x83f, "x2APIC"},
    {0xd90, 0xda0, "BNDCFGS, XSS"},
    {0xdc0, 0xddf, "LBR information"},
    {0x1200, 0x121f, "architectural LBR"},
    {0x14ce, 0x14cf, "architectural LBR"},
    {0x1500, 0x151f, "architectural LBR"},
    {0x1600, 0x161f, "architectural LBR"},
    {0x1ffe, 0x2001, "the end of the bitmap's low part, and the uncore's past it"},
    {0x3ffe, 0x4001, "the last that may be a register there"},
    {0x40000000, 0x40000021, "what other hypervisors have"},
    {0x4b564d00, 0x4b564d08, "KVM's"},
    {0xbfffffff, 0xc0000001, "the beginning of the bitmap's high part"},
    {0xc0000080, 0xc0000084, "EFER, SYSCALL"},
    {0xc0000100, 0xc0000104, "FS and GS base, TSC_AUX"},
    {0xc0001ffe, 0xc0002001, "the end of the bitmap's high part"},
    {0xc0010000, 0xc0010020, "another vendor's"},
    {0xfffffffe, 0xffffffff, "the last ones"},
};

#define HOLE 0x60000000u /* neither memory nor a device in the emulator */
#define HOLE_PAGES 0x0ffff000u
#define MSR_ABSENT 0x40000100u
#define MSR_LOW_END 0x2000u
#define MSR_HIGH 0xc0000000u

static bool listed(const struct range *list, unsigned count, uint32_t index)
{
    for (unsigned i = 0; i < count; i++)
        if (index >= list[i].first && index <= list[i].last)
            return true;
    return false;
}

static uint32_t pick_msr(struct fuzz_op *op)
{
    uint64_t x = fuzz_below(op, 100);

    if (x < 70) {
        const struct range *r = &FUZZ_PICK(op, known);
        return r->first + (uint32_t)fuzz_below(op, r->last - r->first + 1);
    }
    if (x < 85)
        return (uint32_t)fuzz_below(op, MSR_LOW_END);
    if (x < 92)
        return MSR_HIGH + (uint32_t)fuzz_below(op, MSR_LOW_END);
    return (uint32_t)fuzz_random(op);
}

static void execute_rdmsr(struct fuzz_op *op, uint32_t index)
{
    fuzz_begin(op);
    fuzz_in.gpr[RCX] = index;
    CODE(op, 0x0f, 0x32);
    (void)fuzz_go(op);
}

void fuzz_rdmsr(struct fuzz_op *op)
{
    uint32_t index = pick_msr(op);

    op->subject = index;
    fuzz_level(op, true);
    execute_rdmsr(op, index);
    fuzz_keep(op, true);
    if (listed(not_compared, LENGTH_OF(not_compared), index) && op->vector == FUZZ_DONE)
        op->value[RAX] = op->value[RDX] = 0;
}

static void write_msr(struct fuzz_op *op, uint32_t index, uint64_t value)
{
    fuzz_begin(op);
    fuzz_in.gpr[RCX] = index;
    fuzz_in.gpr[RAX] = (uint32_t)value;
    fuzz_in.gpr[RDX] = value >> 32;
    CODE(op, 0x0f, 0x30);
}

static uint64_t result_64(void) { return fuzz_out.gpr[RDX] << 32 | (uint32_t)fuzz_out.gpr[RAX]; }

/* What an overflow leaves, and what counts. */
static void quiet_pmu(struct fuzz_op *op)
{
    unsigned cpl = op->cpl;

    op->cpl = 0;
    op->code_32 = false;
    write_msr(op, IA32_PERF_GLOBAL_CTRL, 0);
    CODE(op, 0xb9, IA32_PERF_GLOBAL_STATUS & 0xff, IA32_PERF_GLOBAL_STATUS >> 8, 0, 0, /* ECX */
         0x0f, 0x32,                                                                   /* RDMSR */
         0xb9, IA32_PERF_GLOBAL_STATUS_RESET & 0xff, IA32_PERF_GLOBAL_STATUS_RESET >> 8, 0, 0, 0x0f,
         0x30); /* WRMSR */
    (void)fuzz_go(op);
    op->cpl = cpl;
}

static bool of_pmu(uint32_t index)
{
    return (index >= IA32_PERFEVTSEL0 && index < IA32_PERFEVTSEL0 + 8) ||
           (index >= IA32_FIXED_CTR_CTRL && index <= IA32_PERF_GLOBAL_INUSE) ||
           (index >= IA32_PMC0 && index < IA32_PMC0 + 8) ||
           (index >= IA32_A_PMC0 && index < IA32_A_PMC0 + 8);
}

/* Moves the APIC to where nothing else is, or keeps it, and never turns it off. */
static uint64_t apic_base_value(struct fuzz_op *op, uint64_t now)
{
    uint64_t moved = (now & (PAGE_SIZE - 1)) | HOLE | (fuzz_random(op) & HOLE_PAGES);

    return (fuzz_chance(op, 60) ? moved : now) | (fuzz_chance(op, 20) ? BIT(63) : 0);
}

static uint64_t efer_value(struct fuzz_op *op, uint64_t now)
{
    return now ^ (fuzz_number(op) & ~EFER_NXE);
}

static uint64_t pick_value(struct fuzz_op *op, uint32_t index, bool readable, uint64_t now)
{
    if (index == IA32_APIC_BASE)
        return apic_base_value(op, now);
    if (index == IA32_EFER)
        return efer_value(op, now);
    /* A value that depends on time would make the operation another one each time. */
    bool known_value = readable && !listed(not_compared, LENGTH_OF(not_compared), index);
    switch (fuzz_below(op, 4)) {
    case 0:
        return known_value ? now ^ BIT(fuzz_below(op, 64)) : 0;
    case 1:
        return known_value ? now : ~0ULL;
    default:
        return fuzz_number(op);
    }
}

/* Writes, reads back at once, and puts back what was there. */
void fuzz_wrmsr(struct fuzz_op *op)
{
    uint32_t index = pick_msr(op);
    bool special = index == IA32_APIC_BASE || index == IA32_EFER || index == IA32_FEATURE_CONTROL;

    if (listed(not_written, LENGTH_OF(not_written), index) && !special) {
        op->kind = FUZZ_RDMSR;
        fuzz_rdmsr(op);
        return;
    }
    /* What the processor writes of its own accord would go anywhere: fuzz_record() has its own. */
    if (fuzz_writes_by_itself(index))
        index = IA32_PAT;
    op->subject = index;
    execute_rdmsr(op, index);
    bool readable = fuzz_out.vector == FUZZ_DONE;
    uint64_t before = result_64(), value = pick_value(op, index, readable, before);
    op->detail = value;
    op->before = before;
    fuzz_level(op, false);
    /* Natively the lock would stay: there it is a register that does not exist, which faults as a
     * locked one does. */
    write_msr(op, index == IA32_FEATURE_CONTROL && !fuzz_guest ? MSR_ABSENT : index, value);
    CODE(op, 0x0f, 0x32);
    bool both = fuzz_go(op);
    fuzz_keep(op, false);
    if (both && !listed(not_compared, LENGTH_OF(not_compared), index))
        op->value[0] = result_64();
    op->value[1] = fuzz_out.gpr[RCX] ^ fuzz_in.gpr[RCX];
    /* The write was done if what faulted, if anything, is the RDMSR behind it. */
    bool written = both || fuzz_out.rip != fuzz_in.rip;
    op->value[2] = written;
    uint8_t length = (uint8_t)op->length;
    if (written && readable) {
        struct fuzz_op restore = {.cpl = 0, .random = 0};
        write_msr(&restore, index, before);
        op->value[3] = fuzz_go(&restore);
    }
    if (written && of_pmu(index)) {
        struct fuzz_op quiet = {.cpl = 0, .random = 0};
        quiet_pmu(&quiet);
    }
    op->length = length;
}

void fuzz_rdpmc(struct fuzz_op *op)
{
    static const uint32_t first[] = {0, 0x40000000, 0x20000000, 0x80000000};
    uint32_t index = FUZZ_PICK(op, first) + (uint32_t)fuzz_below(op, 10);

    if (fuzz_chance(op, 20))
        index = (uint32_t)fuzz_number(op);
    op->subject = index;
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.gpr[RCX] = index;
    CODE(op, 0x0f, 0x33);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    /* A counter: what it is at depends on the operations before. */
    if (op->vector == FUZZ_DONE)
        op->value[RAX] = op->value[RDX] = 0;
}

void fuzz_cpuid(struct fuzz_op *op)
{
    static const uint32_t first[] = {0, 0, 0, 0x80000000u, CPUID_HV_SIGNATURE, 0x20000000u};
    static const uint32_t count[] = {8, 0x28, 0x28, 12, 4, 3};
    unsigned group = (unsigned)fuzz_below(op, LENGTH_OF(first));
    uint32_t leaf = first[group] + (uint32_t)fuzz_below(op, count[group]);

    if (fuzz_chance(op, 15))
        leaf = (uint32_t)fuzz_number(op);
    op->subject = leaf;
    op->detail = fuzz_chance(op, 70) ? fuzz_below(op, 4) : (uint32_t)fuzz_number(op);
    fuzz_level(op, true);
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = leaf;
    fuzz_in.gpr[RCX] = op->detail;
    CODE(op, 0x0f, 0xa2);
    (void)fuzz_go(op);
    fuzz_keep(op, true);
    if (leaf == CPUID_HV_FEATURES)
        op->value[RBX] = op->value[RDX] = 0; /* options: the guests compared have several */
}
