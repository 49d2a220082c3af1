/* SPDX-License-Identifier: BSD-2-Clause
 *
 * INIT and SIPI: the guest's processor after an INIT, its wait for a SIPI, and its start. A SIPI is
 * lost if it arrives before the entry to the wait-for-SIPI state, and a guest may send its last
 * SIPI only 20 us after the INIT. So exit_init() does little: it prints nothing, takes no lock, and
 * leaves the reset of the state to exit_sipi(). SDM Vol. 3, "Processor State After Reset" (the
 * table's column for INIT); "Other Causes of VM Exits"; "Handling Activity States by VMM".
 */
#include "vmx/exit/exit.h"

#include <string.h>

#include "apic/apic.h"
#include "nmi/nmi.h"
#include "vmx/exit/report.h"
#include "vmx/root/end.h"
#include "vmx/root/fault.h"

#define SIPI_SELECTOR_SHIFT 8
#define SIPI_BASE_SHIFT 12

/* Fields that are 0 after an INIT. A processor may lack some of them. */
static const uint16_t zero_at_init[] = {
    VMCS_GUEST_RSP,
    VMCS_GUEST_GDTR_BASE,
    VMCS_GUEST_IDTR_BASE,
    VMCS_CR0_READ_SHADOW,
    VMCS_GUEST_CR3,
    VMCS_CR4_READ_SHADOW,
    VMCS_GUEST_IA32_EFER,
    VMCS_GUEST_IA32_BNDCFGS,
    VMCS_GUEST_IA32_RTIT_CTL,
    VMCS_GUEST_IA32_S_CET,
    VMCS_GUEST_SSP,
    VMCS_GUEST_IA32_INTERRUPT_SSP_TABLE,
    VMCS_GUEST_PENDING_DEBUG_EXCEPTIONS,
    VMCS_GUEST_INTERRUPTIBILITY_STATE,
    VMCS_GUEST_ACTIVITY_STATE,
};

static const struct segment_state init_segments[] = {
    [SEGMENT_ES] = {0, 0, REAL_LIMIT, RIGHTS_REAL},
    [SEGMENT_CS] = {RESET_CS, RESET_CS_BASE, REAL_LIMIT, RIGHTS_REAL_CODE},
    [SEGMENT_SS] = {0, 0, REAL_LIMIT, RIGHTS_REAL},
    [SEGMENT_DS] = {0, 0, REAL_LIMIT, RIGHTS_REAL},
    [SEGMENT_FS] = {0, 0, REAL_LIMIT, RIGHTS_REAL},
    [SEGMENT_GS] = {0, 0, REAL_LIMIT, RIGHTS_REAL},
    [SEGMENT_LDTR] = {0, 0, REAL_LIMIT, RIGHTS_LDT},
    [SEGMENT_TR] = {0, 0, REAL_LIMIT, RIGHTS_REAL_TSS},
};

/* Clears all MSRs that an INIT clears and that are not in the VMCS. An INIT keeps the other MSRs. A
 * processor may lack the MSRs of shadow stacks. An outer hypervisor may offer the CET controls, but
 * refuse all these MSRs. */
static void clear_cet_state(void)
{
    if (!(vmcs_read_32(VMCS_ENTRY_CONTROLS) & ENTRY_LOAD_CET))
        return;
    (void)wrmsr_safe(IA32_U_CET, 0);
    for (uint32_t index = IA32_PL0_SSP; index < IA32_INTERRUPT_SSP_TABLE_ADDR; index++)
        (void)wrmsr_safe(index, 0);
}

