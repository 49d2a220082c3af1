/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Operations of the fuzzer on what the processor writes of its own accord: a record of PEBS,
 * packets of Intel PT, to memory that is there, is not, is the hypervisor's, is the local APIC's
 * page, at a page's end and at odd addresses. Where it is refused the guest gets a fault that it
 * would not get natively, so what has to be the same is what the instructions around it did: they
 * store a word each, in order, up to a fault. SDM Vol. 3, "Processor Event Based Sampling (PEBS)",
 * "BTS and DS Save Area", "Intel Processor Trace".
 */
#include "fuzz.h"

#include <string.h>

#include "kernel.h"

#define WORDS 64u
#define STORED 0x20u                        /* a priority, should it come to the APIC */
#define EVENT_INSTRUCTIONS_USER 0x4100c0ULL /* INST_RETIRED.ANY_P: USR, EN */
#define BEFORE_MAX 180                      /* of the 4 * WORDS that run */
#define STATUS_RESET (BIT(62) | 1)
#define MISC_ENABLE_NO_PEBS BIT(12)
#define MASK_PTRS_LOWEST 0x7fULL
#define RTIT_CTL_USER BIT(3)

static struct debug_store store __attribute__((aligned(64)));
static uint8_t plain[PAGE_SIZE] __attribute__((aligned(4096)));

bool fuzz_apic_trapped;

static bool has_pebs(void)
{
    return cpuid(1, 0).edx & CPUID_1_EDX_DS && !(rdmsr(IA32_MISC_ENABLE) & MISC_ENABLE_NO_PEBS);
}

static bool has_pt(void)
{
    return cpuid(0, 0).eax >= CPUID_LEAF_PT && cpuid(CPUID_LEAF_EXTENDED, 0).ebx & CPUID_7_EBX_PT;
}

bool fuzz_writes_by_itself(uint32_t index)
{
    if (index >= IA32_RTIT_OUTPUT_BASE && index <= IA32_RTIT_STATUS)
        return has_pt();
    return (index == IA32_DEBUGCTL || index == IA32_DS_AREA || index == IA32_PEBS_ENABLE) &&
           has_pebs();
}

/* A physical page. Natively, and where the APIC's page is not trapped (the emulator's APIC ends the
 * run at a store of 8 bytes), a plain one. */
static uint64_t pick_page(struct fuzz_op *op)
{
    uint64_t x = fuzz_below(op, 4), random = fuzz_random(op);

    op->subject = x;
    if (x == 0 && fuzz_guest)
        return fuzz_hidden_page(random);
    if (x == 1 && fuzz_guest && fuzz_apic_trapped && !apic_x2())
        return APIC_PAGE;
    return fuzz_physical(plain);
}

static uint64_t pick_offset(struct fuzz_op *op)
{
    switch (fuzz_below(op, 4)) {
    case 0:
        return APIC_TPR;
    case 1:
        return fuzz_below(op, PAGE_SIZE);
    case 2:
        return PAGE_SIZE - fuzz_below(op, 256); /* into what is not mapped */
    default:
        return fuzz_below(op, PAGE_SIZE / 8) * 8;
    }
}

/* Stores a word each time round. */
static void run_stores(struct fuzz_op *op)
{
    memset(fuzz_data, 0, WORDS * sizeof(uint32_t));
    op->cpl = 3;
    op->code_32 = false;
    fuzz_begin(op);
    fuzz_in.gpr[RAX] = STORED;
    fuzz_in.gpr[RCX] = WORDS;
    fuzz_in.gpr[RDI] = WINDOW_DATA_USER;
    /* MOV [RDI], EAX; ADD RDI, 4; DEC ECX; JNZ */
    CODE(op, 0x89, 0x07, 0x48, 0x83, 0xc7, 0x04, 0xff, 0xc9, 0x75, 0xf6);
}

