// SPDX-License-Identifier: BSD-2-Clause
//
// The order of things is Bochs': on an exit the hook at its start, then the guest's state and MSR
// list are stored, then the host's state is loaded (here), then the host's MSR list; on an entry
// the guest's state (here), then the guest's MSR list. That is the SDM's order too.
#include "bochs.h"
#include "cpu.h"

#include "apic_pmi.h"
#include "hot.h"
#include "knobs.h"
#include "msr_index.h"
#include "part.h"
#include "precise.h"
#include "pt_machine.h"
#include "pt_vmx.h"
#include "vmx_caps.h"
#include "vmx_switch.h"

namespace {

constexpr Bit32u EXIT_REASON_BASIC = 0xffff;
constexpr Bit32u EXIT_REASON_ENTRY_FAILED = 1u << 31;
constexpr Bit64u EPT_VIOLATION_ASYNCHRONOUS = 1u << 16;
constexpr Bit32u INTERRUPTION_TYPE = 7u << 8;
constexpr Bit32u INTERRUPTION_EXTERNAL = 0u << 8;
constexpr Bit32u INTERRUPTION_NMI = 2u << 8;
constexpr Bit32u INTERRUPTION_HARDWARE_EXCEPTION = 3u << 8;
constexpr Bit32u INTERRUPTION_OTHER = 7u << 8;  // a pending MTF VM exit, which is not delivered
constexpr Bit32u INTERRUPTION_VALID = 1u << 31;
constexpr Bit32u INTERRUPTION_VECTOR = 0xff;
constexpr Bit32u BLOCKING_BY_STI = 1u << 0;
constexpr Bit32u BLOCKING_BY_STI_OR_MOV_SS = 3u << 0;
constexpr Bit32u BLOCKING_BY_NMI = 1u << 3;
constexpr Bit32u CS_LONG = 1u << 13;
constexpr Bit64u DEBUGCTL_BTF = 1u << 1;

// The guest's activity state is wait-for-SIPI, and a knob hides that one.
bool activity_state_bad(BX_CPU_C *cpu)
{
    return !vmx_caps_wait_for_sipi() && cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE) ==
                                            BX_CPU_C::BX_ACTIVITY_STATE_WAIT_FOR_SIPI;
}

// What may be injected into a processor that halts: SDM Vol. 3, "Checks on Guest Non-Register
// State".
bool wakes_from_hlt(Bit32u event)
{
    Bit32u type = event & INTERRUPTION_TYPE, vector = event & INTERRUPTION_VECTOR;

    return type == INTERRUPTION_EXTERNAL || type == INTERRUPTION_NMI ||
           type == INTERRUPTION_OTHER ||
           (type == INTERRUPTION_HARDWARE_EXCEPTION &&
            (vector == BX_DB_EXCEPTION || vector == BX_MC_EXCEPTION));
}

// What an injected event and debug exceptions that are pending want of the rest; the same section.
// A processor may want no blocking by STI for an NMI: this one does.
bool events_bad(BX_CPU_C *cpu, Bit64u rflags)
{
    Bit32u event = cpu->VMread32(VMCS_32BIT_CONTROL_VMENTRY_INTERRUPTION_INFO);
    Bit32u blocking = cpu->VMread32(VMCS_32BIT_GUEST_INTERRUPTIBILITY_STATE);
    bool hlt = cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE) == BX_CPU_C::BX_ACTIVITY_STATE_HLT;
    VmxPinBasedVmexecControls pin(cpu->VMread32(VMCS_32BIT_CONTROL_PIN_BASED_EXEC_CONTROLS));

    if (event & INTERRUPTION_VALID) {
        bool nmi = (event & INTERRUPTION_TYPE) == INTERRUPTION_NMI;
        if ((hlt && !wakes_from_hlt(event)) || (nmi && blocking & BLOCKING_BY_STI) ||
            (nmi && blocking & BLOCKING_BY_NMI && pin.VIRTUAL_NMI()))
            return true;
    }
    if (!hlt && !(blocking & BLOCKING_BY_STI_OR_MOV_SS))
        return false;
    bool step = rflags & EFlagsTFMask &&
                !(cpu->VMread64(VMCS_64BIT_GUEST_IA32_DEBUGCTL) & DEBUGCTL_BTF);
    bool pending = cpu->VMread64(VMCS_GUEST_PENDING_DBG_EXCEPTIONS) & BX_DEBUG_SINGLE_STEP_BIT;
    return step != pending;
}

