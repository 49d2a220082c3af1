/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The trapped local APIC of the thesis's KVM, less its emulation: the guest's accesses exit, and
 * go to the hardware as they are. So a guest that unmasks LVTPC has it unmasked on the physical
 * APIC by the hypervisor, which is what the thesis adds to KVM, and all of it costs an exit, which
 * is what this policy is there to price. In xAPIC mode the page of registers is not mapped in the
 * EPT and accesses arrive here; in x2APIC mode its MSRs exit (vmx/msr.c). Both are set up once, so
 * the guest changes the mode at will. CR8 does not exit in either, as it does not with KVM's TPR shadow.
 * Touches the local APIC and the guest's registers in the VMCS and struct cpu.
 * SDM Vol. 3, "Local APIC"; thesis, section 3.2.2, "PMI Masking".
 *
 * Root NMIs: the handler may send an NMI by the ICR between any two instructions here (apic.c). It
 * waits until the ICR is idle, and puts the high half back. So it may come between the guest's own
 * write of the high and of the low half, which are two exits, and between the read and the write of
 * an instruction that does both: each of them is one 32-bit access of its own, nothing is kept in
 * between but the value that was read, and the guest's destination is in place when its command is
 * written. The low half then reads as the last command that was sent, which no guest can rely on.
 * In x2APIC mode the ICR is one MSR, written by one instruction.
 */
#include "apic_trap.h"

#include "../vmx/decode.h"
#include "../vmx/inject.h"
#include "../vmx/processor.h"
#include "apic.h"

bool apic_trap_setup(struct cpu *cpu)
{
    cpu->apic.page = apic_page().base;
    for (unsigned i = 0; i < GUEST_WINDOWS; i++)
        if (!host_window_new(cpu->host_cr3, &cpu->apic.window[i]))
            return false;
    return true;
}

static uint32_t register_read(const struct cpu *cpu, uint8_t number)
{
    return (uint32_t)(number == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[number]);
}

/* A 32-bit result clears the upper half. SDM Vol. 1, "General-Purpose Registers in 64-Bit Mode". */
static void register_write(struct cpu *cpu, uint8_t number, uint32_t value)
{
    if (number == GPR_RSP)
        vmcs_write_natural(VMCS_GUEST_RSP, value);
    else
        cpu->gpr[number] = value;
}

/* An INIT or SIPI that is not to be sent. */
static bool taken_here(const volatile uint32_t *target, uint32_t command)
{
    uint32_t destination = apic_read(APIC_ICR_HIGH) >> XAPIC_ID_SHIFT;

    return (uint64_t)target % PAGE_SIZE == APIC_ICR_LOW &&
           guest_sends_ipi(command, destination == XAPIC_BROADCAST ? X2APIC_BROADCAST : destination);
}

static void perform(struct cpu *cpu, const struct instruction *i, volatile uint32_t *target)
{
    uint64_t before = vmcs_read_natural(VMCS_GUEST_RFLAGS), rflags = before;
    uint32_t memory = reads_memory(i) ? *target : 0;
    struct effect effect = execute(i, memory, register_read(cpu, i->reg), &rflags);

    if (effect.writes_memory && !taken_here(target, effect.memory))
        *target = effect.memory;
    if (effect.writes_register)
        register_write(cpu, i->reg, effect.reg);
    if (rflags != before)
        vmcs_write_natural(VMCS_GUEST_RFLAGS, rflags);
    skip_bytes(cpu, i->length);
}

bool apic_trap_access(struct cpu *cpu, uint64_t address, uint64_t qualification)
{
    struct instruction instruction;

    /* A walk of the guest's page tables, or an event's delivery through its IDT and stack, has no
     * instruction; and code is not fetched from registers. */
    if ((qualification & (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED)) !=
            (EPT_VIOLATION_LINEAR_VALID | EPT_VIOLATION_TRANSLATED) ||
        qualification & EPT_VIOLATION_FETCH ||
        vmcs_read_32(VMCS_IDT_VECTORING_INFORMATION) & INTERRUPTION_VALID)
        return false;
    /* Aligned, it cannot reach beyond the page, which root mode has mapped alone. */
    if (address % sizeof(uint32_t) != 0)
        return false;
    if (guest_code_decode(cpu, &instruction))
        perform(cpu, &instruction, (volatile uint32_t *)address);
    else
        inject_gp();
    return true;
}
