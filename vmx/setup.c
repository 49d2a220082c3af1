/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The VMCS of one processor. SDM Vol. 3, "Virtual Machine Control Structures", in its order:
 * guest state, host state, execution controls, exit controls, entry controls.
 */
#include "setup.h"

#include "../guest/linux.h"
#include "../nmi/nmi.h"
#include "../pmu/pmu.h"
#include "cpu.h"
#include "cr.h"
#include "exit.h"
#include "msr.h"
#include "vmcs.h"
#include "vmx.h"
#include "x86.h"

#define GUEST_VPID 1 /* one guest; 0 is root mode's */
#define PAT_RESET 0x0007040600070406ULL /* SDM Vol. 3, "Page Attribute Table (PAT)", power-up */
#define DR7_RESET 0x400
#define FLAT_LIMIT 0xffffffffu
#define TSS_LIMIT 0x67 /* never used before the kernel loads its own */
#define RIGHTS_CODE_64 (0x9b | ACCESS_LONG | ACCESS_GRANULARITY)
#define RIGHTS_DATA (0x93 | ACCESS_DB | ACCESS_GRANULARITY)
#define RIGHTS_BUSY_TSS 0x8b

#define SET_SEGMENT(name, sel, lim, ar)                                                            \
    do {                                                                                           \
        vmcs_write_16(VMCS_GUEST_##name##_SELECTOR, (sel));                                        \
        vmcs_write_32(VMCS_GUEST_##name##_LIMIT, (lim));                                           \
        vmcs_write_32(VMCS_GUEST_##name##_ACCESS_RIGHTS, (uint32_t)(ar));                          \
        vmcs_write_natural(VMCS_GUEST_##name##_BASE, 0);                                           \
    } while (0)

static void guest_segments(const struct guest_entry *guest)
{
    SET_SEGMENT(CS, guest->cs, FLAT_LIMIT, RIGHTS_CODE_64);
    SET_SEGMENT(SS, guest->ds, FLAT_LIMIT, RIGHTS_DATA);
    SET_SEGMENT(DS, guest->ds, FLAT_LIMIT, RIGHTS_DATA);
    SET_SEGMENT(ES, guest->ds, FLAT_LIMIT, RIGHTS_DATA);
    SET_SEGMENT(FS, guest->ds, FLAT_LIMIT, RIGHTS_DATA);
    SET_SEGMENT(GS, guest->ds, FLAT_LIMIT, RIGHTS_DATA);
    SET_SEGMENT(LDTR, 0, 0, ACCESS_UNUSABLE);
    SET_SEGMENT(TR, 0, TSS_LIMIT, RIGHTS_BUSY_TSS);
}

static void guest_state(const struct vmx_capability *c, const struct vmx_controls *controls,
                        const struct guest_entry *guest)
{
    uint64_t cr0 = CR0_PE | CR0_ET | CR0_NE | CR0_WP | CR0_PG;

    vmcs_write_natural(VMCS_GUEST_CR0, cr0 | (c->cr0_fixed0 & ~(uint64_t)(CR0_PE | CR0_PG)));
    vmcs_write_natural(VMCS_GUEST_CR3, guest->cr3);
    vmcs_write_natural(VMCS_GUEST_CR4, CR4_PAE | c->cr4_fixed0);
    vmcs_write_natural(VMCS_GUEST_DR7, DR7_RESET);
    vmcs_write_natural(VMCS_GUEST_RSP, guest->rsp);
    vmcs_write_natural(VMCS_GUEST_RIP, guest->rip);
    vmcs_write_natural(VMCS_GUEST_RFLAGS, RFLAGS_FIXED);
    guest_segments(guest);
    vmcs_write_natural(VMCS_GUEST_GDTR_BASE, guest->gdt_base);
    vmcs_write_32(VMCS_GUEST_GDTR_LIMIT, guest->gdt_limit);
    vmcs_write_natural(VMCS_GUEST_IDTR_BASE, 0);
    vmcs_write_32(VMCS_GUEST_IDTR_LIMIT, 0);
    vmcs_write_64(VMCS_GUEST_IA32_DEBUGCTL, 0);
    vmcs_write_32(VMCS_GUEST_IA32_SYSENTER_CS, 0);
    vmcs_write_natural(VMCS_GUEST_IA32_SYSENTER_ESP, 0);
    vmcs_write_natural(VMCS_GUEST_IA32_SYSENTER_EIP, 0);
    vmcs_write_64(VMCS_GUEST_IA32_EFER, EFER_LME | EFER_LMA);
    vmcs_write_64(VMCS_GUEST_IA32_PAT, rdmsr(IA32_PAT));
    if (controls->value[SET_ENTRY] & ENTRY_LOAD_BNDCFGS)
        vmcs_write_64(VMCS_GUEST_IA32_BNDCFGS, 0);
    if (controls->value[SET_ENTRY] & ENTRY_LOAD_LBR_CTL)
        vmcs_write_64(VMCS_GUEST_IA32_LBR_CTL, 0);
    if (controls->value[SET_ENTRY] & ENTRY_LOAD_CET) {
        vmcs_write_natural(VMCS_GUEST_IA32_S_CET, 0);
        vmcs_write_natural(VMCS_GUEST_SSP, 0);
        vmcs_write_natural(VMCS_GUEST_IA32_INTERRUPT_SSP_TABLE, 0);
    }
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_ACTIVE);
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, 0);
    vmcs_write_natural(VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS, 0);
    vmcs_write_64(VMCS_VMCS_LINK_POINTER, ~0ULL);
}

static void host_state(const struct cpu *cpu, const struct vmx_controls *controls,
                       const struct descriptor_tables *tables)
{
    vmcs_write_16(VMCS_HOST_CS_SELECTOR, ROOT_CS);
    vmcs_write_16(VMCS_HOST_SS_SELECTOR, ROOT_DS);
    vmcs_write_16(VMCS_HOST_DS_SELECTOR, ROOT_DS);
    vmcs_write_16(VMCS_HOST_ES_SELECTOR, ROOT_DS);
    vmcs_write_16(VMCS_HOST_FS_SELECTOR, 0);
    vmcs_write_16(VMCS_HOST_GS_SELECTOR, 0);
    vmcs_write_16(VMCS_HOST_TR_SELECTOR, ROOT_TR);
    vmcs_write_natural(VMCS_HOST_CR0, read_cr0());
    vmcs_write_natural(VMCS_HOST_CR3, cpu->host_cr3);
    vmcs_write_natural(VMCS_HOST_CR4, read_cr4());
    vmcs_write_natural(VMCS_HOST_FS_BASE, 0);
    vmcs_write_natural(VMCS_HOST_GS_BASE, (uint64_t)cpu);
    vmcs_write_natural(VMCS_HOST_TR_BASE, tables->tss_base);
    vmcs_write_natural(VMCS_HOST_GDTR_BASE, tables->gdt_base);
    vmcs_write_natural(VMCS_HOST_IDTR_BASE, tables->idt_base);
    vmcs_write_32(VMCS_HOST_IA32_SYSENTER_CS, 0);
    vmcs_write_natural(VMCS_HOST_IA32_SYSENTER_ESP, 0);
    vmcs_write_natural(VMCS_HOST_IA32_SYSENTER_EIP, 0);
    vmcs_write_64(VMCS_HOST_IA32_PAT, PAT_RESET);
    vmcs_write_64(VMCS_HOST_IA32_EFER, rdmsr(IA32_EFER));
    if (controls->value[SET_EXIT] & EXIT_LOAD_CET) {
        vmcs_write_natural(VMCS_HOST_IA32_S_CET, 0);
        vmcs_write_natural(VMCS_HOST_SSP, 0);
        vmcs_write_natural(VMCS_HOST_IA32_INTERRUPT_SSP_TABLE, 0);
    }
    vmcs_write_natural(VMCS_HOST_RSP, cpu->root_stack);
    vmcs_write_natural(VMCS_HOST_RIP, cpu->boot->options.stats_cycles
                                          ? (uint64_t)vmx_exit_entry_timed
                                          : (uint64_t)vmx_exit_entry);
}

static void execution_controls(struct cpu *cpu, const struct vmx_capability *c,
                               const struct vmx_controls *controls)
{
    uint32_t primary = controls->value[SET_PRIMARY];
    uint32_t secondary = controls->value[SET_SECONDARY];

    /* pmu=off: RDPMC has to fault as an absent PMU's does. */
    if (!cpu->boot->options.pmu || cpu->boot->options.policy == POLICY_INTERCEPT)
        primary = vmx_adjust(c->allowed[SET_PRIMARY], primary | PRIMARY_RDPMC_EXITING);
    vmcs_write_32(VMCS_PIN_BASED_CONTROLS, controls->value[SET_PIN]);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, primary);
    vmcs_write_32(VMCS_SECONDARY_CONTROLS, secondary);
    vmcs_write_32(VMCS_EXCEPTION_BITMAP, 0);
    vmcs_write_32(VMCS_PAGE_FAULT_ERROR_CODE_MASK, 0);
    vmcs_write_32(VMCS_PAGE_FAULT_ERROR_CODE_MATCH, 0);
    vmcs_write_32(VMCS_CR3_TARGET_COUNT, 0);
    vmcs_write_64(VMCS_IO_BITMAP_A, (uint64_t)cpu->io_bitmaps);
    vmcs_write_64(VMCS_IO_BITMAP_B, (uint64_t)cpu->io_bitmaps + PAGE_SIZE);
    vmcs_write_64(VMCS_MSR_BITMAPS, (uint64_t)cpu->msr_bitmap);
    vmcs_write_64(VMCS_EPT_POINTER, cpu->ept_root | EPTP_WALK_4 | EPTP_MEMORY_WB);
    vmcs_write_16(VMCS_VPID, GUEST_VPID);
    if (secondary & SECONDARY_ENABLE_XSAVES)
        vmcs_write_64(VMCS_XSS_EXITING_BITMAP, cpuid_hidden_xss(controls->value));
    if (secondary & SECONDARY_ENCLS_EXITING)
        vmcs_write_64(VMCS_ENCLS_EXITING_BITMAP, ~0ULL);

    cpu->cr4_refused = CR4_HIDDEN;
    if (!(controls->value[SET_ENTRY] & ENTRY_LOAD_CET))
        cpu->cr4_refused |= CR4_CET;
    /* CR0.NE, and whatever else this processor fixes, belongs to VMX; CR4: see cr.h. */
    uint64_t cr0_owned = c->cr0_fixed0 & ~(uint64_t)(CR0_PE | CR0_PG);
    vmcs_write_natural(VMCS_CR0_GUEST_HOST_MASK, cr0_owned);
    vmcs_write_natural(VMCS_CR0_READ_SHADOW, cr0_owned);
    vmcs_write_natural(VMCS_CR4_GUEST_HOST_MASK, cpu->cr4_refused | CR4_TRACKED | c->cr4_fixed0);
    vmcs_write_natural(VMCS_CR4_READ_SHADOW, 0);
}

void vmcs_setup(struct cpu *cpu, const struct vmx_capability *c,
                const struct vmx_controls *controls, const struct descriptor_tables *tables,
                const struct guest_entry *guest)
{
    static const struct guest_entry nowhere;

    guest_state(c, controls, guest != NULL ? guest : &nowhere);
    host_state(cpu, controls, tables);
    execution_controls(cpu, c, controls);
    vmcs_write_32(VMCS_EXIT_CONTROLS, controls->value[SET_EXIT]);
    vmcs_write_32(VMCS_ENTRY_CONTROLS, controls->value[SET_ENTRY]);
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, 0);
    pmu_setup(cpu);
    nmi_setup(cpu, vmx_allows(c, SET_PIN, PIN_NMI_EXITING) &&
                       vmx_allows(c, SET_PIN, PIN_VIRTUAL_NMIS) &&
                       vmx_allows(c, SET_PRIMARY, PRIMARY_NMI_WINDOW_EXITING));
    tick_setup(cpu, vmx_allows(c, SET_PIN, PIN_PREEMPTION_TIMER), c->misc);
    if (guest == NULL)
        guest_init_state(cpu, 0);
}
