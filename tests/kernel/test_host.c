/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Host NMIs that the guest takes, host work inside the guest's NMI handler and with its PMI masked,
 * and faults in root mode. Thesis, sections 3.2 and 4.4.2, and its program A.2.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"
#include "tests/hooks/hooks.h"

#define ROUNDS 20
#define MANY_EXITS 10
#define LINGER 64 /* iterations: longer than it takes a pending NMI */
#define BRANCHES 20000
#define PERIOD 1000

static uint64_t wrong;

static void expect(const char *what, uint64_t found, uint64_t wanted)
{
    if (found == wanted)
        return;
    if (wrong++ == 0)
        tap_note("%s: found %ld, wanted %ld", what, found, wanted);
}

static void end(const struct job *job, uint64_t found)
{
    log_printf("host: name=%s found=%lu wrong=%lu\n", job->name, found, wrong);
    tap_result(wrong == 0, job->name, NULL);
    wrong = 0;
}

/* The host's NMI is lost to the guest; the next exit finds it. */
void test_host_lost(const struct job *job)
{
    uint64_t found = 0;

    if (!host_nmi_setup(job))
        return;
    for (unsigned i = 0; i < ROUNDS; i++) {
        settle();
        struct handled before = host_handled();
        uint64_t nmis = nmi.count;
        host_nmi_now();
        linger(LINGER);
        expect("NMIs that the guest took", nmi.count - nmis, 1);
        for (unsigned e = 0; e < MANY_EXITS; e++)
            settle();
        struct handled after = host_handled();
        expect("found at a later exit", after.recovered - before.recovered, 1);
        expect("handled in root mode", after.in_root - before.in_root, 0);
        found += after.recovered - before.recovered;
    }
    end(job, found);
}

/* Where NMIs exit: one right after the other, and the guest gets none of them; then one of its own
 * behind each, which it does get. */
void test_host_burst(const struct job *job)
{
    if (!host_nmi_setup(job))
        return;
    struct handled before = host_handled();
    uint64_t nmis = nmi.count;
    for (unsigned i = 0; i < ROUNDS; i++)
        host_nmi_now();
    linger(LINGER);
    expect("the host's NMIs in the guest", nmi.count - nmis, 0);
    nmis = nmi.count;
    for (unsigned i = 0; i < ROUNDS; i++) {
        host_nmi_now();
        apic_self_nmi();
        linger(LINGER);
    }
    struct handled after = host_handled();
    expect("the guest's own NMIs", nmi.count - nmis, ROUNDS);
    expect("handled as they came", after.in_root - before.in_root, 2 * ROUNDS);
    expect("found late", after.recovered - before.recovered, 0);
    end(job, after.in_root - before.in_root);
}

static uint64_t given_back;

static void give_back(void) { given_back = hypercall_all(HYPERCALL_UNKNOWN_NMI, 0, 0, 0).rax; }

/* The same, handed back by the guest's handler; and an NMI of the guest's own is not taken. */
void test_host_returned(const struct job *job)
{
    uint64_t found = 0;

    if (!host_nmi_setup(job))
        return;
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned e = 0; e < MANY_EXITS; e++)
            settle();
        nmi.action = give_back;
        apic_self_nmi();
        linger(LINGER);
        expect("sources, for the guest's own NMI", given_back, 0);
        struct handled before = host_handled();
        nmi.action = give_back;
        host_nmi_now();
        linger(LINGER);
        struct handled after = host_handled();
        expect("the hypercall gave something", (int64_t)given_back > 0, 1);
        found += given_back;
        expect("found late or returned",
               after.recovered - before.recovered + after.returned - before.returned, 1);
    }
    end(job, found);
}

/* The sender has sent the NMI and not yet noted that it has: who has the NMI in hand answers, and
 * the check after an exit waits. */
