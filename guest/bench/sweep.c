/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sweeps: one NMI at every root-mode instruction of an exit, or at every instruction of the guest's
 * own NMI handler. The emulator sends them by a schedule that counts exits (or NMIs) from power-on;
 * `sweep:KIND:FIRST:POSITIONS` says that exit FIRST of that reason gets its NMI at instruction 1,
 * the next one at instruction 2, and so on. Positions behind the VM entry stay without an NMI.
 */
#include "bench.h"

#include "hypercall.h"
#include "log.h"
#include "probe.h"

#define ICR_HIGH_PATTERN 0x5a000000u
#define CLEAN_ROUNDS 8

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

static uint64_t exits_so_far(enum probe_kind kind)
{
    return (uint64_t)hypercall(HYPERCALL_STATISTICS, probe_exit_reason(kind));
}

/* Exits until the next one is number `first`, some of them in a region of their own. */
static bool go_to(struct sweep *s, uint64_t first)
{
    /* Reading the count of VMCALLs is one itself, and is in the count. */
    uint64_t now = exits_so_far(s->kind);

    if (now + CLEAN_ROUNDS + 1 > first) {
        tap_note("%lu exits are over, but the sweep begins at %lu", now, first);
        return false;
    }
    for (uint64_t n = now + 1; n < first; n++) {
        bool clean = n + CLEAN_ROUNDS >= first;
        if (clean)
            mark(REGION_SWEEP_CLEAN + s->kind, true);
        bool right = probe_once(s->kind, (unsigned)n);
        if (clean)
            mark(REGION_SWEEP_CLEAN + s->kind, false);
        if (!right)
            return false;
    }
    return true;
}

static bool begin(struct sweep *s, const struct job *job)
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
    if (!go_to(s, job->number[0])) {
        tap_result(false, job->name, "no way to the first position");
        return false;
    }
    return true;
}

static void end(const struct sweep *s, const struct job *job)
{
    bool whole = s->silent != 0 && s->delivered != 0;

    if (!whole)
        tap_note("%lu of %lu positions had an NMI: wanted all up to the VM entry, and none behind it",
                 s->delivered, job->number[1]);
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, s->delivered,
               s->silent, s->wrong);
    tap_result(whole && s->wrong == 0, job->name, NULL);
}

/* The guest runs with NMIs unblocked: the NMI arrives at the VM entry. */
void test_sweep(const struct job *job)
{
    struct sweep s;

    if (!begin(&s, job))
        return;
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t before = nmi.count;
        apic_set_icr_high(ICR_HIGH_PATTERN);
        if (!probe_once(s.kind, (unsigned)position))
            wrong(&s, position, "a register changed", 0);
        judge(&s, position, nmi.count - before, probe_nmi_rip(s.kind));
        if (!apic_x2() && apic_icr_high() != ICR_HIGH_PATTERN)
            wrong(&s, position, "the ICR's high half changed", apic_icr_high());
    }
    end(&s, job);
}

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

    if (!begin(&s, job))
        return;
    inside = &s;
    for (uint64_t position = 1; position <= job->number[1]; position++) {
        uint64_t before = nmi.count;
        inside_position = position;
        nmi.action = exit_inside;
        apic_self_nmi();
        while (nmi.count == before)
            __asm__ volatile("pause");
        /* Taken right after the first one's IRET, it comes from the same place. */
        judge(&s, position, nmi.count - before - 1, nmi.previous_rip);
    }
    end(&s, job);
}

/* `sweep-handler:COUNT`: the emulator sends an NMI at instruction k of the k-th NMI handler, for the
 * first COUNT handlers of the run (natively as well). One NMI starts a chain of COUNT more. */
void test_sweep_handler(const struct job *job)
{
    uint64_t wanted = job->number[0] + 1;

    if (job->number[0] == 0 || nmi.count != 0) {
        tap_result(false, job->name, "wanted a number of NMIs, and to be the first test with NMIs");
        return;
    }
    apic_self_nmi();
    for (uint64_t i = 0; i < 64 * wanted; i++)
        __asm__ volatile("nop");
    log_printf("sweep: name=%s delivered=%lu wanted=%lu nested=%lu\n", job->name, nmi.count, wanted,
               nmi.nested);
    tap_result(nmi.count == wanted && nmi.nested == 0, job->name, NULL);
}
