/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Interrupts in order, and none lost: each processor gets random sets of vectors, from itself and
 * from the one before it, in every state in which interrupts are blocked or not. interrupt.c judges
 * each arrival. With PMIs and NMIs between them as well: each is acknowledged before the next one.
 * SDM Vol. 3, "Interrupt Acceptance for Fixed Interrupts"; Vol. 2, "STI", "HLT", "MOV".
 */
#include "interrupt.h"

#include "console/log.h"

#define PERIODS 997
#define NMI_EVERY 4         /* requests of the next processor */
#define ANSWER_WAIT 5000000 /* iterations until the other processor is given up */
#define EXTRA 2
#define LINGER 64

enum way {
    CLOSED,      /* sent with IF = 0, then one of the openings */
    OPEN,        /* sent with IF = 1 */
    HALTED,      /* STI and HLT, with interrupts pending */
    SHADOW,      /* STI and CLI: nothing may come */
    PRIORITY,    /* TPR keeps some back, and goes down with IF = 1 */
    NMI_CLOSED,  /* sent by the NMI handler, over code with IF = 0 */
    NMI_OPEN,    /* and with IF = 1 */
    REMOTE,      /* from the processor before, with IF = 0 */
    REMOTE_OPEN, /* with IF = 1 */
    REMOTE_HLT,  /* asleep, on each second processor, so that a sender is never asleep */
    WAYS
};

static uint64_t wanted, period, seed;

/* What NMIs there are for: this processor's own (`sends`), PMIs, those of others. */
static struct own_nmi {
    volatile bool sends; /* from then on a PMI's handler may send the set */
    volatile unsigned count;
    uint8_t set[SET_MAX];
    uint64_t own, armed;
} __attribute__((aligned(LINE))) own_nmis[KERNEL_PROCESSORS];

static void send_set(uint32_t id, const uint8_t *set, unsigned count)
{
    for (unsigned n = 0; n < count; n++)
        interrupt_send(id, ICR_FIXED | set[n]);
}

static void on_nmi(struct processor *self)
{
    struct own_nmi *own = &own_nmis[self->number];
    uint32_t icr_high = apic_icr_high();
    unsigned reasons = smp_nmi_acknowledge(self);
    unsigned found = !!(reasons & SMP_NMI_PMI) + !!(reasons & SMP_NMI_SENT);

    if (reasons & SMP_NMI_PMI)
        self->counting = false;
    if (own->sends) {
        own->sends = false;
        own->own++;
        found++;
        send_set(self->apic_id, own->set, own->count);
        interrupt_arrived(interrupts_of_this());
    }
    self->unknown += found == 0;
    self->both += found > 1 ? found - 1 : 0;
    apic_set_icr_high(icr_high);
}

/* Sends what the next processor has asked for, and now and then an NMI. */
static void serve(struct processor *self)
{
    struct processor *target = &processors[(self->number + 1) % processor_count];
    struct interrupts *t = &interrupts[target->number];

    if (t->asked == t->served)
        return;
    uint64_t now = t->asked;
    send_set(target->apic_id, t->wanted, t->wanted_count);
    if (period != 0 && target != self && now % NMI_EVERY == 0 && target->seen == target->sent) {
        target->sent++;
        interrupt_send(target->apic_id, ICR_NMI);
    }
    t->served = now;
}

/* Where an NMI comes into the shadow, its IRET ends it: nothing can be said of places then. */
static void judge_place(struct interrupts *i, uint64_t nmis, uint64_t taken, const char *place)
{
    if (smp_self()->nmis == nmis && i->taken != taken)
        i->shadow += i->first_from != place;
    interrupt_check_late(i);
}

static void open_somehow(struct interrupts *i)
{
    uint64_t nmis = smp_self()->nmis, taken = i->taken;
    const char *place = open_nop_here;

    i->first_from = NULL;
    switch (interrupt_random(i, 3)) {
    case 0:
        open_nop();
        break;
    case 1:
        open_cpuid();
        place = open_cpuid_here;
        break;
    default:
        open_mov_ss();
        place = open_mov_ss_here;
        break;
    }
    judge_place(i, nmis, taken, place);
}

static void halt(struct interrupts *i)
{
    uint64_t nmis = smp_self()->nmis, taken = i->taken;

    i->first_from = NULL;
    smp_sleep();
    judge_place(i, nmis, taken, smp_asleep);
}

