/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a local APIC has to do, in software, and each arrival against it. See interrupt.h.
 */
#include "interrupt.h"

#define ISR 0x100
#define IRR 0x200
#define REGISTER_STEP 0x10
#define REGISTERS 8
#define REGISTER_BITS 32
#define KERNELS_OWN_SHIFT                                                                          \
    16 /* of the last register: vectors from 0xf0 on, which wake processors                        \
        */
#define MULTIPLIER 6364136223846793005ULL /* Knuth's MMIX */
#define INCREMENT 1442695040888963407ULL

struct interrupts interrupts[KERNEL_PROCESSORS];

void interrupt_handle(struct trap_frame *frame);

uint64_t interrupt_random(struct interrupts *i, uint64_t below)
{
    i->random = i->random * MULTIPLIER + INCREMENT;
    return (i->random >> 33) % below;
}

static unsigned class_of(unsigned vector) { return vector >> 4; }

static unsigned processor_class(const struct interrupts *i)
{
    unsigned task = class_of(i->tpr);
    unsigned service = i->depth != 0 ? class_of(i->service[i->depth - 1]) : 0;

    return task > service ? task : service;
}

static unsigned highest(const struct interrupts *i)
{
    for (unsigned v = INTERRUPT_LAST; v >= INTERRUPT_FIRST; v--)
        if (i->pending[v])
            return v;
    return 0;
}

/* Half of the time within one class, where the vector alone decides. */
unsigned interrupt_choose(struct interrupts *i, uint8_t *set)
{
    unsigned count = 1 + (unsigned)interrupt_random(i, SET_MAX), first = INTERRUPT_FIRST, n = 0;
    unsigned last = INTERRUPT_LAST;

    if (interrupt_random(i, 2) == 0) {
        first = 0x20 + 0x10 * (unsigned)interrupt_random(i, 13);
        last = first + 0xf;
    }
    while (n < count) {
        unsigned v = first + (unsigned)interrupt_random(i, last - first + 1);
        if (i->pending[v])
            break;
        i->pending[v] = true;
        i->waiting++;
        set[n++] = (uint8_t)v;
    }
    return n;
}

void interrupt_send(uint32_t id, uint32_t command)
{
    uint64_t rflags;

    __asm__ volatile("pushfq\n\tpop %0\n\tcli" : "=r"(rflags) : : "memory");
    apic_send(id, ICR_ASSERT | command);
    if (rflags & RFLAGS_IF)
        __asm__ volatile("sti" : : : "memory");
}

static bool requested(unsigned vector)
{
    return apic_read(IRR + vector / REGISTER_BITS * REGISTER_STEP) >> vector % REGISTER_BITS & 1;
}

void interrupt_arrived(struct interrupts *i)
{
    for (unsigned v = INTERRUPT_FIRST; v <= INTERRUPT_LAST; v++) {
        if (!i->pending[v])
            continue;
        unsigned n = 0;
        while (!requested(v) && n++ < INTERRUPT_WAIT)
            __asm__ volatile("pause");
        if (!requested(v)) {
            i->lost++;
            i->pending[v] = false;
            i->waiting--;
        }
    }
}

void interrupt_check_late(struct interrupts *i)
{
    i->late += class_of(highest(i)) > processor_class(i);
}

void interrupt_check_empty(struct interrupts *i)
{
    i->lost += i->waiting;
    i->left += i->depth;
    for (unsigned r = 0; r < REGISTERS; r++) {
        uint32_t bits = apic_read(ISR + r * REGISTER_STEP) | apic_read(IRR + r * REGISTER_STEP);
        if (r == REGISTERS - 1)
            bits &= BIT(KERNELS_OWN_SHIFT) - 1;
        i->left += bits != 0;
    }
}

static void let_others_come(struct interrupts *i)
{
    uint64_t before = i->taken;

    open_nop();
    if (i->exact)
        interrupt_check_late(i);
    i->nested += i->taken - before;
}

/* With IF = 0. One more, while this one is in service. */
static void send_one_more(struct interrupts *i)
{
    unsigned v = INTERRUPT_FIRST +
                 (unsigned)interrupt_random(i, INTERRUPT_LAST - INTERRUPT_FIRST + 1);

    if (i->extra == 0 || i->pending[v])
        return;
    i->extra--;
    i->pending[v] = true;
    i->waiting++;
    interrupt_send(apic_id(), ICR_FIXED | v);
    if (i->exact)
        interrupt_arrived(i);
}

void interrupt_handle(struct trap_frame *frame)
{
    struct interrupts *i = interrupts_of_this();
    unsigned vector = (unsigned)frame->vector;

    if (i->first_from == NULL)
        i->first_from = (const char *)frame->rip;
    /* Between STI and HLT, where it may not come; the HLT would wait for it now. */
    if (frame->rip + 1 == (uintptr_t)smp_asleep)
        frame->rip++;
    i->taken++;
    if (!i->pending[vector]) {
        i->doubled++;
    } else {
        i->order += i->exact && highest(i) != vector;
        i->pending[vector] = false;
        i->waiting--;
    }
    i->early += class_of(vector) <= processor_class(i);
    if (i->depth == DEPTH_MAX)
        tap_bail_out("interrupts nest deeper than there are classes");
    i->service[i->depth++] = (uint8_t)vector;
    if (interrupt_random(i, 4) == 0)
        send_one_more(i);
    if (interrupt_random(i, 2) == 0)
        let_others_come(i);
    i->depth--;
    apic_eoi();
    if (interrupt_random(i, 4) == 0)
        let_others_come(i);
}
