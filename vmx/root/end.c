/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The list of all processors, and how they end: one processor stops the others, wherever they are,
 * and resets the machine. SDM Vol. 3, "Other Causes of VM Exits" (INIT, SIPI); "Restrictions on VMX
 * Operation". ACPI specification, "Reset Register".
 */
#include "vmx/root/end.h"

#include "apic/apic.h"
#include "lib/acpi.h"
#include "vmx/root/descriptors.h"

#define END_US 1000     /* the longest wait after an INIT or NMI, for a deep C-state or an SMI */
#define LAST_NMI_US 100 /* longest time until a starting processor takes the last NMI */
#define KEYBOARD_COMMAND 0x64
#define KEYBOARD_PULSE_RESET 0xfe
#define RESET_WAIT_US 100000

struct guest_processors processors;
volatile uint32_t processors_stopper;
volatile bool processors_running;
static volatile bool leaving;
static struct cpu *cpus[PROCESSORS_MAX];
static struct end_hooks hooks;

struct cpu *get_cpu_by_index(uint32_t index) { return cpus[index]; }

void processors_add(struct cpu *cpu)
{
    cpus[processors.count] = cpu;
    processors.apic_id[processors.count++] = cpu->apic_id;
}

void set_stop_hooks(struct end_hooks h) { hooks = h; }

void call_report_hook(const struct cpu *cpu) { hooks.report(cpu); }

/* Waits until every other processor in the list has ended, at most END_US. If `ask` is set, first
 * sends an NMI to each processor that has not ended. The NMI makes the processor record where it
 * is, and ends the processor. */
static void wait_for_processor_ends(uint32_t self, bool ask)
{
    for (uint32_t i = 0; ask && i < processors.count; i++)
        if (processors.apic_id[i] != self && !__atomic_load_n(&cpus[i]->ended, __ATOMIC_ACQUIRE))
            (void)hooks.ask(cpus[i]);
    for (unsigned us = 0; us < END_US; us++) {
        bool all = true;
        for (uint32_t i = 0; i < processors.count; i++)
            all &= processors.apic_id[i] == self ||
                   __atomic_load_n(&cpus[i]->ended, __ATOMIC_ACQUIRE);
        if (all)
            return;
        delay_us(1);
    }
}

/* Stops the other processors, by INIT and NMI. An INIT makes an active, halted or shut-down guest
 * exit, whatever the guest blocks. In root mode an INIT stays pending until the next entry. An NMI
 * ends a processor in root mode, unless NMIs are blocked there. If NMIs are blocked, root mode is
 * about to unblock NMIs or to enter the guest. So either the INIT or the NMI ends every processor,
 * with two exceptions: a processor whose local APIC the guest has globally disabled, and a
 * processor that waits for a SIPI, which nobody sends any more. Before the guest starts, the INIT
 * is not sent, because it would restart a processor that is not yet in VMX operation. All
 * processors are then in root mode or not yet in VMX operation, and the NMI ends them. */
void processors_stop(void)
{
    uint32_t nobody = 0,
             self = 1 + (descriptors_are_loaded() ? this_cpu()->apic_id : apic_id_read());

    if (__atomic_compare_exchange_n(&processors_stopper, &nobody, self, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
        /* Send only the INIT at first, so that a processor in the guest reports the place where it
         * was, and not a place in the guest's NMI handler. The last NMI is for processors that are
         * still being started. */
        if (processors_running) {
            apic_send_others(ICR_INIT);
            wait_for_processor_ends(self - 1, false);
        }
        if (processors.count > 0) {
            wait_for_processor_ends(self - 1, true);
            apic_send_others(ICR_NMI);
        }
        delay_us(LAST_NMI_US);
        serial_restart();
    } else if (nobody != self) {
        if (!descriptors_are_loaded())
            halt_forever();
        processor_end(this_cpu(), (uint64_t)__builtin_return_address(0), true);
    }
    log_ignore_lock();
}

void processor_end(struct cpu *cpu, uint64_t rip, bool in_root)
{
    if (!cpu->ended) { /* otherwise another NMI has brought this processor here again */
        cpu->nmi.backtrace_rip = rip;
        cpu->nmi.backtrace_in_root = in_root;
    }
    __atomic_store_n(&cpu->ended, true, __ATOMIC_RELEASE);
    while (!leaving)
        cpu_relax();
    processors_leave_and_reset(cpu);
}

/* Every processor runs this, for two reasons. First, chipsets may reset the machine by INIT, and
 * VMX operation blocks INIT. Second, VMXOFF lets a pending INIT through, which may stop this
 * processor before it has reset the machine. */
void processors_leave_and_reset(struct cpu *cpu)
{
    leaving = true;
    if (cpu->in_vmx) {
        cpu->in_vmx = false;
        __asm__ volatile("vmxoff" : : : "cc", "memory");
    }
    machine_reset(&cpu->boot->acpi);
}

void machine_reset(const struct acpi_facts *acpi)
{
    /* A reset register in memory is not mapped here. A machine with such a register is reset in one
     * of the two ways below. */
    if (acpi->reset_supported && acpi->reset_register.space_id == ACPI_SPACE_IO) {
        outb((uint16_t)acpi->reset_register.address, acpi->reset_value);
        delay_us(RESET_WAIT_US);
    }
    outb(KEYBOARD_COMMAND, KEYBOARD_PULSE_RESET);
    delay_us(RESET_WAIT_US);

    /* Cause a triple fault: without an IDT, raise an exception. Chipsets answer the shutdown with a
     * reset. */
    const uint16_t none[5] = {0}; /* limit and base */
    __asm__ volatile("lidt %0; ud2" : : "m"(none));
    halt_forever();
}