// "Checks on Guest Control Registers, Debug Registers, and MSRs": CR0.PG in IA-32e mode; "Checks on
// Guest RIP, RFLAGS, and SSP": RIP in 64-bit mode, RFLAGS.VM in real-address mode.
bool mode_bad(BX_CPU_C *cpu, bool ia_32e, Bit64u rflags)
{
    Bit64u cr0 = cpu->VMread64(VMCS_GUEST_CR0);

    if (rflags & EFlagsVMMask && !(cr0 & BX_CR0_PE_MASK))
        return true;
    if (!ia_32e)
        return false;
    // As Bochs keeps it in memory.
    bool rotated = cpu->vmcs_map->get_access_rights_format() == VMCS_AR_ROTATE;
    if (cpu->VMread32(VMCS_32BIT_GUEST_CS_ACCESS_RIGHTS) & (rotated ? CS_LONG << 8 : CS_LONG)) {
        unsigned width = cpu->is_cpu_extension_supported(BX_ISA_LA57) ? 57 : 48;
        Bit64s above = static_cast<Bit64s>(cpu->VMread64(VMCS_GUEST_RIP)) >> width;
        if (above != 0 && above != -1)
            return true;
    }
    return !(cr0 & BX_CR0_PG_MASK);
}

// Bochs keeps GLOBAL_CTRL and DEBUGCTL but checks neither at VM entry, nor what is above. A field
// that it does check is spoiled for as long as the failing entry takes, so that software sees the
// SDM's failure. SDM Vol. 3, "Checks on Host Control Registers, MSRs, and SSP" and "Checks on Guest
// Control Registers, Debug Registers, and MSRs".
bool guest_state_bad(BX_CPU_C *cpu)
{
    // A control that is not offered is refused by Bochs itself, and its field may not exist.
    VmxVmentryControls entry(cpu->VMread32(VMCS_32BIT_CONTROL_VMENTRY_CONTROLS) &
                             cpu->vmx_cap.vmx_vmentry_ctrl_supported_bits);

    Bit64u rflags = cpu->VMread64(VMCS_GUEST_RFLAGS);

    return activity_state_bad(cpu) || pt_guest_state_bad(cpu) || events_bad(cpu, rflags) ||
           mode_bad(cpu, entry.X86_64_GUEST(), rflags) ||
           (entry.LOAD_PERF_GLOBAL_CTRL_MSR() &&
            !processor(cpu->bx_cpuid)
                 .pmu.global_ctrl_valid(cpu->VMread64(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL))) ||
           (entry.LOAD_GUEST_LBR() && !ArchLbr::ctl_valid(cpu->VMread64(VMX_GUEST_IA32_LBR_CTL))) ||
           (entry.LOAD_DBG_CTRLS() &&
            (cpu->VMread64(VMCS_64BIT_GUEST_IA32_DEBUGCTL) & ~DEBUGCTL_VALID));
}

bool host_msrs_bad(BX_CPU_C *cpu)
{
    BxVmexit1Controls exit(cpu->VMread32(VMCS_32BIT_CONTROL_VMEXIT_CONTROLS) &
                           cpu->vmx_cap.vmx_vmexit_ctrl1_supported_bits);

    return exit.LOAD_PERF_GLOBAL_CTRL_MSR() &&
           !processor(cpu->bx_cpuid)
                .pmu.global_ctrl_valid(cpu->VMread64(VMCS_64BIT_HOST_IA32_PERF_GLOBAL_CTRL));
}

