/* SPDX-License-Identifier: BSD-2-Clause
 * returned.c: the job `returned`: host NMIs that Linux's own handler takes, and what the hypervisor
 * has found of them. Needs its test build, user_hypercalls=1 and the emulator, which writes the
 * request word and sends the NMI (testbed/README.md, "Knobs"). Thesis, section 3.2 (lost host NMI).
 */
#include "../../tests/hooks/hooks.h"
#include "hypercall.h"
#include "payload.h"
#include "smp.h"

#include <stdio.h>

#define MARKER_REQUEST 2
#define MARKER_HOST_NMI 3
#define SOURCE_BACKTRACE 1
#define HOST_NMIS 20
#define LINGER 1000 /* iterations: longer than Linux's handler needs to begin */
#define EXITS 10    /* enough to find what a lost NMI had asked */

static void request_word(uint64_t address, uint32_t value)
{
    __asm__ volatile("xchg %%bx, %%bx"
                     :
                     : "a"(value), "c"(MARKER_REQUEST), "d"(address)
                     : "memory");
}

static void host_nmi(void)
{
    __asm__ volatile("xchg %%bx, %%bx\n\tnop" : : "c"(MARKER_HOST_NMI) : "memory");
    for (int i = 0; i < LINGER; i++)
        __asm__ volatile("pause");
    for (int i = 0; i < EXITS; i++)
        cpuid(0, 0);
}

static int run_returned(void)
{
    struct hyper_answer word, before, after;
    long long nmis;

    if (!hyper_present() ||
        !(cpuid(CPUID_HV_FEATURES, 0).ecx & 1u << HYPERCALL_TEST_REQUEST_WORD)) {
        printf("returned: error=\"wants the test build of PMUvisor\"\n");
        return 1;
    }
    word = hyper_call_with(HYPERCALL_TEST_REQUEST_WORD, 0, 0, 0);
    if (word.rax < 0) {
        printf("returned: error=\"request word: %ld, wanted an address; set user_hypercalls=1\"\n",
               word.rax);
        return 1;
    }
    perf_lift_limits();
    before = hyper_call_with(HYPERCALL_TEST_SOURCE, SOURCE_BACKTRACE, 0, 0);
    nmis = interrupt_count("NMI");
    request_word((uint64_t)word.rax, (uint32_t)word.rbx);
    for (int i = 0; i < HOST_NMIS; i++)
        host_nmi();
    request_word(0, 0);
    nmis = interrupt_count("NMI") - nmis;
    after = hyper_call_with(HYPERCALL_TEST_SOURCE, SOURCE_BACKTRACE, 0, 0);
    printf("returned: sent=%d nmis=%lld in_root=%ld recovered=%llu returned=%llu\n", HOST_NMIS,
           nmis, after.rax - before.rax, (unsigned long long)(after.rbx - before.rbx),
           (unsigned long long)(after.rcx - before.rcx));
    return 0;
}

JOB(returned) { return run_returned(); }

JOB(returnedall)
{
    int failed = 0;

    for (int cpu = 0; cpu < processors_online(); cpu++)
        failed |= pin(0, cpu) != 0 || run_returned() != 0;
    return failed;
}
