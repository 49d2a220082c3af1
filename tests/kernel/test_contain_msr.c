/* SPDX-License-Identifier: BSD-2-Clause
 *
 * MSRs by which a guest could reach the hypervisor: what it gets for an access, and what the
 * hardware has in them afterwards, which the hypervisor's test build tells. The job names the MSR.
 * SDM Vol. 4, "Architectural MSRs".
 */
#include "host.h"
#include "kernel.h"

#include "console/log.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define PATTERN 0x5a5a5a5a5a5a5a5aULL
#define BITS_TRIED 64
#define XCR0_X87_SSE 3

static bool good;

static void expect(uint32_t index, bool condition, const char *what, uint64_t value)
{
    if (!condition && good)
        tap_note("MSR 0x%x: %s (0x%lx)", index, what, value);
    good &= condition;
}

/* What root mode reads. */
static uint64_t hardware(uint32_t index)
{
    struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_MSR, index, 0, 0);

    expect(index, r.rax == 0, "the hardware does not have it", r.rax);
    return r.rbx;
}

static bool begin(const struct job *job)
{
    good = true;
    return hypervisor_offers(job, HYPERCALL_TEST_MSR);
}

static void expect_write(uint32_t index, uint64_t value, bool accepted, uint64_t then)
{
    expect(index, wrmsr_try(index, value) == accepted,
           accepted ? "a write was refused" : "a write was accepted", value);
    expect(index, accepted || fault_vector == VECTOR_GP, "refused with another vector",
           fault_vector);
    uint64_t now = hardware(index);
    expect(index, now == then, "the hardware holds the wrong value", now);
}

/* Not written, with what it holds either. */
static void not_written(const struct job *job, bool readable)
{
    uint32_t index = (uint32_t)job->number[0];
    uint64_t value = 0;

    if (!begin(job))
        return;
    uint64_t before = hardware(index);
    if (readable)
        expect(index, rdmsr_try(index, &value) && value == before, "it was not read", value);
    else
        expect(index, !rdmsr_try(index, &value) && fault_vector == VECTOR_GP, "it was read", value);
    expect_write(index, before, false, before);
    expect_write(index, before ^ PATTERN, false, before);
    tap_result(good, job->name, NULL);
}

void test_msr_refused(const struct job *job) { not_written(job, false); }
void test_msr_read_only(const struct job *job) { not_written(job, true); }

/* Written with nothing but what it holds. */
void test_msr_kept(const struct job *job)
{
    uint32_t index = (uint32_t)job->number[0];
    uint64_t value = 0;

    if (!begin(job))
        return;
    uint64_t before = hardware(index);
    expect(index, rdmsr_try(index, &value) && value == before, "it was not read", value);
    expect_write(index, before, true, before);
    for (unsigned bit = 0; bit < BITS_TRIED; bit++)
        /* Turning the MTRRs off is accepted without effect: test_msr_special(). */
        if (index != IA32_MTRR_DEF_TYPE || (before ^ BIT(bit)) & MTRR_DEF_TYPE_E)
            expect_write(index, before ^ BIT(bit), false, before);
    tap_result(good, job->name, NULL);
}

/* The guest's alone: written, read back, and never changed by an exit. */
void test_msr_passed(const struct job *job)
{
    static const uint64_t values[] = {0, 1, 2, 4, 7, 1};
    uint32_t index = (uint32_t)job->number[0];
    uint64_t value = ~0ULL, before = 0;

    good = true;
    expect(index, rdmsr_try(index, &before), "a read was refused", 0);
    for (unsigned i = 0; i < LENGTH_OF(values); i++) {
        expect(index, wrmsr_try(index, values[i]), "a write was refused", values[i]);
        (void)cpuid(0, 0);
        expect(index, rdmsr_try(index, &value) && value == values[i], "an exit changed it", value);
    }
    (void)wrmsr_try(index, before);
    tap_result(good, job->name, NULL);
}

/* Where the processor writes records by physical addresses, past the EPT: nowhere in the
 * hypervisor's memory, by none of the buffer's pages. The register is 64 KiB of the test kernel's
 * in the end. */
