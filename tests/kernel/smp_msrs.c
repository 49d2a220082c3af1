/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Values in the MSRs of a processor, by groups, so that an INIT can be seen to keep or to clear
 * each. A register that the processor does not have, or a value that it refuses, is left out
 * natively and in the guest alike. SDM Vol. 3, "Processor State After Reset"; Vol. 4,
 * "Architectural MSRs".
 */
#include "smp.h"

#include "console/log.h"
#include "sequence.h"

#define CANONICAL BITS(46, 12)
#define SSP BITS(46, 3)
#define CET_CONTROL (CANONICAL | BITS(1, 0)) /* the bitmap's address, WR_SHSTK_EN, SH_STK_EN */
#define PAT_TYPES 0x0202020202020202ULL      /* on top of 4: WT or WB */
#define PAT_BASE 0x0404040404040404ULL

/* What counts or records stays off. */
static const struct {
    uint32_t first, count;
    uint64_t mask, set;
} groups[] = {
    {IA32_SPEC_CTRL, 1, BITS(2, 0), 0},
    {IA32_PMC0, 4, BITS(30, 0), 0},
    {0x0e1, 1, BITS(31, 2) | BIT(0), 0}, /* IA32_UMWAIT_CONTROL */
    {0x122, 1, BITS(1, 0), 0},           /* IA32_TSX_CTRL */
    {0x174, 1, BITS(15, 0), 0},          /* IA32_SYSENTER_CS, ESP, EIP */
    {0x175, 2, CANONICAL, 0},
    {IA32_PERFEVTSEL0, 4, BITS(17, 0), 0},
    {MSR_OFFCORE_RSP_0, 2, BITS(15, 0), 0},
    {0x1b0, 1, BITS(3, 0), 0}, /* IA32_ENERGY_PERF_BIAS */
    {MSR_LBR_SELECT, 1, BITS(8, 0), 0},
    {MSR_LASTBRANCH_TOS, 1, BITS(4, 0), 0},
    {IA32_DEBUGCTL, 1, BITS(12, 11), 0}, /* the two of freezing */
    {IA32_PAT, 1, PAT_TYPES, PAT_BASE},
    {IA32_FIXED_CTR0, 3, BITS(30, 0), 0},
    {IA32_FIXED_CTR_CTRL, 1, 0x333, 0},
    {IA32_PERF_GLOBAL_CTRL, 1, BITS(3, 0), 0},
    {IA32_PEBS_ENABLE, 1, BITS(3, 0), 0},
    {MSR_PEBS_DATA_CFG, 1, BITS(3, 0), 0},
    {MSR_PEBS_LD_LAT, 1, BITS(15, 0), 0},
    {IA32_RTIT_OUTPUT_BASE, 1, BITS(31, 12), 0},
    {0x561, 1, BITS(11, 7), BITS(6, 0)}, /* IA32_RTIT_OUTPUT_MASK_PTRS */
    {IA32_RTIT_CTL, 1, BITS(3, 2), 0},
    {0x572, 1, BITS(47, 5), 0}, /* IA32_RTIT_CR3_MATCH */
    {IA32_RTIT_ADDR0_A, 4, CANONICAL, 0},
    {IA32_DS_AREA, 1, CANONICAL, 0},
    {MSR_LASTBRANCH_0_FROM_IP, 32, CANONICAL, 0},
    {IA32_U_CET, 1, CET_CONTROL, 0},
    {IA32_S_CET, 1, CET_CONTROL, 0},
    {IA32_PL0_SSP, 5, SSP, 0}, /* and IA32_INTERRUPT_SSP_TABLE_ADDR */
    {MSR_LASTBRANCH_0_TO_IP, 32, CANONICAL, 0},
    {0x6e1, 1, BITS(31, 0), 0},                   /* IA32_PKRS */
    {0xd90, 1, CANONICAL | BITS(1, 0), 0},        /* IA32_BNDCFGS */
    {IA32_XSS, 1, BIT(8) | BIT(11) | BIT(12), 0}, /* PT, CET of both */
    {IA32_XSS, 1, BIT(8), 0},
    {IA32_XSS, 1, BITS(12, 11), 0},
    {MSR_LBR_INFO_0, 32, BITS(15, 0), 0},
    {IA32_LBR_CTL, 1, BITS(3, 1), 0},
    {IA32_LBR_FROM0, 32, CANONICAL, 0},
    {IA32_LBR_TO0, 32, CANONICAL, 0},
    {0xc0000081, 1, BITS(63, 32), 0}, /* IA32_STAR, LSTAR, CSTAR, FMASK */
    {IA32_LSTAR, 2, CANONICAL, 0},
    {0xc0000084, 1, BITS(31, 0), 0},
    {0xc0000100, 1, CANONICAL, 0}, /* IA32_FS_BASE */
    {0xc0000102, 1, CANONICAL, 0}, /* IA32_KERNEL_GS_BASE, IA32_TSC_AUX */
    {SEQUENCE_TSC_AUX, 1, BITS(31, 0), 0},
};

