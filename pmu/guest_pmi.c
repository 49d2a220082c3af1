/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Recognizes a guest PMI that reaches root mode, and freezes what the guest's IA32_DEBUGCTL would
 * have frozen. (The register itself has been 0 since the exit.) The rules of NMI context
 * (nmi/nmi.c) hold here, with one exception. The guest's DEBUGCTL is in the VMCS, so this file
 * executes VMREAD and VMWRITE. Both are safe for this field, because they change only flags and the
 * field:
 * - The flags come back with the interrupted context.
 * - An access that succeeds leaves the VM-instruction error as it was. These accesses succeed,
 *   because setup has accessed the field, and the VMCS is current while `guest_started` is true
 *   (vmx/start/machine.c, vmx/start/bring_up.c).
 * - All operands are registers.
 * - If root mode reads this field and writes it back (nmi_release()), an NMI in between writes the
 *   same value as root mode.
 * SDM Vol. 3, "VMREAD", "VMWRITE", "VMX Instruction Reference", "Conventions"; "Performance
 * Monitoring".
 */
#include "apic/apic.h"
#include "pmu/pmu.h"

static bool has_guest_vmcs(const struct cpu *cpu) { return cpu->in_vmx && cpu->nmi.guest_started; }

bool pmu_pmi_raised(const struct cpu *cpu)
{
    if (!cpu->boot->options.pmu ||
        (apic_lvtpc_read() & (LVT_MASKED | LVT_DELIVERY)) != (LVT_MASKED | LVT_DELIVERY_NMI))
        return false;
    if (rdmsr(IA32_PERF_GLOBAL_STATUS) & GLOBAL_STATUS_PMI)
        return true;
    return has_guest_vmcs(cpu) && vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTINT;
}

/* SDM Vol. 3, "Architectural Performance Monitoring Version 4": the streamlined freeze. */
static void freeze_by_status(uint64_t debugctl)
{
    uint64_t frozen = (debugctl & DEBUGCTL_FREEZE_PERFMON_ON_PMI ? GLOBAL_STATUS_CTR_FRZ : 0) |
                      (debugctl & DEBUGCTL_FREEZE_LBRS_ON_PMI ? GLOBAL_STATUS_LBR_FRZ : 0);

    if (frozen != 0)
        wrmsr(IA32_PERF_GLOBAL_STATUS_SET, frozen);
}

/* SDM Vol. 3, "Freezing LBR and Performance Counters on PMI": the legacy freeze of branch records
 * clears the bit that enables them. */
static void freeze_lbrs_legacy(uint64_t debugctl)
{
    if (debugctl & DEBUGCTL_FREEZE_LBRS_ON_PMI)
        vmcs_write_64(VMCS_GUEST_IA32_DEBUGCTL, debugctl & ~DEBUGCTL_LBR);
}

void pmu_freeze_as_guest(const struct cpu *cpu)
{
    if (!has_guest_vmcs(cpu) || !pmu_pmi_raised(cpu))
        return;
    uint64_t debugctl = vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL);
    if (cpu->pmu.status_set)
        freeze_by_status(debugctl);
    else
        freeze_lbrs_legacy(debugctl);
}
