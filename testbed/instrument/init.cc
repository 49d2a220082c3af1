// SPDX-License-Identifier: BSD-2-Clause
//
// Bochs masks INIT in root operation and drops what comes masked. Here it is unmasked, and taken
// away from the processor right behind the instruction that sent it, before the target sees it.
#include "bochs.h"
#include "cpu.h"

#include "apic.h"
#include "init.h"
#include "msr_index.h"
#include "vmx_caps.h"

namespace {

constexpr Bit64u APIC_BASE_MODE = 3u << 10;
constexpr Bit64u APIC_BASE_EXTD = 1u << 10;
constexpr Bit32u BLOCKING_BY_NMI = 1u << 3;

void hold(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    if (!cpu->is_pending(BX_EVENT_INIT))
        return;
    cpu->clear_event(BX_EVENT_INIT);
    p.init_held = true;
}

}  // namespace

void init_after_command(Processor &sender)
{
    sender.sent = false;
    for (unsigned n = 0; n < processor_count(); n++) {
        BX_CPU_C *cpu = BX_CPU(n);
        if (cpu->in_vmx && !cpu->in_vmx_guest)
            hold(processor(n));
        else if (cpu->activity_state == BX_CPU_C::BX_ACTIVITY_STATE_WAIT_FOR_SIPI)
            cpu->clear_event(BX_EVENT_INIT);
    }
}

void init_wrmsr_seen(Processor &p, uint32_t index, uint64_t value)
{
    if (index == IA32_APIC_BASE)
        p.x2apic = (value & APIC_BASE_MODE) == APIC_BASE_MODE;
    if (index != IA32_X2APIC_ICR || BX_SMP_PROCESSORS == 1)
        return;
    p.sent = true;
    tb_hot[p.id].deadline = 0;
}

void init_in_root(Processor &p)
{
    hold(p);
    BX_CPU(p.id)->unmask_event(BX_EVENT_INIT);
}

void init_on_entry(Processor &p)
{
    BX_CPU_C *cpu = BX_CPU(p.id);
    Bit32u state = cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE);

    p.entered_blocked = cpu->VMread32(VMCS_32BIT_GUEST_INTERRUPTIBILITY_STATE) & BLOCKING_BY_NMI;
    if (p.init_held && state != BX_CPU_C::BX_ACTIVITY_STATE_WAIT_FOR_SIPI)
        cpu->signal_event(BX_EVENT_INIT);
    p.init_held = false;
}

void init_on_exit(Processor &p, unsigned reason)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    // With virtual NMIs the field says nothing about the processor's own blocking.
    if (reason == VMX_VMEXIT_SIPI &&
        (!p.entered_blocked || cpu->vmcs.pin_vmexec_ctrls.VIRTUAL_NMI()))
        cpu->unmask_event(BX_EVENT_NMI);
}

void init_done(Processor &p, bool hardware)
{
    BX_CPU_C *cpu = BX_CPU(p.id);

    p.init_held = false;
    if (hardware)
        p.x2apic = false;
    if (!p.x2apic)
        return;
    cpu->msr.apicbase |= APIC_BASE_EXTD;
    cpu->lapic->set_base(cpu->msr.apicbase);
}

bool init_state_refused(BX_CPU_C *cpu)
{
    return !vmx_caps_wait_for_sipi() && cpu->VMread32(VMCS_32BIT_GUEST_ACTIVITY_STATE) ==
                                            BX_CPU_C::BX_ACTIVITY_STATE_WAIT_FOR_SIPI;
}
