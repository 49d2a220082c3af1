/* SPDX-License-Identifier: BSD-2-Clause
 * br_instr.c: the program with two hot functions whose shares precise sampling is compared by, by
 * the example of the cover letter "Enable Guest PEBS via DS" (LKML, 2021-01-04): a shift register
 * whose branches follow its bits, and a comparison that ends the loop. Without a C library, whose
 * start depends on what CPUID says: its user instructions are the same everywhere.
 * Usage: br_instr ROUNDS [REGION]    REGION: an emulator's region around the loop, after a tick
 */
#include "programs/measure/region.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* They choose the shares. br_other has another one. */
#ifndef SHIFTS
#define SHIFTS 15
#endif
#define COMPARES 15
#define TAPS 0xb4bcd35cu

static unsigned seed = 0x1234567u;
static unsigned ones;

__attribute__((noinline)) static void lfsr_cond(void)
{
    for (int i = 0; i < SHIFTS; i++) {
        if (seed & 1) {
            seed = seed >> 1 ^ TAPS;
            ones++;
        } else {
            seed >>= 1;
        }
    }
}

__attribute__((noinline)) static int cmp_end(const volatile unsigned *at, unsigned end)
{
    unsigned sum = 0;

    for (int i = 0; i < COMPARES; i++)
        sum += *at < end;
    return sum == 0;
}

static unsigned number(const char *text)
{
    unsigned value = 0;

    while (*text >= '0' && *text <= '9')
        value = value * 10 + (unsigned)(*text++ - '0');
    return value;
}

static long system_call(long call, long a, long b, long c, const void *d, long e)
{
    __asm__ volatile("mov %[d], %%r10\n\t"
                     "mov %[e], %%r8\n\t"
                     "xor %%r9d, %%r9d\n\t"
                     "syscall"
                     : "+a"(call)
                     : "D"(a), "S"(b), "d"(c), [d] "r"(d), [e] "r"(e)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
    return call;
}

/* Waits for a tick of the kernel, in as many user instructions each time: a socket's time limit
 * counts in ticks (socket(7), SO_RCVTIMEO). A tick may switch, and a switch empties the buffer of
 * records: when it came in the region would say how many of them are stored there. */
static void wait_for_tick(void)
{
    static const struct {
        long seconds, microseconds;
    } least = {0, 1};
    static char byte;
    long fd = system_call(SYS_socket, AF_UNIX, SOCK_DGRAM, 0, NULL, 0);

    system_call(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &least, sizeof(least));
    system_call(SYS_recvfrom, fd, (long)&byte, sizeof(byte), NULL, 0);
}

__attribute__((used)) static _Noreturn void start(const long *stack)
{
    const char *const *argv = (const char *const *)(stack + 1);
    unsigned rounds = stack[0] > 1 ? number(argv[1]) : 1000;
    unsigned region = stack[0] > 2 ? number(argv[2]) : 0;
    volatile unsigned round = 0;

    if (region != 0) {
        wait_for_tick();
        region_mark(region, true);
    }
    do {
        lfsr_cond();
        round++;
    } while (!cmp_end(&round, rounds));
    if (region != 0)
        region_mark(region, false);
    system_call(SYS_exit, ones == 0, 0, 0, NULL, 0);
    __builtin_unreachable();
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