void test_msr_pebs_base(const struct job *job)
{
    static const uint64_t own = 0x1000000 | 4;
    uint64_t hidden = hidden_address(), value, first;

    if (!begin(job))
        return;
    /* The first page of it that is hidden, of those that lie together. */
    for (first = hidden & ~(PAGE_SIZE - 1ULL); !read_try(first - PAGE_SIZE, &value);)
        first -= PAGE_SIZE;
    expect(IA32_PEBS_BASE, hidden != 0, "no memory is hidden", hidden);
    expect_write(IA32_PEBS_BASE, 0, true, 0);
    expect_write(IA32_PEBS_BASE, hidden & ~(PAGE_SIZE - 1ULL), false, 0);
    expect_write(IA32_PEBS_BASE, first, false, 0);
    expect_write(IA32_PEBS_BASE, first - PAGE_SIZE, true,
                 first - PAGE_SIZE); /* one page, before it */
    expect_write(IA32_PEBS_BASE, (first - PAGE_SIZE) | 1, false, first - PAGE_SIZE); /* two */
    expect_write(IA32_PEBS_BASE, 0 | 31, false, first - PAGE_SIZE); /* all memory and more */
    expect_write(IA32_PEBS_BASE, BIT(51), false, first - PAGE_SIZE);
    expect_write(IA32_PEBS_BASE, own, true, own);
    expect(IA32_PEBS_BASE, rdmsr_try(IA32_PEBS_BASE, &value) && value == own, "it was not read",
           value);
    tap_result(good, job->name, NULL);
}

/* A bit of a state component that CPUID does not show is refused, as a reserved one is. SDM Vol. 1,
 * "Enabling the XSAVE Feature Set and XSAVE-Enabled Features". */
void test_xss(const struct job *job)
{
    struct cpuid_result shown = cpuid(CPUID_LEAF_XSAVE, 1);
    uint64_t components = shown.ecx | (uint64_t)shown.edx << 32, before = 0;

    good = true;
    expect(IA32_XSS, rdmsr_try(IA32_XSS, &before), "it was not read", 0);
    for (unsigned bit = 0; bit < BITS_TRIED; bit++)
        expect(IA32_XSS, wrmsr_try(IA32_XSS, BIT(bit)) == !!(components & BIT(bit)),
               components & BIT(bit) ? "a write was refused" : "a write was accepted", BIT(bit));
    (void)wrmsr_try(IA32_XSS, before);
    tap_result(good, job->name, NULL);
}

/* XCR0's bit of APX is refused, by whichever processor. */
void test_xcr0_apx(const struct job *job)
{
    static const uint8_t code[] = {0x31, 0xc9, 0x31, 0xd2, 0x89, 0xf8, 0x0f, 0x01, 0xd1, 0xc3};
    uint64_t cr4 = read_cr4(); /* xor ecx, ecx; xor edx, edx; mov eax, edi; xsetbv; ret */

    write_cr4(cr4 | CR4_OSXSAVE);
    bool taken = call_try(code, XCR0_X87_SSE), refused = !call_try(code, XCR0_X87_SSE | XCR0_APX);
    write_cr4(cr4);
    tap_result(taken && refused && fault_vector == VECTOR_GP, job->name, NULL);
}

void test_msr_special(const struct job *job)
{
    if (!begin(job))
        return;
    uint64_t type = rdmsr(IA32_MTRR_DEF_TYPE), base = rdmsr(IA32_APIC_BASE);
    uint64_t enable = rdmsr(IA32_MISC_ENABLE), control = rdmsr(IA32_FEATURE_CONTROL);

    /* As Linux rewrites the MTRRs: off, the same again, on. */
    expect(IA32_MTRR_DEF_TYPE, type & MTRR_DEF_TYPE_E, "MTRRs are off at the start", type);
    expect_write(IA32_MTRR_DEF_TYPE, 0, true, type);
    expect_write(IA32_MTRR_DEF_TYPE, type, true, type);
    expect_write(IA32_APIC_BASE, base, true, base);
    expect_write(IA32_APIC_BASE, base ^ PAGE_SIZE, false, base);
    expect_write(IA32_APIC_BASE, base ^ BIT(32), false, base);
    /* The bit stays, the others are written. */
    expect_write(IA32_MISC_ENABLE, enable ^ MISC_ENABLE_XD_DISABLE, true, enable);
    expect_write(IA32_MISC_ENABLE, enable ^ MISC_ENABLE_XD_DISABLE ^ BIT(0), true, enable ^ BIT(0));
    expect_write(IA32_MISC_ENABLE, enable ^ BIT(0), true, enable ^ BIT(0));
    expect_write(IA32_MISC_ENABLE, enable, true, enable);
    uint64_t options = rdmsr(IA32_MCU_OPT_CTRL);
    expect_write(IA32_MCU_OPT_CTRL, options ^ MCU_OPT_CTRL_FB_CLEAR_DIS, true, options);
    expect_write(IA32_MCU_OPT_CTRL, options ^ BIT(0), true, options ^ BIT(0));
    uint64_t memory = rdmsr(MSR_MEMORY_CTRL); /* bit 29: split-lock disable */
    expect_write(MSR_MEMORY_CTRL, memory ^ MEMORY_CTRL_UC_LOCK_DISABLE, true, memory);
    expect_write(MSR_MEMORY_CTRL, memory ^ BIT(29), true, memory ^ BIT(29));
    expect(IA32_FEATURE_CONTROL,
           control & FEATURE_CONTROL_LOCK && !(control & FEATURE_CONTROL_VMX_OUTSIDE_SMX),
           "it shows what is hidden", control);
    uint64_t locked = hardware(IA32_FEATURE_CONTROL);
    expect_write(IA32_FEATURE_CONTROL, control, false, locked);
    expect_write(IA32_FEATURE_CONTROL, 0, false, locked);
    tap_result(good, job->name, NULL);
}

