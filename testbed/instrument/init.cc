// SPDX-License-Identifier: BSD-2-Clause
//
// Bochs masks INIT in root operation and drops what comes masked, without a hook: so INITs are read
// from the interrupt commands that send them, right behind the instruction that does.
#include "bochs.h"
#include "cpu.h"

#include "apic.h"
#include "init.h"
#include "knobs.h"
#include "msr_index.h"
#include "vmx_caps.h"

namespace {

constexpr Bit64u APIC_BASE_MODE = 3u << 10;
constexpr Bit64u APIC_BASE_EXTD = 1u << 10;
constexpr Bit32u BLOCKING_BY_NMI = 1u << 3;
constexpr unsigned XAPIC_DESTINATION_SHIFT = 24;
constexpr Bit32u XAPIC_DESTINATION = 0xff;

// The interrupt command register. SDM Vol. 3, "Interrupt Command Register (ICR)".
constexpr unsigned ICR_MODE_SHIFT = 8;
constexpr Bit32u ICR_MODE = 7;
constexpr Bit32u ICR_LOGICAL = 1u << 11;
constexpr Bit32u ICR_ASSERT = 1u << 14;
constexpr Bit32u ICR_LEVEL = 1u << 15;
constexpr unsigned ICR_SHORTHAND_SHIFT = 18;
constexpr Bit32u ICR_SHORTHAND = 3;
enum Shorthand { NONE, SELF, ALL, ALL_BUT_SELF };

bool is_init(Bit32u command)
{
    // INIT level de-assert does nothing.
    return (command >> ICR_MODE_SHIFT & ICR_MODE) == APIC_DM_INIT &&
           ((command & ICR_ASSERT) || !(command & ICR_LEVEL));
}

bool reaches(const Processor &sender, Bit32u destination, Bit32u command, unsigned n)
{
    bx_local_apic_c *apic = BX_CPU(n)->lapic;

    switch (command >> ICR_SHORTHAND_SHIFT & ICR_SHORTHAND) {
    case SELF:
        return n == sender.id;
    case ALL:
        return true;
    case ALL_BUT_SELF:
        return n != sender.id;
    }
    if (command & ICR_LOGICAL)
        return apic->match_logical_addr(destination);
    Bit32u everyone = sender.x2apic ? ~0u : XAPIC_DESTINATION;
    return destination == everyone || destination == apic->get_id();
}

bool asleep(const BX_CPU_C *cpu)
{
    return knobs().mwait_wake != 0 && cpu->in_vmx_guest &&
           (cpu->activity_state == BX_CPU_C::BX_ACTIVITY_STATE_MWAIT ||
            cpu->activity_state == BX_CPU_C::BX_ACTIVITY_STATE_MWAIT_IF);
}

// Where Bochs would drop it: held in root operation, blocked in the wait-for-SIPI state.
void arrive(unsigned n)
{
    BX_CPU_C *cpu = BX_CPU(n);

    if (cpu->in_vmx && !cpu->in_vmx_guest)
        processor(n).init_held = true;
    else if (cpu->activity_state == BX_CPU_C::BX_ACTIVITY_STATE_WAIT_FOR_SIPI)
        cpu->clear_event(BX_EVENT_INIT);
}

void command_comes(Processor &p, uint64_t command)
{
    if (BX_SMP_PROCESSORS == 1)
        return;
    p.commands = true;
    p.command = command;
    tb_hot[p.id].deadline = 0;
}

}  // namespace

void init_apic_write_seen(Processor &p, uint32_t offset)
{
    if (offset == BX_LAPIC_ICR_LO)
        command_comes(p, 0);
}

void init_wrmsr_seen(Processor &p, uint32_t index, uint64_t value)
{
    if (index == IA32_APIC_BASE)
        p.x2apic = (value & APIC_BASE_MODE) == APIC_BASE_MODE;
    if (index == IA32_X2APIC_ICR)
        command_comes(p, value);
}

void init_after_command(Processor &sender)
{
    bx_local_apic_c *apic = BX_CPU(sender.id)->lapic;
    Bit32u command = GET32L(sender.command), destination = GET32H(sender.command);

    sender.commands = false;
    if (!sender.x2apic) {
        command = apic->read_aligned(BX_LAPIC_ICR_LO);
        destination = apic->read_aligned(BX_LAPIC_ICR_HI) >> XAPIC_DESTINATION_SHIFT;
    }
    if (!is_init(command))
        return;
    for (unsigned n = 0; n < processor_count(); n++) {
        if (!reaches(sender, destination, command, n))
            continue;
        if (asleep(BX_CPU(n))) {
            BX_CPU(n)->clear_event(BX_EVENT_INIT);
            sender.waking = n;
            sender.wakes_at = sender.events.instructions() + knobs().mwait_wake;
            continue;
        }
        arrive(n);
    }
}

void init_wake(Processor &sender)
{
    sender.wakes_at = PMU_NEVER;
    BX_CPU(sender.waking)->signal_event(BX_EVENT_INIT);
    arrive(sender.waking);
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
