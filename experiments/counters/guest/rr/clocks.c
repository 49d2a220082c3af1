/* SPDX-License-Identifier: BSD-2-Clause
 *
 * clocks.c: timers: of POSIX and of a file descriptor, and sleep; clocks: the time, the time stamp
 * counter and who made the processor; cpuid: what it is, and whether it is a guest's; random:
 * bytes, addresses and process numbers.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define READS 5
#define SHORT_NS 2000000

static volatile sig_atomic_t fired;

static void on_timer(int number)
{
    (void)number;
    fired++;
}

int run_timers(void)
{
    struct itimerspec once = {.it_value.tv_nsec = SHORT_NS};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    struct timespec pause = {0, SHORT_NS};
    uint64_t times = 0;
    uint32_t rounds = 0;
    timer_t timer;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0);

    signal(SIGUSR2, on_timer);
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    must(timer_settime(timer, 0, &once, NULL) == 0 && timerfd_settime(fd, 0, &once, NULL) == 0,
         "settime");
    while (fired == 0)
        rounds = work(rounds, 100);
    must(read(fd, &times, sizeof(times)) == sizeof(times), "read");
    must(nanosleep(&pause, NULL) == 0, "nanosleep");
    printf("timers: fired %d, read %lu\n", (int)fired, (unsigned long)times);
    varies("rounds %u", rounds);
    return 0;
}

int run_clocks(void)
{
    unsigned eax, ebx, ecx, edx, low, high;
    struct timespec now;
    struct timeval day;

    __cpuid(0, eax, ebx, ecx, edx);
    printf("clocks: CPUID's maker %08x %08x %08x\n", ebx, edx, ecx);
    for (unsigned i = 0; i < READS; i++) {
        __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
        clock_gettime(CLOCK_MONOTONIC, &now);
        gettimeofday(&day, NULL);
        varies("%08x%08x %ld.%09ld %ld.%06ld", high, low, (long)now.tv_sec, now.tv_nsec,
               (long)day.tv_sec, (long)day.tv_usec);
    }
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(ecx));
    varies("%08x%08x on %u, %d", high, low, ecx, (int)time(NULL));
    printf("clocks: %d times read\n", READS);
    return 0;
}

/* What a hypervisor shows otherwise. */
int run_cpuid(void)
{
    unsigned eax, ebx, ecx, edx;

    __cpuid(1, eax, ebx, ecx, edx);
    varies("leaf 1 %08x %08x %08x %08x", eax, ebx, ecx, edx);
    printf("cpuid: done\n");
    return 0;
}

int run_random(void)
{
    uint64_t bytes[2];
    int fd = open("/dev/urandom", O_RDONLY);
    void *place;
    const uint64_t *given = (const uint64_t *)getauxval(AT_RANDOM);

    must(getrandom(&bytes[0], sizeof(bytes[0]), 0) == sizeof(bytes[0]), "getrandom");
    must(read(fd, &bytes[1], sizeof(bytes[1])) == sizeof(bytes[1]), "read");
    varies("bytes %016lx %016lx %016lx", bytes[0], bytes[1], given[0]);
    place = malloc(sizeof(bytes));
    varies("addresses %p %p %p", (void *)words, (void *)run_random, place);
    free(place);
    varies("process %d of %d", getpid(), getppid());
    printf("random: %u\n", work((uint32_t)bytes[0], (unsigned)(bytes[0] % 1000)) != 0);
    return 0;
}
