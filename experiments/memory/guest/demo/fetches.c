/* SPDX-License-Identifier: BSD-2-Clause
 *
 * fetches.c: system calls whose structure Linux reads twice, first its size (perf_copy_attr() in
 * kernel/events/core.c, sched_copy_attr() in kernel/sched/), and one whose buffer it reads once.
 * Says where each lies.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct perf_event_attr attr __attribute__((aligned(64))) = {
    .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY};
static struct sched_attr sched __attribute__((aligned(64))) = {.size = sizeof(sched)};
static char once[64] __attribute__((aligned(64)));

int main(void)
{
    int ends[2];

    printf("fetches: perf=%p sched=%p once=%p\n", (void *)&attr.size, (void *)&sched.size,
           (void *)once);
    fflush(stdout);
    long event = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    long set = syscall(SYS_sched_setattr, 0, &sched, 0);
    if (pipe(ends) != 0 || write(ends[1], once, sizeof(once)) != sizeof(once))
        return 1;
    return event < 0 || set != 0;
}
