/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exits and PMU registers without any NMI: loops inside marked regions, for the ledger to price.
 */
#include "fuzz.h"
#include "kernel.h"

#include "console/log.h"
#include "hypercall.h"

#define ROUNDS 100
#define LEAF_FEATURES 1
#define LEAF_1_ECX_OSXSAVE (1u << 27)
#define LEAF_PMU_COUNTERS(eax) ((eax) >> 8 & 0xff)
#define LEAF_PMU_FIXED(edx) ((edx) & 0x1f)
#define LEAF_PMU_WIDTH(eax) ((eax) >> 16 & 0xff)
#define EVENT_INSTRUCTIONS 0xc0
#define EVTSEL_OS BIT(17)
#define EVTSEL_EN BIT(22)
#define EVTSEL_TRIED (EVENT_INSTRUCTIONS | EVTSEL_OS | EVTSEL_USR | EVTSEL_EN)
#define STATUS_TRIED (FIXED_COUNTER_0 | 1)
#define PATTERN 0x123456789abcULL
#define FIXED_OS 1
#define LOOP_ROUNDS 100000
#define MSR_MISC_FEATURES_ENABLES 0x140
#define RING3_MWAIT BIT(1)

static uint64_t rounds_of(const struct job *job)
{
    return job->number[0] != 0 ? job->number[0] : ROUNDS;
}

/* `cpuid-leaf::LEAF:SUBLEAF`: what the guest is shown; whoever started this knows what it must be.
 */
void test_cpuid_leaf(const struct job *job)
{
    struct cpuid_result r = cpuid((uint32_t)job->number[0], (uint32_t)job->number[1]);

    log_printf("leaf: leaf=%lu subleaf=%lu eax=%u ebx=%u ecx=%u edx=%u\n", job->number[0],
               job->number[1], r.eax, r.ebx, r.ecx, r.edx);
    tap_result(true, job->name, NULL);
}

void test_cpuid(const struct job *job)
{
    uint64_t rounds = rounds_of(job);
    struct cpuid_result first = cpuid(0, 0);
    bool same = true;
    uint64_t ticks = rdtsc();

    region_mark(REGION_CPUID, true);
    for (uint64_t i = 0; i < rounds; i++) {
        struct cpuid_result r = cpuid(0, 0);
        same = same && r.eax == first.eax && r.ebx == first.ebx && r.ecx == first.ecx &&
               r.edx == first.edx;
    }
    region_mark(REGION_CPUID, false);
    tap_note("%lu ticks", rdtsc() - ticks);
    tap_result(same, job->name, same ? NULL : "leaf 0 changed");
}

static void write_cr4_try(uint64_t value)
{
    static const uint8_t code[] = {0x0f, 0x22, 0xe7, 0xc3}; /* mov cr4, rdi; ret */

    (void)call_try(code, value);
}

/* A value with a reserved bit is refused whole; without it, the bit that CPUID reports back works.
 */
void test_cr4(const struct job *job)
{
    uint64_t cr4 = read_cr4(), other = cr4 ^ CR4_OSXSAVE;
    uint32_t before = cpuid(LEAF_FEATURES, 0).ecx & LEAF_1_ECX_OSXSAVE;
    uint64_t faults = fault_count;

    write_cr4_try(other | CR4_RESERVED);
    bool refused = fault_count == faults + 1 && fault_vector == VECTOR_GP && read_cr4() == cr4 &&
                   (cpuid(LEAF_FEATURES, 0).ecx & LEAF_1_ECX_OSXSAVE) == before;
    write_cr4_try(other);
    bool done = fault_count == faults + 1 && read_cr4() == other &&
                (cpuid(LEAF_FEATURES, 0).ecx & LEAF_1_ECX_OSXSAVE) != before;
    write_cr4_try(cr4);
    tap_result(refused && done && read_cr4() == cr4, job->name,
               !refused ? "a reserved bit was accepted, or other bits changed with it"
               : done   ? NULL
                        : "CR4.OSXSAVE and CPUID do not follow the write");
}

void test_vmcall(const struct job *job)
{
    uint64_t rounds = rounds_of(job);
    bool right = true;

    if (!under_pmuvisor()) {
        tap_skip(job->name, "not under PMUvisor");
        return;
    }
    region_mark(REGION_VMCALL, true);
    for (uint64_t i = 0; i < rounds; i++)
        right = right && hypercall(~0ULL, 0) == HYPERCALL_E_NUMBER;
    region_mark(REGION_VMCALL, false);
    tap_result(right, job->name, right ? NULL : "a number that does not exist was accepted");
}

/* Writes, reads back, and puts back what was there. */
static bool keeps(uint32_t msr, uint64_t value)
{
    uint64_t before, now;

    if (!rdmsr_try(msr, &before) || !wrmsr_try(msr, value) || !rdmsr_try(msr, &now)) {
        tap_note("MSR 0x%x faults", msr);
        return false;
    }
    wrmsr(msr, before);
    if (now == value)
        return true;
    tap_note("MSR 0x%x: wrote 0x%lx, read 0x%lx", msr, value, now);
    return false;
}

bool pmu_there(const struct job *job)
{
    if (cpuid(0, 0).eax >= CPUID_LEAF_PMU && (cpuid(CPUID_LEAF_PMU, 0).eax & 0xff) >= 2 &&
        LEAF_PMU_FIXED(cpuid(CPUID_LEAF_PMU, 0).edx) > 0)
        return true;
    tap_skip(job->name, "CPUID shows no architectural PMU of version 2");
    return false;
}

