/* SPDX-License-Identifier: BSD-2-Clause
 *
 * With trace=flow, loads of CR3, HLT and external interrupts exit as well, so that the trace shows
 * processes, idle time and interrupts.
 *
 * The exit for an external interrupt does not acknowledge the interrupt. The local APIC keeps this
 * interrupt and all later ones until the guest can take an interrupt, either at once or when the
 * interrupt window opens. Then root mode lets the local APIC deliver the interrupt that is first at
 * that moment, and the entry injects that interrupt. Without the exit, the guest would have got the
 * same interrupt at that moment. So no interrupt ever waits in software. SDM Vol. 3, "Other Causes
 * of VM Exits"; "VM-Entry Controls for Event Injection"; "Interrupt Acceptance for Fixed
 * Interrupts".
 */
#include "experiments/flow/hypervisor/level.h"

#include "vmx/exit/exit.h"
#include "vmx/root/descriptors.h"

static uint32_t stack_detail(void)
{
    return (uint32_t)(vmcs_read_natural(VMCS_GUEST_RSP) >> TRACE_STACK_SHIFT) << 8;
}

static void flow_hlt(struct cpu *cpu)
{
    trace_of(cpu)->record->detail = stack_detail();
    skip_instruction(cpu);
    vmcs_write_32(VMCS_GUEST_ACTIVITY_STATE, ACTIVITY_HLT);
}

/* Each exit restarts the preemption timer. Loads of CR3 and external interrupts exit so often that
 * the timer might never expire. So the handlers of these exits call this function, which checks
 * whether a tick is due. */
static void tick_if_due(struct cpu *cpu)
{
    if (cpu->tick.runs &&
        trace_of(cpu)->record->tsc - trace_of(cpu)->ticked >= trace_of(cpu)->tick_ticks) {
        trace_of(cpu)->ticked = trace_of(cpu)->record->tsc;
        exit_tick(cpu);
    }
}

/* Bits of CR3 that IA-32e mode reserves on this processor. With CR4.PCIDE, bit 63 is not reserved.
 * SDM Vol. 2, "MOV - Move to/from Control Registers"; Vol. 3, "Linear-Address Masking". */
static uint64_t reserved_bits;

void trace_flow_setup(void)
{
    bool lam = cpuid(CPUID_LEAF_EXTENDED, 0).eax >= 1 &&
               cpuid(CPUID_LEAF_EXTENDED, 1).eax & CPUID_7_1_EAX_LAM;

    reserved_bits = BITS(63, cpuid(CPUID_LEAF_ADDRESS_SIZES, 0).eax & 0xff) & ~(lam ? CR3_LAM : 0);
}

static bool is_cr3_refused(uint64_t value)
{
    uint64_t wrong = value & reserved_bits;

    return wrong != 0 &&
           (wrong != CR3_NO_FLUSH || !(vmcs_read_natural(VMCS_GUEST_CR4) & CR4_PCIDE));
}

/* The guest executes the MOV again, this time without an exit. So the processor itself flushes what
 * it has to flush, or refuses the value. If the processor refuses the value, the record keeps the
 * old value of CR3. Switches between the two page tables of the same process also do not exit. */
void flow_cr_access(struct cpu *cpu)
{
    uint64_t qualification = vmcs_read_natural(VMCS_EXIT_QUALIFICATION);

    tick_if_due(cpu);
    trace_of(cpu)->record->detail = stack_detail();
    if (!trace_is_load_of_cr3(qualification)) {
        exit_cr_access(cpu);
        return;
    }
    uint64_t value = cr_operand(cpu, qualification);
    if (!is_cr3_refused(value))
        trace_of(cpu)->record->cr3 = value & BITS(47, 0);
    trace_set_cr3_targets(value);
    reexecute_instruction();
}

static void inject_interrupt(struct cpu *cpu)
{
    uint32_t information = trace_take_interrupt();

    vmcs_write_32(VMCS_ENTRY_INTERRUPTION_INFORMATION, information);
    trace_of(cpu)->record->detail = stack_detail() | (information & TRACE_VECTOR);
}