static uint64_t drawn, hash;
static bool shown;

/* XCR0, which CR4.OSXSAVE shows. False: the processor has none. */
static bool xcr0(uint32_t *value, bool write)
{
    if (!(cpuid(1, 0).ecx & CPUID_1_ECX_XSAVE))
        return false;
    write_cr4(read_cr4() | CR4_OSXSAVE);
    if (write)
        write_xcr0(*value);
    else
        *value = (uint32_t)read_xcr0();
    write_cr4(read_cr4() & ~(uint64_t)CR4_OSXSAVE);
    return true;
}

static void fill(const struct job *job)
{
    struct sequence draw = {.random = drawn};

    (void)job;
    for (unsigned g = 0; g < LENGTH_OF(groups); g++) {
        uint64_t value = (sequence_random(&draw) & groups[g].mask) | groups[g].set, now;
        bool left_out = sequence_chance(&draw, 25);
        for (uint32_t i = groups[g].first; !left_out && i < groups[g].first + groups[g].count;
             i++) {
            bool there = rdmsr_try(i, &now), taken = there && wrmsr_try(i, value);
            if (shown && there)
                log_printf("smp-msr: index=0x%x asked=0x%lx taken=%d\n", i, value, taken);
            hash = hash_word(hash, there + taken);
        }
    }
    uint32_t states = 1 | (sequence_random(&draw) & 2) | 4 * sequence_below(&draw, 2);
    states |= states >> 1 & 2; /* AVX wants SSE */
    (void)xcr0(&states, true);
}

static void read(const struct job *job)
{
    uint32_t states = 0;

    (void)job;
    for (unsigned g = 0; g < LENGTH_OF(groups); g++)
        for (uint32_t i = groups[g].first; i < groups[g].first + groups[g].count; i++) {
            uint64_t value = 0;
            bool there = rdmsr_try(i, &value);
            hash = hash_word(hash, value ^ there);
            if (shown && there)
                log_printf("smp-msr: index=0x%x value=0x%lx\n", i, value);
        }
    if (xcr0(&states, false) && shown)
        log_printf("smp-msr: xcr0=0x%x\n", states);
    hash = hash_word(hash, states);
}

static uint64_t each(void (*run)(const struct job *job))
{
    static const struct job none = {.name = "msrs"};

    hash = HASH_BASIS;
    /* The emulator takes this for a kernel's start: MSRs that do not exist fault from now on. */
    wrmsr(IA32_LSTAR, 0);
    smp_each(&none, run);
    return hash;
}

uint64_t smp_fill_msrs(uint64_t random, bool show)
{
    shown = show;
    drawn = random;
    return each(fill);
}

uint64_t smp_read_msrs(bool show)
{
    shown = show;
    return each(read);
}
