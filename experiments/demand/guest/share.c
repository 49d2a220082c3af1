/* SPDX-License-Identifier: BSD-2-Clause
 * share.c: the job `share`: a program that computes, and is profiled for a share of the time,
 * in sessions: each session is work of a known length, of which the first part is sampled as `perf
 * record -F` has it (cycles, in frequency mode, into a ring that is overwritten), and the rest is
 * not. Each share is a region of the ledger, marked around all its sessions.
 *
 * Words: pmv.share=0,50,100 (percent), pmv.share_freq=1000 (samples a second),
 * pmv.share_sessions=4, pmv.share_work=20000 (thousands of rounds of two instructions, a
 * session).
 * SDM Vol. 3, "Performance Monitoring".
 */
#define _GNU_SOURCE
#include "payload.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WORD_MAX 128
#define REGION_SHARE 2800 /* and so much more as the share has percents */
#define RING_BYTES ((1 + 8) * 4096ul)
#define NANOSECONDS_PER_SECOND 1000000000ll
#define PERCENT 100
#define THOUSAND 1000ul

static unsigned long number(const char *key, const char *fallback)
{
    char word[WORD_MAX];

    command_line_word(key, fallback, word, sizeof(word));
    return strtoul(word, NULL, 10);
}

static void work(unsigned long rounds)
{
    if (rounds > 0)
        __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

static int sampled(unsigned long frequency)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_HW_CPU_CYCLES,
        .freq = 1,
        .sample_freq = frequency,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD,
        .disabled = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

    if (fd >= 0 && mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED) {
        close(fd);
        return -1;
    }
    return fd;
}

static int run(unsigned long share, unsigned long frequency, unsigned long sessions,
               unsigned long rounds)
{
    struct timespec start, end;
    unsigned long profiled = rounds / PERCENT * share;
    int fd = sampled(frequency);

    if (fd < 0) {
        printf("share: share=%lu error=\"%s\"\n", share, strerror(errno));
        return 1;
    }
    long long pmis = interrupt_count("PMI");
    region_begin((uint32_t)(REGION_SHARE + share));
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned long i = 0; i < sessions; i++) {
        if (share > 0) {
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
            work(profiled);
            ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
        }
        work(rounds - profiled);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    region_end((uint32_t)(REGION_SHARE + share));
    printf("share: share=%lu freq=%lu sessions=%lu pmis=%lld ns=%lld\n", share, frequency, sessions,
           interrupt_count("PMI") - pmis,
           (end.tv_sec - start.tv_sec) * NANOSECONDS_PER_SECOND + (end.tv_nsec - start.tv_nsec));
    close(fd);
    return 0;
}

int main(void)
{
    char shares[WORD_MAX], *rest = NULL;
    unsigned long frequency = number("pmv.share_freq", "1000");
    unsigned long sessions = number("pmv.share_sessions", "4");
    unsigned long rounds = number("pmv.share_work", "20000") * THOUSAND;
    bool watchdog = nmi_watchdog_runs();
    int failed = perf_lift_limits(); /* which ends the watchdog */

    nmi_watchdog_set(watchdog);

    command_line_word("pmv.share", "0,50,100", shares, sizeof(shares));
    for (char *one = strtok_r(shares, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest))
        failed |= run(strtoul(one, NULL, 10), frequency, sessions, rounds);
    return failed != 0;
}
