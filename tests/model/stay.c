/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A stay in root mode as vmx/exit/entry.asm makes it: vmx_exit(), which ends in the handler.
 * The handlers are those of nmi/, or, for a VMCALL, what the handler of that calls in nmi/.
 */
#include "run_code.h"

#include "nmi/nmi.h"
#include "vmx/exit/exit.h"

void stay(void);
void host_work_for_model(void);

static void other(UNUSED struct cpu *cpu) {}
static void returned(struct cpu *cpu) { machine.returned = (int32_t)nmi_returned(cpu); }
static void switched(struct cpu *cpu) { (void)nmi_set_passthrough(cpu, !cpu->nmi.passthrough); }

static void host_work(struct cpu *cpu)
{
    nmi_hold(cpu);
    host_work_for_model();
    nmi_release(cpu);
}

static const exit_handler handlers[] = {
    [R_NMI] = exit_nmi, [R_WINDOW] = exit_nmi_window, [R_OTHER] = other,
    [R_RETURNED] = returned, [R_SWITCH] = switched, [R_WORK] = host_work,
};

void stay(void)
{
    the_cpu.handlers[machine.reason] = handlers[machine.reason];
    vmx_exit(&the_cpu);
}