/* Root mode's IA32_SPEC_CTRL and the flush before an entry are what CPUID says that it does; the
 * guest's value comes back. The emulator keeps what was last written to IA32_FLUSH_CMD. */
void test_mitigations(const struct job *job)
{
    uint32_t on = cpuid(CPUID_HV_FEATURES, 0).edx;
    uint64_t root_bits = on & MITIGATION_IBRS ? SPEC_CTRL_IBRS : 0, value;

    if (!begin(job))
        return;
    tap_value("mitigations", on);
    for (uint64_t guest = 0; guest < 8; guest++) {
        wrmsr(IA32_SPEC_CTRL, guest);
        wrmsr(IA32_FLUSH_CMD, 0);
        value = hardware(IA32_SPEC_CTRL);
        expect(IA32_SPEC_CTRL, value == (guest | root_bits), "root mode runs with", value);
        value = rdmsr(IA32_SPEC_CTRL);
        expect(IA32_SPEC_CTRL, value == guest, "the guest has back", value);
        value = rdmsr(IA32_FLUSH_CMD);
        expect(IA32_FLUSH_CMD, value == (on & MITIGATION_L1D ? FLUSH_CMD_L1D : 0),
               "written before the entry", value);
    }
    wrmsr(IA32_SPEC_CTRL, 0);
    tap_result(good, job->name, NULL);
}

/* ---- what is shown, and what is there ---- */

#define IN_MSR ~0u /* the bit is one of the MSR `leaf` */
enum { EAX, EBX, ECX, EDX };

/* Where these bits are (`shown`: which of them as 1), a register of the thing is there, of which
 * these bits can be changed. SDM Vol. 2, "CPUID"; Vol. 4, "Architectural MSRs". */
