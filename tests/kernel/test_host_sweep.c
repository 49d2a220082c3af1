/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Sweeps of host NMIs: one at every root-mode instruction of an exit, `host-sweep:KIND:FIRST:
 * POSITIONS[:LATE]`. Each has to be handled exactly once by the next exit, and the guest must see
 * nothing of it. LATE is 1 where root mode stays blocked with the guest's NMI handler
 * (unblock=lazy): the guest takes each one behind its IRET, and the host finds it later.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "probe.h"

#define CLEAN_ROUNDS 8
#define LOGGED_ROUNDS 16
#define LINGER 64       /* iterations: longer than it takes a pending NMI */
#define NMI_STRIDE 4    /* NMI exits between two positions */
#define VMCALL_STRIDE 4 /* counting them takes some, too */
#define NOTES_MAX 8

struct host_sweep {
    uint64_t delivered, silent, wrong;
    bool late;
};

static void wrong(struct host_sweep *s, uint64_t position, const char *what, uint64_t found)
{
    if (s->wrong++ < NOTES_MAX)
        tap_note("position %lu: %s (%lu)", position, what, found);
}

/* The state before an exit in which a host NMI may come. */
struct moment {
    struct handled handled;
    uint64_t nmis;
};

static struct moment now(void)
{
    struct handled handled = host_handled();

    return (struct moment){handled, nmi.count};
}

/* What has happened since then; `own` of the guest's NMIs are its own. */
static void judge(struct host_sweep *s, uint64_t position, struct moment before, uint64_t own)
{
    linger(LINGER);
    struct moment after = now();
    uint64_t in_root = after.handled.in_root - before.handled.in_root;
    uint64_t recovered = after.handled.recovered - before.handled.recovered;
    uint64_t foreign = after.nmis - before.nmis - own;

    if (after.handled.returned != before.handled.returned)
        wrong(s, position, "counted as returned", after.handled.returned);
    if (in_root + recovered + foreign == 0)
        s->silent++;
    else if (in_root != !s->late || recovered != s->late)
        wrong(s, position, "in root mode plus 1000 times found late, wanted one",
              in_root + 1000 * recovered);
    else if (foreign != s->late)
        wrong(s, position, "NMIs in the guest that are not its own", foreign);
    else if (s->silent != 0)
        wrong(s, position, "an NMI, but none at earlier positions", s->silent);
    else
        s->delivered++;
}

static void end(const struct host_sweep *s, const struct job *job)
{
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu\n", job->name, s->delivered,
               s->silent, s->wrong);
    tap_result(s->delivered != 0 && s->silent != 0 && s->wrong == 0, job->name, NULL);
}

static void send_and_wait(void)
{
    nmi_send_and_wait();
    linger(LINGER);
}

static enum probe_kind kind;
static unsigned pattern, region;
static bool right;

static void one_exit(void)
{
    if (region != 0)
        region_mark(region, true);
    right = probe_once(kind, pattern++) && right;
    if (region != 0)
        region_mark(region, false);
}

static void exit_now(bool blocked)
{
    settle_all();
    if (!blocked) {
        one_exit();
        return;
    }
    nmi.action = one_exit;
    send_and_wait();
}

/* Exits until the next one of this kind is number `target`. Counting VMCALLs is one, too. */
static bool go_to(uint64_t target)
{
    unsigned reason = probe_exit_reason(kind);
    uint64_t done = exits_of(reason);

    while (done + 1 < target) {
        if (kind == PROBE_VMCALL) {
            done = exits_of(reason);
            continue;
        }
        one_exit();
        done++;
    }
    return done + 1 == target;
}

/* The path without an NMI, for the ledger. */
static void clean_exits(bool blocked)
{
    region = 0; /* the first ones may be logged */
    for (unsigned i = 0; i < LOGGED_ROUNDS; i++)
        exit_now(blocked);
    region = (blocked ? REGION_HOST_CLEAN_BLOCKED : REGION_HOST_CLEAN) + kind;
    for (unsigned i = 0; i < CLEAN_ROUNDS; i++)
        exit_now(blocked);
    region = 0;
}

