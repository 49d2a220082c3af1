/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Reports: the table of exits, the guest's registers, and where each processor was. Also ends the
 * machine when the guest asks for it.
 */
#include "vmx/exit/report.h"

#include "nmi/nmi.h"
#include "vmx/root/end.h"

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

    log_printf("\npmuvisor: exits of processor %u, policy %s\n", cpu->apic_id, o->policy_name);
    log_printf("%6s  %-28s %12s%s\n", "reason", "name", "count",
               o->stats_cycles ? "   TSC cycles" : "");
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
               vmcs_read_32(VMCS_ENTRY_INTERRUPTION_INFORMATION), vmcs_read_32(VMCS_ENTRY_CONTROLS),
               vmcs_read_64(VMCS_GUEST_IA32_DEBUGCTL));
}

void report_all_exits(void)
{
    for (uint32_t i = 0; i < processors.count; i++)
        report_exits(get_cpu_by_index(i));
}

void report_stop_locations(const struct cpu *self)
{
    for (uint32_t i = 0; i < processors.count; i++) {
        const struct cpu *cpu = get_cpu_by_index(i);
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

void report_fault(const struct cpu *cpu)
{
    report_stop_locations(cpu);
    report_exits(cpu);
}

void stop_and_reset_machine(struct cpu *cpu)
{
    processors_stop();
    report_all_exits();
    processors_leave_and_reset(cpu);
}