static void judge(struct fuzz_op *op)
{
    const uint32_t *words = (const uint32_t *)(const void *)fuzz_data;
    unsigned stored = 0, misplaced = 0;

    while (stored < WORDS && words[stored] == STORED)
        stored++;
    for (unsigned i = stored; i < WORDS; i++)
        misplaced += words[i] != 0;
    bool faulted = fuzz_out.vector == VECTOR_GP || fuzz_out.vector == VECTOR_PF;
    op->value[0] = misplaced;
    op->value[1] = apic_read(APIC_TPR);
    op->value[2] = faulted || (fuzz_out.vector == FUZZ_DONE && stored == WORDS);
    apic_write(APIC_TPR, 0);
    op->vector = FUZZ_DONE;
}

static void pebs(struct fuzz_op *op)
{
    bool elsewhere = fuzz_chance(op, 10), nothing = fuzz_chance(op, 10);

    memset(plain, 0, sizeof(plain)); /* as a debug store it has no room */
    fuzz_map(pick_page(op) | PTE_P | PTE_RW | PTE_US);
    uint64_t at = (nothing               ? WINDOW_NOTHING
                   : fuzz_chance(op, 10) ? WINDOW_READ_ONLY
                                         : WINDOW_TARGET) +
                  pick_offset(op);
    uint64_t before = 1 + fuzz_below(op, BEFORE_MAX);
    op->detail = at;
    store = (struct debug_store){.base = at,
                                 .index = at,
                                 .maximum = at + PAGE_SIZE,
                                 .threshold = at + PAGE_SIZE,
                                 .reset = {BIT(COUNTER_WIDTH) - BEFORE_MAX * 8}};
    run_stores(op);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_RESET);
    wrmsr(IA32_DS_AREA, elsewhere ? WINDOW_TARGET + at % PAGE_SIZE / 64 * 32 : (uintptr_t)&store);
    wrmsr(IA32_PERFEVTSEL0, EVENT_INSTRUCTIONS_USER);
    wrmsr(IA32_A_PMC0, BIT(COUNTER_WIDTH) - before);
    wrmsr(IA32_PEBS_ENABLE, 1);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 1);
    (void)fuzz_go(op);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PEBS_ENABLE, 0);
    wrmsr(IA32_DS_AREA, 0);
    wrmsr(IA32_PERFEVTSEL0, 0);
    wrmsr(IA32_PMC0, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, STATUS_RESET);
}

static bool start_trace(uint64_t topa)
{
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, MASK_PTRS_LOWEST);
    wrmsr(IA32_RTIT_STATUS, 0);
    return wrmsr_try(IA32_RTIT_CTL, RTIT_CTL_TRACE_EN | RTIT_CTL_USER | RTIT_CTL_BRANCH_EN | topa);
}

/* A single region, or a table of one page that is where the page is. */
static void trace(struct fuzz_op *op)
{
    uint64_t page = pick_page(op), topa = fuzz_chance(op, 40) ? RTIT_CTL_TOPA : 0;

    *(uint64_t *)(void *)plain = page | TOPA_END;
    op->detail = topa;
    run_stores(op);
    wrmsr(IA32_RTIT_OUTPUT_BASE, topa && fuzz_chance(op, 60)
                                     ? fuzz_physical(plain)
                                     : page + fuzz_below(op, PAGE_SIZE / (MASK_PTRS_LOWEST + 1)) *
                                                  (MASK_PTRS_LOWEST + 1) * (topa == 0));
    bool on = start_trace(topa);
    (void)fuzz_go(op);
    if (on)
        wrmsr(IA32_RTIT_CTL, 0);
    /* Software cannot write FilterEn, and a guest's trace to a hidden page leaves it as it was. So
     * one more trace, to a page of our own, ends with the same FilterEn everywhere. */
    wrmsr(IA32_RTIT_OUTPUT_BASE, fuzz_physical(plain));
    if (start_trace(0))
        wrmsr(IA32_RTIT_CTL, 0);
    /* How much was written depends on the exits. */
    wrmsr(IA32_RTIT_STATUS, 0);
    wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, MASK_PTRS_LOWEST);
    wrmsr(IA32_RTIT_OUTPUT_BASE, 0);
}

void fuzz_record(struct fuzz_op *op)
{
    bool packets = fuzz_chance(op, 50);

    if (packets ? has_pt() : has_pebs()) {
        if (packets)
            trace(op);
        else
            pebs(op);
        judge(op);
        fuzz_map(0);
    }
}
