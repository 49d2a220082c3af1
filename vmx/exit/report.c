/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The table of exits, and the ways to reset the machine.
 * ACPI specification, "Reset Register".
 */
#include "acpi.h"
#include "vmx/exit/exit.h"

#include "nmi/nmi.h"
#include "vmx/start/start.h"

#define KEYBOARD_COMMAND 0x64
#define KEYBOARD_PULSE_RESET 0xfe
#define RESET_WAIT_US 100000

const char *exit_reason_name(uint32_t reason)
{
#define REASON(name, number) [number] = #name,
    static const char *const names[EXIT_REASON_COUNT] = {VMX_EXIT_REASONS(REASON)};
#undef REASON

    return reason < EXIT_REASON_COUNT && names[reason] != NULL ? names[reason] : "unknown";
}

void report_exits(const struct cpu *cpu)
{
    const struct options *o = &cpu->boot->options;
    uint64_t total = 0, cycles = 0;

    log_printf("\npmuvisor: exits of processor %u, policy %s\n", cpu->apic_id,
               policy_name(o->policy));
    log_printf("%6s  %-28s %12s%s\n", "reason", "name", "count", o->stats_cycles ? "   TSC cycles" : "");
    for (uint32_t reason = 0; reason < EXIT_REASON_COUNT; reason++) {
        if (cpu->exits[reason] == 0)
            continue;
        log_printf("%6u  %-28s %12lu", reason, exit_reason_name(reason), cpu->exits[reason]);
        if (o->stats_cycles)
            log_printf(" %12lu", cpu->exit_cycles[reason]);
        log_printf("\n");
        total += cpu->exits[reason];
        cycles += cpu->exit_cycles[reason];
    }
    log_printf("%6s  %-28s %12lu", "", "total", total);
    if (o->stats_cycles)
        log_printf(" %12lu", cycles);
    log_printf("\n");
    nmi_report(cpu);
}

void report_guest(const struct cpu *cpu)
{
    static const char *const names[GPR_COUNT] = {"RAX", "RCX", "RDX", "RBX", "RSP", "RBP",
                                                 "RSI", "RDI", "R8 ", "R9 ", "R10", "R11",
                                                 "R12", "R13", "R14", "R15"};
    static const char *const segments[] = {"ES  ", "CS  ", "SS  ", "DS  ",
                                           "FS  ", "GS  ", "LDTR", "TR  "};

    for (unsigned i = 0; i < GPR_COUNT; i++)
        log_printf("%s %016lx%s", names[i],
                   i == GPR_RSP ? vmcs_read_natural(VMCS_GUEST_RSP) : cpu->gpr[i],
                   i % 4 == 3 ? "\n" : " ");
    log_printf("RIP %016lx RFLAGS %08lx CR0 %08lx CR2 %016lx CR3 %016lx CR4 %08lx EFER %04lx\n",
               vmcs_read_natural(VMCS_GUEST_RIP), vmcs_read_natural(VMCS_GUEST_RFLAGS),
               vmcs_read_natural(VMCS_GUEST_CR0), read_cr2(), vmcs_read_natural(VMCS_GUEST_CR3),
               vmcs_read_natural(VMCS_GUEST_CR4), vmcs_read_64(VMCS_GUEST_IA32_EFER));
    for (enum segment s = SEGMENT_ES; s <= SEGMENT_TR; s++)
        log_printf("%s %04x base %016lx limit %08x rights %05x\n", segments[s],
                   vmcs_read_16(SEGMENT_FIELD(VMCS_GUEST_ES_SELECTOR, s)),
                   vmcs_read_natural(SEGMENT_FIELD(VMCS_GUEST_ES_BASE, s)),
                   vmcs_read_32(SEGMENT_FIELD(VMCS_GUEST_ES_LIMIT, s)),
                   vmcs_read_32(SEGMENT_FIELD(VMCS_GUEST_ES_ACCESS_RIGHTS, s)));
    log_printf("activity %x interruptibility %x event %08x entry controls %08x DEBUGCTL %lx\n",
               vmcs_read_32(VMCS_GUEST_ACTIVITY_STATE),
               vmcs_read_32(VMCS_GUEST_INTERRUPTIBILITY_STATE),
               vmcs_read_32(VMCS_ENTRY_INTERRUPTION_INFORMATION),
               vmcs_read_32(VMCS_ENTRY_CONTROLS), vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL));
}

void report_processors(void)
{
    for (uint32_t i = 0; i < processors.count; i++)
        report_exits(processor_cpu(i));
}

void report_places(const struct cpu *self)
{
    for (uint32_t i = 0; i < processors.count; i++) {
        const struct cpu *cpu = processor_cpu(i);
        if (cpu == self)
            continue;
        log_printf("processor %u: ", cpu->apic_id);
        if (!cpu->ended)
            log_printf(cpu->nmi.guest_started ? "did not answer\n" : "waits for a SIPI\n");
        else if (cpu->nmi.backtrace_in_root)
            log_printf("in root mode at image offset 0x%lx\n",
                       cpu->nmi.backtrace_rip - cpu->boot->image.base);
        else
            log_printf("in the guest at RIP 0x%lx\n", cpu->nmi.backtrace_rip);
    }
}

void machine_end(struct cpu *cpu)
{
    processors_stop();
    report_processors();
    processors_leave(cpu);
}

void machine_reset(const struct acpi_facts *acpi)
{
    /* A reset register in memory is not mapped here; the other two ways then do. */
    if (acpi->reset_supported && acpi->reset_register.space_id == ACPI_SPACE_IO) {
        outb((uint16_t)acpi->reset_register.address, acpi->reset_value);
        delay_us(RESET_WAIT_US);
    }
    outb(KEYBOARD_COMMAND, KEYBOARD_PULSE_RESET);
    delay_us(RESET_WAIT_US);

    /* A triple fault: no IDT, then an exception. Chipsets answer the shutdown with a reset. */
    const uint16_t none[5] = {0}; /* limit and base */
    __asm__ volatile("lidt %0; ud2" : : "m"(none));
    halt_forever();
}
