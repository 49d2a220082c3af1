/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What the guest tries in vain, where the log's lines are the result: tests/e2e/test_containment.py
 * reads them. One for each refusal of the hypervisor's, which says what became of it; none for what
 * the processor itself refuses.
 * SDM Vol. 3, "Local APIC Status and Location", "x2APIC State Transitions"; "Task Switching".
 */
#include "kernel.h"

#include "legacy.h"

#define LEAF_ADDRESS_SIZES 0x80000008u
#define TASK_EBP 0x12345678 /* tests/e2e/test_kernel.py looks for it */
#define MOV_BEYOND_TO_DS 0x66, 0xb8, 0xf8, 0xff, 0x8e, 0xd8 /* no such descriptor: #GP */

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
        wrong += wrmsr_try(IA32_APIC_BASE, base ^ PAGE_SIZE);
    wrong += rdmsr(IA32_APIC_BASE) != base;
    tap_result(wrong == 0, job->name, NULL);
}

/* A JMP to another task, and an event whose handler is one, outside IA-32e mode. `task:shutdown`:
 * what comes of that has another task as its handler, too, which ends the guest. */
void test_task(const struct job *job)
{
    static const struct legacy_case jump = {
        .tried = {0xea, 0, 0, 0, 0, LEGACY_TASK, 0, 0x0f, 0x0b}};
    struct legacy_case event = {
        .tried = {MOV_BEYOND_TO_DS}, .task_gates = BIT(VECTOR_GP), .ebp = TASK_EBP};

    if (!under_pmuvisor()) {
        tap_skip(job->name, "natively the task is switched");
        return;
    }
    if (job->word[0] != '\0') {
        event.task_gates |= BIT(VECTOR_DF);
        (void)legacy_execute(&event, PROTECTED);
        tap_result(false, job->name, "the processor did not shut down");
        return;
    }
    uint32_t plain = legacy_execute(&jump, PROTECTED).vector;
    uint32_t by_event = legacy_execute(&event, PROTECTED).vector;
    if (plain != VECTOR_GP || by_event != VECTOR_DF)
        tap_note("a JMP to a task gave vector %u, an event %u; wanted #GP and #DF", plain,
                 by_event);
    tap_result(plain == VECTOR_GP && by_event == VECTOR_DF, job->name, NULL);
}