static void never(struct interrupts *i)
{
    uint64_t nmis = smp_self()->nmis, taken = i->taken;

    open_never();
    if (smp_self()->nmis == nmis)
        i->shadow += i->taken != taken;
    open_somehow(i);
}

static void set_tpr(struct interrupts *i, uint8_t tpr)
{
    i->tpr = tpr;
    if (interrupt_random(i, 2) == 0)
        apic_write(APIC_TPR, tpr);
    else
        __asm__ volatile("mov %0, %%cr8" : : "r"((uint64_t)tpr >> 4) : "memory");
}

/* Each step down with interrupts on; what may come then has come. */
static void lower_priority(struct interrupts *i)
{
    while (i->tpr != 0) {
        uint8_t tpr = (uint8_t)(interrupt_random(i, (i->tpr >> 4)) << 4);
        __asm__ volatile("sti" : : : "memory");
        set_tpr(i, tpr);
        __asm__ volatile("nop\n\tnop\n\tcli" : : : "memory");
        interrupt_check_late(i);
    }
}

/* Vectors are on their way while interrupts are on: they come in the order of their arrival. */
static void take_open(struct processor *self, struct interrupts *i)
{
    __asm__ volatile("sti" : : : "memory");
    for (unsigned n = 0; i->waiting != 0 && n < INTERRUPT_WAIT; n++) {
        serve(self);
        __asm__ volatile("pause");
    }
    __asm__ volatile("cli" : : : "memory");
}

static void send_open(struct processor *self, struct interrupts *i)
{
    uint8_t set[SET_MAX];
    unsigned count = interrupt_choose(i, set);

    i->exact = false;
    for (unsigned n = 0; n < count; n++) {
        __asm__ volatile("sti" : : : "memory");
        interrupt_send(self->apic_id, ICR_FIXED | set[n]);
        __asm__ volatile("nop\n\tcli" : : : "memory");
    }
    take_open(self, i);
}

static void ask(struct interrupts *i)
{
    i->wanted_count = interrupt_choose(i, i->wanted);
    i->asked++;
}

static void ask_and_wait(struct processor *self, struct interrupts *i)
{
    ask(i);
    for (unsigned n = 0; i->served != i->asked; n++) {
        serve(self);
        if (n == ANSWER_WAIT)
            tap_bail_out("the processor before this one does not answer");
    }
    interrupt_arrived(i);
}

static void by_nmi(struct processor *self, struct interrupts *i, bool open)
{
    struct own_nmi *own = &own_nmis[self->number];

    own->count = interrupt_choose(i, own->set);
    own->sends = true;
    if (open)
        __asm__ volatile("sti" : : : "memory");
    apic_self_nmi();
    for (unsigned n = 0; own->sends && n < INTERRUPT_WAIT; n++)
        __asm__ volatile("pause");
    __asm__ volatile("nop\n\tcli" : : : "memory");
    self->lost += own->sends;
    if (open)
        interrupt_check_late(i);
}

static void send_closed(struct processor *self, struct interrupts *i)
{
    uint8_t set[SET_MAX];
    unsigned count = interrupt_choose(i, set);

    send_set(self->apic_id, set, count);
    interrupt_arrived(i);
}

static void one_way(struct processor *self, struct interrupts *i, enum way way)
{
    switch (way) {
    case OPEN:
        send_open(self, i);
        break;
    case NMI_CLOSED:
    case NMI_OPEN:
        by_nmi(self, i, way == NMI_OPEN);
        break;
    case REMOTE:
        ask_and_wait(self, i);
        break;
    case REMOTE_OPEN:
        i->exact = false;
        ask(i);
        take_open(self, i);
        break;
    case REMOTE_HLT:
        i->exact = false;
        ask(i);
        while (i->waiting != 0)
            smp_sleep();
        break;
    case PRIORITY:
        set_tpr(i, (uint8_t)((1 + interrupt_random(i, 15)) << 4));
        send_closed(self, i);
        open_somehow(i);
        lower_priority(i);
        break;
    default:
        send_closed(self, i);
        break;
    }
    /* All is in the IRR by now, or has come. */
    interrupt_arrived(i);
    i->exact = true;
    if (way == HALTED && i->waiting != 0)
        halt(i);
    else if (way == SHADOW)
        never(i);
    while (i->waiting != 0) {
        uint64_t taken = i->taken;
        open_somehow(i);
        if (i->taken == taken)
            break;
    }
}

static void arm(struct processor *self)
{
    own_nmis[self->number].armed++;
    smp_pmi_arm(self, period + self->pmis % PERIODS);
}

