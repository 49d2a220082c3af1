/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `smp-fault:KIND`: a processor makes root mode fault while one spins, one sleeps in HLT and the
 * first one exits all the time; every one of them has to stop. The ledger says whether they did.
 */
#include "smp.h"

#include "host.h"
#include "hypercall.h"
#include "x86.h"

static volatile uint64_t kind;

static void spin(struct processor *self)
{
    for (;;)
        self->alive++;
}

static void fault(struct processor *self)
{
    smp_delay(1000); /* the others are at it */
    (void)hypercall_all(HYPERCALL_TEST_FAULT, kind, 0, 0);
    spin(self);
}

void test_smp_fault(const struct job *job)
{
    if (processor_count < 4) {
        tap_result(false, job->name, "wants four processors");
        return;
    }
    kind = job->number[0];
    smp_leave_with(&processors[2], spin); /* number 3 sleeps */
    smp_leave_with(&processors[1], fault);
    for (;;)
        (void)cpuid(0, 0);
}
