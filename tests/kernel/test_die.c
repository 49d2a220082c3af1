/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `die:KIND`: the machine ends so that nothing is left but its memory. Outside the hypervisor,
 * where the boot menu goes after that, nothing is done.
 */
#include "host.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

enum die { DIE_GUEST_HANGS, DIE_ROOT_HANGS, DIE_FAULT, DIE_TRIPLE_FAULT };
#define FAULT_REPORT 3 /* tests/hooks/hooks.c, enum fault_kind */

void test_die(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_TEST_FAULT))
        return;
    tap_note("now dies");
    switch (job->number[0]) {
    case DIE_GUEST_HANGS:
        __asm__ volatile("cli; hlt");
        break;
    case DIE_ROOT_HANGS:
        (void)hypercall_all(HYPERCALL_TEST_SPIN, 0, 0, 0);
        break;
    case DIE_FAULT:
        (void)hypercall_all(HYPERCALL_TEST_FAULT, FAULT_REPORT, 0, 0);
        break;
    case DIE_TRIPLE_FAULT:
        shut_down();
    }
    tap_result(false, job->name, "it went on");
}
