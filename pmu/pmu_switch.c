/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Switches IA32_PERF_GLOBAL_CTRL between guest and root mode, in the three ways that processors
 * offer (enum global_ctrl_switch).
 * SDM Vol. 3, "VM-Exit Controls for MSRs", "Loading MSRs", "Saving MSRs".
 */
#include "vmx/capability.h"
#include "vmx/root/fault.h"
#include "pmu/pmu.h"

#define NOTHING_COUNTS 0
#define NO_PEBS 0
#define RDPMC_FIXED BIT(30) /* in ECX: selects a fixed counter */

enum global_ctrl_switch pmu_choose_switch(bool pmu, const uint32_t *controls)
{
    if (!pmu)
        return GLOBAL_CTRL_NONE;
    if (!(controls[SET_ENTRY] & ENTRY_LOAD_GLOBAL_CTRL))
        return GLOBAL_CTRL_LISTS;
    return controls[SET_EXIT] & EXIT_SAVE_GLOBAL_CTRL ? GLOBAL_CTRL_CONTROLS
                                                      : GLOBAL_CTRL_STORE_LIST;
}

const char *pmu_switch_name(enum global_ctrl_switch how)
{
    static const char *const names[] = {
        [GLOBAL_CTRL_NONE] = "not switched (pmu=off)",
        [GLOBAL_CTRL_CONTROLS] = "VMCS load and save controls",
        [GLOBAL_CTRL_STORE_LIST] =
            "VMCS load controls and the exit MSR-store list (no save control)",
        [GLOBAL_CTRL_LISTS] = "MSR-load and MSR-store lists (no load controls)",
    };
    return names[how];
}

/* CPUID names the counters (SDM Vol. 3, "Architectural Performance Monitoring Version 2"). On
 * hybrid processors, however, CPUID names only the counters that all cores have. P-cores accept
 * more counter bits, and bit 48 (Linux, arch/x86/events/intel/core.c). So try each bit. During the
 * trial, freeze the counters, because firmware may have left some on. Before version 4, counters
 * cannot be frozen, but no hybrid processor is that old. */
static uint64_t probe_global_ctrl_bits(const struct cpu_pmu *pmu)
{
    struct pmu_facts facts = pmu_read_facts();
    uint64_t bits = facts.general | (uint64_t)facts.fixed << GLOBAL_CTRL_FIXED_SHIFT;

    if (!pmu->status_set)
        return bits;
    uint64_t before = rdmsr(IA32_PERF_GLOBAL_CTRL), status = rdmsr(IA32_PERF_GLOBAL_STATUS);
    wrmsr(IA32_PERF_GLOBAL_STATUS_SET, GLOBAL_STATUS_CTR_FRZ);
    for (unsigned i = 0; i < 64; i++)
        bits |= wrmsr_safe(IA32_PERF_GLOBAL_CTRL, BIT(i)) ? BIT(i) : 0;
    wrmsr(IA32_PERF_GLOBAL_CTRL, before);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, ~status & GLOBAL_STATUS_CTR_FRZ);
    return bits;
}

static void set_msr_list_entry(struct cpu *cpu, enum pmu_list_entry entry, uint32_t index,
                               uint64_t host)
{
    cpu->pmu.guest_list[entry] = (struct msr_entry){index, 0, rdmsr(index)};
    cpu->pmu.host_list[entry] = (struct msr_entry){index, 0, host};
}

/* The entry loads each value from the place where the exit stored it, so root mode need not copy
 * it. GLOBAL_CTRL is the first entry and PEBS_ENABLE the last, so each list can leave out either of
 * them. A pointer is also a physical address here, because mm/host_paging.c maps memory one to
 * one. */
static void set_msr_lists(struct cpu_pmu *pmu)
{
    bool lists = pmu->global_ctrl == GLOBAL_CTRL_LISTS;
    bool stores = lists || pmu->global_ctrl == GLOBAL_CTRL_STORE_LIST;
    unsigned load = lists ? PMU_LIST_GLOBAL_CTRL : PMU_LIST_PEBS_ENABLE;
    unsigned store = stores ? PMU_LIST_GLOBAL_CTRL : PMU_LIST_PEBS_ENABLE;
    unsigned end = pmu->pebs_switched ? PMU_LIST : PMU_LIST_PEBS_ENABLE;
    const struct vmcs_value values[] = {
        {VMCS_EXIT_MSR_STORE_ADDRESS, (uint64_t)&pmu->guest_list[store]},
        {VMCS_EXIT_MSR_STORE_COUNT, end - store},
        {VMCS_ENTRY_MSR_LOAD_ADDRESS, (uint64_t)&pmu->guest_list[load]},
        {VMCS_ENTRY_MSR_LOAD_COUNT, end - load},
        {VMCS_EXIT_MSR_LOAD_ADDRESS, (uint64_t)&pmu->host_list[load]},
        {VMCS_EXIT_MSR_LOAD_COUNT, end - load},
    };

    vmcs_write_all(values, LENGTH_OF(values));
}

