/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Stores into traced memory while timer interrupts, interrupts and NMIs of another processor, its
 * own NMIs and PMIs arrive at all times, on stacks that are traced as well. Each store has a value
 * of its own, each handler notes the frame that it got and the registers that it pushed, and the
 * processor's records are compared with that one by one: none may lack, none may be invented.
 */
#include "memory.h"

#include "console/log.h"
#include "fuzz.h"
#include "host.h"
#include "hypercall.h"
#include "interrupt.h"
#include "msr.h"
#include "smp.h"
#include "x86.h"

#define STORM_PROCESSORS 4
#define STORED_BYTES (2 * MEMORY_PAGE)
#define STRIDE 24
#define FRAME_BYTES 40
#define WORD 8
#define PUSHES 17 /* of memory_storm.asm's handlers */
#define NOTES 1024
#define BATCH 32
#define VECTOR_TIMER 0x41
#define VECTOR_IPI 0x52
#define APIC_LVT_TIMER 0x320
#define APIC_TIMER_INITIAL 0x380
#define APIC_TIMER_DIVIDE 0x3e0
#define DIVIDE_BY_1 0xb
#define COUNTER_0 BIT(0)              /* in GLOBAL_CTRL and GLOBAL_STATUS */
#define FIXED_COUNTER_0 BIT(32)       /* lent to the trace: left on */
#define INSTRUCTIONS_CPL0 0x5200c0ULL /* and a PMI, counting */
#define PERIOD 150
#define PERIODS 400
#define TIMER_TICKS 900
#define HASH 0x100000001b3ULL
#define SHOWN 12

enum kind { INTERRUPTS, NMIS, KINDS };

/* What is traced: of each processor its data and the stacks of its events. */
static struct traced {
    uint8_t data[STORED_BYTES];
    uint8_t stack[KINDS][MEMORY_PAGE];
} traced[STORM_PROCESSORS] __attribute__((aligned(MEMORY_PAGE)));

/* One kind of event: what handlers noted, and how far the records are. */
struct stack {
    uint64_t note[NOTES];
    volatile uint64_t noted;
    uint64_t frames, pushes; /* of the records; pushes of the last frame */
    uint64_t at, hash;
};

static struct storm {
    struct stack stack[KINDS];
    const volatile struct trace_ring *ring;
    uint64_t next; /* record */
    uint64_t stored, found, wrong, retired, stored_at, random;
    uint64_t timers_armed, self_sent, ipis_sent;
    volatile uint64_t timers, self_seen, ipis;
    volatile bool storing; /* PMIs come then only: records are to be judged faster than they come */
} storms[STORM_PROCESSORS] __attribute__((aligned(LINE)));

static uint64_t stores, mode, ticks;
extern const char storm_timer[], storm_ipi[], storm_nmi[];
void storm_handle(const struct trap_frame *frame);

static uint64_t below(struct storm *s, uint64_t limit)
{
    s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (s->random >> 33) % limit;
}

static uint64_t hashed(uint64_t hash, uint64_t word) { return (hash ^ word) * HASH; }

/* In the order in which they are pushed; of the processor's words those that a record has. */
static uint64_t hash_of(const struct trap_frame *f)
{
    const uint64_t *word = (const uint64_t *)f + PUSHES;
    uint64_t hash = hashed(hashed(0, f->rip), f->cs);

    while (word-- != (const uint64_t *)f)
        hash = hashed(hash, *word);
    return hash;
}

static void arm_timer(struct storm *s)
{
    s->timers_armed++;
    apic_write(APIC_TIMER_INITIAL, (uint32_t)(ticks / 4 + below(s, ticks)));
}

static void arm_counter(struct storm *s)
{
    wrmsr(IA32_PMC0, (uint32_t)-(int64_t)(PERIOD + below(s, PERIODS)));
    if (s->storing)
        wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0 | COUNTER_0);
}

static void set_storing(struct storm *s, bool storing)
{
    s->storing = storing;
    wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0 | (storing ? COUNTER_0 : 0));
}

static void handle_nmi(struct processor *self, struct storm *s)
{
    unsigned causes = 0;

    if (rdmsr(IA32_PERF_GLOBAL_STATUS) & COUNTER_0) {
        wrmsr(IA32_PERF_GLOBAL_CTRL, FIXED_COUNTER_0);
        wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, COUNTER_0);
        apic_write_lvtpc(LVT_NMI);
        self->pmis++;
        causes++;
        if (self->counting)
            arm_counter(s);
    }
    if (self->seen != self->sent) {
        self->seen = self->sent;
        causes++;
    }
    if (s->self_seen != s->self_sent) {
        s->self_seen = s->self_sent;
        causes++;
    }
    self->nmis++;
    self->unknown += causes == 0;
    self->both += causes > 1 ? causes - 1 : 0;
}

