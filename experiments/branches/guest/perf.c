/* SPDX-License-Identifier: BSD-2-Clause
 * perf.c: samples with the whole branch stack, every `period` taken near branches. Consecutive
 * stacks overlap: of each, the newest entries with as many near branches as the period are new.
 * <linux/perf_event.h>, "perf_event_type" (the layout of samples), "perf_event_mmap_page".
 */
#define _GNU_SOURCE /* syscall() */
#include "perf.h"

#include "trace.h"

#include "programs/measure/region.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEAR_TAKEN 0x20c4 /* BR_INST_RETIRED.NEAR_TAKEN of Skylake */
#define PAGE 4096u
#define SAMPLE_RATE "/proc/sys/kernel/perf_event_max_sample_rate"
#define TIME_PERCENT "/proc/sys/kernel/perf_cpu_time_max_percent"
#define PERIOD_MAX 31u

/* What PERF_SAMPLE_BRANCH_STACK writes. */
struct stack {
    struct perf_event_header header;
    uint64_t count;
    struct perf_branch_entry entries[];
};

static int open_event(const struct branchtrace_setup *setup)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_RAW,
        .size = sizeof(attr),
        .config = NEAR_TAKEN,
        .sample_period = setup->period,
        .sample_type = PERF_SAMPLE_BRANCH_STACK,
        .branch_sample_type = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_ANY,
        .exclude_kernel = 1,
        .disabled = 1,
    };

    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Appends what is new in one stack, oldest first. */
static void append(struct perf_list *found, const struct stack *stack, uint32_t period, size_t room)
{
    size_t first = 0, near = 0;

    while (first < stack->count && near < period) {
        near += user_address(stack->entries[first].from);
        first++;
    }
    found->samples++;
    /* Fewer near branches than the period: the stack has lost some. */
    found->list.gaps += near != period;
    for (size_t i = first; i-- > 0 && found->list.count < room;) {
        const struct perf_branch_entry *entry = &stack->entries[i];
        struct branchtrace_record *record = &found->list.records[found->list.count];

        if (!user_address(entry->from))
            continue;
        *record = (struct branchtrace_record){entry->from, entry->to,
                                              entry->cycles |
                                                  (entry->mispred ? BRANCHTRACE_MISPREDICTED : 0)};
        if (i == first - 1)
            record->info |= LIST_AFTER_READOUT;
        if (found->list.count > 0 && record->from - record[-1].to >= STRAIGHT_MAX)
            found->list.gaps++;
        found->list.count++;
    }
}

static void read_samples(struct perf_list *found, const struct perf_event_mmap_page *page,
                         uint32_t period, size_t room)
{
    const char *data = (const char *)page + page->data_offset;

    for (uint64_t at = page->data_tail; at < page->data_head;) {
        const struct perf_event_header *header = (const void *)(data + at % page->data_size);

        if (header->type == PERF_RECORD_SAMPLE)
            append(found, (const struct stack *)header, period, room);
        else if (header->type == PERF_RECORD_LOST || header->type == PERF_RECORD_THROTTLE)
            found->lost++;
        at += header->size;
    }
}

bool perf_trace(const struct branchtrace_setup *setup, uint32_t region, void (*work)(void *),
                void *argument, struct perf_list *found)
{
    /* 32 entries of 24 bytes for each `period` branches, in a power of two of pages. */
    size_t samples = setup->records / setup->period + 1, pages = 1;
    struct perf_event_mmap_page *page;
    bool done = false;
    int fd;

    if (setup->period > PERIOD_MAX)
        return complain("found period %u, wanted at most %u for perf", setup->period, PERIOD_MAX);
    while (pages * PAGE < samples * (32 * sizeof(struct perf_branch_entry) + 16))
        pages *= 2;
    /* perf would throttle a PMI every few branches; without a share of time it takes no rate. */
    if (!set_kernel(NMI_WATCHDOG, "0") || !set_kernel(SAMPLE_RATE, "1000000000") ||
        !set_kernel(TIME_PERCENT, "0")) {
        return false;
    }
    fd = open_event(setup);
    if (fd < 0)
        return complain("perf_event_open: %s; wanted a PMU with branch records", strerror(errno));
    page = mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    found->list.records = malloc(setup->records * sizeof(*found->list.records));
    if (page == MAP_FAILED || found->list.records == NULL) {
        complain("no room for %zu pages of samples: %s; wanted fewer records (-n)", pages,
                 strerror(errno));
    } else {
        work(argument);
        ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
        region_mark(region, true);
        work(argument);
        region_mark(region, false);
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        done = read(fd, &found->near_taken, sizeof(found->near_taken)) == 8;
        read_samples(found, page, setup->period, setup->records);
    }
    if (page != MAP_FAILED)
        munmap(page, (pages + 1) * PAGE);
    close(fd);
    return done;
}
