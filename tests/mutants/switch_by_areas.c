/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The registers that counting needs are switched at each exit and entry by VMX's own lists, the MSR
 * areas: the exit stores the guest's and loads root mode's, the entry loads the guest's. The thesis
 * (section 3.1) argues against it. The ledger counts the accesses. The status has no register that
 * a list could put back. IA32_PERF_GLOBAL_CTRL keeps its controls; where it has none that saves it,
 * its entry comes first, and is copied to where the policy looks for it: that is all that root mode
 * executes for this. SDM Vol. 3, "VM-Exit Controls for MSRs"; "VM-Entry Controls for MSRs".
 */
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"
#include "vmx/root/fault.h"

#define LISTED_MAX (PAGE_SIZE / sizeof(struct msr_entry))

void __real_pmu_setup(struct cpu *cpu);
void __real_vmx_exit(struct cpu *cpu);

/* The pages of the full switch, which nobody asks for here. */
static struct msr_entry *guest_area(const struct cpu *cpu)
{
    return (struct msr_entry *)cpu->pmu.guest;
}

void __wrap_pmu_setup(struct cpu *cpu)
{
    static uint32_t msr[PMU_CONTEXT_MAX];
    struct msr_entry *guest = guest_area(cpu), *host = (struct msr_entry *)cpu->pmu.host;
    struct pmu_facts facts = pmu_read_facts();
    unsigned listed = pmu_list_msrs(&facts, false, msr), count = 1;
    uint64_t value;

    __real_pmu_setup(cpu);
    guest[0] = host[0] = cpu->pmu.guest_list[PMU_LIST_GLOBAL_CTRL];
    host[0].value = 0;
    for (unsigned i = 0; i < listed && count < LISTED_MAX; i++) {
        if (msr[i] == IA32_PERF_GLOBAL_CTRL || !rdmsr_safe(msr[i], &value) ||
            !wrmsr_safe(msr[i], value))
            continue;
        guest[count] = host[count] = (struct msr_entry){msr[i], 0, value};
        count++;
    }
    /* The controls load it. */
    vmcs_write_64(VMCS_EXIT_MSR_STORE_ADDRESS, (uint64_t)guest);
    vmcs_write_64(VMCS_ENTRY_MSR_LOAD_ADDRESS, (uint64_t)(guest + 1));
    vmcs_write_64(VMCS_EXIT_MSR_LOAD_ADDRESS, (uint64_t)(host + 1));
    vmcs_write_32(VMCS_EXIT_MSR_STORE_COUNT, count);
    vmcs_write_32(VMCS_ENTRY_MSR_LOAD_COUNT, count - 1);
    vmcs_write_32(VMCS_EXIT_MSR_LOAD_COUNT, count - 1);
}

void __wrap_vmx_exit(struct cpu *cpu)
{
    cpu->pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value = guest_area(cpu)[0].value;
    __real_vmx_exit(cpu);
}
