/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sets up the VMCS of one processor: first zeros, then host state, controls, and guest state. The
 * guest state is the state after an INIT. On the first processor, set_linux_entry_state() then
 * changes it for the kernel's entry. SDM Vol. 3, "Virtual Machine Control Structures".
 */
#include "vmx/start/start.h"

#include "experiment.h"
#include "hypercall.h"
#include "nmi/nmi.h"
#include "pmu/pmu.h"
#include "vmx/exit/exit.h"
#include "vmx/root/end.h"

#define GUEST_VPID 1 /* there is only one guest; VPID 0 is root mode */

/* Writes the fields in which the kernel's 64-bit entry state differs from the state after an
 * INIT. */
static void set_linux_entry_state(const struct vmx_capability *c,
                                  const struct vmx_controls *controls,
                                  const struct guest_entry *guest)
{
    uint64_t cr0_owned = c->cr0_fixed0 & ~(uint64_t)(CR0_PE | CR0_PG);
    const struct vmcs_value values[] = {
        {VMCS_GUEST_CR0, CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG | cr0_owned},
        {VMCS_CR0_READ_SHADOW, cr0_owned},
        {VMCS_GUEST_CR3, guest->cr3},
        {VMCS_GUEST_CR4, CR4_PAE | c->cr4_fixed0},
        {VMCS_GUEST_RSP, guest->rsp},
        {VMCS_GUEST_RIP, guest->rip},
        {VMCS_GUEST_GDTR_BASE, guest->gdt_base},
        {VMCS_GUEST_GDTR_LIMIT, guest->gdt_limit},
        {VMCS_GUEST_IDTR_LIMIT, 0},
        {VMCS_GUEST_IA32_EFER, EFER_LME | EFER_LMA},
        {VMCS_ENTRY_CONTROLS, controls->value[SET_ENTRY]},
        {VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_ACTIVE},
    };

    vmcs_write_all(values, LENGTH_OF(values));
    for (enum segment s = SEGMENT_ES; s <= SEGMENT_GS; s++)
        vmcs_write_segment(s, (struct segment_state){guest->ds, 0, FLAT_LIMIT, RIGHTS_DATA});
    vmcs_write_segment(SEGMENT_CS,
                       (struct segment_state){guest->cs, 0, FLAT_LIMIT, RIGHTS_CODE_64});
    vmcs_write_segment(SEGMENT_LDTR, (struct segment_state){.rights = ACCESS_UNUSABLE});
}

static void set_host_state(const struct cpu *cpu, const struct descriptor_tables *tables)
{
    const char *entry = cpu->boot->options.stats_cycles        ? vmx_exit_entry_timed
                        : cpu->mitigations & ~MITIGATIONS_AUTO ? vmx_exit_entry_guarded
                                                               : vmx_exit_entry;
    const struct vmcs_value values[] = {
        {VMCS_HOST_CS_SELECTOR, ROOT_CS},        {VMCS_HOST_SS_SELECTOR, ROOT_DS},
        {VMCS_HOST_DS_SELECTOR, ROOT_DS},        {VMCS_HOST_ES_SELECTOR, ROOT_DS},
        {VMCS_HOST_TR_SELECTOR, ROOT_TR},        {VMCS_HOST_CR0, read_cr0()},
        {VMCS_HOST_CR3, cpu->host_cr3},          {VMCS_HOST_CR4, read_cr4()},
        {VMCS_HOST_GS_BASE, (uint64_t)cpu},      {VMCS_HOST_TR_BASE, tables->tss_base},
        {VMCS_HOST_GDTR_BASE, tables->gdt_base}, {VMCS_HOST_IDTR_BASE, tables->idt_base},
        {VMCS_HOST_IA32_PAT, PAT_RESET},         {VMCS_HOST_IA32_EFER, rdmsr(IA32_EFER)},
        {VMCS_HOST_RSP, cpu->root_stack},        {VMCS_HOST_RIP, (uint64_t)entry},
    };

    vmcs_write_all(values, LENGTH_OF(values));
}