void storm_handle(const struct trap_frame *frame)
{
    struct processor *self = smp_self();
    struct storm *s = &storms[self->number];
    struct stack *stack = &s->stack[frame->vector == VECTOR_NMI ? NMIS : INTERRUPTS];

    stack->note[stack->noted % NOTES] = hash_of(frame);
    stack->noted++;
    if (frame->vector == VECTOR_NMI) {
        handle_nmi(self, s);
        return;
    }
    if (frame->vector == VECTOR_TIMER) {
        s->timers++;
        if (self->counting)
            arm_timer(s);
    } else {
        s->ipis++;
    }
    apic_eoi();
}

/* ---- the records ---- */

static void wrong(struct storm *s, const char *what, const struct trace_memory *r, uint64_t wanted)
{
    if (s->wrong++ < SHOWN)
        tap_note("record %lu: %s, wanted 0x%lx: RIP 0x%lx GLA 0x%lx flags 0x%x value 0x%lx",
                 s->next, what, wanted, r->rip, r->gla, (unsigned)r->flags, r->value0);
}

static uint64_t place_of(uint64_t n) { return n * STRIDE % (STORED_BYTES - WORD) & ~7ULL; }
static uint64_t value_of(uint64_t n) { return (n + 1) * 0x9e3779b97f4a7c15ULL; }

static void judge_store(struct storm *s, const struct traced *t, const struct trace_memory *r)
{
    uint64_t mask = s->found % 4 == 1 ? BITS(31, 0) : ~0ULL;

    if (s->found >= s->stored)
        wrong(s, "a store that was not", r, s->stored);
    else if (r->gla != (uint64_t)t->data + place_of(s->found))
        wrong(s, "a store's place", r, (uint64_t)t->data + place_of(s->found));
    else if ((r->value0 ^ value_of(s->found)) & mask)
        wrong(s, "a store's value", r, value_of(s->found));
    if (s->found != 0 && r->retired <= s->stored_at)
        wrong(s, "a store's instruction count", r, s->stored_at);
    s->stored_at = r->retired;
    s->found++;
}

static void judge_frame(struct storm *s, struct stack *k, enum kind kind, uint64_t top,
                        const struct trace_memory *r)
{
    uint32_t type = r->detail >> 8 & 7;

    if (k->frames != 0 && k->pushes != PUSHES)
        wrong(s, "a handler's pushes lack", r, k->pushes);
    if (r->gla != top - FRAME_BYTES || r->bytes != FRAME_BYTES)
        wrong(s, "a frame's place", r, top - FRAME_BYTES);
    if (kind == NMIS
            ? r->detail != (2u << 8 | VECTOR_NMI)
            : type != 0 || ((r->detail & 0xff) != VECTOR_TIMER && (r->detail & 0xff) != VECTOR_IPI))
        wrong(s, "a frame's event", r, r->detail);
    k->frames++;
    k->pushes = 0;
    k->at = top - FRAME_BYTES;
    k->hash = hashed(hashed(0, r->value0), r->value1);
}

static void judge_push(struct storm *s, struct stack *k, const struct trace_memory *r)
{
    k->at -= WORD;
    if (k->frames == 0 || k->pushes == PUSHES)
        wrong(s, "a push of no handler", r, 0);
    else if (r->gla != k->at)
        wrong(s, "a push's place", r, k->at);
    k->hash = hashed(k->hash, r->value0);
    if (++k->pushes != PUSHES)
        return;
    if (k->frames > k->noted)
        wrong(s, "a frame of no event", r, k->noted);
    else if (k->hash != k->note[(k->frames - 1) % NOTES])
        wrong(s, "what an event pushed", r, k->frames);
}

static void judge(struct storm *s, struct traced *t, const struct trace_memory *r)
{
    uint64_t offset = r->gla - (uint64_t)t;

    if (r->reason != TRACE_REASON_MEMORY || r->index1 != 1 || r->index2 != 2)
        wrong(s, "no record of memory", r, 0);
    if (r->retired < s->retired)
        wrong(s, "less instructions than before", r, s->retired);
    s->retired = r->retired;
    if (!(r->flags & TRACE_WRITE))
        return;
    if (offset < STORED_BYTES) {
        judge_store(s, t, r);
        return;
    }
    offset = (offset - STORED_BYTES) / MEMORY_PAGE;
    if (offset >= KINDS) {
        wrong(s, "of another processor", r, 0);
        return;
    }
    uint64_t top = (uint64_t)t->stack[offset] + MEMORY_PAGE;
    if (r->flags & TRACE_EVENT)
        judge_frame(s, &s->stack[offset], (enum kind)offset, top, r);
    else
        judge_push(s, &s->stack[offset], r);
}

