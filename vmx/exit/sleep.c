/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest puts a processor to sleep for good: only INIT and SIPI are to wake it. In the C-states
 * that MWAIT reaches, the exit for the INIT comes late: the guest waits less long before its two
 * SIPIs (Linux: 20 us, wakeup_secondary_cpu_via_init()). A SIPI that comes before the entry to the
 * wait-for-SIPI state is lost. So such a sleep becomes a HLT: an INIT ends that as fast as the exit
 * itself takes.
 *
 * Such a sleep is an MWAIT that no interrupt ends: IF is 0, and ECX asks for no break. It is an
 * operating system's: at CPL 3, where Xeon Phi lets MWAIT, VM entries refuse the HLT state. MWAIT
 * exits only where such a one may come: after a WBINVD with IF = 0, by which an operating system
 * writes back its caches before such a sleep (Linux: mwait_play_dead()), and until another kind of
 * MWAIT. Two things differ: a store to the monitored line does not wake the processor, and an NMI
 * does, as it wakes from HLT. SDM Vol. 3, "Instructions That Cause VM Exits"; "Basic VM-Exit
 * Information"; "Clearing Address-Range Monitoring"; "Checks on Guest Non-Register State"; Vol. 2,
 * "MWAIT".
 */
#include "vmx/exit/exit.h"

#define MWAIT_ARMED BIT(0) /* exit qualification: a MONITOR is in effect */

/* An outer hypervisor may not offer "MWAIT exiting", or the HLT state. */
void exit_wbinvd(struct cpu *cpu)
{
    wbinvd();
    if (!(vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF) &&
        rdmsr(IA32_VMX_MISC) & VMX_MISC_ACTIVITY_HLT)
        vmcs_exit_on(PRIMARY_MWAIT_EXITING, true);
    skip_instruction(cpu);
}

/* Any other MWAIT is executed again, and ends at once: the exit has ended the monitoring. */
void exit_mwait(struct cpu *cpu)
{
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF || (uint32_t)cpu->gpr[GPR_RCX] != 0 ||
        !(vmcs_read_natural(VMCS_EXIT_QUALIFICATION) & MWAIT_ARMED) || guest_cpl() != 0) {
        vmcs_exit_on(PRIMARY_MWAIT_EXITING, false);
        execute_again();
        return;
    }
    skip_instruction(cpu);
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
}