void test_msr(const struct job *job)
{
    bool good = true;

    if (!pmu_there(job))
        return;
    struct cpuid_result pmu = cpuid(CPUID_LEAF_PMU, 0);
    unsigned counters = LEAF_PMU_COUNTERS(pmu.eax), fixed = LEAF_PMU_FIXED(pmu.edx);
    uint64_t mask = BITS(LEAF_PMU_WIDTH(pmu.eax) - 1, 0);

    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    region_mark(REGION_MSR, true);
    for (unsigned n = 0; n < counters; n++) {
        good = keeps(IA32_PERFEVTSEL0 + n, EVTSEL_TRIED) &&
               keeps(IA32_A_PMC0 + n, (PATTERN + n) & mask) && good;
    }
    for (unsigned n = 0; n < fixed; n++)
        good = keeps(IA32_FIXED_CTR0 + n, (PATTERN + n) & mask) && good;
    good = keeps(IA32_FIXED_CTR_CTRL, 0x333 & BITS(4 * fixed - 1, 0)) && good;
    good = keeps(IA32_PERF_GLOBAL_CTRL, BITS(counters - 1, 0)) && good;
    /* Status bits are set and cleared through registers of their own, from version 4 on. */
    if ((pmu.eax & 0xff) >= 4) {
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_TRIED);
        good = (rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_TRIED) == STATUS_TRIED && good;
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_TRIED);
        good = (rdmsr(IA32_PERF_GLOBAL_STATUS) & STATUS_TRIED) == 0 && good;
    }
    region_mark(REGION_MSR, false);
    tap_value("counters", counters);
    tap_value("fixed", fixed);
    tap_result(good, job->name, NULL);
}

/* Instructions from the WRMSR that starts the counter, itself included, to the one that stops it:
 * of these two, processors count exactly one. The others are a move before and three behind the
 * loop.
 */
#define COUNTED_OVERHEAD 5

static uint64_t counted_loop(uint64_t rounds)
{
    wrmsr(IA32_FIXED_CTR0, 0);
    __asm__ volatile("mov %[start], %%eax\n\t"
                     "mov %[high], %%edx\n\t"
                     "wrmsr\n\t"
                     "mov %[rounds], %%rdi\n"
                     "1:\n\t"
                     "dec %%rdi\n\t"
                     "jnz 1b\n\t"
                     "xor %%eax, %%eax\n\t"
                     "xor %%edx, %%edx\n\t"
                     "nop\n\t"
                     "wrmsr"
                     :
                     : [start] "i"(0), [high] "i"(1), [rounds] "r"(rounds),
                       "c"(IA32_PERF_GLOBAL_CTRL)
                     : "rax", "rdx", "rdi", "memory", "cc");
    return rdmsr(IA32_FIXED_CTR0);
}

/* Exact: the difference of two loop lengths has to be two instructions a round; and the exits of
 * a hypervisor may not be counted. */
void test_count(const struct job *job)
{
    uint64_t rounds = job->number[0] != 0 ? job->number[0] : LOOP_ROUNDS;

    if (!pmu_there(job))
        return;
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_FIXED_CTR_CTRL, FIXED_OS);
    uint64_t one = counted_loop(1), many = counted_loop(rounds);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    tap_value("count", many);
    if (many - one != 2 * (rounds - 1))
        tap_note("counted %lu and %lu, wanted a difference of %lu", one, many, 2 * (rounds - 1));
    tap_result(many - one == 2 * (rounds - 1) && one <= 2 + COUNTED_OVERHEAD && one >= 2, job->name,
               NULL);
}

/* `@mwait-user`, with two processors: CPL 3 executes MONITOR and MWAIT with interrupts off. MWAIT
 * lasts until the single step behind it. Xeon Phi lets CPL 3, by this register (Linux,
 * cpu/intel.c). */
void test_mwait_user(const struct job *job)
{
    struct fuzz_op op = {.cpl = 3};
    uint64_t features = 0;

    if (!rdmsr_try(MSR_MISC_FEATURES_ENABLES, &features) || !(features & RING3_MWAIT)) {
        tap_skip(job->name, "MWAIT is not for CPL 3 here");
        return;
    }
    fuzz_setup();
    fuzz_begin(&op);
    fuzz_in.gpr[RAX] = fuzz_data_address(&op);
    fuzz_in.gpr[RCX] = fuzz_in.gpr[RDX] = 0;
    CODE(&op, 0x0f, 0x01, 0xc8,                          /* monitor */
         0x31, 0xc0,                                     /* xor eax, eax */
         0x9c, 0x66, 0x81, 0x0c, 0x24, 0x00, 0x01, 0x9d, /* TF is 1 from the next one on */
         0x0f, 0x01, 0xc9);                              /* mwait */
    __asm__ volatile("cli\n\twbinvd");                   /* from here on MWAITs exit */
    bool ended = fuzz_go(&op);
    uint64_t behind = op.length;
    fuzz_end();
    cpu_setup_other(1);
    cpu_handlers(true);
    tap_note("vector %lu at byte %lu of %lu", fuzz_out.vector, fuzz_out.rip - fuzz_in.rip, behind);
    tap_result(!ended && fuzz_out.vector == VECTOR_DB && fuzz_out.rip == fuzz_in.rip + behind,
               job->name, NULL);
}
