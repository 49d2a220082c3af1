/* SPDX-License-Identifier: BSD-2-Clause
 * masking.c: the job `masking`: host work whose PMIs must come although the guest keeps its own
 * masked. Thesis, section 4.4.2 (PMI masking); SDM Vol. 3, "Local Vector Table".
 * Needs user_hypercalls=1, and on the kernel's command line iomem=relaxed to reach LVTPC through
 * /dev/mem.
 *
 * As in the thesis the guest masks its PMI in the middle of P_Host: this comes in slices, half of
 * them before and half of them after. Around it a counter of the guest's own counts what the guest
 * executes; the same slices with a hypercall that does nothing say what that must be.
 */
#include "hypercall.h"
#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define APIC_PAGE 0xfee00000l
#define LVT_PMI 0x340
#define PAGE_BYTES 4096ul

#define SLICES 10
#define SLICE_BRANCHES 1000000ul
#define PERIOD 1000ul
#define GUEST_BRANCHES 100000ul

static volatile uint32_t *lvtpc;

struct sums {
    long pmis;
    uint64_t counted;
    long long guest;
    unsigned changed; /* slices after which LVTPC was not as the guest had left it */
};

/* The same instructions of the guest whatever the hypercall does. */
static int run(long number, bool host_work, struct sums *sums)
{
    int fd = open_user_branches(0);

    memset(sums, 0, sizeof(*sums));
    if (fd < 0)
        return -errno;
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    spin_branches(GUEST_BRANCHES);
    for (unsigned i = 0; i < SLICES; i++) {
        /* The kernel has unmasked it when it started the counter. */
        if (i >= SLICES / 2)
            *lvtpc |= LVT_MASKED;
        uint32_t before = *lvtpc;
        struct hyper_answer done = hyper_call_with(number, host_work ? SLICE_BRANCHES : ~0ul,
                                                   PERIOD, 0);
        sums->pmis += done.rax;
        sums->counted += done.rbx;
        sums->changed += *lvtpc != before;
    }
    spin_branches(GUEST_BRANCHES);
    sums->guest = stop_counter(fd);
    *lvtpc &= ~LVT_MASKED;
    close(fd);
    return 0;
}

volatile uint32_t *map_lvtpc(void)
{
    int mem = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    void *page = MAP_FAILED;

    if (mem >= 0) {
        page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mem, APIC_PAGE);
        close(mem);
    }
    return page == MAP_FAILED ? NULL : (volatile uint32_t *)((char *)page + LVT_PMI);
}

/* Nothing else shall run: with every switch to another task and back the kernel starts the counter
 * anew, and unmasks. */
static bool run_alone(void)
{
    struct sched_param first = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};

    return write_text("/proc/sys/kernel/sched_rt_runtime_us", "-1\n") == 0 &&
           sched_setscheduler(0, SCHED_FIFO, &first) == 0;
}

static void run_with_others(void)
{
    struct sched_param usual = {.sched_priority = 0};

    sched_setscheduler(0, SCHED_OTHER, &usual);
}

JOB(masking)
{
    struct sums idle, work;
    int error;

    lvtpc = map_lvtpc();
    if (lvtpc == NULL || !run_alone())
        return fail_job("masking", "cannot map the local APIC or run alone", errno);
    perf_lift_limits();
    /* The first run is for first uses (page faults), and belongs to no result. */
    error = run(HYPERCALL_STATISTICS, false, &idle);
    if (error == 0)
        error = run(HYPERCALL_STATISTICS, false, &idle);
    if (error == 0)
        error = run(HYPERCALL_HOST_WORK, true, &work);
    run_with_others();
    if (error != 0)
        return fail_job("masking", "perf_event_open", -error);
    printf("masking: expected=%lu pmis=%ld counted=%lu changed=%u guest=%lld idle=%lld\n",
           SLICES * SLICE_BRANCHES / PERIOD, work.pmis, (unsigned long)work.counted, work.changed,
           work.guest, idle.guest);
    return work.pmis != (long)(SLICES * SLICE_BRANCHES / PERIOD) || work.changed != 0 ||
           work.guest != idle.guest;
}
