/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A stay in root mode as vmx/exit/entry.asm makes it: vmx_exit(), which ends in the handler.
 * The handlers are those of nmi/, or, for a VMCALL, what the handler of that calls in nmi/.
 */
#include "run_code.h"

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

struct host_work the_work;
void stay(void);

static void other(UNUSED struct cpu *cpu) {}
static void returned(struct cpu *cpu) { machine.returned = (int32_t)nmi_claim_unknown(cpu); }
static void switched(struct cpu *cpu) { (void)nmi_set_passthrough(cpu, !cpu->nmi.passthrough); }

/* Its branches are the model's, which follow the start of the counter; the C code has one to
 * execute. */
static void host_work(struct cpu *cpu)
{
    the_work.branches = 1;
    the_work.period = WORK_PERIOD;
    (void)host_work_run(cpu, &the_work);
}

static const exit_handler handlers[] = {
    [R_NMI] = exit_nmi,      [R_WINDOW] = exit_nmi_window, [R_OTHER] = other,
    [R_RETURNED] = returned, [R_SWITCH] = switched,        [R_WORK] = host_work,
};

void stay(void)
{
    the_cpu.handlers[machine.reason] = handlers[machine.reason];
    vmx_exit(&the_cpu);
}