/* While an interrupt waits for the interrupt window, the window exits, and interrupts do not. */
static void set_interrupt_window_exiting(bool wait)
{
    uint32_t pin = vmcs_read_32(VMCS_PIN_BASED_CONTROLS);
    uint32_t primary = vmcs_read_32(VMCS_PRIMARY_CONTROLS);

    if (wait) {
        pin &= ~(uint32_t)PIN_EXTERNAL_INTERRUPT_EXITING;
        primary |= PRIMARY_INTERRUPT_WINDOW_EXITING;
    } else {
        pin |= PIN_EXTERNAL_INTERRUPT_EXITING;
        primary &= ~(uint32_t)PRIMARY_INTERRUPT_WINDOW_EXITING;
    }
    vmcs_write_32(VMCS_PIN_BASED_CONTROLS, pin);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, primary);
}

static void flow_external_interrupt(struct cpu *cpu)
{
    tick_if_due(cpu);
    if (vmcs_read_natural(VMCS_GUEST_RFLAGS) & RFLAGS_IF &&
        !(cpu->blocking & (BLOCKING_BY_STI | BLOCKING_BY_MOV_SS))) {
        inject_interrupt(cpu);
        return;
    }
    trace_of(cpu)->record->detail = stack_detail();
    set_interrupt_window_exiting(true);
}

static void flow_interrupt_window(struct cpu *cpu)
{
    set_interrupt_window_exiting(false);
    inject_interrupt(cpu);
}

void trace_add_flow_rows(struct cpu *cpu)
{
    cpu->handlers[EXIT_REASON_EXTERNAL_INTERRUPT] = flow_external_interrupt;
    cpu->handlers[EXIT_REASON_INTERRUPT_WINDOW] = flow_interrupt_window;
    cpu->handlers[EXIT_REASON_HLT] = flow_hlt;
    cpu->handlers[EXIT_REASON_CR_ACCESS] = flow_cr_access;
}

void trace_set_flow_controls(bool on)
{
    const uint32_t exits = PRIMARY_HLT_EXITING | PRIMARY_CR3_LOAD_EXITING;
    uint32_t pin = vmcs_read_32(VMCS_PIN_BASED_CONTROLS);
    uint32_t primary = vmcs_read_32(VMCS_PRIMARY_CONTROLS) &
                       ~(uint32_t)(PRIMARY_INTERRUPT_WINDOW_EXITING | exits);

    vmcs_write_32(VMCS_PIN_BASED_CONTROLS, on ? pin | PIN_EXTERNAL_INTERRUPT_EXITING
                                              : pin & ~(uint32_t)PIN_EXTERNAL_INTERRUPT_EXITING);
    vmcs_write_32(VMCS_PRIMARY_CONTROLS, on ? primary | exits : primary);
    vmcs_write_32(VMCS_CR3_TARGET_COUNT, on ? CR3_TARGETS : 0);
    if (on) /* the list of CR3 targets may name a process that has ended */
        trace_set_cr3_targets(vmcs_read_natural(VMCS_GUEST_CR3));
}

/* An exception or an interrupt may arrive at a gate, and the gate's code checks which of the two it
 * is. Because exceptions may still arrive, their gates keep their stacks. On a processor without
 * the machine-check architecture, the new gate of #MC would have nothing to check, so #MC keeps its
 * old gate. An 8259 may send an interrupt with vector 2, which goes to the NMI handler. Such an
 * interrupt does not block NMIs. On an IST stack, a following NMI would overwrite the interrupt's
 * frame, so gate 2 uses no IST stack. */
#define GATE_IST BITS(34, 32)
void trace_set_flow_gates(void)
{
    uint64_t *gates = page_alloc(1);
    const uint64_t *exceptions = (const uint64_t *)vmcs_read_natural(VMCS_HOST_IDTR_BASE);
    for (unsigned i = 0; i < ROOT_IDT_BYTES / sizeof(*gates); i++)
        gates[i] = exceptions[i];
    const char *target = trace_gates;
    for (unsigned vector = 0; vector < 256; vector++, target += TRACE_GATE_BYTES)
        if (vector != VECTOR_NMI && (vector != VECTOR_MC || cpuid(1, 0).edx & CPUID_1_EDX_MCA)) {
            uint64_t *low = &gates[2UL * vector], stack = *low & GATE_IST;
            descriptors_set_gate(gates, vector, target);
            *low |= stack;
        }
    gates[2UL * VECTOR_NMI] &= ~GATE_IST;
    vmcs_write_natural(VMCS_HOST_IDTR_BASE, (uint64_t)gates);
}
