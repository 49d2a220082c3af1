/* SPDX-License-Identifier: BSD-2-Clause
 * counters.c: the five events of the calling thread as one group of perf_event_open(), read by
 * read() or, through the events' mapped pages, by RDPMC in user mode. <linux/perf_event.h>, "struct
 * perf_event_mmap_page". SDM Vol. 3, "Performance Monitoring"; Vol. 2, "RDPMC".
 */
#include "accuracy.h"

#include "programs/payload/payload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNTER_BITS 64
/* Linux's PMU "msr", whose one event without a check of the processor is the TSC:
 * Documentation/ABI/testing/sysfs-bus-event_source-devices-events. */
#define MSR_PMU_TYPE "/sys/bus/event_source/devices/msr/type"
#define MSR_PMU_TSC "/sys/bus/event_source/devices/msr/events/tsc"

const char *const event_names[EVENTS] = {"cycles", "instructions", "branches", "llc_references",
                                         "llc_misses"};

static const uint64_t event_config[EVENTS] = {
    PERF_COUNT_HW_CPU_CYCLES,       PERF_COUNT_HW_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
    PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CACHE_MISSES,
};

int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu, int group_fd,
                    unsigned long flags)
{
    return (int)syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);
}

/* The number after the prefix in a file of sysfs; false: there is none. */
static bool number_of(const char *name, const char *prefix, uint64_t *number)
{
    const char *text = read_text(name);

    if (text == NULL || strncmp(text, prefix, strlen(prefix)) != 0)
        return false;
    *number = strtoull(text + strlen(prefix), NULL, 0);
    return true;
}

/* It has no modes to choose from: what the kernel does for the thread is in its count. */
static int open_tsc(int leader)
{
    uint64_t type, event;
    struct perf_event_attr attr = {.size = sizeof(attr)};

    if (!number_of(MSR_PMU_TYPE, "", &type) || !number_of(MSR_PMU_TSC, "event=", &event))
        return -1;
    attr.type = (uint32_t)type;
    attr.config = event;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                       PERF_FORMAT_TOTAL_TIME_RUNNING;
    return perf_event_open(&attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

bool counters_open(struct counters *c, bool user_only)
{
    c->tsc = -1;
    for (unsigned i = 0; i < EVENTS; i++) {
        c->fd[i] = -1;
        c->page[i] = MAP_FAILED;
    }
    for (unsigned i = 0; i < EVENTS; i++) {
        struct perf_event_attr attr = {
            .type = PERF_TYPE_HARDWARE,
            .size = sizeof(attr),
            .config = event_config[i],
            .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
                           PERF_FORMAT_TOTAL_TIME_RUNNING,
            .exclude_kernel = user_only,
            .disabled = i == 0,
        };

        c->fd[i] = perf_event_open(&attr, 0, -1, c->fd[0], PERF_FLAG_FD_CLOEXEC);
        if (c->fd[i] < 0) {
            int error = errno;

            counters_close(c);
            return failed("perf_event_open for %s: %s; wanted a PMU that counts it, and "
                          "kernel.perf_event_paranoid at most 2",
                          event_names[i], strerror(error));
        }
    }
    c->tsc = open_tsc(c->fd[0]);
    return true;
}

bool counters_map(struct counters *c)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        c->page[i] = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, c->fd[i], 0);
        if (c->page[i] == MAP_FAILED)
            return failed("cannot map the page of %s: %s", event_names[i], strerror(errno));
    }
    return true;
}

void counters_close(struct counters *c)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        if (c->page[i] != MAP_FAILED)
            munmap((void *)(uintptr_t)c->page[i], (size_t)sysconf(_SC_PAGESIZE));
        if (c->fd[i] >= 0)
            close(c->fd[i]);
    }
    if (c->tsc >= 0)
        close(c->tsc);
}

void counters_enable(const struct counters *c)
{
    ioctl(c->fd[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

void counters_reset(const struct counters *c)
{
    ioctl(c->fd[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
    ioctl(c->fd[0], PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
}

bool counters_read(const struct counters *c, struct counts *counts)
{
    struct {
        uint64_t events, time_enabled, time_running, value[EVENTS + 1];
    } group = {0};
    uint64_t wanted = EVENTS + (c->tsc >= 0);
    size_t bytes = sizeof(group) - (EVENTS + 1 - wanted) * sizeof(uint64_t);

    if (read(c->fd[0], &group, sizeof(group)) != (ssize_t)bytes || group.events != wanted)
        return failed("cannot read the counters: %s", strerror(errno));
    if (group.time_running == 0 || group.time_enabled != group.time_running) {
        return failed("the counters ran %llu of %llu ns, wanted all of them; end what else counts "
                      "(the NMI watchdog, another perf)",
                      (unsigned long long)group.time_running,
                      (unsigned long long)group.time_enabled);
    }
    memcpy(counts->value, group.value, sizeof(counts->value));
    counts->tsc = group.value[EVENTS];
    return true;
}

bool counters_stop_watchdog(void)
{
    nmi_watchdog_set(false);
    return !nmi_watchdog_runs() ||
           failed("cannot stop the NMI watchdog, which takes a counter; run this as root");
}

bool counter_rdpmc(const volatile struct perf_event_mmap_page *page, uint64_t *count)
{
    uint32_t lock, index;

    do {
        lock = page->lock;
        __asm__ volatile("" : : : "memory");
        index = page->index;
        *count = (uint64_t)page->offset;
        if (page->cap_user_rdpmc && index != 0) {
            uint32_t low, high;
            unsigned unused = COUNTER_BITS - page->pmc_width;

            __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
            /* The counter holds the count's distance from the offset, with its sign. */
            *count += (uint64_t)((int64_t)(((uint64_t)high << 32 | low) << unused) >> unused);
        }
        __asm__ volatile("" : : : "memory");
    } while (page->lock != lock);
    return page->cap_user_rdpmc && index != 0;
}
