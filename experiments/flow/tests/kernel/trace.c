/* SPDX-License-Identifier: BSD-2-Clause
 *
 * This processor's ring of records, and whether the records of a piece of work are those that it
 * has to have: each exit one, in their order, with times between those that the guest read itself.
 */
#include "trace.h"

#include "host.h"
#include "hypercall.h"
#include "x86.h"

const volatile struct trace_ring *trace_ring;

static uint64_t marked, next; /* TSC, and number of the record that is judged next */

int64_t trace_level(uint64_t level)
{
    return (int64_t)hypercall_all(HYPERCALL_TRACE, level, 0, 0).rax;
}

bool trace_begin(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_TRACE))
        return false;
    trace_ring = (const volatile void *)hypercall_all(HYPERCALL_TRACE, TRACE_ASK, 0, 0).rbx;
    return true;
}

struct trace_record trace_record(uint64_t n)
{
    const volatile struct trace_record *records = (const volatile void *)((const volatile char *)
                                                                              trace_ring +
                                                                          TRACE_RING_HEADER_BYTES);

    return records[n % trace_ring->capacity];
}

uint64_t trace_cr3(void) { return read_cr3() & BITS(47, 0); }

void trace_mark(void)
{
    next = trace_ring->written;
    marked = rdtsc();
}

static bool same(const char *what, const char *field, uint64_t found, uint64_t wanted)
{
    if (found == wanted)
        return true;
    tap_note("%s, record %lu: %s is 0x%lx, wanted 0x%lx", what, next, field, found, wanted);
    return false;
}

bool trace_next(const char *what, struct trace_wanted wanted)
{
    uint64_t now = rdtsc();

    if (trace_ring->written <= next) {
        tap_note("%s: there is no record", what);
        return false;
    }
    struct trace_record r = trace_record(next);
    bool good = same(what, "reason", r.reason, wanted.reason) &&
                same(what, "RIP", r.rip, wanted.rip) && same(what, "CR3", r.cr3, wanted.cr3) &&
                same(what, "flags", r.flags, wanted.flags) &&
                same(what, "detail", r.detail, wanted.detail);
    if (r.tsc < marked || r.root_time == 0 || r.tsc + r.root_time > now) {
        tap_note("%s, record %lu: TSC 0x%lx and %u in root mode, wanted in 0x%lx to 0x%lx", what,
                 next, r.tsc, r.root_time, marked, now);
        good = false;
    }
    marked = r.tsc + r.root_time;
    next++;
    return good;
}

bool trace_no_more(const char *what)
{
    return same(what, "the number of records", trace_ring->written, next);
}
