/* SPDX-License-Identifier: BSD-2-Clause
 *
 * traced.c: what Intel PT's test has traced: branches of all kinds, in a region of the emulator's
 * ledger. And it hands a file over to the emulator.
 * Usage: traced work|each|exec REGION ROUNDS | traced hand FILE NAME
 * `each`: on all processors at once, one process on each; `exec`: and each is started anew, as
 * `work`.
 */
#define _GNU_SOURCE
#include "programs/guest_file.h"
#include "programs/measure/region.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUMBERS 64
#define DEEP 100 /* more calls than the stack of returns has */

static volatile unsigned caught;

static void on_signal(int number) { caught += (unsigned)number; }

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static __attribute__((noinline)) unsigned deep(unsigned n) { return n == 0 ? 0 : 1 + deep(n - 1); }

static unsigned twice(unsigned n) { return 2 * n; }

static unsigned half(unsigned n) { return n / 2; }

static unsigned (*volatile choices[])(unsigned) = {twice, half, deep};

/* In a guest an exit, and no branch. */
static void cpuid_at_user(void)
{
    unsigned eax = 0, ebx, ecx = 0, edx;

    __asm__ volatile("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
}

/* Sorting, deep recursion, pointers to functions, system calls, page faults, signals, a return that
 * does not go to its call. */
static unsigned work(unsigned rounds)
{
    unsigned sum = 0, seed = 1;

    for (unsigned round = 0; round < rounds; round++) {
        int numbers[NUMBERS];
        for (unsigned n = 0; n < NUMBERS; n++) {
            seed = seed * 1103515245 + 12345;
            numbers[n] = (int)(seed >> 8 & 0xffff);
        }
        qsort(numbers, NUMBERS, sizeof(numbers[0]), by_value);
        sum += (unsigned)numbers[round % NUMBERS];
        sum += choices[numbers[0] % 3](DEEP);
        sum += (unsigned)syscall(SYS_getppid);
        if (round % 8 == 0) {
            char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                              0);
            page[0] = 1;
            munmap(page, 4096);
            raise(SIGUSR1);
        }
        cpuid_at_user();
        __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                         "subq $128, %%rsp\n\t"
                         "pushq %%rax\n\t"
                         "ret\n"
                         "1:\n\t"
                         "addq $128, %%rsp"
                         :
                         :
                         : "rax", "memory", "cc");
    }
    return sum;
}

static unsigned work_in(unsigned region, unsigned rounds)
{
    region_mark(region, true);
    unsigned sum = work(rounds);
    region_mark(region, false);
    return sum;
}

/* One process on each, which does what these say, in a program of its own with `exec`. Gives the
 * number of those that worked to their end. */
static unsigned work_on_each(char *argv[], bool exec)
{
    unsigned count = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), done = 0;
    int status;

    for (unsigned n = 0; n < count; n++)
        if (fork() == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(n, &one);
            if (sched_setaffinity(0, sizeof(one), &one) != 0)
                _exit(1);
            if (exec)
                execl(argv[0], argv[0], "work", argv[2], argv[3], (char *)NULL);
            _exit(work_in((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3])) == 0);
        }
    for (unsigned n = 0; n < count; n++)
        done += wait(&status) > 0 && status == 0;
    return done;
}

static int hand(const char *path, const char *name)
{
    static char piece[GUEST_FILE_PIECE];
    FILE *file = fopen(path, "re");
    size_t got;

    if (file == NULL)
        return 1;
    do {
        got = fread(piece, 1, sizeof(piece), file);
        guest_file(name, piece, got);
    } while (got == sizeof(piece));
    fclose(file);
    return 0;
}

int main(int argc, char *argv[])
{
    if (argc == 4 && strcmp(argv[1], "hand") == 0)
        return hand(argv[2], argv[3]);
    bool exec = argc == 4 && strcmp(argv[1], "exec") == 0;
    bool each = argc == 4 && strcmp(argv[1], "each") == 0;
    if (argc != 4 || (!each && !exec && strcmp(argv[1], "work") != 0))
        return 2;
    unsigned region = (unsigned)atoi(argv[2]);
    signal(SIGUSR1, on_signal);
    unsigned sum = each || exec ? work_on_each(argv, exec)
                                : work_in(region, (unsigned)atoi(argv[3]));
    printf("pt: case=work region=%u sum=%u signals=%u\n", region, sum, caught);
    return 0;
}
