/* SPDX-License-Identifier: BSD-2-Clause
 *
 * `host-work:WHOSE:FIRST:POSITIONS`: an NMI at each instruction of an exit for host work, those of
 * the handler of its PMIs included. WHOSE is "host" or "guest": the host's is handled once, and the
 * guest sees none; the guest's own comes to it once, but for those that merge with a PMI, which
 * leave no trace (docs/nmi.md, "Merging"). The work has all its PMIs either way. The
 * emulator's skid puts each PMI some instructions after its overflow, so that NMIs come in between.
 * Thesis, section 3.2: P1, and section 4.4.2.
 */
#include "host.h"

#include "console/log.h"
#include "hypercall.h"

#define BRANCHES 250
#define PERIOD 100
#define PMIS (BRANCHES / PERIOD)
#define STRIDE 8 /* VMCALLs from one position to the next */
#define LINGER 64
#define NOTES_MAX 8

void test_host_work(const struct job *job)
{
    uint64_t first = job->number[0], positions = job->number[1];
    bool host = job->word[0] == 'h';
    uint64_t delivered = 0, silent = 0, wrong = 0, late = 0, merged = 0;

    if (!host_nmi_setup(job) || !hypervisor_offers(job, HYPERCALL_HOST_WORK))
        return;
    for (uint64_t position = 1; position <= positions; position++) {
        settle_all();
        struct handled before = host_handled();
        uint64_t nmis = nmi.count, done, target = first + (position - 1) * STRIDE;
        do
            done = exits_of(EXIT_REASON_VMCALL);
        while (done + 1 < target);
        if (done + 1 != target) {
            tap_result(false, job->name, "too many VMCALLs have been made already");
            return;
        }
        struct hypercall_registers work = hypercall_all(HYPERCALL_HOST_WORK, BRANCHES, PERIOD, 0);
        linger(LINGER);
        settle();
        struct handled after = host_handled();
        uint64_t in_root = after.in_root - before.in_root;
        uint64_t recovered = after.recovered - before.recovered, seen = nmi.count - nmis;
        bool came = in_root + recovered + seen != 0;
        if (came && !host) {
            merged += silent;
            silent = 0;
        }
        if (work.rax != PMIS || (came && silent != 0) || in_root + recovered > host ||
            seen > !host || merged > PMIS) {
            if (wrong++ < NOTES_MAX)
                tap_note("position %lu: %lu in root mode, %lu found late, %lu in the guest, %lu "
                         "PMIs, %lu counted",
                         position, in_root, recovered, seen, work.rax, work.rbx);
        } else if (came) {
            delivered++;
            late += recovered;
        } else {
            silent++;
        }
    }
    log_printf("sweep: name=%s delivered=%lu silent=%lu wrong=%lu late=%lu merged=%lu\n", job->name,
               delivered, silent, wrong, late, merged);
    tap_result(wrong == 0 && delivered != 0 && silent != 0, job->name, NULL);
}
