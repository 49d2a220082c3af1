/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Borrows IA32_FIXED_CTR0 from the guest. The counter counts only instructions that the guest
 * retires, because nothing counts in root mode. The guest can see that the counter is counting.
 *
 * If a guest starts to use the lent counter, root mode notices that in one of two ways. If the
 * guest writes the counter, the counter's value shows the use, because the loan counts from a value
 * that no guest's count or period reaches. If the guest only turns the counter on, the control
 * field shows the use: the loan asks for PMIs, and a guest that asks for PMIs also writes a period.
 * The loan raises no PMI before 3 * 2^46 instructions. SDM Vol. 3, "Architectural Performance
 * Monitoring Version 2".
 */
#include "experiments/memory/hypervisor/state.h"

#include "vmx/root/fault.h"

#define COUNTER_FIELD 0xfULL /* counter 0's field of IA32_FIXED_CTR_CTRL */
#define COUNTER_LOAN 0xbULL  /* counts in all rings, with a PMI on overflow */
#define COUNTER_ENABLE BIT(GLOBAL_CTRL_FIXED_SHIFT)

enum pmu_lent pmu_lend_counter(struct cpu *cpu)
{
    struct pmu_loan *loan = &memory_of(cpu)->loan;

    /* PMU version 6 has another name for the counter, and IA32_FIXED_CTR0 need not exist in that
     * version. */
    if (!cpu->boot->options.pmu || !(pmu_read_facts().fixed & 1) ||
        !rdmsr_safe(IA32_FIXED_CTR0, &loan->value))
        return PMU_NO_COUNTER;
    uint64_t control = rdmsr(IA32_FIXED_CTR_CTRL);
    if (control & COUNTER_FIELD)
        return PMU_COUNTER_IN_USE;
    if (!wrmsr_safe(IA32_FIXED_CTR0, PMU_LENT_FROM)) /* the counter is too narrow */
        return PMU_NO_COUNTER;
    loan->enabled = pmu_get_global_ctrl(cpu) & COUNTER_ENABLE;
    wrmsr(IA32_FIXED_CTR_CTRL, control | COUNTER_LOAN);
    pmu_set_global_ctrl(cpu, pmu_get_global_ctrl(cpu) | COUNTER_ENABLE);
    return PMU_COUNTER_LENT;
}

void pmu_give_counter_back(struct cpu *cpu)
{
    const struct pmu_loan *loan = &memory_of(cpu)->loan;
    uint64_t control = rdmsr(IA32_FIXED_CTR_CTRL);

    if ((control & COUNTER_FIELD) != COUNTER_LOAN ||
        (rdmsr(IA32_FIXED_CTR0) & ~(PMU_LENT_FROM - 1)) != PMU_LENT_FROM)
        return; /* the guest has begun to use the counter */
    wrmsr(IA32_FIXED_CTR_CTRL, control & ~COUNTER_FIELD);
    wrmsr(IA32_FIXED_CTR0, loan->value);
    if (!loan->enabled)
        pmu_set_global_ctrl(cpu, pmu_get_global_ctrl(cpu) & ~COUNTER_ENABLE);
}
