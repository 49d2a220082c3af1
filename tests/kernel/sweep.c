/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sweeps: one NMI at every root-mode instruction of an exit, or at every instruction of the guest's
 * own NMI handler. The emulator sends them by a schedule that counts exits (or NMIs) from power-on;
 * `sweep:KIND:FIRST:POSITIONS` says that exit FIRST of that reason gets its NMI at instruction 1,
 * the next one at instruction 2, and so on. Positions behind the VM entry stay without an NMI.
 */
#include "kernel.h"

#include "console/log.h"
#include "hypercall.h"
#include "probe.h"

#define ICR_HIGH_PATTERN 0x5a000000u
#define CLEAN_ROUNDS 8
#define SETTLE_EXITS 4 /* more than the hypervisor takes */
#define SETTLE_ROUNDS 3
#define NMI_STRIDE 4 /* exits between two positions; both NMIs of one position exit */
#define LINGER 32    /* iterations: longer than it takes a pending NMI */

/* What a sweep found. */
struct sweep {
    enum probe_kind kind;
    uint64_t delivered; /* positions with exactly one NMI */
    uint64_t silent;    /* positions without: only behind all others */
    uint64_t wrong;     /* anything else */
};

static void wrong(struct sweep *s, uint64_t position, const char *what, uint64_t found)
{
    if (s->wrong++ < 8)
        tap_note("position %lu: %s (0x%lx)", position, what, found);
}

/* An NMI count after position `position`, and what it says. */
static void judge(struct sweep *s, uint64_t position, uint64_t nmis, uint64_t rip_wanted)
{
    if (nmis == 0) {
        s->silent++;
        return;
    }
    if (nmis > 1) {
        wrong(s, position, "more than one NMI", nmis);
        return;
    }
    if (s->silent != 0)
        wrong(s, position, "an NMI, but none at an earlier position", s->silent);
    if (nmi.rip != rip_wanted)
        wrong(s, position, "the NMI came at another place", nmi.rip);
    s->delivered++;
}

static void exits(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        (void)rdmsr(IA32_FEATURE_CONTROL);
}

void settle(void) { exits(SETTLE_EXITS); }

void settle_all(void) { exits(SETTLE_ROUNDS * SETTLE_EXITS); }

void nmi_send_and_wait(void)
{
    uint64_t before = nmi.count;

    apic_self_nmi();
    while (nmi.count == before)
        __asm__ volatile("pause");
}

static uint64_t exits_so_far(enum probe_kind kind) { return exits_of(probe_exit_reason(kind)); }

/* One exit in a region of its own. */
static uint32_t clean_region;
static bool clean_right;
static enum probe_kind clean_kind;

static void clean_exit(void)
{
    region_mark(clean_region, true);
    clean_right = probe_once(clean_kind, 1) && clean_right;
    region_mark(clean_region, false);
}

/* Exits until the next one is number `first`; the last ones, as the sweep itself will make them
 * (`blocked`: inside the NMI handler), in a region of their own: the path without an NMI. */
static bool go_to(struct sweep *s, uint64_t first, bool blocked)
{
    /* Reading the count of VMCALLs is one itself, and is in the count. */
    uint64_t now = exits_so_far(s->kind);

    if (now + CLEAN_ROUNDS + 1 > first) {
        tap_note("%lu exits are over, but the sweep begins at %lu", now, first);
        return false;
    }
    clean_region = (blocked ? REGION_SWEEP_CLEAN_BLOCKED : REGION_SWEEP_CLEAN) + s->kind;
    clean_kind = s->kind;
    clean_right = true;
    for (uint64_t n = now + 1; n < first; n++) {
        if (n + CLEAN_ROUNDS < first) {
            clean_right = probe_once(s->kind, (unsigned)n) && clean_right;
            continue;
        }
        settle();
        if (!blocked) {
            clean_exit();
            continue;
        }
        nmi.action = clean_exit;
        nmi_send_and_wait();
    }
    settle();
    return clean_right;
}

