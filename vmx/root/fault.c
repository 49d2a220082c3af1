/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Handles an exception in root mode. A #GP of an instruction that may fault (fault.asm) continues
 * at the instruction's fix-up. Any other exception ends the machine, with a report that helps to
 * find the cause.
 */
#include "vmx/root/fault.h"

#include "vmx/root/descriptors.h"
#include "vmx/root/end.h"

#define TAIL_BYTES 1024
#define SECOND_US 1000000
#define REPORTS_MAX 2 /* a fault during the first report is reported too, but not a third fault */

extern const char rdmsr_may_fault[], wrmsr_may_fault[], rdpmc_may_fault[], xsetbv_may_fault[];
extern const char safe_access_faulted[];

uint64_t handle_root_exception(const struct exception_frame *f);

/* With fault=reset, resets the machine. If `say` is set, first counts down, so that a user can read
 * the screen. */
static void reset_if_option_is_set(bool say)
{
    const struct options *o = &this_cpu()->boot->options;

    if (!o->fault_reset)
        return;
    for (uint32_t left = say ? o->wait_s : 0; left > 0; left--) {
        log_printf("%s%u ", left == o->wait_s ? "---- reset in " : "", left);
        delay_us(SECOND_US);
    }
    processors_leave_and_reset(this_cpu());
}

void hypervisor_fault(const char *format, ...)
{
    char line[256];
    va_list arguments;

    size_t start = format_text(line, sizeof(line), "fault in root mode: ");
    va_start(arguments, format);
    format_text_v(line + start, sizeof(line) - start, format, arguments);
    va_end(arguments);

    if (descriptors_are_loaded() && this_cpu()->starting) {
        this_cpu()->starting = false; /* a fault from here on ends the machine */
        log_printf("pmuvisor: processor %u, being started: %s\n", this_cpu()->apic_id, line);
        processor_end(this_cpu(), 0, true);
    }
    processors_stop();
    framebuffer_restart();
    log_printf("\npmuvisor: %s\n", line);
    if (descriptors_are_loaded()) /* otherwise it is too early for struct cpu */
        call_report_hook(this_cpu());
    log_print_tail(TAIL_BYTES);
    if (descriptors_are_loaded())
        reset_if_option_is_set(true);
    log_printf("---- stopped ----\n");
    halt_forever();
}

void report_machine_check(void)
{
    uint64_t capability, global, status, address = 0, more = 0;

    if (!rdmsr_safe(IA32_MCG_CAP, &capability) || !rdmsr_safe(IA32_MCG_STATUS, &global))
        return;
    log_printf("\nIA32_MCG_STATUS %lx, %lu banks\n", global, capability & MCG_CAP_COUNT);
    for (uint32_t bank = 0; bank < (capability & MCG_CAP_COUNT); bank++) {
        uint32_t first = IA32_MC0_STATUS + MC_BANK_MSRS * bank;
        if (!rdmsr_safe(first, &status) || !(status & MC_STATUS_VAL))
            continue;
        if (status & MC_STATUS_ADDRV)
            (void)rdmsr_safe(first + 1, &address);
        if (status & MC_STATUS_MISCV)
            (void)rdmsr_safe(first + 2, &more);
        log_printf("machine-check bank %u: STATUS %016lx ADDR %lx MISC %lx\n", bank, status,
                   address, more);
    }
}

/* Returns a description of the exception that the report prints before the vector. It may be
 * empty. */
static const char *describe_exception(const struct exception_frame *f)
{
    const struct cpu *cpu = this_cpu();
    const struct {
        const char *text;
        uint64_t top;
    } stacks[] = {{"root stack overflow, ", cpu->root_stack},
                  {"fault stack overflow, ", cpu->fault_stack},
                  {"NMI stack overflow, ", cpu->nmi_stack}};

    for (unsigned i = 0; i < LENGTH_OF(stacks) && f->vector == VECTOR_PF; i++)
        if (read_cr2() - (stacks[i].top - (STACK_PAGES + 1) * PAGE_SIZE) < PAGE_SIZE)
            return stacks[i].text;
    return f->vector == VECTOR_DF   ? "double fault, "
           : f->vector == VECTOR_MC ? "machine check, "
                                    : "";
}

/* Returns the address at which execution continues. */
uint64_t handle_root_exception(const struct exception_frame *f)
{
    static unsigned reports;

    if (f->vector == VECTOR_GP &&
        (f->rip == (uint64_t)rdmsr_may_fault || f->rip == (uint64_t)wrmsr_may_fault ||
         f->rip == (uint64_t)rdpmc_may_fault || f->rip == (uint64_t)xsetbv_may_fault))
        return (uint64_t)safe_access_faulted;

    bool alone = this_cpu()->starting;

    if (!alone) {
        processors_stop();
        reports++;
    }
    if (reports > REPORTS_MAX) {
        reset_if_option_is_set(false);
        halt_forever();
    }
    if (!alone)
        framebuffer_restart();
    log_printf("\nRAX %016lx RBX %016lx RCX %016lx RDX %016lx\n"
               "RSI %016lx RDI %016lx RBP %016lx RSP %016lx\n"
               "R8  %016lx R9  %016lx R10 %016lx R11 %016lx\n"
               "R12 %016lx R13 %016lx R14 %016lx R15 %016lx\n"
               "RIP %016lx CS %04lx RFLAGS %08lx SS %04lx CR2 %016lx CR3 %016lx\n",
               f->rax, f->rbx, f->rcx, f->rdx, f->rsi, f->rdi, f->rbp, f->rsp, f->r8, f->r9, f->r10,
               f->r11, f->r12, f->r13, f->r14, f->r15, f->rip, f->cs, f->rflags, f->ss, read_cr2(),
               read_cr3());
    if (f->vector == VECTOR_MC)
        report_machine_check();
    hypervisor_fault("%sexception %lu, error code 0x%lx, at RIP 0x%lx (image offset 0x%lx)",
                     describe_exception(f), f->vector, f->error_code, f->rip,
                     f->rip - this_cpu()->boot->image.base);
}
