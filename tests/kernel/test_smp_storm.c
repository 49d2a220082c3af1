/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Storms: all processors at once take PMIs, send each other NMIs, or both, and make exits all the
 * time. Each NMI is acknowledged before the next one to the same processor, and each PMI before its
 * counter starts again, so that every one has to arrive, once.
 * SDM Vol. 3, "Handling Multiple NMIs", "Performance Monitoring".
 */
#include "smp.h"

#include "console/log.h"
#include "host.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define EXITS_APART 8  /* iterations between two exits */
#define EXITS_BEFORE 3 /* one to so many, before each NMI is sent */
#define WAIT 20000     /* iterations until an NMI or PMI counts as lost */
#define WAIT_HOST 4000 /* the same where each look is an exit */
#define LINGER 2000    /* for one too many */
#define PERIODS 97

static uint64_t rounds, period;
static bool hypercalls;

/* Where one NMI was for both, the other one's may still come and then finds nothing. */
static void storm_nmi(struct processor *self)
{
    unsigned found = smp_nmi_acknowledge(self);

    self->unknown += found == 0;
    self->both += found == (SMP_NMI_PMI | SMP_NMI_SENT);
}

static void make_exit(struct processor *self)
{
    uint64_t value;

    switch (self->exits++ % 4) {
    case 0:
        (void)smp_rdmsr_try(MSR_NOBODYS, &value);
        break;
    case 1:
        if (hypercalls)
            (void)hypercall(NO_HYPERCALL, 0);
        break;
    default:
        (void)cpuid(0, 0);
        break;
    }
}

static void pass_time(struct processor *self, uint64_t i)
{
    if (i % EXITS_APART == EXITS_APART - 1)
        make_exit(self);
    else
        __asm__ volatile("pause");
}

static void begin(struct processor *self)
{
    self->nmis = self->nested = self->sent = self->seen = self->pmis = self->unknown = 0;
    self->both = self->unmasked = self->exits = self->lost = 0;
    self->on_nmi = storm_nmi;
    smp_pmi_begin();
    smp_barrier(make_exit);
}

/* What comes too often, comes here; the others go on with exits too. */
static void end(struct processor *self)
{
    smp_barrier(make_exit);
    for (uint64_t i = 0; i < LINGER; i++)
        pass_time(self, i);
    self->counting = false;
    smp_pmi_end();
    smp_barrier(make_exit);
    self->on_nmi = NULL;
}

/* Each time another period, so that the overflow is anywhere in the loop and in its exits. */
static void arm(struct processor *self) { smp_pmi_arm(self, period + self->pmis % PERIODS); }

static void pmi_storm(struct processor *self)
{
    begin(self);
    region_mark(REGION_SMP_PMI, true);
    for (uint64_t n = 0; n < rounds; n++) {
        uint64_t before = self->pmis;
        arm(self);
        for (uint64_t i = 0; i < WAIT && self->pmis == before; i++)
            pass_time(self, i);
        self->lost += self->pmis == before;
    }
    region_mark(REGION_SMP_PMI, false);
    end(self);
}

static void send_to(struct processor *target)
{
    target->sent++;
    apic_send(target->apic_id, ICR_NMI | ICR_ASSERT);
}

/* Each other processor in turn; at any time a processor gets NMIs from one sender only. */
static void nmi_storm(struct processor *self)
{
    begin(self);
    region_mark(REGION_SMP_NMI, true);
    for (unsigned shift = 1; shift < processor_count; shift++) {
        struct processor *target = &processors[(self->number + shift) % processor_count];
        for (uint64_t n = 0; n < rounds; n++) {
            for (uint64_t i = 0; i <= n % EXITS_BEFORE; i++)
                make_exit(self);
            send_to(target);
            for (uint64_t i = 0; i < WAIT && target->seen != target->sent; i++)
                pass_time(self, i);
            self->lost += target->seen != target->sent;
        }
        smp_barrier(make_exit);
    }
    region_mark(REGION_SMP_NMI, false);
    end(self);
}

/* PMIs of its own, and an NMI to the next processor whenever that one has seen the last. */
static void mixed_storm(struct processor *self)
{
    struct processor *target = &processors[(self->number + 1) % processor_count];
    uint64_t sent = 0, silent = 0;

    begin(self);
    region_mark(REGION_SMP_MIXED, true);
    for (uint64_t n = 0; n < rounds || sent < rounds;) {
        uint64_t before = self->pmis;
        if (n < rounds)
            arm(self);
        for (uint64_t i = 0; i < WAIT; i++) {
            if (n < rounds && self->pmis != before)
                break;
            if (target->seen == target->sent) {
                silent = 0;
                if (sent == rounds && n == rounds)
                    break;
                if (sent < rounds) {
                    make_exit(self);
                    send_to(target);
                    sent++;
                }
            } else if (++silent == WAIT) {
                self->lost++;
            }
            pass_time(self, i);
        }
        if (n < rounds) {
            self->lost += self->pmis == before;
            n++;
        }
    }
    for (uint64_t i = 0; i < WAIT && target->seen != target->sent; i++)
        pass_time(self, i);
    self->lost += target->seen != target->sent;
    region_mark(REGION_SMP_MIXED, false);
    end(self);
}

static bool judge(const struct job *job, const struct processor *p, uint64_t pmis, uint64_t sent)
{
    /* Alone, an NMI has one reason; of two reasons one NMI may have been for both. */
    bool mixed = pmis != 0 && sent != 0;
    bool good = p->lost == 0 && p->nested == 0 && p->pmis == pmis && p->seen == sent &&
                p->nmis == pmis + sent - p->both + p->unknown &&
                (mixed ? p->unknown <= p->both
                       : p->unknown == 0 && p->both == 0 && p->unmasked == 0);

    log_printf("storm: name=%s cpu=%u nmis=%lu pmis=%lu sent=%lu seen=%lu lost=%lu unknown=%lu "
               "both=%lu nested=%lu unmasked=%lu exits=%lu\n",
               job->name, p->number, p->nmis, p->pmis, p->sent, p->seen, p->lost, p->unknown,
               p->both, p->nested, p->unmasked, p->exits);
    return good;
}

