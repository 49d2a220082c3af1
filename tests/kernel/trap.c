/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The NMI handler, which counts and says where it came from, and the report of a fault that no
 * test expected. SDM Vol. 3, "Nonmaskable Interrupt (NMI)".
 */
#include "kernel.h"

#include "console/log.h"

volatile struct nmi_record nmi;

static volatile uint64_t depth;

void nmi_handle(const struct trap_frame *frame);
_Noreturn void unexpected_fault(const struct trap_frame *frame);

void nmi_handle(const struct trap_frame *frame)
{
    void (*action)(void) = nmi.action;

    nmi.count++;
    /* The outer handler's frame is gone now: both have the same stack. */
    if (depth != 0) {
        nmi.nested++;
        tap_bail_out("an NMI arrived inside the NMI handler");
    }
    depth++;
    nmi.previous_rip = nmi.rip;
    nmi.rip = frame->rip;
    nmi.moved += nmi.rip != nmi.previous_rip;
    nmi.action = NULL;
    if (action != NULL)
        action();
    depth--;
}

void unexpected_fault(const struct trap_frame *f)
{
    char why[TEXT_MAX];

    format_text(why, sizeof(why),
                "exception %lu, error code 0x%lx, RIP 0x%lx, RSP 0x%lx, RAX 0x%lx, RFLAGS 0x%lx",
                f->vector, f->error_code, f->rip, f->rsp, f->rax, f->rflags);
    tap_bail_out(why);
}
