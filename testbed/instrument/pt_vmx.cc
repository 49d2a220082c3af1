// SPDX-License-Identifier: BSD-2-Clause
#include "pt_vmx.h"

#include "msr_index.h"
#include "pt_machine.h"

namespace {

constexpr Bit32u INTERRUPTION_VALID = 1u << 31;
constexpr Bit32u INTERRUPTION_TYPE = 7u << 8;
constexpr Bit32u INTERRUPTION_OTHER = 7u << 8;

// A control that is not offered is refused by Bochs itself.
VmxVmentryControls entry_controls(BX_CPU_C *cpu)
{
    return VmxVmentryControls(cpu->VMread32(VMCS_32BIT_CONTROL_VMENTRY_CONTROLS) &
                              cpu->vmx_cap.vmx_vmentry_ctrl_supported_bits);
}

bool has_field(BX_CPU_C *cpu)
{
    return (cpu->vmx_cap.vmx_vmentry_ctrl_supported_bits &
            VMX_VMENTRY_CTRL1_LOAD_GUEST_RTIT_CTRL) ||
           (cpu->vmx_cap.vmx_vmexit_ctrl1_supported_bits & VMX_VMEXIT_CTRL1_CLEAR_IA32_RTIT_CTRL);
}

bool secondary(BX_CPU_C *cpu, Bit32u control)
{
    return (cpu->VMread32(VMCS_32BIT_CONTROL_PROCESSOR_BASED_VMEXEC_CONTROLS) &
            VMX_VM_EXEC_CTRL1_SECONDARY_CONTROLS) &&
           (cpu->VMread32(VMCS_32BIT_CONTROL_SECONDARY_VMEXEC_CONTROLS) &
            cpu->vmx_cap.vmx_vmexec_ctrl2_supported_bits & control);
}

bool injects(BX_CPU_C *cpu)
{
    Bit32u info = cpu->vmcs.vmentry_interr_info;

    return (info & INTERRUPTION_VALID) && (info & INTERRUPTION_TYPE) != INTERRUPTION_OTHER;
}

}  // namespace

// SDM Vol. 3, "VM-Execution Control Fields" of "Checks on VMX Controls".
bool pt_controls_bad(BX_CPU_C *cpu)
{
    const Processor &p = processor(cpu->bx_cpuid);
    bool loads = entry_controls(cpu).LOAD_GUEST_RTIT_CTRL();
    bool clears = cpu->VMread32(VMCS_32BIT_CONTROL_VMEXIT_CONTROLS) &
                  VMX_VMEXIT_CTRL1_CLEAR_IA32_RTIT_CTRL;

    if (!p.pt)
        return false;
    if ((p.pt->trace.ctl() & RTIT_CTL_TRACEEN) && loads)
        return true;
    return secondary(cpu, VMX_VM_EXEC_CTRL2_PROCESSOR_TRACE_USE_GPA) &&
           !(loads && clears && secondary(cpu, VMX_VM_EXEC_CTRL2_EPT_ENABLE));
}

// SDM Vol. 3, "Checks on Guest Control Registers, Debug Registers, and MSRs".
bool pt_guest_state_bad(BX_CPU_C *cpu)
{
    const Processor &p = processor(cpu->bx_cpuid);

    return p.pt && entry_controls(cpu).LOAD_GUEST_RTIT_CTRL() &&
           !p.pt->trace.ctl_valid(cpu->VMread64(VMCS_64BIT_GUEST_IA32_RTIT_CTL));
}

// SDM Vol. 3, "Loading Guest Control Registers, Debug Registers, and MSRs".
void pt_guest_state_loaded(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (p.pt && cpu->vmcs.vmentry_ctrls.LOAD_GUEST_RTIT_CTRL())
        p.pt->trace.load_ctl(cpu->VMread64(VMCS_64BIT_GUEST_IA32_RTIT_CTL));
}

// Pre-translation comes before an event is injected, which a VM exit for it saves as what was to be
// delivered. SDM Vol. 3, "Trace-Address Pre-Translation (TAPT)" of "VM Entries".
void pt_entered(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    uint64_t ip = cpu->gen_reg[BX_64BIT_REG_RIP].rrx;

    if (!p.pt)
        return;
    if (p.pt->trace.starting()) {
        cpu->prev_rip = ip;
        if (injects(cpu)) {
            cpu->in_event = true;
            cpu->vmcs.idt_vector_info = cpu->vmcs.vmentry_interr_info & ~INTERRUPTION_VALID;
            cpu->vmcs.idt_vector_error_code = cpu->vmcs.vmentry_excep_err_code;
        }
        p.pt->boundary();
        cpu->in_event = false;
    } else if (p.pt->trace.on()) {
        p.pt->trace.vm_entry(ip, cpu->vmcs.vmentry_ctrls.PTRACE_SUPPRESS_VMX_PACKETS());
    }
    if (injects(cpu) && p.pt->trace.on())
        p.pt->trace.event_from(ip);
    processor_plan(p);
}

// SDM Vol. 3, "Saving Control Registers, Debug Registers, and MSRs" and "Loading Host Control
// Registers, Debug Registers, MSRs".
void pt_host_state_loaded(Processor &p, bool failed)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (!p.pt)
        return;
    bool clears = cpu->vmcs.vmexit_ctrls1.CLEAR_IA32_RTIT_CTRL();
    bool conceals = cpu->vmcs.vmexit_ctrls1.PTRACE_SUPPRESS_HOST_VMX_TRACE();
    p.pt->exited();
    if (!failed && has_field(cpu))
        cpu->VMwrite64(VMCS_64BIT_GUEST_IA32_RTIT_CTL, p.pt->trace.ctl());
    if (!failed && p.pt->trace.on())
        p.pt->trace.vm_exit(cpu->VMread64(VMCS_GUEST_RIP), cpu->gen_reg[BX_64BIT_REG_RIP].rrx,
                            conceals, clears);
    else if (clears)
        p.pt->trace.load_ctl(0);
}