/* All that is there, while more may come. */
static void judge_all(struct storm *s, unsigned number)
{
    const volatile struct trace_memory *records = (const volatile void *)((const volatile char *)
                                                                              s->ring +
                                                                          TRACE_RING_HEADER_BYTES);
    uint64_t capacity = s->ring->capacity / TRACE_MEMORY_FRAMES;

    while (s->next < s->ring->written / TRACE_MEMORY_FRAMES && s->wrong < SHOWN) {
        struct trace_memory r = records[s->next % capacity];
        judge(s, &traced[number], &r);
        s->next++;
    }
}

/* ---- the work ---- */

static void store(struct storm *s, struct traced *t)
{
    uint64_t value = value_of(s->stored);
    void *at = t->data + place_of(s->stored);

    switch (s->stored++ % 4) {
    case 0:
        __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(at) : "memory");
        break;
    case 1:
        __asm__ volatile("movl %k0, (%1)" : : "r"(value), "r"(at) : "memory");
        break;
    case 2:
        __asm__ volatile("xchgq %0, (%1)" : "+r"(value) : "r"(at) : "memory");
        break;
    default:
        __asm__ volatile("stosq" : "+D"(at) : "a"(value) : "memory");
        break;
    }
}

/* What the next processor is to get. */
static void send(struct processor *self, struct storm *s)
{
    struct processor *target = &processors[(self->number + 1) % processor_count];
    struct storm *other = &storms[target->number];

    switch (below(s, 4)) {
    case 0:
        if (target != self && target->seen == target->sent) {
            target->sent++;
            interrupt_send(target->apic_id, ICR_NMI);
        }
        break;
    case 1:
        if (other->ipis == s->ipis_sent) {
            s->ipis_sent++;
            interrupt_send(target->apic_id, ICR_FIXED | VECTOR_IPI);
        }
        break;
    case 2:
        if (s->self_seen == s->self_sent) {
            s->self_sent++;
            interrupt_send(self->apic_id, ICR_NMI);
        }
        break;
    default:
        break;
    }
}

static void begin(struct processor *self, struct storm *s, uint64_t own[2])
{
    struct traced *t = &traced[self->number];

    *s = (struct storm){.random = self->number + 1};
    self->nmis = self->sent = self->seen = self->pmis = self->unknown = self->both = 0;
    self->lost = 0;
    cpu_event_stacks(self->number, own, (uint64_t)t->stack[NMIS] + MEMORY_PAGE,
                     (uint64_t)t->stack[INTERRUPTS] + MEMORY_PAGE);
    self->event_stacks[INTERRUPTS] = own[1];
    self->event_stacks[NMIS] = own[0];
    apic_write(APIC_SVR, SVR_SOFTWARE_ENABLE | INTERRUPT_SPURIOUS);
    apic_write(APIC_TIMER_DIVIDE, DIVIDE_BY_1);
    apic_write(APIC_LVT_TIMER, VECTOR_TIMER);
    wrmsr(IA32_PERF_GLOBAL_CTRL, 0);
    wrmsr(IA32_PERF_GLOBAL_STATUS_RESET, COUNTER_0);
    wrmsr(IA32_PERFEVTSEL0, INSTRUCTIONS_CPL0);
    apic_write_lvtpc(LVT_NMI);
}

static bool trace_this(struct storm *s)
{
    uint64_t r[HYPERCALL_REGISTERS] = {HYPERCALL_MEMTRACE, mode, fuzz_physical(traced),
                                       sizeof(traced)};

    hypercall_whole(r);
    s->ring = (const volatile void *)r[1];
    s->next = (int64_t)r[0] == MEMTRACE_OFF ? s->ring->written / TRACE_MEMORY_FRAMES : 0;
    return (int64_t)r[0] == MEMTRACE_OFF;
}

static void nothing(struct processor *self) { (void)self; }

static bool all_came(const struct processor *self, const struct storm *s)
{
    const struct storm *sender = &storms[(self->number + processor_count - 1) % processor_count];

    return self->seen == self->sent && s->self_seen == s->self_sent &&
           s->timers == s->timers_armed && s->ipis == sender->ipis_sent;
}

