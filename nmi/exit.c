/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Handles NMIs for a guest that does not take them itself (policies msr and intercept, or NMI
 * passthrough switched off by hypercall). The real NMI exits, and root mode injects a virtual NMI.
 * The processor keeps track of virtual-NMI blocking, and exits when the guest's NMI window opens.
 * This file keeps one bit, cpu->nmi.due, which says that a virtual NMI waits for the window. So at
 * most one NMI is in service and one is due, as with real NMIs, and none nests. SDM Vol. 3,
 * "Pin-Based VM-Execution Controls"; "Processor-Based VM-Execution Controls"; "Guest Non-Register
 * State".
 */
#include "nmi/nmi.h"

#include "vmx/root/fault.h"

static void set_nmi_exiting(bool trap)
{
    uint32_t both = PIN_NMI_EXITING | PIN_VIRTUAL_NMIS;
    uint32_t pin = vmcs_read_32(VMCS_PIN_BASED_CONTROLS);

    vmcs_write_32(VMCS_PIN_BASED_CONTROLS, trap ? pin | both : pin & ~both);
}

static void inject_nmi(struct cpu *cpu)
{
    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION,
                  INTERRUPTION_VALID | INTERRUPTION_TYPE_NMI << INTERRUPTION_TYPE_SHIFT |
                      VECTOR_NMI);
    cpu->nmi.injected++;
}

void nmi_setup(struct cpu *cpu, bool can_trap)
{
    cpu->nmi.can_trap = can_trap;
    cpu->nmi.passthrough = cpu->boot->options.policy == POLICY_MSR_NMI;
    set_nmi_exiting(!cpu->nmi.passthrough);
    nmi_bookkeeping_setup(cpu);
}

bool nmi_set_passthrough(struct cpu *cpu, bool on)
{
    struct cpu_nmi *nmi = &cpu->nmi;

    if (!nmi->can_trap)
        return on; /* NMI passthrough stays on */
    if (on == nmi->passthrough)
        return true;
    /* The guest's blocking bit stays as it is: virtual-NMI blocking becomes NMI blocking, and vice
     * versa. An NMI that is pending in hardware arrives after the entry either way. */
    nmi->passthrough = on;
    set_nmi_exiting(!on);
    nmi_bookkeeping_setup(cpu);
    if (on && nmi->due) {
        /* Turn the waiting virtual NMI into a real one: nmi_forward() sends an NMI to this
         * processor. If this NMI arrives in root mode, root mode forwards it like any NMI for the
         * guest (nmi.c). */
        nmi->due = false;
        vmcs_set_primary_controls(PRIMARY_NMI_WINDOW_EXITING, false);
        (void)nmi_forward(cpu);
    }
    return true;
}

void discard_virtual_nmi(struct cpu *cpu)
{
    if (cpu->nmi.due)
        vmcs_set_primary_controls(PRIMARY_NMI_WINDOW_EXITING, false);
    cpu->nmi.due = false;
}

/* Injects an NMI, or notes that it is due if the guest does not take it now. */
static void inject_nmi_or_wait(struct cpu *cpu)
{
    if (cpu->blocking & (BLOCKING_BY_NMI | BLOCKING_BY_MOV_SS | BLOCKING_BY_STI)) {
        cpu->nmi.due = true; /* an NMI that is already due merges with this one */
        vmcs_set_primary_controls(PRIMARY_NMI_WINDOW_EXITING, true);
    } else {
        inject_nmi(cpu);
    }
}

void exit_nmi(struct cpu *cpu)
{
    uint32_t information = vmcs_read_32(VMCS_EXIT_INTERRUPTION_INFORMATION);

    if ((information & INTERRUPTION_TYPE) >> INTERRUPTION_TYPE_SHIFT != INTERRUPTION_TYPE_NMI)
        hypervisor_fault("an exception exited (information 0x%x), which no control asks for",
                         information);
    cpu->nmi.exits++;
    /* A host source may have raised this NMI, and a guest's NMI may have merged with it. */
    if (nmi_claim(cpu, FOUND_IN_ROOT, vmcs_read_natural(VMCS_GUEST_RIP), false) == 0 ||
        nmi_may_include_guest_nmi(cpu))
        inject_nmi_or_wait(cpu);
    /* This exit left NMIs blocked in root mode, and its NMI has now been dealt with. */
    nmi_unblock();
}

void exit_nmi_window(struct cpu *cpu)
{
    vmcs_set_primary_controls(PRIMARY_NMI_WINDOW_EXITING, false);
    if (cpu->nmi.due) {
        cpu->nmi.due = false;
        /* The window may open right after STI, where some processors do not accept an injection. */
        if (cpu->blocking & BLOCKING_BY_STI)
            vmcs_write_32(VMCS_GUEST_INTERRUPTIBILITY_STATE,
                          cpu->blocking & ~(uint32_t)BLOCKING_BY_STI);
        inject_nmi(cpu);
    }
}