void test_host_sending(const struct job *job)
{
    uint64_t found = 0;

    if (!host_nmi_setup(job))
        return;
    for (unsigned i = 0; i < ROUNDS; i++) {
        host_nmi_still_sending();
        struct handled before = host_handled();
        nmi.action = give_back;
        host_nmi_now();
        linger(LINGER);
        struct handled after = host_handled();
        expect("sources, while it is being sent", given_back, 1);
        expect("returned", after.returned - before.returned, 1);
        nmi.action = NULL;
        host_nmi_now();
        for (unsigned e = 0; e < MANY_EXITS; e++)
            settle();
        before = host_handled();
        expect("found late, while it is being sent", before.recovered - after.recovered, 0);
        (void)host_nmi_setup(job);
        settle();
        after = host_handled();
        expect("found late, when it has been sent", after.recovered - before.recovered, 1);
        found += given_back;
    }
    end(job, found);
}

/* A request from root mode to root mode itself, in the guest's handler too. */
static void request_in_root(void)
{
    expect("the request was sent", hypercall_all(HYPERCALL_TEST_BACKTRACE, 0, 0, 0).rax, 0);
}

void test_host_root(const struct job *job)
{
    if (!host_nmi_setup(job))
        return;
    struct handled before = host_handled();
    uint64_t nmis = nmi.count;
    for (unsigned i = 0; i < ROUNDS; i++) {
        request_in_root();
        nmi.action = request_in_root;
        apic_self_nmi();
        linger(LINGER);
    }
    struct handled after = host_handled();
    expect("NMIs in the guest", nmi.count - nmis, ROUNDS);
    expect("handled in root mode", after.in_root - before.in_root, 2 * ROUNDS);
    expect("found late", after.recovered - before.recovered, 0);
    end(job, after.in_root - before.in_root);
}

static uint64_t host_pmis, host_branches;
static bool send_before;

static void host_work(void)
{
    uint64_t before = nmi.count;

    if (send_before)
        apic_self_nmi();
    struct hypercall_registers r = hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0);
    host_pmis += r.rax;
    host_branches += r.rbx - BRANCHES; /* the rest of the loop's frame: the same each time */
    linger(LINGER);
    expect("NMIs inside the handler", nmi.count - before, 0);
}

/* A.2: host work while the guest is in its NMI handler; every second time with an NMI of the
 * guest's own pending, which arrives once, behind the handler's IRET. */
void test_host_unblock(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    host_pmis = host_branches = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t before = nmi.count;
        send_before = i % 2 != 0;
        nmi.action = host_work;
        apic_self_nmi();
        linger(LINGER);
        expect("NMIs of the guest", nmi.count - before, 1 + send_before);
    }
    expect("PMIs of the host", host_pmis, ROUNDS * (BRANCHES / PERIOD));
    expect("branches counted beyond the loop's", host_branches % ROUNDS, 0);
    end(job, host_pmis);
}

/* `host-mask:BRANCHES:PERIOD`: host work while the guest keeps the PMI masked. */
void test_host_mask(const struct job *job)
{
    uint64_t nmis = nmi.count, wanted = job->number[0] / job->number[1];

    if (!hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    apic_write_lvtpc(LVT_NMI | LVT_MASKED);
    uint32_t lvtpc = apic_read_lvtpc();
    struct hypercall_registers r = hypercall_all(HYPERCALL_HOST_WORK, job->number[0],
                                                 job->number[1], 0);
    linger(LINGER);
    expect("PMIs of the host", r.rax, wanted);
    expect("LVTPC", apic_read_lvtpc(), lvtpc);
    expect("NMIs in the guest", nmi.count - nmis, 0);
    end(job, r.rax);
}

/* `host-fault:KIND`: the end of this machine. */
void test_host_fault(const struct job *job)
{
    if (!hypervisor_offers(job, HYPERCALL_TEST_FAULT))
        return;
    (void)hypercall_all(HYPERCALL_TEST_FAULT, job->number[0], 0, 0);
    tap_result(false, job->name, "root mode went on");
}
