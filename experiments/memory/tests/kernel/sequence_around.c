/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a memory trace and the guest could get into each other's way with, around the sequences of
 * one trace: IA32_FIXED_CTR0, which the trace borrows, and PEBS, which it must not begin with.
 * Natively both are the guest's alone. SDM Vol. 3, "Performance Monitoring".
 */
#include "sequence.h"

#include "hypercall.h"
#include "experiments/memory/tests/kernel/memory.h"
#include "msr.h"
#include "x86.h"

#define FIXED_0 BIT(32)
#define FIXED_0_FIELD 0xfULL
#define RINGS 3ULL
#define ANEW (RINGS + 1)
#define MISC_ENABLE_NO_PEBS BIT(12)
#define PEBS_OF_COUNTER_0 1ULL

#define STEADY (SEQUENCE_STACK / MEMORY_PAGE * MEMORY_PAGE + MEMORY_PAGE / 2)
#define BY_CR3 8        /* of so many steps one is */
#define LASTING_PAGES 2 /* one more than the trace that may be there */

static uint64_t lent;
static bool by_cr3;

static bool offered(void)
{
    return fuzz_guest && cpuid(CPUID_HV_FEATURES, 0).ecx & BIT(HYPERCALL_MEMTRACE);
}

/* The mode (trace_ring.h) and the range of the trace that a sequence runs under. */
static enum sequence_range drawn(uint64_t seed, uint64_t number, uint64_t *mode)
{
    struct sequence draw = {.random = seed * HASH_PRIME ^ number / SEQUENCE_STEP};

    *mode = 1 + sequence_below(&draw, MEMTRACE_ALL);
    return (enum sequence_range)sequence_below(&draw, SEQUENCE_RANGES);
}

/* Of linear addresses: all memory is closed, and what lies elsewhere is not recorded. */
static bool is_by_cr3(uint64_t number) { return number / SEQUENCE_STEP % BY_CR3 == 0; }

/* After the trace has begun: the guest may take the counter in any of its modes, and may set it. */
static void take_counter(uint64_t random)
{
    lent = random % (RINGS + 1);
    if (lent == 0)
        return;
    wrmsr(IA32_FIXED_CTR_CTRL, lent);
    if (lent != RINGS || random & ANEW)
        wrmsr(IA32_FIXED_CTR0, 0);
    wrmsr(IA32_PERF_GLOBAL_CTRL, rdmsr(IA32_PERF_GLOBAL_CTRL) | FIXED_0);
}

/* After its end: it counts as it was told to. */
static uint64_t give_counter(void)
{
    if (lent == 0)
        return 0;
    uint64_t control = rdmsr(IA32_FIXED_CTR_CTRL) & FIXED_0_FIELD;
    bool enabled = rdmsr(IA32_PERF_GLOBAL_CTRL) & FIXED_0;
    uint64_t before = rdmsr(IA32_FIXED_CTR0);
    /* Some instructions of CPL 0. */
    bool counts = rdmsr(IA32_FIXED_CTR0) != before;

    wrmsr(IA32_PERF_GLOBAL_CTRL, rdmsr(IA32_PERF_GLOBAL_CTRL) & ~FIXED_0);
    wrmsr(IA32_FIXED_CTR_CTRL, 0);
    lent = 0;
    return control | (uint64_t)enabled << 4 | (uint64_t)counts << 5 | (uint64_t)(before != 0) << 6;
}

/* With PEBS on no trace begins; natively there is none that could. */
static uint64_t pebs_refuses(bool traces, uint64_t first, uint64_t bytes)
{
    uint64_t refused = 1;

    if (!(cpuid(1, 0).edx & CPUID_1_EDX_DS) || rdmsr(IA32_MISC_ENABLE) & MISC_ENABLE_NO_PEBS)
        return 0;
    wrmsr(IA32_PEBS_ENABLE, PEBS_OF_COUNTER_0);
    if (traces) {
        refused = memory_trace(MEMTRACE_WRITES, first, bytes, 0) == HYPERCALL_E_STATE;
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    }
    refused |= rdmsr(IA32_PEBS_ENABLE) << 1;
    wrmsr(IA32_PEBS_ENABLE, 0);
    return refused;
}

static uint64_t begin(uint64_t seed, uint64_t number)
{
    uint64_t first, bytes, mode, pebs;
    bool traces = offered();

    sequence_range(drawn(seed, number, &mode), &first, &bytes);
    pebs = pebs_refuses(traces, first, bytes);
    by_cr3 = is_by_cr3(number);
    if (by_cr3) {
        mode = MEMTRACE_WRITES; /* reads of all memory would be each a step */
        first = SEQUENCE_DATA;
        bytes = SEQUENCE_TABLE - SEQUENCE_DATA;
    }
    uint64_t cr3 = by_cr3 ? TRACE_THIS_CR3 : 0;
    if (traces && memory_trace(mode, first, bytes, cr3) < 0)
        (void)memory_trace(MEMTRACE_WRITES, first, bytes, cr3);
    take_counter(number / SEQUENCE_STEP);
    return pebs;
}

static uint64_t end(void)
{
    if (offered())
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    return give_counter();
}

/* With this CR3 an access is recorded, whatever the sequence did to CR3 in vain. The page is one of
 * those that stay as they are. */
static uint64_t look(void)
{
    volatile uint64_t *word = (volatile uint64_t *)(uintptr_t)(SEQUENCE_DATA + STEADY);

    if (!by_cr3)
        return 0;
    uint64_t before = offered() ? memory_records() : 0;
    __asm__ volatile("addq $1, %0" : "+m"(*word));
    return !offered() || memory_records() > before;
}

static bool watches_stacks(uint64_t seed, uint64_t number)
{
    uint64_t mode;

    return is_by_cr3(number) || drawn(seed, number, &mode) == RANGE_STACKS;
}

static void begin_lasting(void)
{
    if (offered())
        (void)memory_trace_physical(MEMTRACE_WRITES, memory_area, MEMORY_PAGE);
}

static int64_t try_lasting(void)
{
    int64_t result = 0;

    if (offered()) {
        result = memory_trace_physical(MEMTRACE_WRITES, memory_area, LASTING_PAGES * MEMORY_PAGE);
        (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    }
    return result;
}

static const struct sequence_around around = {
    .begin = begin,
    .end = end,
    .look = look,
    .watches_stacks = watches_stacks,
    .begin_lasting = begin_lasting,
    .try_lasting = try_lasting,
};
SEQUENCE_AROUND(around);
