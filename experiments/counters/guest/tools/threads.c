/* SPDX-License-Identifier: BSD-2-Clause
 * threads.c: what PAPI's own tests of threads do not say: whose overflow it was, to the last one,
 * and whether a count by RDPMC stays whole when its thread moves. Links PAPI as any program does.
 *
 *   threads overflow   threads that share processor 0 and give it away after each block of work
 *   threads migrate    two threads that swap the processors 0 and 1 after each block of work
 *
 * Prints lines "threads: mode=... key=value ..."; exit status 1: an error line says what failed.
 * PAPI's manual: PAPI_overflow(3), PAPI_read(3), PAPI_thread_init(3).
 */
#define _GNU_SOURCE
#include <papi.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define MOVING 2
#define BLOCK 20000 /* branches of one block of work */
#define BLOCKS 20   /* of thread 0; thread n has n + 1 times as many */
#define THRESHOLD 7919
#define MOVES 100

static struct thread {
    int number;
    pthread_t id;
    int events;
    long long overflows;
    long long strangers; /* of others' event sets, or in another thread */
    long long least, most, last, total;
} threads[THREADS];

static pthread_barrier_t together;

static void fail(const char *format, ...)
{
    va_list arguments;

    printf("threads: error=\"");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\"\n");
    fflush(stdout);
    _exit(1);
}

static void expect(int status, const char *what)
{
    if (status != PAPI_OK)
        fail("%s: %s", what, PAPI_strerror(status));
}

static void run_on(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        fail("cannot run on processor %d", processor);
}

/* So many branches, and a known number of instructions. */
static void work(long rounds) { __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc"); }

static void on_overflow(int events, void *address, long long vector, void *context)
{
    (void)address;
    (void)vector;
    (void)context;
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].events != events)
            continue;
        if (pthread_equal(threads[i].id, pthread_self()))
            threads[i].overflows++;
        else
            threads[i].strangers++;
        return;
    }
    threads[0].strangers++;
}

static void count_branches(struct thread *t)
{
    t->id = pthread_self();
    expect(PAPI_register_thread(), "PAPI_register_thread");
    t->events = PAPI_NULL;
    expect(PAPI_create_eventset(&t->events), "PAPI_create_eventset");
    expect(PAPI_add_event(t->events, PAPI_BR_INS), "PAPI_add_event PAPI_BR_INS");
}

static void stop(struct thread *t)
{
    expect(PAPI_stop(t->events, &t->total), "PAPI_stop");
    expect(PAPI_unregister_thread(), "PAPI_unregister_thread");
}

static void *overflowing(void *argument)
{
    struct thread *t = argument;

    run_on(0);
    count_branches(t);
    expect(PAPI_overflow(t->events, PAPI_BR_INS, THRESHOLD, 0, on_overflow), "PAPI_overflow");
    pthread_barrier_wait(&together);
    expect(PAPI_start(t->events), "PAPI_start");
    for (int block = 0; block < BLOCKS * (t->number + 1); block++) {
        work(BLOCK);
        sched_yield();
    }
    stop(t);
    return NULL;
}

static void *moving(void *argument)
{
    struct thread *t = argument;
    long long before, now;

    run_on(t->number);
    count_branches(t);
    pthread_barrier_wait(&together);
    expect(PAPI_start(t->events), "PAPI_start");
    expect(PAPI_read(t->events, &before), "PAPI_read");
    for (int move = 0; move < MOVES; move++) {
        work(BLOCK);
        run_on((t->number + move + 1) % MOVING);
        expect(PAPI_read(t->events, &now), "PAPI_read");
        if (move == 0 || now - before < t->least)
            t->least = now - before;
        if (now - before > t->most)
            t->most = now - before;
        before = now;
    }
    t->last = before;
    stop(t);
    return NULL;
}

static void run(int count, void *(*body)(void *))
{
    pthread_barrier_init(&together, NULL, count);
    for (int i = 0; i < count; i++) {
        threads[i].number = i;
        if (pthread_create(&threads[i].id, NULL, body, &threads[i]) != 0)
            fail("cannot make thread %d", i);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i].id, NULL);
}

static int overflow(void)
{
    run(THREADS, overflowing);
    for (int i = 0; i < THREADS; i++)
        printf("threads: mode=overflow thread=%d work=%d count=%lld overflows=%lld expected=%lld "
               "strangers=%lld\n",
               i, BLOCK * BLOCKS * (i + 1), threads[i].total, threads[i].overflows,
               threads[i].total / THRESHOLD, threads[i].strangers);
    return 0;
}

static int migrate(void)
{
    const PAPI_component_info_t *info = PAPI_get_component_info(0);

    if (sysconf(_SC_NPROCESSORS_ONLN) < MOVING)
        fail("found %ld processors, wanted %d", sysconf(_SC_NPROCESSORS_ONLN), MOVING);
    run(MOVING, moving);
    for (int i = 0; i < MOVING; i++)
        printf("threads: mode=migrate thread=%d rdpmc=%d moves=%d block=%d least=%lld most=%lld "
               "last=%lld total=%lld\n",
               i, info->fast_counter_read, MOVES, BLOCK, threads[i].least, threads[i].most,
               threads[i].last, threads[i].total);
    return 0;
}

int main(int argc, char *argv[])
{
    int version = PAPI_library_init(PAPI_VER_CURRENT);

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (version != PAPI_VER_CURRENT)
        fail("found PAPI of version %#x, wanted %#x", version, PAPI_VER_CURRENT);
    expect(PAPI_thread_init((unsigned long (*)(void))pthread_self), "PAPI_thread_init");
    for (int i = 0; i < THREADS; i++)
        threads[i].events = PAPI_NULL;
    if (argc == 2 && strcmp(argv[1], "overflow") == 0)
        return overflow();
    if (argc == 2 && strcmp(argv[1], "migrate") == 0)
        return migrate();
    fail("found %s, wanted overflow or migrate", argc > 1 ? argv[1] : "no word");
    return 1;
}
