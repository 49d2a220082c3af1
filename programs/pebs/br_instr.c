/* SPDX-License-Identifier: BSD-2-Clause
 * br_instr.c: the program with two hot functions whose shares precise sampling is compared by, by
 * the example of the cover letter "Enable Guest PEBS via DS" (LKML, 2021-01-04): a shift register
 * whose branches follow its bits, and a comparison that ends the loop. Without a C library, whose
 * start depends on what CPUID says: its user instructions are the same everywhere.
 * Usage: br_instr ROUNDS [REGION]    REGION: an emulator's region around the loop
 */
#include "../measure/region.h"

#include <stddef.h>

#define SYS_EXIT 60
#define SHIFTS 15
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

__attribute__((used)) static _Noreturn void start(const long *stack)
{
    const char *const *argv = (const char *const *)(stack + 1);
    unsigned rounds = stack[0] > 1 ? number(argv[1]) : 1000;
    unsigned region = stack[0] > 2 ? number(argv[2]) : 0;
    volatile unsigned round = 0;

    if (region != 0)
        region_mark(region, true);
    do {
        lfsr_cond();
        round++;
    } while (!cmp_end(&round, rounds));
    if (region != 0)
        region_mark(region, false);
    __asm__ volatile("syscall" : : "a"(SYS_EXIT), "D"(ones == 0) : "rcx", "r11");
    __builtin_unreachable();
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");