void pmu_setup(struct cpu *cpu)
{
    struct cpu_pmu *pmu = &cpu->pmu;

    set_msr_lists(pmu);
    if (pmu->global_ctrl == GLOBAL_CTRL_NONE)
        return;
    if (cpu->boot->options.policy == POLICY_INTERCEPT)
        pmu->global_ctrl_valid = probe_global_ctrl_bits(pmu);
    if (pmu->pebs_switched)
        set_msr_list_entry(cpu, PMU_LIST_PEBS_ENABLE, IA32_PEBS_ENABLE, NO_PEBS);
    set_msr_list_entry(cpu, PMU_LIST_GLOBAL_CTRL, IA32_PERF_GLOBAL_CTRL, NOTHING_COUNTS);
    pmu_reload_global_ctrl(cpu);
    if (pmu->global_ctrl != GLOBAL_CTRL_LISTS)
        vmcs_write_64(VMCS_HOST_IA32_PERF_GLOBAL_CTRL, NOTHING_COUNTS);
}

void pmu_reload_global_ctrl(struct cpu *cpu)
{
    struct cpu_pmu *pmu = &cpu->pmu;

    pmu->global_ctrl_loaded = pmu->guest_list[PMU_LIST_GLOBAL_CTRL].value;
    if (pmu->global_ctrl != GLOBAL_CTRL_LISTS)
        vmcs_write_64(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, pmu->global_ctrl_loaded);
}

uint64_t pmu_get_global_ctrl(const struct cpu *cpu)
{
    if (cpu->pmu.global_ctrl == GLOBAL_CTRL_CONTROLS)
        return vmcs_read_64(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL);
    return cpu->pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value;
}

void pmu_set_global_ctrl(struct cpu *cpu, uint64_t value)
{
    if (cpu->pmu.global_ctrl == GLOBAL_CTRL_CONTROLS)
        vmcs_write_64(VMCS_GUEST_IA32_PERF_GLOBAL_CTRL, value);
    else /* the check before the entry (vmx/exit/entry.asm) sees the change */
        cpu->pmu.guest_list[PMU_LIST_GLOBAL_CTRL].value = value;
}

/* A new value goes to the register for a moment, so that the processor refuses a bad value. Nothing
 * counts during this write. */
static bool access_pebs_enable(struct cpu *cpu, uint64_t *value, bool write)
{
    uint64_t *own = &cpu->pmu.guest_list[PMU_LIST_PEBS_ENABLE].value;

    if (!write) {
        *value = *own;
        return true;
    }
    if (!wrmsr_safe(IA32_PEBS_ENABLE, *value))
        return false;
    wrmsr(IA32_PEBS_ENABLE, NO_PEBS);
    *own = *value;
    return true;
}

/* Returns whether the guest may set IA32_PEBS_BASE to this value. Architectural PEBS writes its
 * records by physical addresses to the buffer that the register names. If VMX does not translate
 * these addresses, PEBS bypasses the EPT (SDM Vol. 3, "Translation of Guest-Physical Addresses Used
 * by Architectural PEBS"). So the guest must be able to write each page of the buffer. The low bits
 * of `value` give the number of pages, as a power of two (Linux, arch/x86/events/intel/ds.c). The
 * processor refuses reserved values. */
static bool is_pebs_buffer_allowed(const struct cpu *cpu, uint64_t value)
{
    uint64_t size = value & (PAGE_SIZE - 1), at = value - size, bytes;
    uint64_t last = size > EPT_ADDRESS_BITS ? ~0ULL : at + (PAGE_SIZE << size) - 1;

    for (; ept_lookup(cpu->ept_root, at, &bytes) & EPT_WRITE; at = (at | (bytes - 1)) + 1)
        if ((at | (bytes - 1)) >= last)
            return true;
    return false;
}

/* The bit that disables RDPMC for user code is bit 37 of a general counter's event select, or bit
 * 33 of a fixed counter's field (Linux, commit "perf/x86/intel: Add support for rdpmc user disable
 * feature"). Before version 6, both bits are reserved. */
bool pmu_is_rdpmc_user_disabled(uint32_t counter)
{
    uint32_t n = (uint16_t)counter;

    if (pmu_read_facts().version < PMU_VERSION_NAMES)
        return false;
    if (counter == n)
        return rdmsr(IA32_PMC_GP0_CTR + n * PMC_STEP + 1) & BIT(37);
    return counter - n == RDPMC_FIXED && n < 16 && rdmsr(IA32_FIXED_CTR_CTRL) >> 4 * n & BIT(33);
}

/* With policy=intercept the guest's accesses to the PMU exit, and root mode performs them on the
 * hardware. Any trap-and-emulate design does at least this much. The counters stand still in root
 * mode, so they hold the values that the guest's instruction would have found. GLOBAL_CTRL is 0 in
 * root mode, so an access to GLOBAL_CTRL uses the guest's value in the VMCS or in the MSR list. SDM
 * Vol. 3, "Performance Monitoring". */
bool pmu_access_register(struct cpu *cpu, uint32_t index, uint64_t *value, bool write)
{
    if (!cpu->boot->options.pmu)
        return false;
    if (index == IA32_PEBS_ENABLE && cpu->pmu.pebs_switched)
        return access_pebs_enable(cpu, value, write);
    if (index == IA32_PEBS_BASE && write && !is_pebs_buffer_allowed(cpu, *value))
        return false;
    if (index != IA32_PERF_GLOBAL_CTRL)
        return write ? wrmsr_safe(index, *value) : rdmsr_safe(index, value);
    if (!write)
        *value = pmu_get_global_ctrl(cpu);
    else if (*value & ~cpu->pmu.global_ctrl_valid)
        return false;
    else
        pmu_set_global_ctrl(cpu, *value);
    return true;
}