static void storm(const struct job *job, processor_work work, uint64_t pmis, uint64_t sent)
{
    bool good = true;

    rounds = job->number[0];
    period = job->number[1];
    hypercalls = under_pmuvisor();
    if (pmis != 0 && !pmu_there(job))
        return;
    if (rounds == 0 || (pmis != 0 && period == 0) || processor_count < 2) {
        tap_result(false, job->name, "wanted a number of rounds, a period, and two processors");
        return;
    }
    smp_run_all(work);
    for (unsigned i = 0; i < processor_count; i++)
        good = judge(job, &processors[i], pmis, sent) && good;
    tap_result(good, job->name, NULL);
}

/* `smp-pmi:PMIS:PERIOD`, on each processor. */
void test_smp_pmi(const struct job *job) { storm(job, pmi_storm, job->number[0], 0); }

/* `smp-nmi:NMIS`, from each processor to each other one. */
void test_smp_nmi(const struct job *job)
{
    storm(job, nmi_storm, 0, job->number[0] * (processor_count - 1));
}

/* `smp-mixed:ROUNDS:PERIOD`: so many PMIs, and so many NMIs to the next processor. */
void test_smp_mixed(const struct job *job)
{
    storm(job, mixed_storm, job->number[0], job->number[0]);
}

/* What the host has handled for that processor, by whatever way. */
static uint64_t host_has_handled(const struct processor *p, uint64_t *recovered)
{
    struct hypercall_registers r = hypercall_all(
        HYPERCALL_TEST_SOURCE,
        SOURCE_BACKTRACE | (uint64_t)(p->number + 1) << HYPERCALL_TEST_PROCESSOR_SHIFT, 0, 0);

    *recovered = r.rbx;
    return r.rax + r.rbx + r.rcx;
}

/* A request of the host's to each other processor in turn, handled before the next one, and every
 * second time an NMI of the guest's behind it. */
static void host_storm(struct processor *self)
{
    uint64_t recovered;

    begin(self);
    for (unsigned shift = 1; shift < processor_count; shift++) {
        struct processor *target = &processors[(self->number + shift) % processor_count];
        for (uint64_t n = 0; n < rounds; n++) {
            uint64_t before = host_has_handled(target, &recovered);
            for (uint64_t i = 0; i <= n % EXITS_BEFORE; i++)
                make_exit(self);
            self->lost += (int64_t)hypercall_all(HYPERCALL_TEST_BACKTRACE, target->number + 1, 0, 0)
                              .rax != 0;
            uint64_t now = before;
            for (uint64_t i = 0; i < WAIT_HOST && now == before; i++) {
                pass_time(self, i);
                now = host_has_handled(target, &recovered);
            }
            self->lost += now != before + 1;
            if (n % 2 == 0)
                continue;
            send_to(target);
            for (uint64_t i = 0; i < WAIT && target->seen != target->sent; i++)
                pass_time(self, i);
            self->lost += target->seen != target->sent;
        }
        smp_barrier(make_exit);
    }
    end(self);
}

/* `smp-host:ROUNDS`, an even number. A host NMI that the guest took is found at an exit: there the
 * guest's handler found nothing. It may also find nothing where a host NMI came so soon behind one
 * of the guest's that the host cannot tell whether the two are one. */
void test_smp_host(const struct job *job)
{
    uint64_t before[KERNEL_PROCESSORS], recovered_before[KERNEL_PROCESSORS], recovered;
    uint64_t others = processor_count - 1;
    bool good = true;

    if (!hypervisor_offers(job, HYPERCALL_TEST_BACKTRACE))
        return;
    rounds = job->number[0];
    hypercalls = true;
    for (unsigned i = 0; i < processor_count; i++)
        before[i] = host_has_handled(&processors[i], &recovered_before[i]);
    smp_run_all(host_storm);
    for (unsigned i = 0; i < processor_count; i++) {
        const struct processor *p = &processors[i];
        uint64_t handled = host_has_handled(p, &recovered) - before[i];
        recovered -= recovered_before[i];
        log_printf("storm: name=%s cpu=%u nmis=%lu handled=%lu recovered=%lu seen=%lu unknown=%lu "
                   "lost=%lu nested=%lu exits=%lu\n",
                   job->name, i, p->nmis, handled, recovered, p->seen, p->unknown, p->lost,
                   p->nested, p->exits);
        good = good && rounds != 0 && handled == rounds * others && p->unknown >= recovered &&
               p->unknown - recovered <= p->seen && p->seen == rounds / 2 * others &&
               p->nmis == p->seen + p->unknown && p->lost == 0 && p->nested == 0 && p->both == 0;
    }
    tap_result(good, job->name, NULL);
}

static void rest(struct processor *self)
{
    (void)self;
    __asm__ volatile("pause");
}

static void many_cpuids(struct processor *self)
{
    (void)self;
    smp_barrier(rest);
    region_mark(REGION_SMP_CPUID, true);
    for (uint64_t n = 0; n < rounds; n++)
        (void)cpuid(0, 0);
    region_mark(REGION_SMP_CPUID, false);
}

/* `smp-cpuid:EXITS`: on all at once, in a region of the ledger. */
void test_smp_cpuid(const struct job *job)
{
    rounds = job->number[0];
    smp_run_all(many_cpuids);
    tap_result(rounds != 0, job->name, NULL);
}
