/* SPDX-License-Identifier: BSD-2-Clause
 * pmi_load.c: PMIs of the guest's own while something is done to their way: the job `skid` forces
 * an exit around each, the job `switch` turns NMI passthrough on and off all the time (it needs
 * user_hypercalls=1). The job `spin` does nothing, without an exit of its own, for a known time.
 * Thesis, section 4.4.2 (performance event skid). SDM Vol. 3, "Performance Monitoring".
 */
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SKID_ROUNDS 100000ul /* one exit and one branch each */
#define SKID_PERIOD 10u
#define SWITCH_ROUNDS 10000ul /* one switch each */
#define SWITCH_PERIOD 251u
/* Branches of a round; every phase of switch and PMI comes, because the period is prime. */
#define SWITCH_BRANCHES 100u
#define SWITCH_STEP 37u
#define SWITCH_SPREAD 301u
#define SPIN_BRANCHES 20000000ul

/* One branch a round: gcc 14 would do two rounds of a loop in C with one. */
static unsigned long with_exits(void)
{
    unsigned long rounds = SKID_ROUNDS;

    __asm__ volatile("1: xor %%eax, %%eax\n\txor %%ecx, %%ecx\n\tcpuid\n\tdec %0\n\tjnz 1b"
                     : "+S"(rounds)
                     :
                     : "rax", "rbx", "rcx", "rdx", "cc", "memory");
    return 0;
}

static unsigned long with_switches(void)
{
    unsigned long refused = 0;

    for (unsigned long i = 0; i < SWITCH_ROUNDS; i++) {
        refused += hyper_call(i % 2 != 0 ? HYPERCALL_NMI_PASSTHROUGH_ON
                                         : HYPERCALL_NMI_PASSTHROUGH_OFF) != 0;
        spin_branches(SWITCH_BRANCHES + i * SWITCH_STEP % SWITCH_SPREAD);
    }
    return refused;
}

/* Runs the load under a counter of user branches. Every one of its PMIs must have been handled, and
 * no other NMI: the kernel's own NMI and PMI counts say so. */
static int run(const char *name, uint32_t region, uint64_t period, unsigned long (*load)(void))
{
    volatile uint32_t *lvtpc = map_lvtpc();
    long long pmis, nmis, count;
    bool masked = false;
    unsigned long refused;
    int fd;

    perf_lift_limits();
    pmis = interrupt_count("PMI");
    nmis = interrupt_count("NMI");
    fd = open_user_branches(period);
    if (fd < 0)
        return fail_job(name, "perf_event_open", errno);
    region_begin(region);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    refused = load();
    /* The kernel's next start of a counter would unmask it. */
    masked = lvtpc != NULL && (*lvtpc & LVT_MASKED) != 0;
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    region_end(region);
    count = stop_counter(fd);
    close(fd);
    pmis = interrupt_count("PMI") - pmis;
    nmis = interrupt_count("NMI") - nmis;
    printf("%s: period=%llu count=%lld expected=%lld pmis=%lld nmis=%lld refused=%lu "
           "masked=%d\n",
           name, (unsigned long long)period, count, count / (long long)period, pmis, nmis, refused,
           masked);
    return pmis != count / (long long)period || nmis != pmis || refused != 0;
}

JOB(skid) { return run("skid", REGION_SKID, SKID_PERIOD, with_exits); }

JOB(switch)
{
    if (!hyper_present()) {
        printf("switch: not running under PMUvisor\n");
        return 1;
    }
    return run("switch", REGION_SWITCH, SWITCH_PERIOD, with_switches);
}

JOB(spin)
{
    region_begin(REGION_SPIN);
    spin_branches(SPIN_BRANCHES);
    region_end(REGION_SPIN);
    return 0;
}
