/* SPDX-License-Identifier: BSD-2-Clause
 *
 * threads.c: plain: none, and a sort; threads: three under one lock, and a count that they race
 * for; conditions: two that hand a number back and forth, and a barrier.
 */
#include "programs.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define NUMBERS 3000
#define THREADS 3
#define TURNS 300
#define STEPS 50
#define ROUNDS 400

static int by_value(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return a < b ? -1 : a > b;
}

int run_plain(void)
{
    static uint32_t numbers[NUMBERS];

    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = work(i, 20);
    qsort(numbers, NUMBERS, sizeof(numbers[0]), by_value);
    printf("plain: least %u, middle %u, most %u, sum %u\n", numbers[0], numbers[NUMBERS / 2],
           numbers[NUMBERS - 1], work(numbers[1], 100000));
    return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static unsigned locked, order;
static volatile unsigned raced;
static bool turn;

/* Without the lock a thread may lose what another one has added: which, the replay has to know. */
static void *add(void *number)
{
    uint32_t sum = (uint32_t)(uintptr_t)number;

    for (unsigned i = 0; i < TURNS; i++) {
        unsigned seen = raced;

        sum = work(sum, ROUNDS);
        raced = seen + 1;
        pthread_mutex_lock(&lock);
        locked++;
        order = order * 31 + (unsigned)(uintptr_t)number;
        pthread_mutex_unlock(&lock);
    }
    return (void *)(uintptr_t)sum;
}

int run_threads(void)
{
    pthread_t threads[THREADS];
    uint32_t sum = 0;

    for (uintptr_t i = 0; i < THREADS; i++)
        must(pthread_create(&threads[i], NULL, add, (void *)(i + 1)) == 0, "pthread_create");
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        sum += (uint32_t)(uintptr_t)result;
    }
    printf("threads: sum %u, locked %u\n", sum, locked);
    varies("order %u, raced %u", order, raced);
    return locked != THREADS * TURNS;
}

static void *hand_back(void *steps)
{
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < STEPS; i++) {
        pthread_mutex_lock(&lock);
        while (!turn)
            pthread_cond_wait(&turned, &lock);
        turn = false;
        *(unsigned *)steps = work(*(unsigned *)steps, 10);
        pthread_cond_signal(&turned);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int run_conditions(void)
{
    unsigned steps = 1;
    pthread_t other;

    pthread_barrier_init(&barrier, NULL, 2);
    must(pthread_create(&other, NULL, hand_back, &steps) == 0, "pthread_create");
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < STEPS; i++) {
        pthread_mutex_lock(&lock);
        while (turn)
            pthread_cond_wait(&turned, &lock);
        turn = true;
        steps += i;
        pthread_cond_signal(&turned);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(other, NULL);
    printf("conditions: %u\n", steps);
    return 0;
}