static void set_controls(struct cpu *cpu, const struct vmx_capability *c,
                         const struct vmx_controls *controls)
{
    uint32_t primary = controls->value[SET_PRIMARY];
    uint32_t secondary = controls->value[SET_SECONDARY];

    /* With pmu=off, RDPMC must exit, so that it faults as on a processor without a PMU. With
     * policy=intercept, all accesses to the PMU must exit. */
    if (!cpu->boot->options.pmu || cpu->boot->options.policy == POLICY_INTERCEPT)
        primary = vmx_adjust_controls(c->allowed[SET_PRIMARY], primary | PRIMARY_RDPMC_EXITING);
    if (cpu == get_cpu_by_index(0)) /* INIT and SIPI never restart this processor: see sleep.c */
        secondary &= ~(uint32_t)SECONDARY_WBINVD_EXITING;
    const struct vmcs_value values[] = {
        {VMCS_PIN_BASED_CONTROLS, controls->value[SET_PIN]},
        {VMCS_PRIMARY_CONTROLS, primary},
        {VMCS_SECONDARY_CONTROLS, secondary},
        {VMCS_EXIT_CONTROLS, controls->value[SET_EXIT]},
        {VMCS_ENTRY_CONTROLS, controls->value[SET_ENTRY]},
        {VMCS_IO_BITMAP_A, (uint64_t)cpu->io_bitmaps},
        {VMCS_IO_BITMAP_B, (uint64_t)cpu->io_bitmaps + PAGE_SIZE},
        {VMCS_MSR_BITMAPS, (uint64_t)cpu->msr_bitmap},
        {VMCS_EPT_POINTER, cpu->ept_root | EPTP_WALK_4 | EPTP_MEMORY_WB},
        {VMCS_VPID, GUEST_VPID},
        {VMCS_VMCS_LINK_POINTER, ~0ULL},
        /* CR0.NE and the other bits that this processor fixes belong to VMX. For CR4, see
         * exit.h. */
        {VMCS_CR0_GUEST_HOST_MASK, c->cr0_fixed0 & ~(uint64_t)(CR0_PE | CR0_PG)},
    };
    vmcs_write_all(values, LENGTH_OF(values));
    /* A processor may lack these fields. */
    if (primary & PRIMARY_TERTIARY_CONTROLS)
        vmcs_write_64(VMCS_TERTIARY_CONTROLS, TERTIARY_PEBS_GUEST_PHYSICAL);
    if (secondary & SECONDARY_ENABLE_XSAVES)
        vmcs_write_64(VMCS_XSS_EXITING_BITMAP, cpuid_hidden_xss(cpu));
    if (secondary & SECONDARY_ENCLS_EXITING)
        vmcs_write_64(VMCS_ENCLS_EXITING_BITMAP, ~0ULL);

    cpu->cr.cr4_refused = CR4_HIDDEN | c->cr4_fixed0;
    if (!(controls->value[SET_ENTRY] & ENTRY_LOAD_CET))
        cpu->cr.cr4_refused |= CR4_CET;
}

void vmcs_setup(struct cpu *cpu, const struct vmx_capability *c,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest)
{
    vmcs_zero_fields();
    set_host_state(cpu, tables);
    set_controls(cpu, c, controls);
    vmcs_write_64(VMCS_GUEST_IA32_PAT, rdmsr(IA32_PAT));
    guest_set_init_state(cpu);
    if (guest != NULL)
        set_linux_entry_state(c, controls, guest);
    pmu_setup(cpu);
    nmi_setup(cpu, vmx_allows_control(c, SET_PIN, PIN_NMI_EXITING) &&
                       vmx_allows_control(c, SET_PIN, PIN_VIRTUAL_NMIS) &&
                       vmx_allows_control(c, SET_PRIMARY, PRIMARY_NMI_WINDOW_EXITING));
    tick_setup(cpu, vmx_allows_control(c, SET_PIN, PIN_PREEMPTION_TIMER), c->misc);
    experiments_setup(cpu, c);
}
