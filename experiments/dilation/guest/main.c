/* SPDX-License-Identifier: BSD-2-Clause
 *
 * main.c: dilation, the job that is traced more and more. The paper's loop (T. Schmidt, KIT, 2017,
 * section 5.1): of TURNS turns of 5 instructions some write to one page, and the others read, here
 * through a buffer that a cache has room for. Meanwhile another process sleeps, wakes up and takes
 * the cache. Each share of writes runs twice: untraced, and with its page traced. It prints what
 * the kernel has counted. Word: pmv.dilation.rounds=N. Wants memtrace=writes user_hypercalls=1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command_line.h"
#include "experiments/shared/guest/hypervisor.h"
#include "hypercall.h"
#include "programs/measure/region.h"
#include "trace_ring.h"

#define PAGE 4096
#define PAGEMAP_FRAME ((1UL << 55) - 1)
#define LINE 64
#define TURNS 2000
#define BUFFER (16 * 1024)
#define TAKEN (32 * 1024)
#define NAP_NS 1000000L
#define REGION 2900 /* + twice the share's number, + 1 where it is traced */
#define TEXT 65536

static const uint64_t writes_of[] = {0, 5, 10, 30, 100, 300, 1000};

/* 5 instructions a turn, 1 access each. */
static void round_of(const uint8_t *buffer, uint64_t *page, uint64_t writes)
{
    static uint64_t at;
    uint64_t left = writes, reads = TURNS - writes, read;

    if (left != 0)
        __asm__ volatile("1: mov %[at], (%[page])\n\t"
                         "add %[line], %[at]\n\t"
                         "and %[mask], %[at]\n\t"
                         "dec %[left]\n\t"
                         "jnz 1b"
                         : [at] "+r"(at), [left] "+r"(left)
                         : [page] "r"(page), [line] "i"(LINE), [mask] "i"(BUFFER - 1)
                         : "memory", "cc");
    __asm__ volatile("1: mov (%[buffer], %[at]), %[read]\n\t"
                     "add %[line], %[at]\n\t"
                     "and %[mask], %[at]\n\t"
                     "dec %[left]\n\t"
                     "jnz 1b"
                     : [at] "+r"(at), [left] "+r"(reads), [read] "=&r"(read)
                     : [buffer] "r"(buffer), [line] "i"(LINE), [mask] "i"(BUFFER - 1)
                     : "memory", "cc");
}

static uint8_t *memory(size_t bytes)
{
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        exit(1);
    memset(at, 1, bytes);
    return at;
}

static _Noreturn void other(void)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    volatile uint8_t *taken = memory(TAKEN);

    for (;;) {
        (void)nanosleep(&nap, NULL);
        for (unsigned i = 0; i < TAKEN; i += LINE)
            taken[i]++;
    }
}

/* The number after `key` at the begin of a line of a file of /proc. */
static unsigned long counted(const char *file, const char *key)
{
    static char text[TEXT];
    FILE *in = fopen(file, "r");

    if (in == NULL)
        exit(1);
    unsigned long found = 0;
    while (fgets(text, sizeof(text), in) != NULL) {
        const char *at = text + strspn(text, " ");
        if (strncmp(at, key, strlen(key)) == 0)
            found = strtoul(at + strlen(key), NULL, 10);
    }
    (void)fclose(in);
    return found;
}

/* By Linux's Documentation/admin-guide/mm/pagemap.rst. */
static uint64_t physical(const void *page)
{
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t entry = 0;

    if (pread(map, &entry, sizeof(entry), (off_t)((uintptr_t)page / PAGE * sizeof(entry))) !=
        sizeof(entry))
        exit(1);
    close(map);
    return (entry & PAGEMAP_FRAME) * PAGE;
}

/* By physical addresses: what the process does elsewhere takes no exit, nor does a change of
 * process. */
static int64_t trace(uint64_t mode, const void *page)
{
    const struct memory_request request = {mode, physical(page), PAGE, 0};
    uint64_t ring, bytes;

    return hypercall_memory(&request, &ring, &bytes);
}

static bool run(unsigned share, bool traced, unsigned long rounds, const uint8_t *buffer,
                uint64_t *page)
{
    uint32_t region = REGION + 2 * share + traced;

    if (traced && trace(MEMTRACE_WRITES, page) != MEMTRACE_OFF)
        return false;
    unsigned long timer = counted("/proc/interrupts", "LOC:");
    unsigned long switches = counted("/proc/stat", "ctxt ");
    uint64_t ticks = __builtin_ia32_rdtsc();
    region_mark(region, true);
    for (unsigned long i = 0; i < rounds; i++)
        round_of(buffer, page, writes_of[share]);
    region_mark(region, false);
    ticks = __builtin_ia32_rdtsc() - ticks;
    timer = counted("/proc/interrupts", "LOC:") - timer;
    switches = counted("/proc/stat", "ctxt ") - switches;
    if (traced && trace(MEMTRACE_OFF, page) != MEMTRACE_WRITES)
        return false;
    printf("dilation: region=%u turns=%lu writes=%lu timer=%lu switches=%lu ticks=%lu\n", region,
           rounds * TURNS, rounds * writes_of[share], timer, switches, ticks);
    return true;
}

int main(void)
{
    char rounds[32];
    bool right = pmuvisor_there();

    command_line_word("pmv.dilation.rounds", "400", rounds, sizeof(rounds));
    if (!run_on(0))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint8_t *buffer = memory(BUFFER);
    uint64_t *page = (uint64_t *)memory(PAGE);
    pid_t child = fork();
    if (child == 0)
        other();
    /* Fork has made both copy on write: that is over before anything counts. */
    memset(buffer, 2, BUFFER);
    memset(page, 2, PAGE);
    for (unsigned share = 0; right && share < sizeof(writes_of) / sizeof(*writes_of); share++)
        for (int traced = 0; right && traced < 2; traced++)
            right = run(share, traced, strtoul(rounds, NULL, 10), buffer, page);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    return !right;
}