static void begin(struct processor *self, struct interrupts *i)
{
    *i = (struct interrupts){.random = seed + self->number, .exact = true};
    own_nmis[self->number] = (struct own_nmi){.sends = false};
    self->nmis = self->nested = self->sent = self->seen = self->pmis = self->unknown = 0;
    self->both = self->lost = 0;
    self->counting = false;
    self->on_nmi = on_nmi;
    i->svr = apic_read(APIC_SVR);
    apic_write(APIC_SVR, SVR_SOFTWARE_ENABLE | INTERRUPT_SPURIOUS);
    apic_write(APIC_TPR, 0);
    if (period != 0)
        smp_pmi_begin();
}

/* The last PMI and NMI are waited for; what comes too often, comes here. */
static void end(struct processor *self, struct interrupts *i)
{
    smp_barrier(serve);
    for (unsigned n = 0; n < INTERRUPT_WAIT && (self->counting || self->seen != self->sent); n++)
        __asm__ volatile("pause");
    for (unsigned n = 0; n < LINGER; n++)
        open_nop();
    self->lost += self->counting + (self->sent - self->seen);
    self->counting = false;
    interrupt_check_empty(i);
    if (period != 0)
        smp_pmi_end();
    smp_barrier(smp_nothing);
    apic_write(APIC_SVR, i->svr);
    self->on_nmi = NULL;
}

static void rounds(struct processor *self)
{
    struct interrupts *i = &interrupts[self->number];
    enum way last = self->number % 2 == 1 ? REMOTE_HLT : REMOTE_OPEN;

    begin(self, i);
    smp_barrier(smp_nothing);
    while (i->taken < wanted && i->lost == 0) {
        if (period != 0 && !self->counting)
            arm(self);
        i->extra = EXTRA;
        one_way(self, i, (enum way)interrupt_random(i, last + 1));
        serve(self);
    }
    end(self, i);
}

static bool judge(const struct job *job, const struct processor *p, const struct interrupts *i)
{
    const struct own_nmi *own = &own_nmis[p->number];
    uint64_t nmis = p->pmis + p->seen + own->own - p->both + p->unknown;
    /* The emulator ends shadows of the first of several processors where another one exits
     * (testbed/README.md); alone, it keeps them all. */
    bool shadow = i->shadow == 0 || (p->number == 0 && processor_count > 1);

    log_printf("interrupts: name=%s cpu=%u taken=%lu nested=%lu doubled=%lu order=%lu early=%lu "
               "late=%lu lost=%lu left=%lu shadow=%lu nmis=%lu pmis=%lu sent=%lu nmis_lost=%lu "
               "unknown=%lu both=%lu\n",
               job->name, p->number, i->taken, i->nested, i->doubled, i->order, i->early, i->late,
               i->lost, i->left, i->shadow, p->nmis, p->pmis, p->sent, p->lost, p->unknown,
               p->both);
    return i->taken >= wanted && i->nested != 0 &&
           i->doubled + i->order + i->early + i->late == 0 && i->lost + i->left == 0 && shadow &&
           p->lost + p->nested == 0 && own->own != 0 && p->pmis == own->armed &&
           p->seen == p->sent && p->nmis == nmis && p->unknown <= p->both;
}

/* `smp-interrupts:COUNT[:PERIOD[:SEED]]`: so many on each processor; with a period, PMIs of about
 * so many instructions and NMIs between the processors, too. */
void test_smp_interrupts(const struct job *job)
{
    bool good = true;

    wanted = job->number[0];
    period = job->number[1];
    seed = job->number[2];
    if (wanted == 0) {
        tap_result(false, job->name, "wanted a number of interrupts");
        return;
    }
    spurious_interrupts = 0;
    cpu_interrupts(INTERRUPT_FIRST, INTERRUPT_LAST, interrupt_stubs);
    cpu_interrupts(INTERRUPT_SPURIOUS, INTERRUPT_SPURIOUS, interrupt_spurious);
    smp_run_all(rounds);
    cpu_interrupts(INTERRUPT_FIRST, INTERRUPT_LAST, NULL);
    cpu_interrupts(INTERRUPT_SPURIOUS, INTERRUPT_SPURIOUS, NULL);
    tap_note("%lu spurious interrupts", spurious_interrupts);
    for (unsigned n = 0; n < processor_count; n++)
        good = judge(job, &processors[n], &interrupts[n]) && good;
    tap_result(good, job->name, NULL);
}
