/* SPDX-License-Identifier: BSD-2-Clause
 * support.c: small helpers of the guest's programs over /proc, /sys, the kernel log and CPUID.
 * SDM Vol. 2, "CPUID - CPU Identification".
 */
#include "payload.h"
#include "smp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_PROGRAM 127 /* as a shell has it */
#define TEXT_MAX (64 * 1024)
#define KERNEL_LOG_MAX (512 * 1024)
#define SYSLOG_ACTION_READ_ALL 3

char *read_text(const char *path)
{
    static char text[TEXT_MAX];
    size_t used = 0;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    while (used < sizeof(text) - 1 && (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    text[used] = '\0';
    return text;
}

int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int error = 0;

    if (fd < 0)
        return -errno;
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        error = -errno;
    close(fd);
    return error;
}

int fail_job(const char *job, const char *what, int error)
{
    printf("%s: error=\"%s: %s\"\n", job, what, strerror(error));
    return 1;
}

int perf_lift_limits(void)
{
    static const char percent[] = "/proc/sys/kernel/perf_cpu_time_max_percent";
    static const char rate[] = "/proc/sys/kernel/perf_event_max_sample_rate";
    /* The rate cannot be set while the time limit is off, as an earlier job may have left it. */
    int error = write_text(percent, "25\n");

    if (error == 0)
        error = write_text(rate, "10000000\n");
    if (error == 0)
        error = write_text(percent, "0\n");
    nmi_watchdog_set(false);
    return error;
}

static const char nmi_watchdog[] = "/proc/sys/kernel/nmi_watchdog";

bool nmi_watchdog_runs(void)
{
    const char *text = read_text(nmi_watchdog);

    return text != NULL && text[0] == '1';
}

void nmi_watchdog_set(bool on)
{
    if (nmi_watchdog_runs() != on)
        write_text(nmi_watchdog, on ? "1\n" : "0\n");
}

char *next_word(char **text, const char *ends)
{
    char *word;

    do
        word = strsep(text, ends);
    while (word != NULL && *word == '\0');
    return word;
}

int run_program(const char *output, char *const words[])
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (output == NULL || (freopen(output, "w", stdout) != NULL &&
                               dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO))
            execv(words[0], words);
        fprintf(stderr, "error=\"%s: %s\"\n", words[0], strerror(errno));
        _exit(NO_PROGRAM);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return NO_PROGRAM;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

long long interrupt_counts(const char *name, long long counts[PROCESSORS_MAX])
{
    char *text = read_text("/proc/interrupts");
    size_t length = strlen(name);

    memset(counts, 0, PROCESSORS_MAX * sizeof(counts[0]));
    for (char *line; (line = next_word(&text, "\n")) != NULL;) {
        char *at = line + strspn(line, " "), *end;
        long long sum = 0;

        if (strncmp(at, name, length) != 0 || at[length] != ':')
            continue;
        at += length + 1;
        for (int i = 0;; i++, at = end) {
            long long value = strtoll(at, &end, 10);

            if (end == at)
                return sum;
            if (i < PROCESSORS_MAX)
                counts[i] = value;
            sum += value;
        }
    }
    return -1;
}

long long interrupt_count(const char *name)
{
    long long counts[PROCESSORS_MAX];

    return interrupt_counts(name, counts);
}

int load_module(const char *name) { return load_module_with(name, ""); }

int load_module_with(const char *name, const char *parameters)
{
    char path[128];
    int error = 0;
    int fd;

    snprintf(path, sizeof(path), "/lib/modules/%s.ko", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (syscall(SYS_finit_module, fd, parameters, 0) != 0 && errno != EEXIST)
        error = -errno;
    close(fd);
    return error;
}

void print_ticks(const char *experiment, const char *item, unsigned region, unsigned ops,
                 uint64_t ticks)
{
    unsigned long once = ticks;

    printf("bench: experiment=%s item=%s region=%u ops=%u metric=time unit=tsc n=1 min=%lu "
           "median=%lu p95=%lu\n",
           experiment, item, region, ops, once, once, once);
}

void load_drivers(void)
{
    FILE *order = fopen("/lib/modules/storage.order", "re");
    char name[64];

    while (order != NULL && fscanf(order, "%63s", name) == 1)
        (void)load_module(name);
    if (order != NULL)
        fclose(order);
}

int print_kernel_log(const char *prefix, const char *const words[], size_t count)
{
    char *log = malloc(KERNEL_LOG_MAX), *rest = log;
    int length, printed = 0;

    if (log == NULL)
        return 0;
    length = klogctl(SYSLOG_ACTION_READ_ALL, log, KERNEL_LOG_MAX - 1);
    log[length > 0 ? length : 0] = '\0';
    for (char *line; (line = next_word(&rest, "\n")) != NULL;) {
        for (size_t i = 0; i < count; i++) {
            if (strstr(line, words[i]) != NULL) {
                printf("%s: %s\n", prefix, line);
                printed++;
                break;
            }
        }
    }
    free(log);
    return printed;
}

struct cpuid_regs cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid_regs r;

    __asm__ volatile("cpuid"
                     : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
                     : "a"(leaf), "c"(subleaf));
    return r;
}

long long stop_counter(int fd)
{
    long long count;

    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    return read(fd, &count, sizeof(count)) == sizeof(count) ? count : -1;
}

int open_user_branches(uint64_t period)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
        .exclude_kernel = 1,
        .disabled = 1,
        .sample_period = period,
    };

    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}