static bool begin(struct sweep *s, const struct job *job, bool blocked)
{
    const char *why;

    *s = (struct sweep){.kind = probe_named(job->word)};
    if (s->kind == PROBE_KINDS || job->number[0] == 0 || job->number[1] == 0) {
        tap_result(false, job->name, "wanted sweep:KIND:FIRST:POSITIONS with a known kind");
        return false;
    }
    if (!probe_learn(s->kind, &why)) {
        tap_skip(job->name, why);
        return false;
    }
    if (!go_to(s, job->number[0], blocked)) {
        tap_result(false, job->name, "no way to the first position");
        return false;
    }
    return true;
}

static void end(const struct sweep *s, const struct job *job)
{
    bool whole = s->silent != 0 && s->delivered != 0;

    if (!whole)
        tap_note("%lu of %lu positions had an NMI: wanted all up to the VM entry, none behind it",
                 s->delivered, job->number[1]);
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, s->delivered,
               s->silent, s->wrong);
    tap_result(whole && s->wrong == 0, job->name, NULL);
}

/* The guest runs with NMIs unblocked: the NMI arrives at the VM entry. `between`: exits from one
 * position to the next; what an NMI leaves for the exits behind it makes their paths longer. */
static void sweep_open(const struct job *job, unsigned between)
{
    struct sweep s;

    if (!begin(&s, job, false))
        return;
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t before = nmi.count;
        exits(s.silent != 0 ? SETTLE_EXITS : between);
        apic_set_icr_high(ICR_HIGH_PATTERN);
        if (!probe_once(s.kind, (unsigned)position))
            wrong(&s, position, "a register changed", 0);
        judge(&s, position, nmi.count - before, probe_nmi_rip(s.kind));
        if (!apic_x2() && apic_icr_high() != ICR_HIGH_PATTERN)
            wrong(&s, position, "the ICR's high half changed", apic_icr_high());
    }
    end(&s, job);
}

void test_sweep(const struct job *job) { sweep_open(job, SETTLE_EXITS); }
/* Each exit right after one that had an NMI; and the second one after it. */
void test_sweep_next(const struct job *job) { sweep_open(job, 0); }
void test_sweep_second(const struct job *job) { sweep_open(job, 1); }

/* The exit happens inside the NMI handler: the NMI has to wait for the handler's IRET. */
static struct sweep *inside;
static uint64_t inside_position;

static void exit_inside(void)
{
    uint64_t before = nmi.count;

    if (!probe_once(inside->kind, (unsigned)inside_position))
        wrong(inside, inside_position, "a register changed", 0);
    if (nmi.count != before)
        wrong(inside, inside_position, "an NMI inside the handler", nmi.count - before);
}

void test_sweep_blocked(const struct job *job)
{
    struct sweep s;

    if (!begin(&s, job, true))
        return;
    inside = &s;
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t before = nmi.count;
        settle();
        inside_position = position;
        nmi.action = exit_inside;
        nmi_send_and_wait();
        /* Taken right after the first one's IRET, it comes from the same place. */
        judge(&s, position, nmi.count - before - 1, nmi.previous_rip);
    }
    end(&s, job);
}

/* `sweep-nmi:FIRST:POSITIONS`, where NMIs exit: the guest's own NMI exits, and another one arrives
 * at instruction `position` of that exit, which is the number FIRST + (position - 1) * NMI_STRIDE
 * of its kind. The first is in service and the second waits for its IRET, as natively: two in all.
 */