static const struct enumeration {
    const char *name;
    uint32_t leaf, subleaf, reg;
    uint64_t bits, shown;
    uint32_t index;
    uint64_t changed;
} enumerations[] = {
    {"vmx", 1, 0, ECX, BIT(5), BIT(5), IA32_VMX_BASIC, 0},
    {"pdcm", 1, 0, ECX, BIT(15), BIT(15), IA32_PERF_CAPABILITIES, 0},
    {"hfi", 6, 0, EAX, BIT(19), BIT(19), IA32_HW_FEEDBACK_PTR, 0},
    {"hfi-classes", 6, 0, ECX, BITS(15, 8), BITS(15, 8), IA32_HW_FEEDBACK_PTR, 0},
    {"hfi-table", 6, 0, EDX, BITS(31, 0), BITS(31, 0), IA32_HW_FEEDBACK_PTR, 0},
    {"sgx-lc", 7, 0, ECX, BIT(30), BIT(30), IA32_SGXLEPUBKEYHASH0, 0},
    {"key-locker", 7, 0, ECX, BIT(23), BIT(23), IA32_IWKEYBACKUP_STATUS, 0},
    {"key-backup", 0x19, 0, EBX, BIT(4), BIT(4), IA32_COPY_STATUS, 0},
    {"cet-ss", 7, 0, ECX, BIT(7), BIT(7), IA32_PL0_SSP, BIT(3)},
    {"cet-ibt", 7, 0, EDX, BIT(20), BIT(20), IA32_U_CET, BIT(2)},
    {"cet-sss", 7, 1, EDX, BIT(18), BIT(18), IA32_S_CET, BIT(0)},
    {"uintr", 7, 0, EDX, BIT(5), BIT(5), IA32_UINTR_RR, 0},
    {"arch-lbr", 7, 0, EDX, BIT(19), BIT(19), IA32_LBR_CTL, BIT(1)},
    {"pt", 7, 0, EBX, CPUID_7_EBX_PT, CPUID_7_EBX_PT, IA32_RTIT_CTL, BIT(2)},
    {"fred", 7, 1, EAX, BIT(17), BIT(17), IA32_FRED_RSP0, 0},
    {"user-msr", 7, 1, EDX, BIT(15), BIT(15), IA32_USER_MSR_CTL, 0},
    {"uc-lock", 7, 2, EDX, BIT(6), BIT(6), MSR_MEMORY_CTRL, MEMORY_CTRL_UC_LOCK_DISABLE},
    {"pmu", 0xa, 0, EAX, 0xff, 0xff, IA32_PERF_GLOBAL_CTRL, BIT(0)},
    {"xsaves", CPUID_LEAF_XSAVE, 1, EAX, BIT(3), BIT(3), IA32_XSS, 0},
    {"rar", IA32_CORE_CAPABILITIES, IN_MSR, 0, BIT(1), BIT(1), MSR_RAR_CONTROL, BIT(0)},
    {"integrity", IA32_CORE_CAPABILITIES, IN_MSR, 0, BIT(2), BIT(2), MSR_ARRAY_BIST, BIT(0)},
    {"uc-lock-core", IA32_CORE_CAPABILITIES, IN_MSR, 0, BIT(4), BIT(4), MSR_MEMORY_CTRL,
     MEMORY_CTRL_UC_LOCK_DISABLE},
    {"split-lock", IA32_CORE_CAPABILITIES, IN_MSR, 0, BIT(5), BIT(5), MSR_MEMORY_CTRL, BIT(29)},
    {"fb-clear-ctrl", IA32_ARCH_CAPABILITIES, IN_MSR, 0, BIT(18), BIT(18), IA32_MCU_OPT_CTRL,
     MCU_OPT_CTRL_FB_CLEAR_DIS},
    {"emon", IA32_MISC_ENABLE, IN_MSR, 0, BIT(7), BIT(7), IA32_PERF_GLOBAL_CTRL, BIT(0)},
    {"monitor", IA32_MISC_ENABLE, IN_MSR, 0, MISC_ENABLE_MONITOR, MISC_ENABLE_MONITOR,
     IA32_MISC_ENABLE, MISC_ENABLE_MONITOR},
    {"bts", IA32_MISC_ENABLE, IN_MSR, 0, BIT(11), 0, IA32_DS_AREA, BIT(4)},
    {"pebs", IA32_MISC_ENABLE, IN_MSR, 0, BIT(12), 0, IA32_PEBS_ENABLE, BIT(0)},
};

static bool is_shown(const struct enumeration *e)
{
    struct cpuid_result leaf;
    uint64_t value = 0;

    if (e->subleaf == IN_MSR)
        return rdmsr_try(e->leaf, &value) && (value & e->bits) == e->shown;
    leaf = cpuid(e->leaf, e->subleaf);
    value = e->reg == EAX   ? leaf.eax
            : e->reg == EBX ? leaf.ebx
            : e->reg == ECX ? leaf.ecx
                            : leaf.edx;
    return value & e->bits & e->shown;
}

static bool is_there(const struct enumeration *e)
{
    uint64_t before, now;

    if (!rdmsr_try(e->index, &before))
        return false;
    bool changed = wrmsr_try(e->index, before ^ e->changed) && rdmsr_try(e->index, &now) &&
                   now == (before ^ e->changed);
    (void)wrmsr_try(e->index, before);
    return changed || e->changed == 0;
}

/* `enumerations`: nothing is shown that is not there. */
void test_enumerations(const struct job *job)
{
    bool none_false = true;

    for (unsigned i = 0; i < LENGTH_OF(enumerations); i++) {
        bool shown = is_shown(&enumerations[i]), there = is_there(&enumerations[i]);
        log_printf("enumeration: name=%s shown=%d there=%d\n", enumerations[i].name, shown, there);
        none_false &= there || !shown;
    }
    tap_result(none_false, job->name, NULL);
}
