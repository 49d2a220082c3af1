/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Handles a guest that puts a processor to sleep for good: only an INIT and a SIPI should wake it.
 * In the C-states that MWAIT reaches, the exit for the INIT comes late, and the guest does not wait
 * that long before its two SIPIs (Linux: 20 us, wakeup_secondary_cpu_via_init()). A SIPI that comes
 * before the entry to the wait-for-SIPI state is lost. So root mode turns such a sleep into a HLT.
 * From a HLT, an INIT exits without such a delay.
 *
 * A sleep for good is an MWAIT that no interrupt ends: IF is 0, and ECX does not make interrupts
 * break events. Only an operating system sleeps this way. (Xeon Phi allows MWAIT at CPL 3, but VM
 * entries at CPL 3 refuse the HLT state.) Before such a sleep, an operating system writes back its
 * caches by a WBINVD with IF = 0 (Linux: mwait_play_dead()). So MWAIT exits only from such a WBINVD
 * until an MWAIT of another kind. Unlike the MWAIT, the HLT does not end at a store to the
 * monitored line, and an SMI may leave it halted. An NMI wakes the processor from either. SDM Vol.
 * 3, "Instructions That Cause VM Exits"; "Basic VM-Exit Information"; "Clearing Address-Range
 * Monitoring"; "Checks on Guest Non-Register State"; Vol. 2, "MWAIT".
 */
#include "vmx/exit/exit.h"

#define MWAIT_ARMED BIT(0) /* exit qualification: a MONITOR is in effect */

/* An outer hypervisor may lack "MWAIT exiting" or the HLT state. Then MWAIT does not exit. */
void exit_wbinvd(struct cpu *cpu)
{
    wbinvd();
    if (!(vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF) &&
        rdmsr(IA32_VMX_MISC) & VMX_MISC_ACTIVITY_HLT)
        vmcs_set_primary_controls(PRIMARY_MWAIT_EXITING, true);
    skip_instruction(cpu);
}

/* If the MWAIT is not a sleep for good, the guest executes it again. The MWAIT then ends at once,
 * because the exit has ended the monitoring. */
void exit_mwait(struct cpu *cpu)
{
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF || (uint32_t)cpu->gpr[GPR_RCX] != 0 ||
        !(vmcs_read_natural(VMCS_EXIT_QUALIFICATION) & MWAIT_ARMED) || guest_cpl() != 0) {
        vmcs_set_primary_controls(PRIMARY_MWAIT_EXITING, false);
        reexecute_instruction();
        return;
    }
    skip_instruction(cpu);
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
}
