// SPDX-License-Identifier: BSD-2-Clause
//
// The order of things is Bochs': on an exit the hook at its start, then the guest's state and MSR list
// are stored, then the host's state is loaded (here), then the host's MSR list; on an entry the guest's
// state (here), then the guest's MSR list. That is the SDM's order too.
#include "bochs.h"
#include "cpu.h"

#include "apic_pmi.h"
#include "msr_index.h"
#include "vmx_switch.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr Bit32u EXIT_REASON_ENTRY_FAILED = 1u << 31;
constexpr Bit32u INTERRUPTION_TYPE = 7u << 8;
constexpr Bit32u INTERRUPTION_NMI = 2u << 8;
constexpr Bit32u INTERRUPTION_VALID = 1u << 31;

void host_state_loaded(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const auto &controls = cpu->vmcs.vmexit_ctrls1;

    if (!(p.exit_reason & EXIT_REASON_ENTRY_FAILED)) {
        if (controls.SAVE_DBG_CTRLS())
            cpu->VMwrite64(VMCS_64BIT_GUEST_IA32_DEBUGCTL, p.debugctl);
        if (controls.SAVE_PERF_GLOBAL_CTRL())
            cpu->VMwrite64(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL, p.pmu.global_ctrl());
    }
    p.debugctl = 0;
    p.event_branch = false;
    if (controls.LOAD_PERF_GLOBAL_CTRL_MSR())
        p.pmu.set_global_ctrl(cpu->VMread64(VMCS_64BIT_HOST_IA32_PERF_GLOBAL_CTRL));
    tb_hot[p.id].world = TB_WORLD_ROOT;
}

void guest_state_loaded(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const auto &controls = cpu->vmcs.vmentry_ctrls;
    Bit32u injected = cpu->vmcs.vmentry_interr_info;

    // VMLAUNCH or VMRESUME retires after this and is the host's.
    p.events.in_flight = tb_hot[p.id].mode;
    if (controls.LOAD_DBG_CTRLS())
        p.debugctl = cpu->VMread64(VMCS_64BIT_GUEST_IA32_DEBUGCTL) & DEBUGCTL_VALID;
    if (controls.LOAD_PERF_GLOBAL_CTRL_MSR())
        p.pmu.set_global_ctrl(cpu->VMread64(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL));
    p.events.in_flight = MODE_COUNT;
    p.ledger.vm_entry();
    if ((injected & INTERRUPTION_VALID) && (injected & INTERRUPTION_TYPE) == INTERRUPTION_NMI)
        p.ledger.nmi_injected();
    tb_hot[p.id].world = 0;
}

}  // namespace

void vmx_exit_begins(Processor &p, uint32_t reason)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u basic = reason & EXIT_REASON_BASIC;

    p.events.in_flight = MODE_COUNT;
    p.pmu.look(p.events.instructions());
    p.exiting = true;
    p.exit_reason = reason;
    p.ledger.vm_exit(basic);
    if (basic == VMX_VMEXIT_EXCEPTION_NMI) {
        Bit32u info = cpu->VMread32(VMCS_32BIT_VMEXIT_INTERRUPTION_INFO);
        if ((info & INTERRUPTION_TYPE) == INTERRUPTION_NMI)
            apic_nmi_arrived(p, ARRIVAL_EXIT);
    }
    if (basic == VMX_VMEXIT_EXTERNAL_INTERRUPT) {
        Bit32u info = cpu->VMread32(VMCS_32BIT_VMEXIT_INTERRUPTION_INFO);
        if (info & INTERRUPTION_VALID)
            apic_vector_arrived(p, info & 0xff, ARRIVAL_EXIT);
    }
}

void vmx_state_loaded(Processor &p)
{
    if (p.exiting)
        host_state_loaded(p);
    else
        guest_state_loaded(p);
    p.exiting = false;
    processor_plan(p);
}
