/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Exits at which the bookkeeping of NMIs has something to do, for the measurements: `nmi-events:N`
 * makes N of each kind, one region for each, and says how many NMIs reached the side that they were
 * for. Where they come in root mode the emulator sends them (knob nmi_root): the guest's at the
 * exits 1 to N by VMCALL, the host's at N + 3 to 2 N + 2. So this has to be the first test that
 * executes VMCALL, and between the two kinds there are two of them.
 * Thesis, section 3.2.
 */
#include "host.h"

#include "console/log.h"

#define NO_SUCH_HYPERCALL (~0ull)

enum { REGION_SENT_AGAIN = 2090, REGION_FOUND_IN_ROOT, REGION_FOUND_LATE };

/* In the first exit the NMI comes or is found; the second one does what is left to do about it. */
static void pairs_of_exits(uint32_t region, uint64_t n, void (*before)(void))
{
    region_mark(region, true);
    for (uint64_t i = 0; i < n; i++) {
        if (before != NULL)
            before();
        (void)hypercall(NO_SUCH_HYPERCALL, 0);
        (void)cpuid(0, 0);
    }
    region_mark(region, false);
}

static void print(const char *item, uint32_t region, uint64_t n, uint64_t delivered)
{
    log_printf("bench: experiment=events item=%s region=%u ops=%lu metric=delivered unit=count "
               "value=%lu\n",
               item, region, n, delivered);
}

/* An NMI of the guest's comes in root mode: step `skid`. */
static void sent_again(uint64_t n)
{
    uint64_t before = nmi.count;

    pairs_of_exits(REGION_SENT_AGAIN, n, NULL);
    print("sent_again", REGION_SENT_AGAIN, n, nmi.count - before);
}

/* An NMI of the host's comes in root mode: answered at once, by no step. */
static void found_in_root(uint64_t n)
{
    uint64_t before = host_handled().in_root;

    pairs_of_exits(REGION_FOUND_IN_ROOT, n, NULL);
    print("found_in_root", REGION_FOUND_IN_ROOT, n, host_handled().in_root - before);
}

/* The guest takes an NMI of the host's, and then exits: step `lost`. */
static bool found_late(uint64_t n)
{
    uint64_t before = host_handled().recovered, nmis = nmi.count;

    pairs_of_exits(REGION_FOUND_LATE, n, host_nmi_now);
    print("found_late", REGION_FOUND_LATE, n, host_handled().recovered - before);
    return nmi.count - nmis == n;
}

void test_nmi_events(const struct job *job)
{
    uint64_t n = job->number[0];

    if (!under_pmuvisor() || n == 0) {
        tap_result(false, job->name, "wanted PMUvisor and a number of events");
        return;
    }
    sent_again(n);
    if (!host_nmi_setup(job))
        return;
    found_in_root(n);
    bool all = found_late(n);
    tap_result(all, job->name, all ? NULL : "a host NMI did not come to the guest");
}