void guest_set_init_state(struct cpu *cpu)
{
    uint32_t entry = vmcs_read_32(VMCS_ENTRY_CONTROLS) & ~(uint32_t)ENTRY_IA32E_MODE_GUEST;
    uint64_t cr0_owned = rdmsr(IA32_VMX_CR0_FIXED0) & ~(uint64_t)(CR0_PE | CR0_PG);
    const struct vmcs_value values[] = {
        {VMCS_GUEST_RIP, RESET_IP},
        {VMCS_GUEST_RFLAGS, RFLAGS_FIXED},
        {VMCS_GUEST_GDTR_LIMIT, REAL_LIMIT},
        {VMCS_GUEST_IDTR_LIMIT, REAL_LIMIT},
        /* An INIT keeps CR0.CD and CR0.NW. They are not in the VMCS, and entries and exits keep
         * them too. */
        {VMCS_GUEST_CR0, CR0_ET | cr0_owned},
        {VMCS_GUEST_CR4, rdmsr(IA32_VMX_CR4_FIXED0)},
        {VMCS_GUEST_DR7, DR7_RESET},
        {VMCS_ENTRY_CONTROLS, entry},
    };

    clear_cet_state();
    for (unsigned i = 0; i < LENGTH_OF(zero_at_init); i++)
        vmcs_zero_field(zero_at_init[i]);
    vmcs_write_all(values, LENGTH_OF(values));
    memset(cpu->gpr, 0, sizeof(cpu->gpr));
    cpu->gpr[GPR_RDX] = cpuid(1, 0).eax;
    for (enum segment s = SEGMENT_ES; s <= SEGMENT_TR; s++)
        vmcs_write_segment(s, init_segments[s]);
    write_cr2(0);
    cpuid_update_for_cr4(cpu);
    cpu->cr.cr0_shadow = 0;
    reset_debug_registers(DR6_RESET);
    flush_guest_translations();
}

void exit_init(struct cpu *cpu)
{
    if (processor_is_stopped(cpu))
        processor_end(cpu, vmcs_read_natural(VMCS_GUEST_RIP), false);
    if (cpu == get_cpu_by_index(0)) {
        log_printf("\npmuvisor: the bootstrap processor got an INIT; resetting the machine\n");
        stop_and_reset_machine(cpu);
    }
    /* The wait-for-SIPI state blocks INITs, so a second INIT may stay pending until the SIPI. This
     * INIT exits before the first instruction after the SIPI, and has nothing left to do. An INIT
     * after that instruction must be handled. */
    if (cpu->sipi.taken && vmcs_read_natural(VMCS_GUEST_RIP) == 0)
        return;
    /* Natively an INIT discards a pending NMI. Here the NMI arrives in root mode, which only counts
     * it. */
    cpu->nmi.guest_started = false;
    nmi_unblock();
    discard_virtual_nmi(cpu);
    apic_software_disable();
    vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE, 0); /* an entry to wait-for-SIPI requires 0 */
    cpu->sipi.rtit_ctl = 0;
    if (pt_is_exposed()) { /* with TraceEn set, the entry would translate trace addresses */
        cpu->sipi.rtit_ctl = vmcs_read_64(VMCS_GUEST_IA32_RTIT_CTL);
        vmcs_write_64(VMCS_GUEST_IA32_RTIT_CTL, 0);
    }
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_WAIT_FOR_SIPI);
}

/* By now, an NMI that was pending during the whole wait for the SIPI has arrived in root mode,
 * which only counts it (nmi/nmi.c). */
void exit_sipi(struct cpu *cpu)
{
    uint64_t vector = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);

    guest_set_init_state(cpu);
    if (cpu->sipi.rtit_ctl != 0)
        vmcs_write_64(VMCS_GUEST_IA32_RTIT_CTL, cpu->sipi.rtit_ctl);
    apic_set_init_state();
    vmcs_write_segment(SEGMENT_CS, (struct segment_state){(uint16_t)(vector << SIPI_SELECTOR_SHIFT),
                                                          vector << SIPI_BASE_SHIFT, REAL_LIMIT,
                                                          RIGHTS_REAL_CODE});
    vmcs_write_natural(VMCS_GUEST_RIP, 0);
    /* NMIs that were forwarded before the INIT have arrived in root mode. Their notes no longer
     * apply. */
    __atomic_fetch_and(&cpu->nmi.notes, ~(NOTE_FORWARDED | NOTE_FRESH), __ATOMIC_RELAXED);
    cpu->nmi.guest_started = true;
    cpu->sipi.taken = true;
    vmcs_set_primary_controls(PRIMARY_MONITOR_TRAP_FLAG,
                              true); /* the exit of this trap clears `taken` */
}
