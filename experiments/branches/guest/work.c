/* SPDX-License-Identifier: BSD-2-Clause
 * work.c: a sort with calls through a pointer, single system calls, faults, and all of them in
 * turn. They do the same in each run.
 */
#define _GNU_SOURCE /* syscall() */
#include "work.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SORT_MAX 65536u
#define PAGES 4u
#define READ_BYTES 64

static uint32_t numbers[SORT_MAX];

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* In place: a heap, so that no library decides how. */
static void heap_sort(size_t count, int (*order)(const void *, const void *))
{
    for (size_t step = count / 2 + count; step-- > 1;) {
        size_t root = step >= count ? step - count : 0, end = step >= count ? count : step;
        uint32_t moved;

        if (step < count) {
            uint32_t first = numbers[0];

            numbers[0] = numbers[step];
            numbers[step] = first;
        }
        moved = numbers[root];
        for (size_t child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && order(&numbers[child], &numbers[child + 1]) < 0)
                child++;
            if (order(&moved, &numbers[child]) >= 0)
                break;
            numbers[root] = numbers[child];
        }
        numbers[root] = moved;
    }
}

static void run_sort(void *scale)
{
    unsigned count = *(unsigned *)scale;
    uint32_t random = 1;

    count = count < SORT_MAX ? count : SORT_MAX;
    for (unsigned i = 0; i < count; i++) {
        random = random * 1664525 + 1013904223; /* Numerical Recipes' generator */
        numbers[i] = random;
    }
    heap_sort(count, compare);
}

static void run_getppid(void *scale)
{
    for (unsigned i = 0; i < *(unsigned *)scale; i++)
        syscall(SYS_getppid);
}

static void run_read(void *scale)
{
    for (unsigned i = 0; i < *(unsigned *)scale; i++) {
        char text[READ_BYTES];
        long fd = syscall(SYS_open, "/proc/self/stat", O_RDONLY);

        if (syscall(SYS_read, fd, text, sizeof(text)) > 0)
            syscall(SYS_close, fd);
    }
}

static void run_fault(void *scale)
{
    for (unsigned i = 0; i < *(unsigned *)scale; i++) {
        char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                           -1, 0);

        if (pages != MAP_FAILED) {
            for (unsigned page = 0; page < PAGES; page++)
                ((volatile char *)pages)[page * 4096] = 1;
            munmap(pages, PAGES * 4096);
        }
    }
}

static void run_sleep(void *scale)
{
    for (unsigned i = 0; i < *(unsigned *)scale; i++)
        usleep(1000);
}

static void run_mixed(void *scale)
{
    unsigned one = 1, few = 32;

    for (unsigned i = 0; i < *(unsigned *)scale; i++) {
        run_getppid(&one);
        run_sort(&few);
        run_read(&one);
        run_fault(&one);
    }
}

static void run_nothing(void *scale) { (void)scale; }

const struct work works[] = {
    {"sort", "sorts SCALE numbers, at most 65536, by a comparison through a pointer", run_sort},
    {"getppid", "the system call getppid, SCALE times", run_getppid},
    {"read", "opens, reads and closes /proc/self/stat, SCALE times", run_read},
    {"fault", "maps four pages and touches each, SCALE times", run_fault},
    {"sleep", "gives the processor away for a millisecond, SCALE times", run_sleep},
    {"mixed", "getppid, a sort of 32 numbers, read and fault, SCALE times", run_mixed},
    {"nothing", "nothing: the call and the return", run_nothing},
    {NULL, NULL, NULL},
};

const struct work *work_named(const char *name)
{
    for (const struct work *work = works; work->name != NULL; work++)
        if (strcmp(work->name, name) == 0)
            return work;
    return NULL;
}
