/* SPDX-License-Identifier: BSD-2-Clause
 *
 * memtrace=: what another part of the hypervisor lets exit does so during a trace, too. The
 * hypervisor of this test (mutants/exceptions_exit.c) counts exits of #UD and #PF in R15.
 */
#include "memory.h"

#include "smp.h"
#include "x86.h"

#define COUNTED(name, text)                                                                        \
    static uint64_t name(void)                                                                     \
    {                                                                                              \
        uint64_t count;                                                                            \
        __asm__ volatile("lea 1f(%%rip), %%rax\n\tmov %%rax, %1\n\txor %%r15d, %%r15d\n\t" text    \
                         "\n1:\tmov %%r15, %0"                                                     \
                         : "=r"(count), "=m"(smp_self()->fault_resume)                             \
                         : "D"(WINDOW_AT + MEMORY_PAGE - 4)                                        \
                         : "rax", "r15", "memory");                                                \
        return count;                                                                              \
    }
COUNTED(count_ud, "ud2")
COUNTED(count_pf, "movq $-1, (%%rdi)") /* to two pages, of which the second is not present */

static bool count(const char *when)
{
    uint64_t ud = count_ud(), pf = count_pf();

    if (ud == 1 && pf == 1)
        return true;
    tap_note("%s: #UD exited %lu times, #PF %lu times", when, ud, pf);
    return false;
}

/* `smp-memory-exceptions`, under memtrace=writes. The store in the trace violates the map, and
 * faults in its step. */
void test_smp_memory_exceptions(const struct job *job)
{
    if (!memory_offered(job))
        return;
    memory_window(WINDOW_FULL | PTE_D, 0);
    bool good = count("before the trace");
    (void)memory_trace_physical(MEMTRACE_WRITES, memory_area + WINDOW_PAGE * MEMORY_PAGE,
                                MEMORY_PAGE);
    good &= count("before a step");
    __asm__ volatile("movq $1, 64(%0)" : : "r"(WINDOW_AT) : "memory");
    good &= count("after a step");
    (void)memory_trace(MEMTRACE_OFF, 0, 0, 0);
    good &= count("after the trace");
    memory_window_close();
    tap_result(good, job->name, NULL);
}
