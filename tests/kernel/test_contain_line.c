/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guest tries in vain, where the log's lines are the result: tests/e2e/test_containment.py
 * reads them. One for each refusal of the hypervisor's, which says what became of it; none for what
 * the processor itself refuses.
 * SDM Vol. 3, "Local APIC Status and Location", "x2APIC State Transitions"; "Task Switching".
 */
#include "kernel.h"
#include "fuzz.h"

#include "msr.h"
#include "x86.h"

#define LEAF_ADDRESS_SIZES 0x80000008u
#define VECTOR_DF 8
#define PAGE 0x1000

uint64_t task_code(uint64_t physical, uint64_t by_event); /* task.asm */

/* Values of IA32_APIC_BASE that the processor refuses, more than there are lines for; then one that
 * only the hypervisor does. */
void test_apic_base_lines(const struct job *job)
{
    unsigned bits = cpuid(LEAF_ADDRESS_SIZES, 0).eax & 0xff;
    uint64_t base = rdmsr(IA32_APIC_BASE), wrong = 0;

    for (unsigned bit = 0; bit < 64; bit++)
        if (bit < 8 || bit == 9 || bit >= bits)
            wrong += wrmsr_try(IA32_APIC_BASE, base ^ BIT(bit));
    wrong += wrmsr_try(IA32_APIC_BASE, (base & ~APIC_BASE_EN) | APIC_BASE_EXTD);
    if (apic_x2())
        wrong += wrmsr_try(IA32_APIC_BASE, base & ~APIC_BASE_EXTD);
    if (under_pmuvisor())
        wrong += wrmsr_try(IA32_APIC_BASE, base ^ PAGE);
    wrong += rdmsr(IA32_APIC_BASE) != base;
    tap_result(wrong == 0, job->name, NULL);
}

/* At the address where it is mapped to itself, since paging goes off in it. `task:shutdown`: two such
 * tasks, one in the delivery of the other, end the guest. */
void test_task(const struct job *job)
{
    uint64_t physical = fuzz_physical((const void *)(uintptr_t)task_code);
    uint64_t (*try)(uint64_t, uint64_t) = (uint64_t(*)(uint64_t, uint64_t))physical;

    if (!under_pmuvisor()) {
        tap_skip(job->name, "natively the task is switched");
        return;
    }
    if (job->word[0] != '\0') {
        (void)try(physical, 2);
        tap_result(false, job->name, "the processor did not shut down");
        return;
    }
    uint64_t plain = try(physical, false), by_event = try(physical, true);
    if (plain != VECTOR_GP || by_event != VECTOR_DF)
        tap_note("a JMP to a task gave vector %lu, an event %lu; wanted #GP and #DF", plain,
                 by_event);
    tap_result(plain == VECTOR_GP && by_event == VECTOR_DF, job->name, NULL);
}
