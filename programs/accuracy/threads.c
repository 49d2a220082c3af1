/* SPDX-License-Identifier: BSD-2-Clause
 * threads.c: several threads that share one processor, so that each context switch moves their
 * counters out of the PMU and back. The thread that started them wakes up all the time for nothing
 * else than to make the kernel switch.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "accuracy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define WAKE_UP_NANOSECONDS 50000

/* The threads and the one that started them. */
static pthread_barrier_t ready, start;
static atomic_uint running;

void threads_meet(void)
{
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&start);
}

uint64_t thread_switches(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)(usage.ru_nivcsw + usage.ru_nvcsw);
}

static void *thread_main(void *argument)
{
    struct thread_work *own = argument;

    own->done = own->work(own);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

bool threads_run(struct thread_work work[THREADS], uint32_t region)
{
    static const struct timespec pause = {.tv_nsec = WAKE_UP_NANOSECONDS};
    pthread_t thread[THREADS];
    bool done = true;
    int error = pthread_barrier_init(&ready, NULL, THREADS + 1);

    if (error == 0) {
        error = pthread_barrier_init(&start, NULL, THREADS + 1);
    }
    atomic_store(&running, THREADS);
    for (unsigned i = 0; error == 0 && i < THREADS; i++) {
        work[i].number = i + 1;
        error = pthread_create(&thread[i], NULL, thread_main, &work[i]);
    }
    if (error != 0) {
        failed("cannot start %d threads: %s", THREADS, strerror(error));
        /* One that did start waits for the others, with pointers into the caller's frame. */
        exit(EXIT_FAILURE);
    }
    /* The kernel may wake up later than asked for by this much, by default half of the pause. */
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_barrier_wait(&ready);
    region_mark(region, true);
    pthread_barrier_wait(&start);
    while (atomic_load(&running) > 0) {
        nanosleep(&pause, NULL);
    }
    region_mark(region, false);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        done &= work[i].done;
    }
    pthread_barrier_destroy(&ready);
    pthread_barrier_destroy(&start);
    return done;
}
