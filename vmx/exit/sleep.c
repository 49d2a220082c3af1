/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A processor that the guest puts to sleep for good, to be woken by INIT and SIPI alone. In the
 * C-states that MWAIT reaches it takes longer to answer the INIT by its exit than the guest waits
 * for its two SIPIs (Linux: 20 us, wakeup_secondary_cpu_via_init()), and a SIPI that comes before
 * the entry to the wait-for-SIPI state is lost. So such a sleep becomes a HLT: an INIT ends that as
 * fast as the exit itself takes.
 *
 * It is an MWAIT that no interrupt ends: IF is 0, and ECX asks for no break. What is worth an exit
 * only then is watched only then: after a WBINVD with IF = 0, by which an operating system writes
 * back its caches before such a sleep (Linux: mwait_play_dead()), until an MWAIT that is another.
 * Not kept: a store to the monitored line wakes no more, an NMI does, as the HLT.
 * SDM Vol. 3, "Instructions That Cause VM Exits"; "Basic VM-Exit Information"; "Clearing
 * Address-Range Monitoring"; Vol. 2, "MWAIT".
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
        !(vmcs_read_natural(VMCS_EXIT_QUALIFICATION) & MWAIT_ARMED)) {
        vmcs_exit_on(PRIMARY_MWAIT_EXITING, false);
        execute_again();
        return;
    }
    skip_instruction(cpu);
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
}