void restore_spoiled(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (p.spoiled_field == VMCS_32BIT_CONTROL_CR3_TARGET_COUNT)
        cpu->VMwrite32(VMCS_32BIT_CONTROL_CR3_TARGET_COUNT, static_cast<Bit32u>(p.spoiled_value));
    else if (p.spoiled_field == VMCS_GUEST_RFLAGS)
        cpu->VMwrite64(VMCS_GUEST_RFLAGS, p.spoiled_value);
    else if (p.spoiled_field == VMCS_16BIT_HOST_TR_SELECTOR)
        cpu->VMwrite16(VMCS_16BIT_HOST_TR_SELECTOR, static_cast<Bit16u>(p.spoiled_value));
    p.spoiled_field = 0;
}

void host_state_loaded(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const auto &controls = cpu->vmcs.vmexit_ctrls1;

    p.ledger.listed(cpu->VMread32(VMCS_32BIT_CONTROL_VMEXIT_MSR_LOAD_COUNT));
    if (!(p.exit_reason & EXIT_REASON_ENTRY_FAILED)) {
        p.ledger.listed(cpu->VMread32(VMCS_32BIT_CONTROL_VMEXIT_MSR_STORE_COUNT));
        if (controls.SAVE_DBG_CTRLS())
            cpu->VMwrite64(VMCS_64BIT_GUEST_IA32_DEBUGCTL, p.debugctl);
        if (controls.SAVE_PERF_GLOBAL_CTRL())
            cpu->VMwrite64(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL, p.pmu.global_ctrl());
    }
    // SDM Vol. 3, "Exit Qualification for EPT Violations": asynchronous to instruction execution.
    if (p.async_exit && (p.exit_reason & EXIT_REASON_BASIC) == VMX_VMEXIT_EPT_VIOLATION)
        cpu->VMwrite64(VMCS_VMEXIT_QUALIFICATION,
                       cpu->VMread64(VMCS_VMEXIT_QUALIFICATION) | EPT_VIOLATION_ASYNCHRONOUS);
    p.async_exit = false;
    restore_spoiled(p);
    pt_host_state_loaded(p, p.exit_reason & EXIT_REASON_ENTRY_FAILED);
    p.debugctl = 0;
    // SDM Vol. 3, "Saving Control Registers, Debug Registers, and MSRs": where the processor has
    // the control that loads it, used or not.
    if (!(p.exit_reason & EXIT_REASON_ENTRY_FAILED) &&
        (cpu->vmx_cap.vmx_vmentry_ctrl_supported_bits & VMX_VMENTRY_CTRL1_LOAD_GUEST_LBR_CTRL))
        cpu->VMwrite64(VMX_GUEST_IA32_LBR_CTL, p.arch_lbr.ctl());
    if (controls.CLEAR_IA32_LBR_CTRL())
        p.arch_lbr.set_ctl(0);
    p.event_branch = false;
    if (controls.LOAD_PERF_GLOBAL_CTRL_MSR())
        p.pmu.set_global_ctrl(cpu->VMread64(VMCS_64BIT_HOST_IA32_PERF_GLOBAL_CTRL));
    hot_set_world(hot_of(p.id), TB_WORLD_ROOT);
    processor_inject(p, true);
}

