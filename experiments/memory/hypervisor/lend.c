/* SPDX-License-Identifier: BSD-2-Clause
 *
 * IA32_FIXED_CTR0 lent by the guest, to count the instructions that it retires: nothing counts in
 * root mode. The guest can see that it counts. What it writes to the counter while it is lent
 * shows, because the loan counts from where no count and no period of a guest's is. That it only
 * turns the counter on shows as well: the loan asks for PMIs, which a guest does not without a
 * period. None comes before 3 * 2^46 instructions. SDM Vol. 3, "Architectural Performance
 * Monitoring Version 2".
 */
#include "experiments/memory/hypervisor/lend.h"

#include "experiments/memory/hypervisor/memory.h"

#include "vmx/root/fault.h"

#define COUNTER_FIELD 0xfULL /* of counter 0 in IA32_FIXED_CTR_CTRL */
#define COUNTER_LOAN 0xbULL /* all rings, and a PMI at an overflow */
#define COUNTER_ENABLE BIT(GLOBAL_CTRL_FIXED_SHIFT)

enum pmu_lent pmu_lend_counter(struct cpu *cpu)
{
    struct pmu_loan *loan = &memory_of(cpu)->loan;

    /* Version 6 has another name for it, and need not have this one. */
    if (!cpu->boot->options.pmu || !(pmu_facts().fixed & 1) ||
        !rdmsr_safe(IA32_FIXED_CTR0, &loan->value))
        return PMU_NO_COUNTER;
    uint64_t control = rdmsr(IA32_FIXED_CTR_CTRL);
    if (control & COUNTER_FIELD)
        return PMU_COUNTER_IN_USE;
    if (!wrmsr_safe(IA32_FIXED_CTR0, PMU_LENT_FROM)) /* a narrow one */
        return PMU_NO_COUNTER;
    loan->enabled = pmu_global_ctrl(cpu) & COUNTER_ENABLE;
    wrmsr(IA32_FIXED_CTR_CTRL, control | COUNTER_LOAN);
    pmu_set_global_ctrl(cpu, pmu_global_ctrl(cpu) | COUNTER_ENABLE);
    return PMU_COUNTER_LENT;
}

void pmu_give_counter_back(struct cpu *cpu)
{
    const struct pmu_loan *loan = &memory_of(cpu)->loan;
    uint64_t control = rdmsr(IA32_FIXED_CTR_CTRL);

    if ((control & COUNTER_FIELD) != COUNTER_LOAN ||
        (rdmsr(IA32_FIXED_CTR0) & ~(PMU_LENT_FROM - 1)) != PMU_LENT_FROM)
        return; /* the guest has begun to use it */
    wrmsr(IA32_FIXED_CTR_CTRL, control & ~COUNTER_FIELD);
    wrmsr(IA32_FIXED_CTR0, loan->value);
    if (!loan->enabled)
        pmu_set_global_ctrl(cpu, pmu_global_ctrl(cpu) & ~COUNTER_ENABLE);
}
