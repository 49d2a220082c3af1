/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest lends IA32_FIXED_CTR0, which counts the instructions that the guest retires: nothing
 * counts in root mode. The guest can see that it counts. If the guest writes to the lent counter,
 * that shows: the loan counts from a value that no count and no period of a guest's has. If it only
 * turns the counter on, that shows as well: the loan asks for PMIs, which no guest does without a
 * period. No PMI comes before 3 * 2^46 instructions. SDM Vol. 3, "Architectural Performance
 * Monitoring Version 2".
 */
#include "experiments/memory/hypervisor/lend.h"

#include "experiments/memory/hypervisor/memory.h"

#include "vmx/root/fault.h"

#define COUNTER_FIELD 0xfULL /* of counter 0 in IA32_FIXED_CTR_CTRL */
#define COUNTER_LOAN 0xbULL  /* all rings, and a PMI at an overflow */
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