void guest_state_loaded(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    const auto &controls = cpu->vmcs.vmentry_ctrls;
    Bit32u injected = cpu->vmcs.vmentry_interr_info;

    p.ledger.listed(cpu->VMread32(VMCS_32BIT_CONTROL_VMENTRY_MSR_LOAD_COUNT));
    // VMLAUNCH or VMRESUME retires after this and is the host's.
    p.events.entering = hot_of(p.id).mode;
    if (controls.LOAD_DBG_CTRLS())
        p.debugctl = cpu->VMread64(VMCS_64BIT_GUEST_IA32_DEBUGCTL) & DEBUGCTL_VALID;
    if (controls.LOAD_GUEST_LBR())
        p.arch_lbr.set_ctl(cpu->VMread64(VMX_GUEST_IA32_LBR_CTL));
    pt_guest_state_loaded(p);
    if (controls.LOAD_PERF_GLOBAL_CTRL_MSR())
        p.pmu.set_global_ctrl(cpu->VMread64(VMCS_64BIT_GUEST_IA32_PERF_GLOBAL_CTRL));
    p.events.entering = MODE_COUNT;
    p.injecting = (injected & INTERRUPTION_VALID) &&
                  (injected & INTERRUPTION_TYPE) != INTERRUPTION_OTHER;
    if (p.ledger.in_exit()) {
        p.lines.entry(p.ledger.exit_reason());
        p.ledger.exit_path(p.paths.entry());
    }
    p.ledger.vm_entry();
    p.injector.vm_entry();
    if ((injected & INTERRUPTION_VALID) && (injected & INTERRUPTION_TYPE) == INTERRUPTION_NMI)
        p.ledger.nmi_injected();
    hot_set_world(hot_of(p.id), 0);
    // Hardware whose entries do not keep it: what is pending comes before the first instruction.
    if (knobs().mov_ss_ignored && cpu->interrupts_inhibited(BX_INHIBIT_INTERRUPTS_BY_MOVSS))
        cpu->inhibit_mask = 0;
    tell_parts(&Part::vm_entry, p);
}

}  // namespace

void vmx_entry_begins(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (!cpu->in_vmx || cpu->in_vmx_guest || cpu->vmcsptr == BX_INVALID_VMCSPTR)
        return;
    if (pt_controls_bad(cpu)) {
        p.spoiled_field = VMCS_32BIT_CONTROL_CR3_TARGET_COUNT;
        p.spoiled_value = cpu->VMread32(VMCS_32BIT_CONTROL_CR3_TARGET_COUNT);
        cpu->VMwrite32(VMCS_32BIT_CONTROL_CR3_TARGET_COUNT, ~0u);
    } else if (host_msrs_bad(cpu)) {
        p.spoiled_field = VMCS_16BIT_HOST_TR_SELECTOR;
        p.spoiled_value = cpu->VMread16(VMCS_16BIT_HOST_TR_SELECTOR);
        cpu->VMwrite16(VMCS_16BIT_HOST_TR_SELECTOR, 0);
    } else if (guest_state_bad(cpu)) {
        p.spoiled_field = VMCS_GUEST_RFLAGS;
        p.spoiled_value = cpu->VMread64(VMCS_GUEST_RFLAGS);
        cpu->VMwrite64(VMCS_GUEST_RFLAGS, 0);
    }
}

void vmx_entry_refused(Processor &p)
{
    if (p.spoiled_field != 0)
        restore_spoiled(p);
}

void vmx_exit_begins(Processor &p, uint32_t reason)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u basic = reason & EXIT_REASON_BASIC;

    p.pmu.look(p.events.instructions());
    p.touched = 0;
    // SDM Vol. 3, "Saving Non-Register State": BS is not saved for it.
    if (!tb_on_step_traps(p.id))
        cpu->debug_trap &= ~BX_DEBUG_SINGLE_STEP_BIT;
    p.injecting = false;
    p.async_exit = p.precise.storing || (p.pt && p.pt->translating());
    precise_forget(p);
    p.exiting = true;
    p.exit_reason = reason;
    // A VM entry that fails ends one exit and is the next.
    p.ledger.exit_path(p.paths.entry());
    p.paths.exit();
    p.ledger.vm_exit(basic);
    if (basic == VMX_VMEXIT_RDMSR || basic == VMX_VMEXIT_WRMSR)
        p.ledger.exit_of_msr(static_cast<uint32_t>(cpu->gen_reg[BX_64BIT_REG_RCX].rrx));
    p.injector.vm_exit(basic, p.events.instructions_in(true));
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
