/* SPDX-License-Identifier: BSD-2-Clause
 * threads.c: several threads at once: on one processor, so that each context switch moves their
 * counters out of the PMU and back; on several; or moved from one to another. The thread that
 * started them wakes up all the time for nothing else than to make the kernel switch, or to move.
 * On one processor it gives each of them its turn by priority: when the fair class switches is
 * another matter in each kernel. sched(7), "Scheduling policies".
 */
#define _GNU_SOURCE /* RUSAGE_THREAD, CPU_SET and sched_setaffinity() */
#include "accuracy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TURN_NANOSECONDS 50000
#define PRIORITY_OF_TURN 1
#define PRIORITY_OF_WAKER 2
#define MOVES_SEED 0x13198a2e03707344u

/* The threads and the one that started them. */
static pthread_barrier_t ready, start;
static atomic_uint running;
static atomic_int ids[THREADS_MAX]; /* 0: the thread has ended, or not begun */
/* The processors that the process had before anything was bound. */
static unsigned usable[PROCESSORS_MAX], usable_count;
/* How long the one that gives turns, and moves threads, sleeps in between. */
static struct timespec turn_length = {.tv_nsec = TURN_NANOSECONDS};

void threads_take_turns_of(unsigned nanoseconds) { turn_length.tv_nsec = nanoseconds; }

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

/* Binds a thread, 0 for the calling one, to one of the usable processors. */
static bool bind_thread(pid_t id, unsigned number)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(usable[number % usable_count], &set);
    return sched_setaffinity(id, sizeof(set), &set) == 0;
}

static void find_usable(void)
{
    cpu_set_t set;

    if (usable_count != 0 || sched_getaffinity(0, sizeof(set), &set) != 0)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && usable_count < PROCESSORS_MAX; cpu++)
        if (CPU_ISSET(cpu, &set))
            usable[usable_count++] = cpu;
}

unsigned processors_usable(void) { return usable_count; }

bool threads_stay_here(void)
{
    find_usable();
    return (usable_count != 0 && bind_thread(0, 0)) ||
           failed("cannot bind to a processor: %s", strerror(errno));
}

/* The thread may have ended by now, so that nothing comes of it. */
static void move_threads(unsigned count, uint64_t *random)
{
    for (unsigned i = 0; i < count; i++) {
        pid_t id = atomic_load(&ids[i]);

        if (id != 0)
            bind_thread(id, (unsigned)(next_random(random) % usable_count));
    }
}

/* 0: the fair class. Without the right to real-time priorities all stay there. */
static void set_priority(pid_t id, int priority)
{
    const struct sched_param param = {.sched_priority = priority};

    sched_setscheduler(id, priority != 0 ? SCHED_FIFO : SCHED_OTHER, &param);
}

/* The thread after the one whose turn it was, of those that have not ended. */
static unsigned next_turn(unsigned turn, unsigned count)
{
    for (unsigned n = 0; n < count; n++) {
        turn = (turn + 1) % count;
        if (atomic_load(&ids[turn]) != 0)
            break;
    }
    for (unsigned i = 0; i < count; i++) {
        pid_t id = atomic_load(&ids[i]);

        if (id != 0)
            set_priority(id, i == turn ? PRIORITY_OF_TURN : 0);
    }
    return turn;
}

static void *thread_main(void *argument)
{
    struct thread_work *own = argument;

    if (own->place == PLACE_OWN)
        bind_thread(0, own->number - 1);
    atomic_store(&ids[own->number - 1], (int)syscall(SYS_gettid));
    own->done = own->work(own);
    atomic_store(&ids[own->number - 1], 0);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

bool threads_run(struct thread_work *work, unsigned count, enum place place, uint32_t region)
{
    bool turns = place == PLACE_SHARED || usable_count == 1;
    unsigned turn = 0;
    pthread_t thread[THREADS_MAX];
    uint64_t random = MOVES_SEED;
    bool done = true;
    int error = pthread_barrier_init(&ready, NULL, count + 1);

    if (error == 0)
        error = pthread_barrier_init(&start, NULL, count + 1);
    atomic_store(&running, count);
    for (unsigned i = 0; error == 0 && i < count; i++) {
        work[i].number = i + 1;
        work[i].place = place;
        error = pthread_create(&thread[i], NULL, thread_main, &work[i]);
    }
    if (error != 0) {
        failed("cannot start %u threads: %s", count, strerror(error));
        /* One that did start waits for the others, with pointers into the caller's frame. */
        exit(EXIT_FAILURE);
    }
    set_priority(0, PRIORITY_OF_WAKER); /* not before: a new thread inherits it */
    /* The kernel may wake up later than asked for by this much, by default half of the pause. */
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_barrier_wait(&ready);
    region_mark(region, true);
    pthread_barrier_wait(&start);
    while (atomic_load(&running) > 0) {
        if (turns)
            turn = next_turn(turn, count);
        nanosleep(&turn_length, NULL);
        if (place == PLACE_MIGRATED)
            move_threads(count, &random);
    }
    set_priority(0, 0);
    region_mark(region, false);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(thread[i], NULL);
        done &= work[i].done;
    }
    pthread_barrier_destroy(&ready);
    pthread_barrier_destroy(&start);
    return done;
}
