/* SPDX-License-Identifier: BSD-2-Clause
 * host.c: asks PMUvisor for host work, and checks that the guest finds its own PMU as it left it.
 * Needs user_hypercalls=1. Thesis, section 4.4.2 (P_Host); numbers in include/hypercall.h.
 */
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GUEST_BRANCHES 100000
#define TICK_LOOPS 200

JOB(hostwork)
{
    static const struct {
        uint64_t branches, period;
    } runs[] = {{100000, 1000}, {1000000, 1000}, {10000000, 1000}};
    int failed = 0;
    /* It runs around the host work, and must see the guest's branches only. */
    int fd = open_user_branches(0);

    if (fd < 0)
        return fail_job("hostwork", "perf_event_open", errno);
    for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        ioctl(fd, PERF_EVENT_IOC_RESET, 0);
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        spin_branches(GUEST_BRANCHES);
        struct hyper_answer done = hyper_call_with(HYPERCALL_HOST_WORK, runs[i].branches,
                                                   runs[i].period, 0);
        spin_branches(GUEST_BRANCHES);
        long long own = stop_counter(fd);
        printf("hostwork: branches=%lu period=%lu expected=%lu pmis=%ld counted=%lu guest=%lld\n",
               (unsigned long)runs[i].branches, (unsigned long)runs[i].period,
               (unsigned long)(runs[i].branches / runs[i].period), done.rax,
               (unsigned long)done.rbx, own);
        if (done.rax != (long)(runs[i].branches / runs[i].period))
            failed = 1;
    }
    close(fd);
    return failed;
}

/* Leaves the work to the tick and stays away from exits long enough for one to come: the log, on
 * the console, says what came of it. */
JOB(hosttick)
{
    long result = hyper_call_with(HYPERCALL_HOST_WORK, 1000000, 1000, HOST_WORK_AT_TICK).rax;

    printf("hosttick: result=%ld\n", result);
    for (int i = 0; i < TICK_LOOPS; i++)
        spin_branches(GUEST_BRANCHES);
    return result == 0 ? 0 : 1;
}