void test_sweep_nmi(const struct job *job)
{
    struct sweep s = {.kind = PROBE_KINDS};

    if (!under_pmuvisor() || job->number[1] == 0) {
        tap_skip(job->name, "wanted PMUvisor, and sweep-nmi:FIRST:POSITIONS");
        return;
    }
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t next = job->number[0] + (position - 1) * NMI_STRIDE, before;
        uint64_t now = exits_of(EXIT_REASON_EXCEPTION_OR_NMI);
        if (now >= next) {
            tap_result(false, job->name, "too many NMIs have exited already");
            return;
        }
        while (now + 1 < next) {
            before = nmi.count;
            nmi_send_and_wait();
            uint64_t then = exits_of(EXIT_REASON_EXCEPTION_OR_NMI);
            if (then == now) {
                tap_skip(job->name, "NMIs do not exit here");
                return;
            }
            now = then;
        }
        before = nmi.count;
        nmi_send_and_wait();
        linger(LINGER);
        if (nmi.count == before)
            wrong(&s, position, "no NMI", 0);
        else
            judge(&s, position, nmi.count - before - 1, nmi.previous_rip);
    }
    end(&s, job);
}

/* Two NMIs in each exit: one at a fixed instruction, which the emulator's schedule says, the other
 * at every one, those of the root-mode NMI handler included. Two pending NMIs are one. */
void test_sweep_twice(const struct job *job)
{
    struct sweep s;

    if (!begin(&s, job, false))
        return;
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t before = nmi.count;
        if (!probe_once(s.kind, (unsigned)position))
            wrong(&s, position, "a register changed", 0);
        if (nmi.count - before == 1)
            s.delivered++;
        else
            wrong(&s, position, "not exactly one NMI", nmi.count - before);
    }
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, s.delivered,
               s.silent, s.wrong);
    tap_result(s.wrong == 0, job->name, NULL);
}

/* An exit in every handler, until the chain is over. */
static uint64_t handlers_left, handlers_wrong;

static void exit_in_each(void)
{
    uint64_t before = nmi.count;

    handlers_wrong += !probe_once(PROBE_CPUID, (unsigned)before) || nmi.count != before;
    nmi.action = --handlers_left != 0 ? exit_in_each : NULL;
}

/* `sweep-handler:FIRST:COUNT`: the emulator sends an NMI at instruction 1 of the handler of the
 * run's NMI number FIRST, at instruction 2 of the next one, and so on for COUNT of them, IRETs and
 * what follows them included. Each starts the next: one NMI of our own makes a chain of 1 + COUNT.
 * `sweep-handler:exit:FIRST:COUNT`: each handler also has a CPUID exit. */
void test_sweep_handler(const struct job *job)
{
    uint64_t first = job->number[0], count = job->number[1];
    bool exits = job->word[0] != '\0';
    const char *why;

    if (first <= nmi.count || count == 0) {
        tap_result(false, job->name, "wanted sweep-handler:FIRST:COUNT, with FIRST still to come");
        return;
    }
    if (exits && !probe_learn(PROBE_CPUID, &why)) {
        tap_skip(job->name, why);
        return;
    }
    while (nmi.count < first - 1)
        apic_self_nmi();
    handlers_left = exits ? count + 1 : 0;
    handlers_wrong = 0;
    nmi.action = exits ? exit_in_each : NULL;
    uint64_t moved = nmi.moved;
    apic_self_nmi();
    /* The last NMIs come at instructions behind the IRETs: here. Each comes at most `count`
     * instructions after the one before it, however many of those a compiler's handler takes. */
    for (uint64_t i = 0; i < count * count; i++)
        __asm__ volatile("nop");
    uint64_t seen = nmi.count - (first - 1);
    /* As long as an NMI comes inside a handler, the next one is from where that one was from. */
    uint64_t behind = nmi.moved - moved - 1;
    log_printf("sweep: name=%s delivered=%lu wanted=%lu behind=%lu wrong=%lu\n", job->name, seen,
               count + 1, behind, handlers_wrong + handlers_left);
    if (behind == 0)
        tap_note("the handler is longer than %lu instructions", count);
    tap_result(seen == count + 1 && behind != 0 && handlers_wrong == 0 && handlers_left == 0,
               job->name, NULL);
}