static void sweep(const struct job *job, bool blocked)
{
    uint64_t first = job->number[0], positions = job->number[1];
    struct host_sweep s = {.late = job->number[2] != 0};
    const char *why;

    if (!host_nmi_setup(job))
        return;
    kind = probe_named(job->word);
    if (kind == PROBE_KINDS || first == 0 || positions == 0) {
        tap_result(false, job->name, "wanted host-sweep:KIND:FIRST:POSITIONS with a known kind");
        return;
    }
    if (!probe_learn(kind, &why)) {
        tap_skip(job->name, why);
        return;
    }
    uint64_t stride = kind == PROBE_VMCALL ? VMCALL_STRIDE : 1;
    right = true;
    clean_exits(blocked);
    for (uint64_t position = 1; position <= positions; position++) {
        struct moment before = now();
        if (!go_to(first + (position - 1) * stride)) {
            tap_result(false, job->name, "too many exits have been made already");
            return;
        }
        exit_now(blocked);
        judge(&s, position, before, blocked);
    }
    if (!right)
        wrong(&s, 0, "a register or flag changed", 0);
    end(&s, job);
}

void test_host_sweep(const struct job *job) { sweep(job, false); }
void test_host_sweep_blocked(const struct job *job) { sweep(job, true); }

/* `host-sweep-nmi:FIRST:POSITIONS`, where NMIs exit: the guest's own NMI exits, and the host's
 * arrives at instruction `position` of that exit, number FIRST + (position - 1) * NMI_STRIDE. */
void test_host_sweep_nmi(const struct job *job)
{
    uint64_t first = job->number[0], positions = job->number[1];
    struct host_sweep s = {.late = false};

    if (!host_nmi_setup(job))
        return;
    uint64_t done = exits_of(EXIT_REASON_EXCEPTION_OR_NMI);
    for (uint64_t position = 1; position <= positions; position++) {
        uint64_t target = first + (position - 1) * NMI_STRIDE;
        while (done + 1 < target) {
            uint64_t before = done;
            send_and_wait();
            done = exits_of(EXIT_REASON_EXCEPTION_OR_NMI);
            if (done == before) {
                tap_skip(job->name, "NMIs do not exit here");
                return;
            }
        }
        if (done + 1 != target) {
            tap_result(false, job->name, "too many NMIs have exited already");
            return;
        }
        settle_all();
        struct moment before = now();
        send_and_wait();
        judge(&s, position, before, 1);
        done = exits_of(EXIT_REASON_EXCEPTION_OR_NMI);
    }
    end(&s, job);
}

/* `host-sweep-tick:FIRST:POSITIONS:LOOPS`: exits of the tick while the guest makes no other;
 * LOOPS iterations are longer than a tick and shorter than two. */
void test_host_sweep_tick(const struct job *job)
{
    uint64_t first = job->number[0], positions = job->number[1];
    struct host_sweep s = {.late = false};
    uint64_t done = 0;

    if (!host_nmi_setup(job))
        return;
    for (uint64_t position = 0; position <= positions;) {
        struct moment before = now();
        done = exits_of(EXIT_REASON_PREEMPTION_TIMER);
        bool clean = done + 1 < first;
        settle_all();
        if (clean)
            region_mark(REGION_HOST_CLEAN + PROBE_KINDS, true);
        linger(job->number[2]);
        if (clean)
            region_mark(REGION_HOST_CLEAN + PROBE_KINDS, false);
        uint64_t ticks = exits_of(EXIT_REASON_PREEMPTION_TIMER) - done;
        if (ticks != 1) {
            tap_note("%lu ticks in one round, wanted 1", ticks);
            tap_result(false, job->name, NULL);
            return;
        }
        if (clean)
            continue;
        position++;
        judge(&s, position, before, 0);
    }
    end(&s, job);
}