static void end(struct processor *self, struct storm *s, const uint64_t own[2])
{
    uint64_t ignored[2];

    smp_barrier(nothing);
    self->counting = false; /* what is armed still comes */
    for (unsigned n = 0; n < INTERRUPT_WAIT && !all_came(self, s); n++)
        __asm__ volatile("sti\n\tpause\n\tcli" : : : "memory");
    self->lost = !all_came(self, s);
    smp_barrier(nothing);
    __asm__ volatile("cli" : : : "memory");
    judge_all(s, self->number);
    (void)hypercall(HYPERCALL_MEMTRACE, MEMTRACE_OFF);
    judge_all(s, self->number);
    wrmsr(IA32_PERFEVTSEL0, 0);
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    apic_write(APIC_LVT_TIMER, LVT_MASKED);
    cpu_event_stacks(self->number, ignored, own[0], own[1]);
}

static void work(struct processor *self)
{
    struct storm *s = &storms[self->number];
    uint64_t own[2];

    begin(self, s, own);
    smp_barrier(nothing);
    if (!trace_this(s))
        s->wrong++;
    self->counting = true;
    arm_counter(s);
    arm_timer(s);
    while (s->stored < stores && s->wrong == 0) {
        set_storing(s, true);
        __asm__ volatile("sti" : : : "memory");
        for (unsigned n = 0; n < BATCH; n++) {
            store(s, &traced[self->number]);
            if (n % 8 == 0)
                send(self, s);
        }
        __asm__ volatile("cli" : : : "memory");
        set_storing(s, false);
        judge_all(s, self->number);
    }
    end(self, s, own);
}

static bool is_good(const struct job *job, const struct processor *p, const struct storm *s)
{
    const struct stack *k = s->stack;
    uint64_t causes = p->pmis + p->seen + s->self_seen;

    log_printf("storm: name=%s cpu=%u stores=%lu found=%lu records=%lu interrupts=%lu frames=%lu "
               "nmis=%lu nmi_frames=%lu timers=%lu ipis=%lu pmis=%lu sent=%lu own=%lu both=%lu "
               "unknown=%lu lost=%lu wrong=%lu\n",
               job->name, p->number, s->stored, s->found, s->next, k[INTERRUPTS].noted,
               k[INTERRUPTS].frames, k[NMIS].noted, k[NMIS].frames, s->timers, s->ipis, p->pmis,
               p->sent, s->self_seen, p->both, p->unknown, p->lost, s->wrong);
    for (unsigned i = 0; i < KINDS; i++)
        if (k[i].noted != k[i].frames || k[i].pushes != PUSHES)
            return false;
    return s->stored >= stores && s->found == s->stored && s->wrong == 0 && p->lost == 0 &&
           p->pmis != 0 && s->self_seen != 0 && s->timers != 0 && s->ipis != 0 &&
           k[INTERRUPTS].noted == s->timers + s->ipis && k[NMIS].noted == p->nmis &&
           p->nmis == causes - p->both + p->unknown && p->unknown <= p->both;
}

/* `smp-memory:STORES[:MODE[:TICKS]]`: so many on each processor, with memtrace of that mode;
 * MEMTRACE_WRITES where none is given. The timer's interrupts are TICKS apart, more or less; they
 * have to leave time for their own handler, whose pushes are traced. */
void test_smp_memory(const struct job *job)
{
    bool good = true;

    stores = job->number[0];
    mode = job->number[1] != 0 ? job->number[1] : MEMTRACE_WRITES;
    ticks = job->number[2] != 0 ? job->number[2] : TIMER_TICKS;
    if (stores == 0 || processor_count > STORM_PROCESSORS) {
        tap_result(false, job->name, "wanted a number of stores, and at most 4 processors");
        return;
    }
    if (!memory_offered(job))
        return;
    cpu_gate_smp(VECTOR_TIMER, storm_timer, IST_EXCEPTION);
    cpu_gate_smp(VECTOR_IPI, storm_ipi, IST_EXCEPTION);
    cpu_gate_smp(VECTOR_NMI, storm_nmi, IST_NMI);
    smp_run_all(work);
    cpu_gate_smp(VECTOR_TIMER, NULL, 0);
    cpu_gate_smp(VECTOR_IPI, NULL, 0);
    cpu_gate_smp(VECTOR_NMI, NULL, 0);
    for (unsigned n = 0; n < processor_count; n++)
        good = is_good(job, &processors[n], &storms[n]) && good;
    tap_result(good, job->name, NULL);
}
