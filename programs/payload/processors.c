/* SPDX-License-Identifier: BSD-2-Clause
 * processors.c: helpers of the jobs about several processors, over /proc, sched_setaffinity() and
 * perf_event_open(). SDM Vol. 3, "Performance Monitoring".
 */
#define _GNU_SOURCE
#include "smp.h"

#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int processors_online(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

bool processor_is_online(int cpu)
{
    char path[64];
    char *text;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
    text = read_text(path);
    /* The first processor has no such file: it cannot be switched off. */
    return text == NULL ? cpu == 0 : text[0] == '1';
}

const char *hybrid_pmu(int cpu, uint32_t *type)
{
    static const char *const names[] = {"cpu_core", "cpu_atom"};
    char path[64];

    *type = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), PMUS "/%s/cpus", names[i]);
        char *list = read_text(path);
        for (char *word; (word = next_word(&list, ",\n")) != NULL;) {
            int first, last, count = sscanf(word, "%d-%d", &first, &last);

            if (count < 1 || cpu < first || cpu > (count == 2 ? last : first))
                continue;
            snprintf(path, sizeof(path), PMUS "/%s/type", names[i]);
            char *text = read_text(path);
            *type = text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
            return names[i];
        }
    }
    return NULL;
}

int pin(pid_t process, int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(process, sizeof(set), &set) == 0 ? 0 : -errno;
}

void print_growth(const char *name, const long long before[], const long long after[], int count)
{
    printf(" %s=", name);
    for (int i = 0; i < count; i++)
        printf("%s%lld", i == 0 ? "" : ",", after[i] - before[i]);
}

static int open_counter(pid_t process, uint32_t type, uint64_t config)
{
    struct perf_event_attr attr = {
        .type = type,
        .size = sizeof(attr),
        .config = config,
        .exclude_kernel = type == PERF_TYPE_HARDWARE,
        .disabled = 1,
        .enable_on_exec = 1,
    };

    return (int)syscall(SYS_perf_event_open, &attr, process, -1, -1, 0);
}

static void wait_and_run(int start, int cpu)
{
    char byte;

    if ((cpu < 0 || pin(0, cpu) == 0) && read(start, &byte, 1) == 1)
        execl("/loop", "/loop", (char *)NULL);
    _exit(127);
}

int counted_make(struct counted *c, int cpu)
{
    static const struct {
        uint32_t type;
        uint64_t config;
    } events[] = {{PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
                  {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
                  {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS}};
    uint32_t pmu = 0;
    int ends[2];

    if (pipe(ends) != 0)
        return -errno;
    if (cpu >= 0)
        (void)hybrid_pmu(cpu, &pmu);
    fflush(stdout);
    c->process = fork();
    if (c->process == 0) {
        close(ends[1]);
        wait_and_run(ends[0], cpu);
    }
    close(ends[0]);
    c->start = ends[1];
    if (c->process < 0)
        return -errno;
    for (int i = 0; i < 3; i++) {
        bool hardware = events[i].type == PERF_TYPE_HARDWARE;

        c->fds[i] = open_counter(c->process, events[i].type,
                                 events[i].config |
                                     (hardware ? (uint64_t)pmu << PERF_PMU_TYPE_SHIFT : 0));
        if (c->fds[i] < 0)
            return -errno;
    }
    return 0;
}

int counted_start(struct counted *c) { return write(c->start, "", 1) == 1 ? 0 : -errno; }

int counted_finish(struct counted *c, bool ended)
{
    long long *const values[] = {&c->instructions, &c->branches, &c->migrations};
    int status = 0, error = 0;

    if (!ended && (waitpid(c->process, &status, 0) != c->process || status != 0))
        error = -ECHILD;
    close(c->start);
    for (int i = 0; i < 3; i++) {
        if (read(c->fds[i], values[i], sizeof(*values[i])) != sizeof(*values[i]))
            error = -EIO;
        close(c->fds[i]);
    }
    return error;
}

pid_t spin_on(int cpu, uint64_t rounds)
{
    fflush(stdout);

    pid_t child = fork();
    if (child == 0) {
        pin(0, cpu);
        spin_branches(rounds);
        _exit(0);
    }
    return child;
}
