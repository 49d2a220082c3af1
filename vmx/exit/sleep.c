/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The guest puts a processor to sleep for good: only an INIT and a SIPI should wake it. In the
 * C-states that MWAIT reaches, the exit for the INIT comes late, and the guest does not wait that
 * long before its two SIPIs (Linux: 20 us, wakeup_secondary_cpu_via_init()). A SIPI that comes
 * before the entry to the wait-for-SIPI state is lost. So such a sleep becomes a HLT. An INIT ends
 * a HLT in no more time than the exit itself takes.
 *
 * Such a sleep is an MWAIT that no interrupt ends: IF is 0, and ECX does not make interrupts break
 * events. Only an operating system sleeps this way. (Xeon Phi allows MWAIT at CPL 3, but VM entries
 * at CPL 3 refuse the HLT state.) MWAIT exits only while such a sleep may come: from a WBINVD with
 * IF = 0 until an MWAIT of another kind. With this WBINVD, an operating system writes back its
 * caches before such a sleep (Linux: mwait_play_dead()). A HLT differs from such an MWAIT in two
 * ways: a store to the monitored line does not wake the processor, and an NMI wakes it as from any
 * HLT. SDM Vol. 3, "Instructions That Cause VM Exits"; "Basic VM-Exit Information"; "Clearing
 * Address-Range Monitoring"; "Checks on Guest Non-Register State"; Vol. 2, "MWAIT".
 */
#include "vmx/exit/exit.h"

#define MWAIT_ARMED BIT(0) /* exit qualification: a MONITOR is in effect */

/* An outer hypervisor may lack "MWAIT exiting" or the HLT state. */
void exit_wbinvd(struct cpu *cpu)
{
    wbinvd();
    if (!(vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF) &&
        rdmsr(IA32_VMX_MISC) & VMX_MISC_ACTIVITY_HLT)
        vmcs_set_primary_controls(PRIMARY_MWAIT_EXITING, true);
    skip_instruction(cpu);
}

/* An MWAIT that is not such a sleep is executed again. It ends at once, because the exit has ended
 * the monitoring. */
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
