/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `smp-fault:KIND`: a processor makes root mode fault while one spins, one sleeps in HLT and the
 * first one exits all the time; every one of them has to stop. The ledger says whether they did.
 * `smp-places:KIND`: the same, or a triple fault of the guest's, with each other processor in a
 * place that is known: the report has to name it.
 * `die:KIND`: the machine ends so that nothing is left but its memory. Outside the hypervisor,
 * where the boot menu goes after that, nothing is done.
 */
#include "smp.h"

#include "host.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

static volatile uint64_t kind;

static void fault(struct processor *self)
{
    smp_delay(1000); /* the others are at it */
    (void)hypercall_all(HYPERCALL_TEST_FAULT, kind, 0, 0);
    smp_spin(self);
}

void test_smp_fault(const struct job *job)
{
    if (processor_count < 4) {
        tap_result(false, job->name, "wants four processors");
        return;
    }
    kind = job->number[0];
    smp_leave_with(&processors[2], smp_spin); /* number 3 sleeps */
    smp_leave_with(&processors[1], fault);
    for (;;)
        (void)cpuid(0, 0);
}

/* ---- `smp-places` ---- */

#define FAULT_REPORT 3 /* tests/hooks/hooks.c, enum fault_kind */

extern const char spin_place[];

static void spin_there(struct processor *self)
{
    (void)self;
    __asm__ volatile("spin_place: jmp spin_place");
}

static void shut_down_late(struct processor *self)
{
    (void)self;
    smp_delay(1000);
    shut_down();
}

void test_smp_places(const struct job *job)
{
    if (processor_count < 4) {
        tap_result(false, job->name, "wants four processors");
        return;
    }
    kind = job->number[0];
    tap_note("places: spins at 0x%lx, sleeps at 0x%lx", (uint64_t)spin_place, (uint64_t)smp_asleep);
    smp_leave_with(&processors[2], spin_there); /* number 3 sleeps */
    smp_leave_with(&processors[1], kind == FAULT_REPORT ? fault : shut_down_late);
    (void)hypercall_all(HYPERCALL_TEST_SPIN, 0, 0, 0);
}

/* ---- `die` ---- */

enum die { DIE_GUEST_HANGS, DIE_ROOT_HANGS, DIE_FAULT, DIE_TRIPLE_FAULT };

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
