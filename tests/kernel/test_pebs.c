/* SPDX-License-Identifier: BSD-2-Clause
 *
 * IA32_PEBS_ENABLE over exits: the guest's own in the guest, and in root mode what a processor
 * whose PEBS is not isolated needs, 0. SDM Vol. 3, "Processor Event Based Sampling (PEBS)".
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define EXITS 64

/* `pebs`: another value before each exit; what root mode saw of the last one is in the line. */
void test_pebs(const struct job *job)
{
    uint64_t kept = 0, in_root = 0, value;

    if (!hypervisor_offers(job, HYPERCALL_TEST_MSR))
        return;
    if (!wrmsr_try(IA32_PEBS_ENABLE, 1)) {
        tap_skip(job->name, "the processor has no IA32_PEBS_ENABLE");
        return;
    }
    for (uint64_t i = 1; i <= EXITS; i++) {
        wrmsr(IA32_PEBS_ENABLE, i);
        region_mark(REGION_PEBS, true);
        (void)cpuid(0, 0);
        region_mark(REGION_PEBS, false);
        struct hypercall_registers r = hypercall_all(HYPERCALL_TEST_MSR, IA32_PEBS_ENABLE, 0, 0);
        in_root |= r.rax == 0 ? r.rbx : ~0ULL;
        kept += rdmsr_try(IA32_PEBS_ENABLE, &value) && value == i;
    }
    wrmsr(IA32_PEBS_ENABLE, 0);
    log_printf("pebs: name=%s kept=%lu in_root=%lu\n", job->name, kept, in_root);
    tap_result(kept == EXITS && in_root == 0, job->name, NULL);
}
