/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a memory trace and the guest could get into each other's way with, around the sequences of
 * one trace: IA32_FIXED_CTR0, which the trace borrows, and PEBS, which it must not begin with.
 * Natively both are the guest's alone. SDM Vol. 3, "Performance Monitoring".
 */
#include "sequence.h"

#include "fuzz_hash.h"
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

static uint64_t lent;

/* After the trace has begun: the guest may take the counter in any of its modes, and may set it. */
void sequence_take_counter(uint64_t random)
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
uint64_t sequence_give_counter(void)
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
    return control | (uint64_t)enabled << 4 | (uint64_t)counts << 5 |
           (uint64_t)(before != 0) << 6;
}

/* With PEBS on no trace begins; natively there is none that could. */
uint64_t sequence_pebs(bool traces, uint64_t first, uint64_t bytes)
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
